"""The acceptance scenarios of schema changes, 53 and 76 to 84, one by one, on a real graph.

59, that nobody finishes the apply of a live process, is in tests/crash/test_schema_staging.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import faults
from omnigraph_core.catalog.files import SchemaFilesDisagree
from omnigraph_core.errors import NotFoundError, OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.schema.evolve import UnsupportedMigration
from omnigraph_core.settings import Settings
from tests.support.records import exported, node, nodes
from tests.support.writers import check_whole

SCHEMA = "node Person { name: String @key  age: I32?  kind: enum(a, b)? }\n"
SETTINGS = Settings(fsync=False, actor="ann")
ANN = {"name": "Ann", "age": 3, "kind": "a"}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    made = Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)
    made.change('query q() { insert Person { name: "Ann", age: 3, kind: "a" } }')
    yield made
    faults.arm("")


def wanted(properties: str) -> str:
    return f"node Person {{ name: String @key  {properties} }}\n"


def at(graph: Graph, commit_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(graph.export(commit_id)).splitlines()]


WITH_NOTE = wanted("age: I32?  kind: enum(a, b)?  note: String?")


def merge(graph: Graph) -> None:
    graph.merge("dev")


def apply(graph: Graph) -> None:
    graph.apply_schema(WITH_NOTE)


@pytest.mark.parametrize("verb", [apply, merge])
def test_53_the_next_write_of_the_handle_heals_what_failed_before_its_publish(
    verb: Callable[[Graph], None], graph: Graph
) -> None:
    graph.create_branch("dev")
    graph.apply_schema(WITH_NOTE, branch="dev")
    graph.change('query q() { insert Person { name: "Dee", note: "x" } }', branch="dev")
    faults.arm("write.after_b=error,recovery.deciding=error")
    with pytest.raises(OmnigraphError, match="injected"):
        verb(graph)
    assert len(graph.pending()) == 1
    faults.arm("")
    graph.change('query q() { insert Person { name: "Eve", note: "healed" } }')
    assert nodes(graph, "Person")["Eve"] == {"name": "Eve", "note": "healed"}
    assert ("Dee" in nodes(graph, "Person")) == (verb is merge)
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledForward"]
    check_whole(graph)


def test_76_a_new_nullable_property_is_null_and_rows_keep_their_values(graph: Graph) -> None:
    assert graph.apply_schema(WITH_NOTE).applied
    assert exported(graph) == [node("Person", id="Ann", **ANN, note=None)]


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ("age: I32?  kind: enum(a, b)?  note: String", "OG-MF-103"),
        ("age: String?  kind: enum(a, b)?", "OG-MF-106"),
    ],
)
def test_77_what_is_unsupported_says_its_code_and_moves_nothing(
    properties: str, code: str, graph: Graph
) -> None:
    before = graph.snapshot()
    with pytest.raises(UnsupportedMigration, match=code):
        graph.apply_schema(wanted(properties))
    assert graph.snapshot() == before


def test_78_renames_keep_rows_and_old_commits_their_names(graph: Graph) -> None:
    old = graph.commit("main").commit_id
    years = 'years: I32? @rename_from("age")  kind: enum(a, b)?'
    graph.apply_schema(wanted(years).replace("Person", 'Human @rename_from("Person")'))
    assert nodes(graph, "Human") == {"Ann": {"name": "Ann", "years": 3, "kind": "a"}}
    assert at(graph, old) == [node("Person", id="Ann", **ANN)]


@pytest.mark.parametrize("is_hard", [False, True])
def test_79_what_was_dropped_softly_stays_readable_and_what_was_dropped_for_good_goes(
    is_hard: bool, graph: Graph
) -> None:
    old = graph.commit("main").commit_id
    graph.apply_schema(wanted("kind: enum(a, b)?"), allow_data_loss=is_hard)
    assert nodes(graph, "Person") == {"Ann": {"name": "Ann", "kind": "a"}}
    if not is_hard:
        assert at(graph, old) == [node("Person", id="Ann", **ANN)]
        return
    graph.cleanup(keep=1, force=True, grace_s=0)
    with pytest.raises(NotFoundError):
        at(graph, old)


def test_80_other_branches_keep_their_schema_and_are_named(graph: Graph) -> None:
    """The original refuses to apply beside another branch."""
    graph.create_branch("dev")
    assert graph.apply_schema(WITH_NOTE).differing == ("dev",)
    assert nodes(graph, "Person", "dev") == {"Ann": ANN}
    assert graph.at(branch="dev").schema != graph.at().schema


def test_81_the_same_schema_again_is_not_applied(graph: Graph) -> None:
    before = graph.snapshot()
    assert graph.apply_schema(f"// a remark\n{SCHEMA}").applied is False
    assert graph.snapshot() == before


def test_82_an_index_that_is_wanted_touches_no_table(graph: Graph) -> None:
    before = graph.snapshot().tables
    assert graph.apply_schema(wanted("age: I32? @index  kind: enum(a, b)?")).applied
    assert graph.snapshot().tables == before


def test_83_a_wider_enum_takes_its_new_value_at_once_and_a_used_one_is_not_taken_away(graph: Graph) -> None:
    before = graph.snapshot().tables
    graph.apply_schema(wanted("age: I32?  kind: enum(a, b, c)?"))
    assert graph.snapshot().tables == before
    graph.change('query q() { update Person set { kind: "c" } where name = "Ann" }')
    with pytest.raises(UnsupportedMigration, match="1 row holds a value that is not in enum"):
        graph.apply_schema(SCHEMA)
    graph.change('query q() { update Person set { kind: "b" } where name = "Ann" }')
    assert graph.apply_schema(SCHEMA).applied


def test_84_an_edited_schema_file_is_noticed_and_a_remark_is_not(graph: Graph) -> None:
    file = graph.location.path / "_schema.pg"
    file.write_text(f"// a remark\n{SCHEMA}")
    place = str(graph.location.path)
    assert nodes(Graph.open(place, SETTINGS), "Person") == {"Ann": ANN}
    assert Graph.open(place, SETTINGS).catalog().source == f"// a remark\n{SCHEMA}"
    file.write_text(WITH_NOTE)
    with pytest.raises(SchemaFilesDisagree):
        Graph.open(place, SETTINGS).catalog()
