"""What a verb changes on S3 by a name that others may use, it changes right after a look at its lease.

Between any two requests a process may sleep for an hour. So a request that changes something either has
a condition (an e-tag, or that nothing is there), or is about what nobody else has the name of (an id in
its path), or is the very next one after its lease was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings, load_settings
from tests.support.dying import die_here
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.records import PEOPLE, node
from tests.support.s3server import S3Server, environment_of
from tests.support.writers import open_graph

OWN_NAME = re.compile(
    r"/[0-9A-HJKMNP-TV-Z]{26}\b|[0-9a-f]{8}-[0-9a-f-]{27}|/data/|/_deletions/"
    r"|/_versions/d\d+\.|/__schema/[0-9a-f]{64}\."
)
"""An id of ours, a uuid, a file that Lance has named; a detached version, a schema under its hash."""
IS_LEASE = f"/{layout.LOCKS_DIR}/"


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def settings(proxy: FaultProxy) -> Settings:
    return load_settings({**environment_of(proxy.endpoint), "OMNIGRAPH_ACTOR": "ann"}, Path("/"))


def insert(graph: Graph, branch: str) -> None:
    graph.change(f'query q() {{ insert Person {{ name: "{branch}", age: 1 }} }}', branch=branch)


Step = Callable[[Graph], object]


def write_everywhere(graph: Graph) -> None:
    insert(graph, "main")
    insert(graph, "dev")


REFS: dict[str, Step] = {
    "create": lambda graph: graph.create_branch("dev"),
    "write": write_everywhere,
    "rename": lambda graph: graph.rename_branch("dev", "review"),
    "tag": lambda graph: graph.create_tag("v1", "review"),
    "delete the tag": lambda graph: graph.delete_tag("v1"),
    "delete": lambda graph: graph.delete_branch("review"),
    "undelete": lambda graph: graph.undelete_branch("review"),
    "undo": lambda graph: graph.undo(),
    "create another": lambda graph: graph.create_branch("dev"),
    "use the name again": lambda graph: (graph.delete_branch("dev"), graph.create_branch("dev")),
}


def load_anew(graph: Graph) -> None:
    graph.load([node("Person", name="new")], LoadMode.APPEND, branch="loaded", source="main")


def die_and_recover(graph: Graph) -> None:
    for step in ("write.after_a", "write.table_committed.1", "write.after_b", "write.published"):
        die_here(lambda step=step: graph.change(f'query q() {{ insert Company {{ name: "{step}" }} }}'), step)
        graph.prepare_for_writing(patient=True)


WANTED = (
    PEOPLE.replace("age: I32?", 'age: I32?\n  nick: String @default("x")')
    + "node City { name: String @key }\n"
)


CONTENT: dict[str, Step] = {
    "create": lambda graph: graph.create_branch("dev"),
    "write": write_everywhere,
    "load --from": load_anew,
    "merge": lambda graph: graph.merge("dev"),
    "revert": lambda graph: graph.revert("main"),
    "reset": lambda graph: graph.reset_branch("dev", "main"),
    "recovery": die_and_recover,
    "schema apply": lambda graph: graph.apply_schema(WANTED),
    "merge schemas": lambda graph: graph.merge("main", "dev"),
    "optimize": lambda graph: graph.optimize("main"),
}


@pytest.mark.parametrize(
    "steps", [REFS, pytest.param(CONTENT, marks=pytest.mark.soak)], ids=["refs", "content"]
)
def test_what_others_may_have_replaced_is_changed_right_after_a_look_at_the_lease(
    steps: dict[str, Step], proxy: FaultProxy, settings: Settings, s3_location: Callable[[], str]
) -> None:
    place = s3_location()
    blind = blind_requests(proxy, "init", lambda: Graph.init(place, PEOPLE, settings))
    for name, step in steps.items():
        graph = open_graph(place, settings)
        blind += blind_requests(proxy, name, lambda graph=graph, step=step: step(graph))
    assert blind == []


def blind_requests(proxy: FaultProxy, name: str, act: Callable[[], object]) -> list[str]:
    """The requests of an act that change something by name, unasked and unconditionally."""
    before = len(proxy.requests)
    act()
    found, has_looked = [], False
    for request in proxy.requests[before:]:
        if request.operation in ("GET", "HEAD", "LIST"):
            has_looked = IS_LEASE in request.path
        elif IS_LEASE not in request.path:  # Leases are renewed beside everything.
            if not (has_looked or request.is_conditional or all(map(OWN_NAME.search, request.paths))):
                found.append(f"{name}: {request.operation} {request.path}")
            has_looked = False
    return found
