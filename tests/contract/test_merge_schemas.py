"""Merges, reverts and resets across changes of the schema: one commit takes all of it along."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.errors import ConflictError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.merge.ground import SchemasDiffer
from omnigraph_core.merge.run import MergeConflicts, Outcome
from omnigraph_core.settings import Settings
from tests.support.records import edges, nodes
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")

BASE = """
node P { k: String @key  age: I32?  tag: String  note: String? }
node Q { k: String @key  n: I32? }
edge E: P -> Q { w: F32? }
"""


def change(body: str) -> str:
    return f"query q() {{ {body} }}"


def insert(type_: str, **values: object) -> str:
    listed = ", ".join(
        f'{name}: "{v}"' if isinstance(v, str) else f"{name}: {v}" for name, v in values.items()
    )
    return f"insert {type_} {{ {listed} }}"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Three rows, then a branch; both sides have changed rows since."""
    graph = Graph.init(str(tmp_path / "g"), BASE, SETTINGS)
    rows = [insert("P", k=k, age=i, tag=f"t{k}", note=f"n{k}") for i, k in enumerate("abc")]
    graph.change(
        change(" ".join([*rows, insert("Q", k="q", n=1), 'insert E { from: "a", to: "q", w: 1.5 }']))
    )
    graph.create_branch("dev")
    return graph


def head(graph: Graph, branch: str) -> str:
    found = graph.head(branch)
    assert found is not None
    return found.commit_id


def write(graph: Graph, branch: str, mark: str) -> None:
    """Something that the other side can take along: a new row, a changed one."""
    graph.change(change(insert("P", k=mark, tag=mark)), branch=branch)
    graph.change(
        change(f'update P set {{ tag: "{mark}" }} where k = "{"a" if branch == "main" else "b"}"'),
        branch=branch,
    )


def content(graph: Graph, branch: str) -> dict[str, Any]:
    """Everything that a branch holds, edges without their ids."""
    schema = graph.at(branch=branch).schema
    found: dict[str, Any] = {node.name: nodes(graph, node.name, branch) for node in schema.nodes}
    for edge in schema.edges:
        found[edge.name] = sorted(str(each) for each in edges(graph, edge.name, branch))
    return found


CHANGES: dict[str, Callable[[str], str]] = {
    "add a property": lambda s: s.replace("note:", "more: String?  note:"),
    "add a property with a default": lambda s: s.replace("note:", "more: I32 @default(7)  note:"),
    "rename a property": lambda s: re.sub(r"tag: (String[?]?)", r'label: \1 @rename_from("tag")', s),
    "widen a property": lambda s: s.replace("age: I32?", "age: I64?"),
    "let a property be null": lambda s: s.replace("tag: String", "tag: String?"),
    "drop a property": lambda s: s.replace("note: String?", ""),
    "add types": lambda s: s + "\nnode R { k: String @key }\nedge F: R -> P",
    "rename a type": lambda s: s.replace("node Q", 'node Z @rename_from("Q")').replace("-> Q", "-> Z"),
    "drop a type": lambda s: s.replace("edge E: P -> Q { w: F32? }", ""),
    "add a rule": lambda s: s.replace("note: String? }", "note: String? @index @unique(age) }"),
    "describe": lambda s: s.replace("node Q", 'node Q @description("x")'),
}


def applied(graph: Graph, branch: str, *names: str) -> str:
    text = BASE
    for name in names:
        text = CHANGES[name](text)
        assert text != BASE
    graph.apply_schema(text, branch=branch)
    return text


def expected(graph: Graph, tmp_path: Path, *names: str) -> dict[str, Any]:
    """The oracle: all row changes of both sides on one branch, and the schema applied after them."""
    twin = Graph.init(str(tmp_path / "twin"), BASE, SETTINGS)
    rows = [insert("P", k=k, age=i, tag=f"t{k}", note=f"n{k}") for i, k in enumerate("abc")]
    twin.change(change(" ".join([*rows, insert("Q", k="q", n=1), 'insert E { from: "a", to: "q", w: 1.5 }'])))
    for mark, k in (("main", "a"), ("dev", "b")):
        twin.change(change(insert("P", k=mark, tag=mark)))
        twin.change(change(f'update P set {{ tag: "{mark}" }} where k = "{k}"'))
    applied(twin, "main", *names)
    return content(twin, "main")


WAYS = [
    pytest.param(name, changer, target, marks=[] if number % 2 == (target == "main") else [pytest.mark.soak])
    for number, name in enumerate(CHANGES)
    for changer, target in (("dev", "main"), ("dev", "dev"), ("main", "main"), ("main", "dev"))
    if changer != target or number % 4 == 0
]


@pytest.mark.parametrize(("name", "changer", "target"), WAYS)
def test_a_change_of_one_side_is_taken_along(
    graph: Graph, tmp_path: Path, name: str, changer: str, target: str
) -> None:
    """In either direction; and then the other way, so that both are one again."""
    source = "main" if target == "dev" else "dev"
    for branch in ("main", "dev"):
        write(graph, branch, branch)
    applied(graph, changer, name)
    made = graph.merge(source, target)
    assert made.outcome is Outcome.MERGED
    assert bool(made.schema_changes) == (changer == source)
    wanted = expected(graph, tmp_path, name)
    assert content(graph, target) == wanted
    back = graph.merge(target, source)
    assert back.outcome is Outcome.FAST_FORWARD
    assert content(graph, source) == wanted
    assert graph.at(branch="main").schema == graph.at(branch="dev").schema
    check_whole(Graph.open(str(graph.location.path), SETTINGS, OpenMode.READ_WRITE))


def test_a_fast_forward_brings_the_schema_and_its_rows(graph: Graph) -> None:
    applied(graph, "dev", "add types", "add a property", "rename a property")
    graph.change(change(insert("R", k="r") + " " + 'insert F { from: "r", to: "a" }'), branch="dev")
    graph.change(change('update P set { more: "m" } where k = "a"'), branch="dev")
    wanted = content(graph, "dev")
    made = graph.merge("dev")
    assert made.outcome is Outcome.FAST_FORWARD
    assert content(graph, "main") == wanted
    assert nodes(graph, "P")["a"]["more"] == "m"
    assert (
        Graph.open(str(graph.location.path), SETTINGS).at(branch="main").schema
        == graph.at(branch="dev").schema
    )
    graph.change(change('insert R { k: "s" } insert F { from: "s", to: "b" }'))
    graph.merge("main", "dev")
    assert content(graph, "main") == content(graph, "dev")


PAIRS = [
    ("add a property", "widen a property"),
    ("rename a property", "add a property with a default"),
    ("rename a type", "add types"),
    ("drop a property", "rename a property"),
    ("rename a type", "drop a property"),
    ("add a rule", "widen a property"),
    ("add a property", "add a property"),
    ("let a property be null", "rename a property"),
]


@pytest.mark.parametrize(
    ("ours", "theirs", "target"),
    [
        pytest.param(*pair, target, marks=[] if number % 2 == (target == "main") else [pytest.mark.soak])
        for number, pair in enumerate(PAIRS)
        for target in ("main", "dev")
    ],
)
def test_changes_of_both_sides_are_combined(
    graph: Graph, tmp_path: Path, ours: str, theirs: str, target: str
) -> None:
    source = "main" if target == "dev" else "dev"
    for branch in ("main", "dev"):
        write(graph, branch, branch)
    applied(graph, target, ours)
    applied(graph, source, theirs)
    graph.merge(source, target)
    both = (ours,) if ours == theirs else (ours, theirs)
    assert content(graph, target) == expected(graph, tmp_path, *both)
    graph.merge(target, source)
    assert content(graph, source) == content(graph, target)


def test_a_clash_names_the_steps_of_both(graph: Graph) -> None:
    applied(graph, "main", "widen a property")
    graph.apply_schema(BASE.replace("age: I32?", "age: F64?"), branch="dev")
    before = head(graph, "main"), content(graph, "main")
    with pytest.raises(SchemasDiffer) as raised:
        graph.merge("dev")
    assert raised.value.reasons == ("type of property P.age was changed by both sides, and not alike",)
    assert raised.value.steps == {
        "main": ["change type of P.age from I32? to I64?"],
        "dev": ["change type of P.age from I32? to F64?"],
    }
    assert isinstance(raised.value, ConflictError)
    assert (head(graph, "main"), content(graph, "main")) == before
    write(graph, "main", "main")


@pytest.mark.parametrize("dropper", ["main", "dev"])
@pytest.mark.parametrize(
    ("drop", "edit", "said"),
    [
        (
            "drop a property",
            'update P set { note: "x" } where k = "a"',
            "property P.note was dropped by one side",
        ),
        (
            "drop a property",
            'insert P { k: "new", tag: "t", note: "x" }',
            "property P.note was dropped by one side",
        ),
        ("drop a type", 'insert E { from: "b", to: "q" }', "edge type E was dropped by one side"),
    ],
)
def test_what_the_other_side_wrote_is_never_dropped(
    graph: Graph, dropper: str, drop: str, edit: str, said: str
) -> None:
    writer = "main" if dropper == "dev" else "dev"
    applied(graph, dropper, drop)
    graph.change(change(edit), branch=writer)
    before = content(graph, "main"), content(graph, "dev")
    for source, target in (("dev", "main"), ("main", "dev")):
        with pytest.raises(SchemasDiffer) as raised:
            graph.merge(source, target)
        assert any(said in each for each in raised.value.reasons), raised.value.reasons
    assert (content(graph, "main"), content(graph, "dev")) == before


@pytest.mark.parametrize("ruler", ["main", "dev"])
@pytest.mark.parametrize(
    ("rule", "edit", "kind"),
    [
        ("note: String? @unique", 'insert P { k: "x", tag: "t", note: "na" }', "unique_violation"),
        (
            "note: String? @range(age, 0..5)",
            'insert P { k: "x", tag: "t", age: 9 }',
            "value_constraint_violation",
        ),
        ("note: String", 'insert P { k: "x", tag: "t" }', "value_constraint_violation"),
        (
            "note: enum(na, nb, nc)?",
            'insert P { k: "x", tag: "t", note: "zz" }',
            "value_constraint_violation",
        ),
    ],
)
def test_rows_that_break_a_new_rule_are_conflicts(
    graph: Graph, ruler: str, rule: str, edit: str, kind: str
) -> None:
    """Whichever side has the rule: the rows of the other are judged by it."""
    writer = "main" if ruler == "dev" else "dev"
    graph.apply_schema(BASE.replace("note: String?", rule), branch=ruler)
    graph.change(change(edit), branch=writer)
    for source, target in (("dev", "main"), ("main", "dev")):
        with pytest.raises(MergeConflicts) as raised:
            graph.merge(source, target)
        assert [each.kind.value for each in raised.value.conflicts] == [kind]
    graph.change(change('delete P where k = "x"'), branch=writer)
    graph.merge("dev")
    graph.merge("main", "dev")
    assert content(graph, "main") == content(graph, "dev")


def test_new_cardinality_is_asked_of_the_edges_of_the_other_side(graph: Graph) -> None:
    graph.apply_schema(BASE.replace("-> Q {", "-> Q @card(0..1) {"), branch="dev")
    graph.change(change('insert E { from: "a", to: "q" }'))
    for source, target in (("dev", "main"), ("main", "dev")):
        with pytest.raises(MergeConflicts) as raised:
            graph.merge(source, target)
        assert [each.kind.value for each in raised.value.conflicts] == ["cardinality_violation"]


def test_conflicts_of_rows_come_under_the_new_names(graph: Graph) -> None:
    applied(graph, "dev", "rename a property")
    graph.change(change('update P set { label: "x" } where k = "a"'), branch="dev")
    graph.change(change('update P set { tag: "y" } where k = "a"'))
    with pytest.raises(MergeConflicts) as raised:
        graph.merge("dev")
    (found,) = raised.value.conflicts
    assert (found.property_name, found.base, found.ours, found.theirs) == ("label", "ta", "y", "x")
    graph.merge("dev", strategy="theirs")
    assert nodes(graph, "P")["a"]["label"] == "x"


@pytest.mark.parametrize(
    ("name", "branch"),
    [
        pytest.param(name, branch, marks=[] if number % 2 == (branch == "main") else [pytest.mark.soak])
        for number, name in enumerate(each for each in CHANGES if each != "drop a type")
        for branch in ("main", "dev")
    ],
)
def test_a_schema_apply_is_taken_back(graph: Graph, tmp_path: Path, name: str, branch: str) -> None:
    """With what came after it, which does not concern what it changed."""
    before = graph.at(branch=branch).schema
    applied(graph, branch, name)
    apply = head(graph, branch)
    graph.change(change('delete P where k = "c"'), branch=branch)
    made = graph.revert(apply, branch)
    assert made.schema_changes
    assert graph.at(branch=branch).schema == before
    found = nodes(graph, "P", branch)
    assert {k: (row["tag"], row["note"], row["age"]) for k, row in found.items()} == {
        "a": ("ta", "na", 0),
        "b": ("tb", "nb", 1),
    }
    assert nodes(graph, "Q", branch) == {"q": {"k": "q", "n": 1}}
    check_whole(Graph.open(str(graph.location.path), SETTINGS, OpenMode.READ_WRITE))


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_dropped_types_and_required_columns_come_back_with_their_values(graph: Graph, branch: str) -> None:
    before, start = content(graph, branch), head(graph, branch)
    graph.apply_schema("node P { k: String @key  age: F64?  note: String? }", branch=branch)
    graph.reset_branch(branch, start)
    assert content(graph, branch) == before
    graph.change(
        change('insert E { from: "b", to: "q" } insert P { k: "d", tag: "t", age: 3 }'), branch=branch
    )
    check_whole(Graph.open(str(graph.location.path), SETTINGS, OpenMode.READ_WRITE))


def test_a_narrower_type_comes_back_if_all_values_fit(graph: Graph) -> None:
    applied(graph, "main", "widen a property")
    apply = head(graph, "main")
    graph.change(change('update P set { age: 5000000000 } where k = "a"'))
    with pytest.raises(SchemasDiffer, match="1 row of ours cannot be I32"):
        graph.revert(apply)
    graph.change(change('update P set { age: 5 } where k = "a"'))
    graph.revert(apply)
    assert {k: row["age"] for k, row in nodes(graph, "P").items()} == {"a": 5, "b": 1, "c": 2}


def test_resetting_to_another_schema_and_back_is_identity(graph: Graph) -> None:
    old, before = head(graph, "main"), content(graph, "main")
    applied(graph, "main", "rename a type", "drop a property", "add types", "widen a property")
    graph.change(change('insert R { k: "r" } insert F { from: "r", to: "a" }'))
    new, after = head(graph, "main"), content(graph, "main")
    for _ in range(2):
        graph.reset_branch("main", old)
        assert content(graph, "main") == before
        graph.reset_branch("main", new)
        assert content(graph, "main") == after


def test_a_dry_run_says_what_becomes_of_the_schema_and_changes_nothing(graph: Graph) -> None:
    applied(graph, "dev", "add types")
    before = head(graph, "main")
    made = graph.merge("dev", dry_run=True)
    assert made.schema_changes == ("add node R", "add edge F")
    assert made.commit_id is None
    assert head(graph, "main") == before
    assert not [each for each in graph.at(branch="main").schema.nodes if each.name == "R"]


def test_criss_cross_merges_of_schemas(graph: Graph) -> None:
    """Each side has merged the other's change before; then there are two bases with two schemas."""
    applied(graph, "main", "add a property")
    applied(graph, "dev", "widen a property")
    for name, source in (("m", "main"), ("d", "dev")):
        graph.create_branch(name, source)
    graph.merge("d", "main")
    graph.merge("m", "dev")
    graph.change(change('update P set { age: 4, more: "x" } where k = "a"'))
    graph.change(change('update P set { age: 6 } where k = "b"'), branch="dev")
    made = graph.merge("dev")
    assert len(made.bases) == 2
    assert {k: (row["age"], row.get("more")) for k, row in nodes(graph, "P").items()} == {
        "a": (4, "x"),
        "b": (6, None),
        "c": (2, None),
    }
