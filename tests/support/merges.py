"""Merges and reverts to be killed, on a graph with two branches that have both moved on.

Runnable: `python -m tests.support.merges ROOT VERB` does one of `VERBS`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.merge.run import Merged
from omnigraph_core.settings import Settings, load_settings
from tests.support.records import PEOPLE

VERBS = ("merge", "merge into a lazy branch", "empty merge", "revert", "reset")


def make_graph(root: Path) -> Graph:
    """dev and main have both changed three tables; lazy has none of its own; same did what main did."""
    graph = Graph.init(str(root), PEOPLE, Settings(fsync=False, actor="ann"))
    graph.change(
        'query q() { insert Person { name: "Ann", age: 1 } insert Person { name: "Bob", age: 1 }'
        ' insert Person { name: "Cy", age: 1 } insert Company { name: "Acme" }'
        ' insert WorksAt { from: "Ann", to: "Acme" } }'
    )
    for name in ("dev", "lazy", "same"):
        graph.create_branch(name)
    graph.change(
        'query q() { insert Person { name: "Dee" } insert Company { name: "Zeta" }'
        ' insert Knows { from: "Dee", to: "Ann" } }',
        branch="dev",
    )
    graph.change('query q() { delete Person where name = "Cy" }', branch="dev")
    graph.change('query q() { update Person set { age: 2 } where name = "Bob" }', branch="dev")
    for branch in ("main", "same"):
        graph.change('query q() { update Person set { age: 9 } where name = "Ann" }', branch=branch)
    graph.change('query q() { insert Company { name: "Last" } }')
    return graph


def target_of(verb: str) -> str:
    return "lazy" if verb == "merge into a lazy branch" else "main"


def do(graph: Graph, verb: str, head: str = "main") -> Merged:
    """`head` is where main was, for a verb that is done again after a recovery has added a commit."""
    if verb == "empty merge":
        return graph.merge("same")
    if verb.startswith("merge"):
        return graph.merge("dev", target_of(verb))
    return graph.revert(f"{head}~1") if verb == "revert" else graph.reset_branch("main", "dev")


def main() -> None:
    root, verb = sys.argv[1:]
    do(Graph.open(root, load_settings(), OpenMode.READ_WRITE), verb)


if __name__ == "__main__":
    main()
