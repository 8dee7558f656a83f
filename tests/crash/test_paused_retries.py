"""A request that fails and is made again: meanwhile the lease may be over, and others have acted.

The first request of a deletion, or of a creation, is answered with an error. Before it is made again the
process falls asleep, as one that waits for a store which cannot be reached for as long as a lease lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.storage import LockLost
from omnigraph_core.tables.fork_refs import ref_path
from tests.support.asleep import Sleeper
from tests.support.fault_proxy import FaultProxy, Operation, fault_proxy
from tests.support.records import PEOPLE, nodes
from tests.support.s3server import S3Server, environment_of
from tests.support.writers import check_log, check_whole, open_graph


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def settings(proxy: FaultProxy) -> Settings:
    return load_settings({**environment_of(proxy.endpoint), "OMNIGRAPH_ACTOR": "ann"}, Path("/"))


def insert(graph: Graph, name: str, branch: str) -> None:
    graph.change(f'query q() {{ insert Person {{ name: "{name}", age: 1 }} }}', branch=branch)


def ref_of(branch: str) -> str:
    return ref_path(manifest_ref(layout.MAIN_BRANCH), branch)


def nothing(graph: Graph) -> None:
    pass


def tag(graph: Graph) -> None:
    graph.create_tag("v1", "dev")


def delete_tag(graph: Graph) -> None:
    graph.delete_tag("v1")


def undelete(graph: Graph) -> None:
    graph.undelete_branch("dev")


def delete_branch(graph: Graph) -> None:
    graph.delete_branch("dev")


def use_anew(graph: Graph) -> None:
    """Another branch has the name, and rows."""
    with suppress(OmnigraphError):
        graph.delete_branch("dev")
    graph.create_branch("dev")
    insert(graph, "rival", "dev")


def use_and_delete(graph: Graph) -> None:
    """The one that could be brought back is given up for another, and that is gone, too."""
    use_anew(graph)
    graph.delete_branch("dev")


def tag_anew(graph: Graph) -> None:
    graph.delete_tag("v1")
    graph.create_tag("v1", "main")


@dataclass(frozen=True)
class Case:
    """What is about to be asked for again, and what others do meanwhile."""

    operation: Operation
    path: str
    prepare: Callable[[Graph], None]
    verb: Callable[[Graph], None]
    meanwhile: Callable[[Graph], None]
    people: set[str]
    """On dev in the end, or on a branch of that name that is made then."""


CASES = {
    "tag delete": Case(
        "DELETE", layout.tag("v1"), tag, lambda g: g.delete_tag("v1"), tag_anew, {"first", "old"}
    ),
    "tag create": Case("PUT", layout.tag("v1"), nothing, tag, use_and_delete, {"first"}),
    "branch delete": Case("DELETE", ref_of("dev"), nothing, delete_branch, use_anew, {"first", "rival"}),
    "branch undelete": Case("PUT", ref_of("dev"), delete_branch, undelete, use_and_delete, {"first"}),
}


@pytest.fixture
def sleeper(settings: Settings, s3_location: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    graph = Graph.init(place := s3_location(), PEOPLE, settings)
    insert(graph, "first", "main")
    graph.create_branch("dev")
    insert(graph, "old", "dev")
    return Sleeper(place, settings, monkeypatch, everywhere=True)


SOAKED = {"tag create", "branch undelete"}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.soak] if each in SOAKED else []) for each in CASES]
)
def test_nothing_is_asked_for_again_without_the_lease(
    name: str, proxy: FaultProxy, settings: Settings, sleeper: Sleeper
) -> None:
    case = CASES[name]
    case.prepare(open_graph(sleeper.place, settings))
    rule = proxy.spoil(case.operation, f"/{case.path}$", "status", status=503)
    told = sleeper.run(
        lambda graph, _: case.verb(graph), "", "control.again", lambda graph, _: case.meanwhile(graph)
    )
    assert rule.hits == 1
    assert (told, type(sleeper.error)) == (False, LockLost)
    check_left(open_graph(sleeper.place, settings), case.people, has_tag=name == "tag delete")


@pytest.mark.soak
def test_a_branch_that_was_deleted_again_can_still_be_brought_back(
    proxy: FaultProxy, settings: Settings, sleeper: Sleeper
) -> None:
    """The one who brought it back before was about to remove the record of its deletion."""
    open_graph(sleeper.place, settings).delete_branch("dev")
    proxy.spoil("DELETE", f"/{layout.DELETED_DIR}/", "status", status=503)
    sleeper.run(lambda graph, _: undelete(graph), "", "control.again", lambda graph, _: delete_branch(graph))
    assert "control.again" in sleeper.passed
    open_graph(sleeper.place, settings).undelete_branch("dev")
    check_left(open_graph(sleeper.place, settings), {"first", "old"}, has_tag=False)


def check_left(graph: Graph, people: set[str], *, has_tag: bool) -> None:
    assert [each.name for each in graph.tags()] == (["v1"] if has_tag else [])
    if has_tag:
        assert graph.commit("tag:v1").commit_id == graph.log().heads["main"]
    if "dev" not in graph.branches():
        graph.create_branch("dev")
    assert set(nodes(graph, "Person", "dev")) == people
    insert(graph, "later", "dev")
    check_whole(graph)
    check_log(graph)
