"""What a plan decides beyond its list of steps: hints, questions, costs, images, and its texts."""

from __future__ import annotations

import json

import pytest

from omnigraph_core.errors import ErrorKind
from omnigraph_core.schema import Check, Range, Unique, compile_schema
from omnigraph_core.schema.evolve import (
    Answer,
    Cost,
    Distinct,
    Fits,
    Matches,
    MigrationPlan,
    Mode,
    NoNulls,
    NoRows,
    OneOf,
    Question,
    Tier,
    UnsupportedMigration,
    Within,
    lines,
    markdown,
    plan_migration,
)
from omnigraph_core.schema.model import Cardinality

N = "node N {{ k: String @key {} }}"


def planned(old: str, new: str, *, loss: bool = False) -> MigrationPlan:
    return plan_migration(compile_schema(old), compile_schema(new), allow_data_loss=loss)


def planned_body(old: str, new: str, *, loss: bool = False) -> MigrationPlan:
    return planned(N.format(old), N.format(new), loss=loss)


def refused(plan: MigrationPlan) -> list[str]:
    return [step.entity for step in plan.unsupported]


def columns(plan: MigrationPlan, table: str = "node:N") -> dict[str, str | None]:
    """Where each column comes from."""
    image = plan.image(table)
    return {c.prop.name: None if c.origin is None else c.origin.name for c in image.columns}


# Old properties, new properties with `name<hint`, and what each new one is; None where refused.
HINTS = {
    "new name": ("a", "b<a", {"b": "a"}),
    "hint stays in the file": ("b", "b<a", {"b": "b"}),
    "hint on itself": ("a", "a<a", {"a": "a"}),
    "handed on": ("a b", "x<a a<b", {"a": "b", "x": "a"}),
    "handed on twice": ("a b c", "x<a a<b b<c", {"a": "b", "b": "c", "x": "a"}),
    "handed on twice, applied again": ("a b x", "x<a a<b b<c", {"a": "a", "b": "b", "x": "x"}),
    "old name again, new": ("a", "b<a a", {"a": "+", "b": "a"}),
    "old name again, applied again": ("a b", "b<a a", {"a": "a", "b": "b"}),
    "claimed by another, so an old story": ("a b", "b<a c<a", {"b": "b", "c": "a"}),
    "names nothing": ("a", "a b<z", {"a": "a", "b": None}),
    "two claims": ("a", "b<a c<a", {"b": "a", "c": None}),
    "onto an existing one": ("a b", "b<a", {"b": None}),
    "handed on, but the next stays": ("a b", "x<a a<b b", {"a": None, "b": "b", "x": "a"}),
    "handed on, but the next is claimed": ("a b", "x<a a<b y<b", {"a": None, "x": "a", "y": "b"}),
    "handed on from itself": ("a", "x<a a<a", {"a": None, "x": "a"}),
    "handed on from nothing": ("a", "x<a a<z", {"a": None, "x": "a"}),
    "swap": ("a b", "a<b b<a", {"a": None, "b": None}),
    "circle": ("a b c", "a<b b<c c<a", {"a": None, "b": None, "c": None}),
    "circle broken by a new name": ("a b", "x<a a<b b<a", {"a": None, "b": "b", "x": "a"}),
    "tail of a circle is an old story": ("a b c", "a<b b<a c<a", {"a": None, "b": None, "c": "c"}),
}


def declared(names: str, form: str) -> str:
    pairs = [name.partition("<")[::2] for name in names.split()]
    return " ".join(form.format(n, f'@rename_from("{hint}")' if hint else "") for n, hint in pairs)


@pytest.mark.parametrize(("old", "new", "expected"), HINTS.values(), ids=HINTS.keys())
def test_hints_move_properties_at_once_or_not_at_all(
    old: str, new: str, expected: dict[str, str | None]
) -> None:
    plan = planned_body(declared(old, "{}: I32? {}"), declared(new, "{}: I32? {}"))
    assert refused(plan) == [f"node:N.{name}" for name, origin in expected.items() if origin is None]
    come_from = {name: origin for name, origin in columns(plan).items() if name != "k"}
    assert come_from == {n: None if origin == "+" else origin for n, origin in expected.items()}


@pytest.mark.parametrize(("old", "new", "expected"), HINTS.values(), ids=HINTS.keys())
def test_hints_move_types_by_the_same_rules(old: str, new: str, expected: dict[str, str | None]) -> None:
    plan = planned(declared(old.upper(), "node {} {} {{}}"), declared(new.upper(), "node {} {} {{}}"))
    assert refused(plan) == [f"node:{name.upper()}" for name, origin in expected.items() if origin is None]
    images = {image.entity.name: image.origin.name if image.origin else "+" for image in plan.images}
    assert images == {n.upper(): origin.upper() for n, origin in expected.items() if origin is not None}


def test_a_dropped_name_in_a_refused_hint_is_not_dropped_as_well() -> None:
    plan = planned_body("a: I32? b: I32?", 'b: I32? @rename_from("a")')
    assert [step.kind for step in plan.steps] == ["unsupported_change"]
    assert "both 'a' and 'b' exist and 'a' leaves" in plan.unsupported[0].reason


# What is asked when the first body becomes the second.
QUESTIONS: dict[str, tuple[str, str, list[Question]]] = {
    "required": ("", "a: I32", [NoRows("node:N", "a")]),
    "required with default": ("", "a: I32 @default(1)", []),
    "nullable": ("", "a: I32?", []),
    "tightened": ("a: I32?", "a: I32", [NoNulls("node:N", "a")]),
    "tightened with default": ("a: I32?", "a: I32 @default(1)", [NoNulls("node:N", "a")]),
    "relaxed": ("a: I32", "a: I32?", []),
    "renamed and tightened": ("a: I32?", "b: I32 @rename_from(a)", [NoNulls("node:N", "b")]),
    "enum narrowed": ("a: enum(x, y)", "a: enum(x)", [OneOf("node:N", "a", ("x",))]),
    "enum exchanged": ("a: enum(x, y)", "a: enum(x, z)", [OneOf("node:N", "a", ("x", "z"))]),
    "enum narrowed and tightened": (
        "a: enum(x, y)?",
        "a: enum(x)",
        [OneOf("node:N", "a", ("x",)), NoNulls("node:N", "a")],
    ),
    "enum extended": ("a: enum(x, y)", "a: enum(x, y, z)", []),
    "enum extended and tightened": (
        "a: enum(x)?",
        "a: enum(x, y)",
        [NoNulls("node:N", "a")],
    ),
    "enum to text": ("a: enum(x, y)", "a: String", []),
    "text to enum": ("a: String", "a: enum(x)", [OneOf("node:N", "a", ("x",))]),
    "unique": ("a: I32?", "a: I32? @unique", [Distinct("node:N", Unique(("a",)))]),
    "unique on a new null": ("", "a: I32? @unique", []),
    "unique on a new default": (
        "",
        "a: I32? @default(1) @unique",
        [Distinct("node:N", Unique(("a",)))],
    ),
    "unique beside a new null": ("a: I32", "a: I32 b: I32? @unique(a, b)", []),
    "unique with the key in it": ("a: I32", "a: I32 @unique(a, k)", []),
    "unique with a unique in it": ("a: I32 b: I32 @unique(a)", "a: I32 b: I32 @unique(a, b)", []),
    "unique of less": (
        "a: I32 b: I32 @unique(a, b)",
        "a: I32 b: I32 @unique(a)",
        [Distinct("node:N", Unique(("a",)))],
    ),
    "index": ("a: I32", "a: I32 @index", []),
    "range": ("a: I32", "a: I32 @range(a, 0..9)", [Within("node:N", Range("a", 0, 9))]),
    "range on a new default": ("", "a: I32 @default(3) @range(a, 0..9)", []),
    "range widened": ("a: I32 @range(a, 0..9)", "a: I32 @range(a, 0..99)", []),
    "range opened": ("a: I32 @range(a, 0..9)", "a: I32 @range(a, ..9)", []),
    "range moved": (
        "a: I32 @range(a, 0..9)",
        "a: I32 @range(a, 1..10)",
        [Within("node:N", Range("a", 1, 10))],
    ),
    "range of another": (
        "a: I32 b: I32 @range(a, 0..9)",
        "a: I32 b: I32 @range(b, 0..9)",
        [Within("node:N", Range("b", 0, 9))],
    ),
    "range follows a rename": ("a: I32 @range(a, 0..9)", "b: I32 @rename_from(a) @range(b, 0..9)", []),
    "check": ("a: String", 'a: String @check(a, "x")', [Matches("node:N", Check("a", "x"))]),
    "check of another pattern": (
        'a: String @check(a, "y")',
        'a: String @check(a, "x")',
        [Matches("node:N", Check("a", "x"))],
    ),
    "range on a refused change": ("a: I64", "a: I32 @range(a, 0..9)", []),
    "unique on a refused hint": ("a: I32?", "b: I32? @rename_from(z) @unique", []),
    "widened under its rules": ("a: I32 @unique @range(a, 0..9)", "a: F64 @unique @range(a, 0..9)", []),
}


@pytest.mark.parametrize(("old", "new", "expected"), QUESTIONS.values(), ids=QUESTIONS.keys())
def test_the_data_is_asked_only_what_the_schemas_cannot_tell(
    old: str, new: str, expected: list[Question]
) -> None:
    assert list(planned_body(old, new).questions) == expected


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        ("", "@card(0..2)", True),
        ("@card(0..2)", "@card(0..3)", False),
        ("@card(0..3)", "@card(0..2)", True),
        ("@card(0..2)", "", False),
        ("", "@card(1..)", False),
        ("", "@card(2..)", True),
        ("@card(2..)", "@card(1..)", False),
        ("@card(2..5)", "@card(2..4)", True),
    ],
)
def test_a_cardinality_is_asked_for_only_if_it_tightens(old: str, new: str, asked: bool) -> None:
    form = "node N {{}} edge E: N -> N {}"
    plan = planned(form.format(old), form.format(new))
    wanted = compile_schema(form.format(new)).edge("E").cardinality
    assert plan.questions == ((Fits("edge:E", wanted),) if asked else ())


def test_interfaces_ask_nothing_and_cost_nothing() -> None:
    plan = planned(
        "interface I { a: I64? b: I32 c: I32? }",
        "interface I { a: I32 @default(1) b: I32 @key d: I32 } interface J {}",
    )
    assert [step.kind for step in plan.steps] == [
        "change_property_type",
        "update_property_metadata",
        "update_property_metadata",
        "add_property",
        "drop_property",
        "add_type",
    ]
    assert plan.supported
    assert plan.questions == ()
    assert {step.cost for step in plan.steps} == {Cost.NOTHING}


COSTS = {
    "nullable": ("", "a: I32?", Cost.METADATA, Tier.SAFE),
    "required": ("", "a: I32", Cost.METADATA, Tier.VALIDATED),
    "default": ("", "a: I32? @default(1)", Cost.COLUMN, Tier.SAFE),
    "rename": ("a: I32", "b: I32 @rename_from(a)", Cost.METADATA, Tier.SAFE),
    "drop": ("a: I32", "", Cost.METADATA, Tier.DESTRUCTIVE),
    "widen": ("a: I32", "a: I64", Cost.COLUMN, Tier.SAFE),
    "widen a list": ("a: [Date]", "a: [DateTime]", Cost.COLUMN, Tier.SAFE),
    "relax": ("a: I32", "a: I32?", Cost.METADATA, Tier.SAFE),
    "tighten": ("a: I32?", "a: I32", Cost.METADATA, Tier.VALIDATED),
    "extend": ("a: enum(x)", "a: enum(x, y)", Cost.NOTHING, Tier.SAFE),
    "narrow": ("a: enum(x, y)", "a: enum(x)", Cost.NOTHING, Tier.VALIDATED),
    "constrain": ("a: I32", "a: I32 @unique", Cost.NOTHING, Tier.VALIDATED),
    "free": ("a: I32 @unique", "a: I32", Cost.NOTHING, Tier.SAFE),
    "index": ("a: I32", "a: I32 @index", Cost.NOTHING, Tier.SAFE),
    "describe": ("a: I32", 'a: I32 @description("x")', Cost.NOTHING, Tier.SAFE),
    "new default": ("a: I32", "a: I32 @default(1)", Cost.NOTHING, Tier.SAFE),
}


@pytest.mark.parametrize(("old", "new", "cost", "tier"), COSTS.values(), ids=COSTS.keys())
def test_a_step_says_what_it_costs_and_what_it_risks(old: str, new: str, cost: Cost, tier: Tier) -> None:
    (step,) = planned_body(old, new).steps
    assert (step.cost, step.tier) == (cost, tier)


def test_a_hard_drop_costs_the_table_and_only_a_hard_one() -> None:
    (step,) = planned_body("a: I32", "", loss=True).steps
    assert (step.cost, step.to_json()["mode"]) == (Cost.TABLE, "hard")
    assert planned_body("a: I32", "", loss=True).mode is Mode.HARD
    assert planned_body("a: I32", "").mode is Mode.SOFT


REFUSED_TYPES = [
    *("I64 I32", "I32 F32", "I64 F64", "U32 I64", "U32 F64", "F64 F32", "DateTime Date", "Bool I32"),
    *("I32 String", "String Date", "I32 [I32]", "[I32] I32", "[I32] [F32]", "[F32] Vector(2)"),
    *("Vector(2) Vector(3)", "Blob String", "enum(a) [String]"),
]


@pytest.mark.parametrize("pair", REFUSED_TYPES)
def test_a_type_that_would_lose_values_is_refused_without_asking(pair: str) -> None:
    old, new = pair.split()
    plan = planned_body(f"a: {old}?", f"a: {new}")
    assert [(step.entity, step.code) for step in plan.unsupported] == [("node:N.a", "OG-MF-106")]
    assert plan.questions == ()
    assert not plan.image("node:N").columns[0].known


@pytest.mark.parametrize(
    ("old", "new", "fine"),
    [
        ("I32", "I64", True),
        ("U32", "U64", True),
        ("I32", "F64", False),
        ("F32", "F64", False),
        ("Date", "DateTime", False),
        ("enum(a)", "String", True),
    ],
)
@pytest.mark.parametrize("named", ["a: {} @key", 'b: {} @key @rename_from("a")'])
def test_a_key_widens_only_where_its_ids_stay(named: str, old: str, new: str, fine: bool) -> None:
    plan = planned(f"node N {{ a: {old} @key }}", f"node N {{ {named.format(new)} }}")
    assert plan.supported == fine


def test_changes_of_the_key_are_one_refusal_with_its_reason() -> None:
    form = "node N {{ a: I32 b: I32 {} }}"
    keys = ["", "@key(a)", "@key(b)", "@key(a, b)", "@key(b, a)"]
    for old in keys:
        for new in keys:
            plan = planned(form.format(old), form.format(new))
            assert len(plan.steps) == (old != new)
            if old != new:
                (step,) = plan.unsupported
                assert f"{old or 'no @key'} cannot become {new or 'no @key'}: ids are made of the key" in (
                    step.reason
                )


def test_dropping_a_key_member_is_refused_with_the_drop_in_view() -> None:
    plan = planned("node N { a: I32 @key b: I32 }", "node N { b: I32 }")
    assert [step.kind for step in plan.steps] == ["drop_property", "unsupported_change"]


def test_answers_become_refusals_in_the_place_of_their_steps() -> None:
    plan = planned_body("a: enum(x, y)? b: I32?", "a: enum(x) b: I32? c: I32 @unique(b)")
    answers = {question: Answer(0) for question in plan.questions}
    assert plan.answered(answers).supported
    assert plan.answered(answers).questions == ()
    assert [step.kind for step in plan.answered(answers).steps] == [step.kind for step in plan.steps]
    answers[OneOf("node:N", "a", ("x",))] = Answer(1, ("n7",))
    answers[NoNulls("node:N", "a")] = Answer(2, ("n1", "n2"))
    answers[NoRows("node:N", "c")] = Answer(9, ("n1", "n2"))
    broken = plan.answered(answers)
    assert [(s.entity, s.code, s.rows) for s in broken.unsupported] == [
        ("node:N.a", "OG-MF-106", 1),
        ("node:N.a", "OG-MF-104", 2),
        ("node:N.c", "OG-MF-103", 9),
    ]
    assert [step.kind for step in broken.steps][3:] == ["add_constraint"]


def test_an_unanswered_question_is_no_consent() -> None:
    plan = planned_body("a: I32?", "a: I32")
    with pytest.raises(KeyError):
        plan.answered({})
    with pytest.raises(AssertionError, match="the data has not been asked"):
        plan.require_supported()


def test_an_unsupported_plan_is_refused_with_everything_at_once() -> None:
    plan = planned_body("a: I64 b: I32? z: I32", "a: I32 b: I32")
    broken = plan.answered({NoNulls("node:N", "b"): Answer(3, ("n1", 'n"2'))})
    with pytest.raises(UnsupportedMigration) as caught:
        broken.require_supported()
    assert caught.value.kind is ErrorKind.REFUSED
    assert str(caught.value) == (
        "2 changes of the schema are unsupported:\n"
        "  unsupported change on node:N.a [OG-MF-106, destructive]: "
        "I64 cannot become I32 without losing values\n"
        "  unsupported change on node:N.b [OG-MF-104, validated]: "
        'the property cannot be required while 3 rows are null (ids "n1", "n\\"2", …)'
    )
    # Codes of drops are no codes of the refusal.
    assert "OG-DS" not in json.dumps(caught.value.details()) + str(caught.value)


EVERYTHING_OLD = """interface Named { name: String? }
node Doc implements Named { slug: String @key rank: I32? kind: enum(a, b)? body: String? gone: I32?
  @range(rank, 0..9) }
node Tag {} node Old {}
edge Cites: Doc -> Doc { note: String? }"""
EVERYTHING_NEW = """interface Named { name: String? } interface Aged {}
node Doc @description("a | b") { slug: String @key rank: I64? kind: enum(a, b, c)?
  text: String? @rename_from(body) level: I32 @default(3) open: Bool @default(true) mark: String @default("x")
  name: String? @pii @unique(text) }
node Label @rename_from("Tag") {} node New {}
edge Cites: Doc -> Doc @card(0..2) { note: String? }"""


def test_lines_say_what_happens_and_what_it_costs() -> None:
    assert lines(planned(EVERYTHING_OLD, EVERYTHING_NEW).steps) == (
        "add interface Aged (nothing)",
        "change implements of node Doc: -Named (nothing)",
        'annotate node Doc: @description("a | b") (nothing)',
        "extend enum Doc.kind by c (nothing)",
        "add property Doc.level: I32, existing rows get 3 (one column)",
        'add property Doc.mark: String, existing rows get "x" (one column)',
        "annotate Doc.name: @pii (nothing)",
        "add property Doc.open: Bool, existing rows get true (one column)",
        "change type of Doc.rank from I32? to I64? (one column)",
        "rename property Doc.body to text (metadata only)",
        "drop property Doc.gone (metadata only)",
        "drop @range(rank, 0..9) from node Doc (nothing)",
        "add @unique(text) to node Doc (nothing)",
        "rename node Tag to Label (metadata only)",
        "add node New (metadata only)",
        "drop node Old (metadata only)",
        "change cardinality of edge Cites from @card(0..) to @card(0..2) (nothing)",
    )
    assert lines(()) == ("no change",)
    hard = planned("node Old { a: I32 b: I32 } node Gone {}", "node Old { a: I32 }", loss=True)
    assert lines(hard.steps) == (
        "drop property Old.b, its data too (the fragments that hold it)",
        "drop node Gone, its data too (metadata only)",
    )


def test_markdown_is_one_table_whatever_the_names_hold() -> None:
    plan = planned(EVERYTHING_OLD, EVERYTHING_NEW)
    distinct, fits = plan.questions
    table = markdown(plan.answered({distinct: Answer(2, ("a|b", "c\nd")), fits: Answer(0)}).steps)
    head, rule, *rows = table.splitlines()
    assert (head, rule) == ("| change | cost | tier |", "|---|---|---|")
    assert len(rows) == len(plan.steps)
    assert r'| annotate node Doc: @description("a \| b") | nothing | safe |' in rows
    broken = r'2 rows share their values of @unique(text) (ids "a\|b", "c\\nd")'
    assert f"| **unsupported change on node:Doc: {broken}** | refused | validated |" in rows
    assert markdown(()) == "_no change_\n"


def test_json_has_the_fixed_steps_and_beside_them_what_people_ask() -> None:
    plan = planned("node N {} edge E: N -> N", "node N {} edge E: N -> N @card(0..1)")
    (question,) = plan.questions
    answer = plan.answered({question: Answer(4, ("n1",))}).to_json()
    assert answer == {
        "supported": False,
        "step_count": 1,
        "steps": [
            {
                "kind": "unsupported_change",
                "entity": "edge:E",
                "reason": "4 source nodes have too few or too many edges for @card(0..1)",
                "rows": 4,
            }
        ],
        "details": [
            {
                "change": "unsupported change on edge:E: 4 source nodes have too few or too many edges "
                'for @card(0..1) (ids "n1", …)',
                "tier": "validated",
                "cardinality": {"min": 0, "max": 1},
                "samples": ["n1"],
            }
        ],
    }
    dropped = planned_body("a: I32", "").to_json()
    assert dropped["steps"] == [
        {
            "kind": "drop_property",
            "type_kind": "node",
            "type_name": "N",
            "property_name": "a",
            "mode": "soft",
        }
    ]
    assert dropped["details"] == [
        {
            "change": "drop property N.a",
            "tier": "destructive",
            "code": "OG-DS-104",
            "cost": "metadata only",
        }
    ]


def test_images_tell_an_apply_what_to_build() -> None:
    plan = planned(EVERYTHING_OLD, EVERYTHING_NEW)
    assert [image.entity.table_key for image in plan.images] == [
        "node:Doc",
        "node:Label",
        "node:New",
        "edge:Cites",
    ]
    assert [entity.table_key for entity in plan.dropped] == ["node:Old"]
    doc, label, new, cites = plan.images
    assert [(c.prop.name, c.fill, c.widened, c.is_null) for c in doc.columns if not c.is_same] == [
        ("level", 3, False, False),
        ("mark", "x", False, False),
        ("open", True, False, False),
        ("rank", None, True, False),
        ("text", None, False, False),
    ]
    assert [prop.name for prop in doc.dropped] == ["gone"]
    assert (label.is_renamed, label.is_same, new.origin, cites.is_same) == (True, True, None, True)
    assert not doc.is_same
    assert doc.column("id") is None
    assert plan.touched == (doc, label, new)


def test_ends_follow_renames_of_their_nodes_and_nothing_else() -> None:
    old = "node A {} node B {} edge E: A -> B"
    assert planned(old, 'node C @rename_from("A") {} node B {} edge E: C -> B').supported
    for new in (
        "node A {} node B {} edge E: B -> A",
        "node A {} node B {} edge E: A -> A",
        'node C @rename_from("A") {} node A {} node B {} edge E: A -> B',
    ):
        assert refused(planned(old, new)) == ["edge:E"]


def test_a_plan_of_accepted_schemas_knows_no_renames() -> None:
    """As `schema diff` of two refs: hints are read from files and never stored."""
    plan = planned_body("a: I32?", "b: I32?")
    assert [step.kind for step in plan.steps] == ["add_property", "drop_property"]


def test_cardinality_model_is_what_questions_carry() -> None:
    assert Fits("edge:E", Cardinality(0, 2)) == Fits("edge:E", Cardinality(0, 2))
    assert len({Fits("edge:E", Cardinality(0, 2)), Fits("edge:E", Cardinality(0, 2))}) == 1
