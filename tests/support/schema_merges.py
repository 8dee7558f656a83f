"""Merges, reverts and resets that change the schema of their branch, to be killed.

Runnable: `python -m tests.support.schema_merges ROOT VERB` does one of `VERBS`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.merge.run import Merged
from omnigraph_core.settings import Settings, load_settings

VERBS = ("merge", "merge into a branch", "revert", "reset")

BASE = """
node P { k: String @key  age: I32?  tag: String  note: String? }
node Q { k: String @key }
node Old { k: String @key }
edge E: P -> Q { w: F32? }
"""
THEIRS = """
node P { k: String @key  age: I64?  label: String @rename_from("tag")  more: I32 @default(7)  note: String? }
node Z @rename_from("Q") { k: String @key }
node R { k: String @key }
edge E: P -> Z { w: F32? }
edge F: R -> P
"""


def make_graph(root: Path) -> Graph:
    """dev has changed columns, names and types, and rows of all; main has changed rows and a rule.

    old is dev as it was right after its schema was changed.
    """
    graph = Graph.init(str(root), BASE, Settings(fsync=False, actor="ann"))
    people = " ".join(f'insert P {{ k: "{k}", age: {i}, tag: "t{k}" }}' for i, k in enumerate("abc"))
    graph.change(
        f'query q() {{ {people} insert Q {{ k: "q" }} insert Old {{ k: "o" }}'
        ' insert E { from: "a", to: "q", w: 1.5 } }'
    )
    graph.create_branch("dev")
    graph.apply_schema(THEIRS, branch="dev")
    graph.create_branch("old", "dev")
    graph.change(
        'query q() { insert R { k: "r" } insert F { from: "r", to: "a" } insert P { k: "d", label: "td" } }',
        branch="dev",
    )
    graph.change('query q() { update P set { more: 8, label: "x" } where k = "b" }', branch="dev")
    graph.change('query q() { insert P { k: "m", tag: "tm" } insert E { from: "m", to: "q" } }')
    graph.change('query q() { delete P where k = "c" }')
    graph.apply_schema(BASE.replace("note: String?", "note: String? @index"))
    return graph


def target_of(verb: str) -> str:
    return {"merge into a branch": "dev", "revert": "old"}.get(verb, "main")


def do(graph: Graph, verb: str) -> Merged:
    if verb == "merge":
        return graph.merge("dev")
    if verb == "merge into a branch":
        return graph.merge("main", "dev")
    return graph.revert("dev~2", "old") if verb == "revert" else graph.reset_branch("main", "dev")


def main() -> None:
    root, verb = sys.argv[1:]
    do(Graph.open(root, load_settings(), OpenMode.READ_WRITE), verb)


if __name__ == "__main__":
    main()
