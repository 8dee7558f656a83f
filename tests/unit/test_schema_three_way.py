"""Schemas of two sides made into one: the laws on random drafts, and each kind of clash by hand."""

from __future__ import annotations

from copy import deepcopy
from random import Random

import pytest
from hypothesis import Phase, event, given, note, settings
from hypothesis import strategies as st

from omnigraph_core.schema import Schema, compile_schema
from omnigraph_core.schema.evolve import plan_migration
from omnigraph_core.schema.evolve.identity import Identity, by_name
from omnigraph_core.schema.evolve.three_way import Combined, SchemasClash, Side, three_way
from omnigraph_core.schema.render import render
from tests.support.schema_drafts import Draft, done, edit, first_draft

EXAMPLES = 100


def identity_of(draft: Draft) -> Identity:
    """What the draft remembers; the key and what comes with the interface are what they are called."""
    kinds = {name: "edge" if entity.ends else "node" for name, entity in draft.entities.items()}
    old = {f"{kinds[name]}:{name}": entity for name, entity in draft.entities.items() if entity.was}
    return Identity(
        {key: f"{key.partition(':')[0]}:{entity.was}" for key, entity in old.items()},
        {
            key: {name: prop.was for name, prop in entity.props.items() if prop.was}
            | {"k": "k"}
            | ({"s": "s"} if "s" not in entity.props else {})
            for key, entity in old.items()
        },
    )


def side_of(draft: Draft, base: Schema) -> Side:
    schema, known = compile_schema(draft.text()), identity_of(draft)
    columns, mine = (
        {each.table_key: {prop.name for prop in each.properties} for each in one.types()}
        for one in (base, schema)
    )
    properties = {
        key: {
            name: was for name, was in names.items() if name in mine[key] and was in columns[known.types[key]]
        }
        for key, names in known.properties.items()
    }
    return Side(schema, Identity(known.types, properties))


def combined(base: Schema, ours: Side, theirs: Side) -> Combined | None:
    try:
        return three_way(base, ours, theirs)
    except SchemasClash as clash:
        assert clash.reasons  # noqa: PT017
        return None


@settings(max_examples=EXAMPLES, phases=(Phase.generate,))
@given(st.randoms(use_true_random=False))
def test_the_laws_of_combining(random: Random) -> None:
    first = first_draft(random)
    base = compile_schema(first.text())
    drafts = [deepcopy(first), deepcopy(first)]
    for draft in drafts:
        for _ in range(random.randint(0, 4)):
            edit(draft, random)
    note("\n\n".join(each.text() for each in (first, *drafts)))
    same = Side(base, by_name(base, base))
    ours, theirs = (side_of(draft, base) for draft in drafts)
    for side in (ours, theirs):
        assert three_way(base, side, same).schema == side.schema
        assert three_way(base, same, side).schema == side.schema
        assert three_way(base, side, side).schema == side.schema
    one, other = combined(base, ours, theirs), combined(base, theirs, ours)
    event("clash" if one is None else "combined")
    if one is None or other is None:
        assert one is other is None
        return
    assert one.schema == other.schema
    check_things(base, ours, theirs, one)
    for side, since in ((ours.schema, one.since_ours), (theirs.schema, one.since_theirs)):
        plan = plan_migration(side, one.schema, identity=since)
        if plan.supported:
            assert done(side, plan.steps) == one.schema


def check_things(base: Schema, ours: Side, theirs: Side, found: Combined) -> None:
    """A type or property is there if nobody dropped it, or if somebody added it."""
    for key in {each.table_key for each in base.types()}:
        kept = all(key in side.since_base.types.values() for side in (ours, theirs))
        assert (key in found.since_base.types.values()) == kept
    for side, since in ((ours, found.since_ours), (theirs, found.since_theirs)):
        mine = {each.table_key for each in side.schema.types()}
        assert mine - side.since_base.types.keys() <= set(since.types.values())
    for key, old in found.since_base.types.items():
        kept_names = [
            set(side.since_base.properties[new].values())
            for side in (ours, theirs)
            for new, was in side.since_base.types.items()
            if was == old
        ]
        assert set(found.since_base.properties[key].values()) == set.intersection(*kept_names)


BASE = """
node P { k: String @key  age: I32?  kind: enum(a, b)  body: String?  @range(age, 0..9) }
node Q { k: String @key }
edge E: P -> Q { w: F32? }
"""

TOGETHER = [
    # What both do: ours, theirs, and what comes of it.
    (("age: I32?", "age: I64?"), ("age: I32?", "age: I32"), "age: I64"),
    (("enum(a, b)", "enum(a, b, c)"), ("enum(a, b)", "enum(a, b, d)"), "enum(a, b, c, d)"),
    (("node Q {", "node Q @team(x) {"), ("node Q {", "node Q @crew(y) {"), "@crew("),
    (("-> Q {", "-> Q @card(0..2) {"), ("w: F32?", "w: F64?"), "@card(0..2)"),
    (("  @range(age, 0..9)", ""), ("body: String?", "body: String? @index"), "@index(body)"),
]


@pytest.mark.parametrize(("mine", "yours", "shown"), TOGETHER)
def test_changes_of_different_facts_are_combined(
    mine: tuple[str, str], yours: tuple[str, str], shown: str
) -> None:
    base = compile_schema(BASE)
    ours, theirs = (compile_schema(BASE.replace(*each)) for each in (mine, yours))
    found = three_way(base, Side(ours, by_name(base, ours)), Side(theirs, by_name(base, theirs)))
    assert shown in render(found.schema)
    assert found.schema not in (ours, theirs)


CLASHES = [
    (("age: I32?", "age: I64?"), ("age: I32?", "age: F64?"), "type of property P.age was changed by both"),
    (("body: String?", ""), ("body: String?", "body: String"), "property P.body was dropped by one side"),
    (("body: String?", ""), ("body: String?", "body: String? @unique"), "a rule of P is about body"),
    (("edge E: P -> Q { w: F32? }", ""), ("w: F32?", ""), "edge type E was dropped by one side"),
    (
        ("node Q { k: String @key }\nedge E: P -> Q { w: F32? }", ""),
        ("edge E", "edge F: Q -> Q\nedge E"),
        "edge type F has an end of a type that the other side dropped",
    ),
    (
        ("node Q", "node R { a: I32 }\nnode Q"),
        ("node Q", "node R { a: I64 }\nnode Q"),
        "node type R was added by",
    ),
    (("body", "n: I32? body"), ("body", "n: I64? body"), "property P.n was added by both sides"),
    (("0..9", "0..8"), ("0..9", "0..7"), "@range of node type P was changed by both sides"),
]


@pytest.mark.parametrize(("mine", "yours", "reason"), CLASHES)
def test_clashes_are_named(mine: tuple[str, str], yours: tuple[str, str], reason: str) -> None:
    base = compile_schema(BASE)
    ours, theirs = (compile_schema(BASE.replace(*each, 1)) for each in (mine, yours))
    sides = Side(ours, by_name(base, ours)), Side(theirs, by_name(base, theirs))
    for one, other in (sides, sides[::-1]):
        with pytest.raises(SchemasClash) as raised:
            three_way(base, one, other)
        assert any(reason in each for each in raised.value.reasons), raised.value.reasons


def test_a_name_taken_twice_is_a_clash() -> None:
    """Ours renames age to n, theirs adds another n; nobody may show one under the other's name."""
    base = compile_schema(BASE)
    ours = compile_schema(BASE.replace("age", "n"))
    known = by_name(base, ours)
    renamed = Identity(
        known.types, {**known.properties, "node:P": {**known.properties["node:P"], "n": "age"}}
    )
    theirs = compile_schema(BASE.replace("body", "n: I32? body"))
    with pytest.raises(SchemasClash, match="two properties of P would be called n"):
        three_way(base, Side(ours, renamed), Side(theirs, by_name(base, theirs)))


def test_edges_whose_names_differ_in_case_alone_are_refused_as_the_language_does() -> None:
    base = compile_schema(BASE)
    ours, theirs = (compile_schema(BASE + f"edge {name}: Q -> Q\n") for name in ("Likes", "LIKES"))
    with pytest.raises(SchemasClash, match="together they are no valid schema"):
        three_way(base, Side(ours, by_name(base, ours)), Side(theirs, by_name(base, theirs)))
