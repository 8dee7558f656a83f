"""`load --from`, `repair`, index builds and `schema apply`, asleep past their lease at every step.

Meanwhile others take over, act and are told success. Whatever becomes of the sleeper, nothing of theirs
is lost, what it was told is true, and the branch is open for whatever comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from omnigraph_core.errors import NotFoundError, OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.indexes.ensure import ensure_indexes
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.maintenance.findings import Severity
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.schema.evolve.plan import UnsupportedMigration
from omnigraph_core.settings import Settings, TraversalMode, load_settings
from omnigraph_core.tables.commit import commit_exact, unguarded
from omnigraph_core.tables.stage import stage_delete
from tests.support.asleep import Act, Sleeper
from tests.support.records import PEOPLE, edge, node, nodes
from tests.support.writers import check_log, check_whole, open_graph

PARTS = 5
"""So many times the soak goes through a scene, each time by other steps. The normal run has one step."""

Judge = Callable[[Graph, str], bool]
"""Looks at what must hold whatever became of the sleeper; is there what it did?"""


@pytest.fixture
def settings(s3_environment: dict[str, str]) -> Settings:
    return load_settings({**s3_environment, "OMNIGRAPH_ACTOR": "ann"}, Path("/"))


@pytest.fixture
def place(s3_location: Callable[[], str], settings: Settings) -> str:
    graph = Graph.init(place := s3_location(), PEOPLE, settings)
    graph.load([node("Person", name="first"), node("Company", name="acme")], LoadMode.APPEND)
    return place


def insert(graph: Graph, name: str, branch: str) -> None:
    graph.change(f'query q() {{ insert Person {{ name: "{name}", age: 1 }} }}', branch=branch)


def people(graph: Graph, branch: str) -> set[str]:
    return set(nodes(graph, "Person", branch))


# ---- load --from ----


def no_branch(graph: Graph, branch: str) -> None:
    """The verb makes it."""


def load_from(graph: Graph, branch: str) -> None:
    graph.load([node("Person", name="sleeper")], LoadMode.APPEND, branch=branch, source="main")


def load_too(graph: Graph, branch: str) -> None:
    graph = open_graph(graph.location.uri, graph.settings)
    graph.load([node("Person", name="rival")], LoadMode.APPEND, branch=branch, source="main")


def load_anew(graph: Graph, branch: str) -> None:
    """Whatever branch of the name there is goes."""
    with suppress(NotFoundError):
        open_graph(graph.location.uri, graph.settings).delete_branch(branch)
    load_too(graph, branch)


def has_the_rivals_load(graph: Graph, branch: str) -> bool:
    found = people(graph, branch)
    assert found - {"sleeper"} == {"first", "rival"}
    return "sleeper" in found


# ---- repair ----


def drift(graph: Graph, branch: str) -> None:
    """Another program has deleted a person; a write of ours that was given up, a company."""
    graph.create_branch(branch)
    records = [node("Person", name="old"), node("Company", name="zeta")]
    graph.load(records, LoadMode.APPEND, branch=branch)
    tables, found = graph.door.tables, graph.snapshot(branch)
    tables.open(found.entry("node:Person").ref).lance.delete("name = 'old'")
    company = tables.open(found.entry("node:Company").ref)
    late = stage_delete(graph.door.storage, company, "late", ids=company.read(["id"]).column("id"))
    commit_exact(tables, late, unguarded)


def repair(graph: Graph, branch: str) -> None:
    graph.repair(branch, confirm=True, force=True)


def repair_and_write(graph: Graph, branch: str) -> None:
    repair(graph, branch)
    insert(graph, "rival", branch)


def is_repaired(graph: Graph, branch: str) -> bool:
    """By either of them."""
    assert people(graph, branch) == {"first", "rival"}
    assert set(nodes(graph, "Company", branch)) == {"acme", "zeta"}
    return False


# ---- indexes ----

HOPS = 'query q() { match { $a: Person { name: "first" } $a knows{1,2} $b } return { $b.name } }'


def link(graph: Graph, branch: str) -> None:
    graph.create_branch(branch)
    records = [node("Person", name="old"), edge("Knows", "first", "old"), edge("Knows", "old", "first")]
    graph.load(records, LoadMode.APPEND, branch=branch)


def index(graph: Graph, branch: str) -> None:
    ensure_indexes(graph.door, branch, None, "ann", unindexed_max=0)
    graph.build_topology(branch)


def change_index_and_clean(graph: Graph, branch: str) -> None:
    graph.change(
        'query q() { insert Person { name: "rival" } insert Knows { from: "old", to: "rival" } }',
        branch=branch,
    )
    index(graph, branch)
    graph.change('query q() { delete Knows where from = "old" }', branch=branch)
    records = [edge("Knows", "old", "rival")]
    graph.load(records, LoadMode.APPEND, branch=branch)
    graph.optimize(branch)
    graph.cleanup(keep=1, grace_s=0.0, force=True)


def is_found(graph: Graph, branch: str) -> bool:
    assert people(graph, branch) == {"first", "old", "rival"}
    for mode in (None, *TraversalMode):
        asked = Graph.open(graph.location.uri, replace(graph.settings, traversal_mode=mode))
        found = asked.query(HOPS, branch=branch).to_pylist()
        assert sorted(each["b.name"] for each in found) == ["old", "rival"], mode
    return False


# ---- schema apply ----

WANTED = PEOPLE.replace("age: I32?", 'age: I32?\n  nick: String @default("x")').replace(
    "edge WorksAt: Person -> Company @card(0..1)\n", "node City { name: String @key }\n"
)
OTHER = (
    PEOPLE.replace("age: I32?", "age: I32?\n  nick: Bool?") + "node City { name: String @key size: I32? }\n"
)
LATER = PEOPLE + "node City { name: String @key }\nnode Nick { name: String @key }\n"


def branch_off(graph: Graph, branch: str) -> None:
    graph.create_branch(branch)


def apply(graph: Graph, branch: str) -> None:
    graph.apply_schema(WANTED, branch=branch, allow_data_loss=True)


def write(graph: Graph, branch: str) -> None:
    insert(graph, "rival", branch)


def apply_another(graph: Graph, branch: str) -> None:
    with suppress(UnsupportedMigration):  # The sleeper's was there already, or could be finished.
        graph.apply_schema(OTHER, branch=branch, allow_data_loss=True)
    write(graph, branch)


def has_a_schema(graph: Graph, branch: str) -> bool:
    assert people(graph, branch) == {"first", "rival"}
    source = graph.catalog_of(branch=branch).source
    assert source in (PEOPLE, OTHER, WANTED)
    check_columns(graph, branch)
    assert graph.apply_schema(LATER, branch=branch, allow_data_loss=True).applied
    check_columns(graph, branch)
    graph.load([node("City", name="Oslo"), node("Nick", name="x")], LoadMode.APPEND, branch=branch)
    return source == WANTED


def has_an_applied_schema(graph: Graph, branch: str) -> bool:
    assert graph.catalog_of(branch=branch).source != PEOPLE
    return has_a_schema(graph, branch)


def check_columns(graph: Graph, branch: str) -> None:
    view = graph.at(branch=branch)
    assert {entity.table_key for entity in view.schema.types()} == set(view.snapshot.tables)
    for entity in view.schema.types():
        entry = view.snapshot.entry(entity.table_key)
        stored = graph.door.tables.open(entry.ref, entry.table_version).schema.names
        assert sorted(stored) == sorted(table_schema(entity).names), entity.table_key


@dataclass(frozen=True)
class Scene:
    """Who sleeps, what others do, and who looks at what came of it."""

    prepare: Act
    verb: Act
    meanwhile: Act
    judge: Judge
    stays: bool = False
    """What others do leaves there what the sleeper had done."""

    def check(self, graph: Graph, branch: str, sleeper: Sleeper) -> None:
        """Who fails although it is done is told that others settled it."""
        is_there, error = self.judge(graph, branch), sleeper.error
        assert is_there or error is not None or not self.stays
        if is_there and error is not None:
            assert any(text in (error.hint or "") for text in ("settled this write", "outcome is unknown"))


SCENES = {
    "load --from beside another": Scene(no_branch, load_from, load_too, has_the_rivals_load, stays=True),
    "load --from beside a new branch": Scene(no_branch, load_from, load_anew, has_the_rivals_load),
    "repair": Scene(drift, repair, repair_and_write, is_repaired),
    "index": Scene(link, index, change_index_and_clean, is_found),
    "schema apply beside a write": Scene(branch_off, apply, write, has_a_schema, stays=True),
    "schema apply beside another": Scene(branch_off, apply, apply_another, has_an_applied_schema),
}
SAMPLED = ["load --from beside a new branch", "repair", "index", "schema apply beside another"]
CASES = [
    *(pytest.param(name, None, id=f"{name}, one step") for name in SAMPLED),
    *(pytest.param(name, part, marks=[pytest.mark.soak]) for name in SCENES for part in range(PARTS)),
]


@pytest.mark.parametrize(("name", "part"), CASES)
def test_a_verb_that_slept_harms_nobody(
    name: str, part: int | None, place: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SCENES[name]

    def meanwhile(graph: Graph, branch: str) -> None:
        try:
            scene.meanwhile(graph, branch)
        except OmnigraphError as error:
            raise AssertionError(f"the others failed: {error!r}") from error

    scene.prepare(open_graph(place, settings), "plain")
    sleeper = Sleeper(place, settings, monkeypatch, everywhere=True)
    assert sleeper.run(scene.verb, "plain")
    assert len(sleeper.passed) >= 2 * PARTS
    places, middle = sleeper.places, len(sleeper.places) // 2
    for number, (step, nth) in enumerate(places[middle:][:1] if part is None else places[part::PARTS]):
        scene.prepare(open_graph(place, settings), branch := f"b{number}")
        sleeper.run(scene.verb, branch, step, meanwhile, nth=nth)
        assert (step, nth) in sleeper.places
        try:
            graph = open_graph(place, settings)
            scene.check(graph, branch, sleeper)
            insert(graph, "later", branch)
            assert "later" in people(graph, branch)
        except Exception as error:
            raise AssertionError(f"asleep at {step}, time {nth}; told {sleeper.error}") from error
    graph = open_graph(place, settings)
    check_whole(graph)
    check_log(graph)
    assert [each for each in graph.doctor(deep=True) if each.severity is not Severity.NOTE] == []
