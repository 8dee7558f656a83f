"""More programs that are recorded for power cuts: names, tags, undo, and the verbs that change no row."""

from __future__ import annotations

import json
from pathlib import Path

from omnigraph_core.graph import Graph, OpenMode
from tests.support.power_cut_programs import (
    ADD,
    CONTROL,
    PROGRAMS,
    TABLE_VERSIONS,
    Program,
    Rows,
    Step,
    World,
    acknowledge,
    main_is,
    quick,
    rows_of,
    with_branch,
    with_two_sides,
)

TAG = "tag:v1"
HOPS = "query q() { match { $p: Person  $p knows $q } return { $p.name, $q.name } }"


# ---- what is there before ----


def tagged(home: Path) -> None:
    with_branch(home)
    Graph.open(str(home / "g"), quick(home)).create_tag("v1", "main")


def scattered(home: Path) -> None:
    """Rows in several fragments, some of them deleted."""
    with_two_sides(home)
    graph = Graph.open(str(home / "g"), quick(home))
    for name in ("eve", "fay", "gus"):
        graph.change(ADD, params={"n": name})
    graph.change('query q() { delete Person where name = "fay" }')


# ---- what is done ----


def tag(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    graph.create_tag("v1", "main")
    acknowledge(said, "done")


def untag(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    graph.delete_tag("v1")
    acknowledge(said, "done")


def rename(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    graph.rename_branch("dev", "called")
    acknowledge(said, "done")


def undo(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    graph.undo(actor="by-undo")
    head = graph.head("main")
    assert head is not None
    acknowledge(said, "done", (head.commit_id, "by-undo", "main"))


def optimize(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    graph.optimize()
    acknowledge(said, "done")


def cleanup(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    graph.cleanup(keep=1, grace_s=0, force=True)
    acknowledge(said, "done")


def index(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    assert any(each.is_new for each in graph.build_topology())
    acknowledge(said, "done")


def index_again(home: Path) -> None:
    """Hops are answered as the table says, with whatever is left of the index, and with a whole one."""
    graph = Graph.open(str(home / "g"), quick(home), OpenMode.READ_WRITE)
    edges = [json.loads(line) for line in b"".join(graph.export(types=["Knows"])).splitlines()]
    wanted = sorted((each["from"], each["to"]) for each in edges)
    for _ in range(2):
        fresh = Graph.open(str(home / "g"), quick(home), OpenMode.READ_WRITE)
        rows = fresh.query(HOPS).to_pylist()
        assert sorted((row["p.name"], row["q.name"]) for row in rows) == wanted
        fresh.build_topology()


def optimize_again(home: Path) -> None:
    Graph.open(str(home / "g"), quick(home), OpenMode.READ_WRITE).optimize()


def clean_up_again(home: Path) -> None:
    graph = Graph.open(str(home / "g"), quick(home), OpenMode.READ_WRITE)
    graph.cleanup(keep=1, grace_s=0, force=True)


# ---- what may be found ----


def _called(world: World) -> World:
    return {("called" if name == "dev" else name): rows for name, rows in world.items()}


def _tagged(world: World) -> World:
    return {**world, TAG: world["main"]}


def _untagged(world: World) -> World:
    return {name: rows for name, rows in world.items() if name != TAG}


def _without_dee(world: World) -> Rows:
    return world["main"] - rows_of("dee")


ALL = PROGRAMS | {
    program.name: program
    for program in (
        Program("tag create", with_branch, tag, (Step("done", _tagged),), matters=("__tags",), least=1),
        Program(
            "tag delete",
            tagged,
            untag,
            (Step("done", _untagged),),
            matters=("__tags", "__operations"),
            least=1,
            is_long=True,
        ),
        Program(
            "branch rename",
            with_branch,
            rename,
            (Step("done", _called),),
            "dev",
            matters=("__names", "__operations"),
            least=1,
            is_long=True,
        ),
        Program(
            "undo",
            with_two_sides,
            undo,
            (main_is(_without_dee),),
            matters=(TABLE_VERSIONS,),
            least=2,
            is_long=True,
        ),
        Program(
            "optimize",
            scattered,
            optimize,
            (),
            matters=(TABLE_VERSIONS, CONTROL),
            least=2,
            again=optimize_again,
            is_long=True,
        ),
        Program("index build", scattered, index, (), matters=("__topology",), least=1, again=index_again),
        Program(
            "cleanup", scattered, cleanup, (), matters=("__cleanup", "unlink "), least=1, again=clean_up_again
        ),
    )
}
