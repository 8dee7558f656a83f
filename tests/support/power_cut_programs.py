"""What is recorded for power cuts: programs that change a graph, and say what they have promised.

Runnable: `python -m tests.support.power_cut_programs NAME HOME SAID` does what the program
NAME does, to the graph in HOME, with syncing as the environment says. When something has
been acknowledged, a file in SAID names it, with the commits that everybody may rely on
from then on. It is made after the last operation that the acknowledgement waits for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph_core import layout
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.history.recoveries import RECOVERY_ACTOR
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.manifest.branch import MAIN
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.schema import compile_schema
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.commit import commit_exact
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.limits import FOLD_FRAGMENTS, FRAGMENTS_MAX
from omnigraph_core.tables.torn import set_aside_torn
from tests.support.records import PEOPLE

# A person and an edge: two tables in one commit.
ADD = "query add($n: String) { insert Person { name: $n } insert Knows { from: $n, to: $n } }"

# Every kind of file that an apply writes: filled and widened columns, a new table, the schema's own.
EVOLVED = (
    PEOPLE.replace("age: I32?", 'years: I64? @rename_from("age")  mood: String @default("fine")')
    + "node Team { name: String @key }\n"
)
EVOLVED_SCHEMA = compile_schema(EVOLVED, "evolved.pg")

Rows = frozenset[tuple[str, ...]]
World = Mapping[str, Rows]
"""What a reader can see: of every branch its rows. No branch at all: no graph."""


def rows_of(name: str) -> Rows:
    """What `ADD` adds."""
    return frozenset({("Person", name), ("Knows", name, name)})


@dataclass(frozen=True)
class Step:
    """Something that has happened wholly or not at all."""

    name: str
    apply: Callable[[World], World]


@dataclass(frozen=True)
class Program:
    """`steps` are what may be found done; `run` acknowledges them by their names."""

    name: str
    prepare: Callable[[Path], None]
    run: Callable[[Graph | None, Path, Path], None]
    steps: tuple[Step, ...]
    contested: str = "new"
    """The branch that it makes or deletes: it must be possible to do so afterwards."""
    in_between: tuple[Step, ...] = field(default=())
    """What readers may see until the next write cleans up."""
    matters: tuple[str, ...] = ()
    """Patterns of what the normal run loses one at a time."""
    least: int = 0
    """Of how many things there must be at least, if the program does what it is for."""
    again: Callable[[Path], None] = lambda home: None
    """What must be possible in the end, whatever came of it."""
    is_long: bool = False
    """Cut in `make soak` alone."""


def acknowledge(said: Path, step: str, *commits: tuple[str | None, str | None, str]) -> None:
    """Commits are given by id, actor and branch."""
    facts_of(said, step).write_text(json.dumps(commits))
    os.close(os.open(said / step, os.O_CREAT | os.O_EXCL))


def facts_of(said: Path, step: str) -> Path:
    return said.parent / f"{step}.json"


def adding(branch: str, name: str) -> Step:
    return Step(name, lambda world: {**world, branch: world[branch] | rows_of(name)})


def making(branch: str, rows: Rows = frozenset(), name: str = "done") -> Step:
    return Step(name, lambda world: {**world, branch: world["main"] | rows})


EVOLVED_ROWS: Rows = frozenset({("schema", "evolved")})


def evolving(branch: str) -> Step:
    return Step("done", lambda world: {**world, branch: world[branch] | EVOLVED_ROWS})


def quick(home: Path, actor: str = "ann") -> Settings:
    return Settings(fsync=False, actor=actor, working_directory=home.parent)


# ---- what is there before ----


def nothing(home: Path) -> None:
    home.mkdir()


def small(home: Path) -> None:
    """Two commits on main, and a branch that was never written to."""
    home.mkdir()
    graph = Graph.init(str(home / "g"), PEOPLE, quick(home))
    for name in ("ada", "bob"):
        graph.change(ADD, params={"n": name})
    graph.create_branch("dev")


def with_branch(home: Path) -> None:
    """The branch has forks of its own."""
    small(home)
    graph = Graph.open(str(home / "g"), quick(home))
    graph.change(ADD, params={"n": "cy"}, branch="dev")


def with_two_sides(home: Path) -> None:
    """The branch and main have both moved on."""
    with_branch(home)
    Graph.open(str(home / "g"), quick(home)).change(ADD, params={"n": "dee"})


def with_deleted_branch(home: Path) -> None:
    with_branch(home)
    Graph.open(str(home / "g"), quick(home)).delete_branch("dev")


def about_to_fold(home: Path) -> None:
    """As many small fragments as can be without one more write folding them."""
    small(home)
    graph = Graph.open(str(home / "g"), quick(home))
    for number in range(FOLD_FRAGMENTS - 2):
        graph.change(ADD, params={"n": f"p{number}"})


def about_to_compact(home: Path) -> None:
    """As many fragments in the manifest and in the history as can be without a rewrite.

    Each commit has added one, `init` as well.
    """
    small(home)
    graph = Graph.open(str(home / "g"), quick(home))
    for number in range(FRAGMENTS_MAX - 3):
        graph.change(ADD, params={"n": f"p{number}"})


# ---- what is done ----


def add(graph: Graph | None, branch: str, name: str) -> tuple[str | None, str, str]:
    assert graph is not None
    done = graph.change(ADD, params={"n": name}, branch=branch, actor=f"by-{name}")
    assert done.commit_id is not None
    return done.commit_id, f"by-{name}", branch


def write_main(graph: Graph | None, home: Path, said: Path) -> None:
    acknowledge(said, "second", add(graph, "main", "second"))


def write_branch(graph: Graph | None, home: Path, said: Path) -> None:
    acknowledge(said, "second", add(graph, "dev", "second"))


def create(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    graph.create_branch("new")
    acknowledge(said, "done")


def delete(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    graph.delete_branch("dev")
    acknowledge(said, "done")


def merge(graph: Graph | None, home: Path, said: Path) -> None:
    """The merged commit belongs to the history of main from then on."""
    assert graph is not None
    tip = graph.head("dev")
    assert tip is not None
    made = graph.merge("dev", actor="by-merge")
    acknowledge(said, "done", (made.commit_id, "by-merge", "main"), (tip.commit_id, "ann", "main"))


def revert(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    made = graph.revert("main", actor="by-revert")
    acknowledge(said, "done", (made.commit_id, "by-revert", "main"))


def reset(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    made = graph.reset_branch("main", "dev", actor="by-reset")
    acknowledge(said, "done", (made.commit_id, "by-reset", "main"))


def undelete(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    graph.undelete_branch("dev")
    acknowledge(said, "done")


def load_into_new(graph: Graph | None, home: Path, said: Path) -> None:
    assert graph is not None
    records = said.parent / "records.jsonl"
    edge = {"edge": "Knows", "from": "second", "to": "second"}
    lines = [{"type": "Person", "data": {"name": "second"}}, edge]
    records.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = graph.load([str(records)], LoadMode.APPEND, branch="new", source="main", actor="by-second")
    acknowledge(said, "done", (done.commit_id, "by-second", "new"))


def initialise(graph: Graph | None, home: Path, said: Path) -> None:
    made = Graph.init(str(home / "g"), PEOPLE, load_settings(), actor="by-init")
    head = made.head()
    acknowledge(said, "done", (head.commit_id if head else None, "by-init", "main"))


def apply_to(branch: str) -> Callable[[Graph | None, Path, Path], None]:
    def run(graph: Graph | None, home: Path, said: Path) -> None:
        assert graph is not None
        done = graph.apply_schema(EVOLVED, branch=branch, actor="by-apply")
        acknowledge(said, "done", (done.commit_id, "by-apply", branch))

    return run


def apply_again(branch: str) -> Callable[[Path], None]:
    """To the end, and with rows of the new type."""

    def again(home: Path) -> None:
        graph = Graph.open(str(home / "g"), quick(home), OpenMode.READ_WRITE)
        graph.apply_schema(EVOLVED, branch=branch)
        assert graph.catalog_of(branch=branch).source == EVOLVED
        assert graph.change('query q() { insert Team { name: "a" } }', branch=branch).commit_id

    return again


def recover(step: str) -> Callable[[Graph | None, Path, Path], None]:
    """A writer is killed and the next one clears up: the first recovery in the life of the graph."""

    def run(graph: Graph | None, home: Path, said: Path) -> None:
        killed = start("write main", home, said, f"{step}=kill")
        assert killed.wait() == -signal.SIGKILL
        graph = Graph.open(str(home / "g"), load_settings(), OpenMode.READ_WRITE)
        (recovery,) = graph.recoveries()
        acknowledge(said, "second", (recovery.graph_commit_id, RECOVERY_ACTOR, "main"))

    return run


def write_beside(graph: Graph | None, home: Path, said: Path) -> None:
    """While a writer on main pauses before its last barrier, one on a branch finishes, twice.

    Twice, because the head row of the branch remembers the actor of the last one anyway.
    """
    versions = home / "g" / layout.COMMITS / "_versions"
    before = len(list(versions.iterdir()))
    paused = start("write main", home, said, "history.commit_recorded=sleep:600000")
    try:
        while len(list(versions.iterdir())) == before:
            assert paused.poll() is None
            time.sleep(0.01)
        acknowledge(said, "beside", add(graph, "dev", "beside"))
        acknowledge(said, "again", add(graph, "dev", "again"))
    finally:
        paused.kill()
        paused.wait()


def start(program: str, home: Path, said: Path, failpoints: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.support.power_cut_programs", program, str(home), str(said)]
    return subprocess.Popen(command, env={**os.environ, "OMNIGRAPH_FAILPOINTS": failpoints})


def without(branch: str) -> Step:
    return Step("done", lambda world: {name: rows for name, rows in world.items() if name != branch})


def main_is(change: Callable[[World], Rows]) -> Step:
    return Step("done", lambda world: {**world, "main": change(world)})


VERSIONS = r"/_versions/\d+\.manifest"
TABLE_VERSIONS = rf"bytes g/(nodes|edges)/[0-9a-f]+{VERSIONS}"
CONTROL = rf"bytes g/__manifest/(data/|{VERSIONS[1:]})"
FORK = rf"bytes g/(nodes|edges)/[0-9a-f]+/(_refs/branches/|tree/dev{VERSIONS})"
NEW_BRANCH = (rf"bytes g/\w+(\.lance)?/(_refs/branches/|tree/new{VERSIONS})", r"mkdir g/__manifest/tree/new$")
AUDIT = rf"bytes g/{layout.RECOVERIES}/(data/|{VERSIONS[1:]})"

PROGRAMS = {
    program.name: program
    for program in (
        Program(
            "write main", small, write_main, (adding("main", "second"),), matters=(TABLE_VERSIONS,), least=2
        ),
        Program(
            "fold", about_to_fold, write_main, (adding("main", "second"),), matters=(TABLE_VERSIONS,), least=4
        ),
        Program(
            "compact", about_to_compact, write_main, (adding("main", "second"),), matters=(CONTROL,), least=4
        ),
        Program("fork", small, write_branch, (adding("dev", "second"),), "dev", matters=(FORK,), least=4),
        Program("branch create", small, create, (making("new"),), matters=NEW_BRANCH, least=5),
        Program(
            "branch delete",
            with_branch,
            delete,
            (without("dev"),),
            "dev",
            matters=("unlink .*/_refs/", "__deleted"),
            least=1,
        ),
        Program(
            "merge",
            with_two_sides,
            merge,
            (main_is(lambda world: world["main"] | rows_of("cy")),),
            matters=(rf"bytes g/{layout.COMMITS}/(data/|{VERSIONS[1:]})", TABLE_VERSIONS),
            least=4,
        ),
        Program(
            "revert",
            with_two_sides,
            revert,
            (main_is(lambda world: world["main"] - rows_of("dee")),),
            matters=(TABLE_VERSIONS,),
            least=2,
            is_long=True,
        ),
        Program(
            "reset",
            with_two_sides,
            reset,
            (main_is(lambda world: world["dev"]),),
            matters=(TABLE_VERSIONS,),
            least=2,
            is_long=True,
        ),
        Program(
            "branch undelete",
            with_deleted_branch,
            undelete,
            (making("dev", rows_of("cy")),),
            "dev",
            matters=("/_refs/", "__deleted"),
            least=1,
        ),
        Program(
            "load --from",
            small,
            load_into_new,
            (making("new", rows_of("second")),),
            in_between=(making("new", name="made"),),
            matters=NEW_BRANCH,
            least=5,
        ),
        Program(
            "roll forward",
            small,
            recover("write.table_committed.2"),
            (adding("main", "second"),),
            matters=(AUDIT, TABLE_VERSIONS),
            least=4,
        ),
        Program(
            "complete",
            small,
            recover("history.commit_recorded"),
            (adding("main", "second"),),
            matters=(AUDIT, CONTROL),
            least=4,
        ),
        Program("roll back", small, recover("write.table_committed.1"), (), matters=(AUDIT,), least=2),
        Program(
            "two writers",
            with_branch,
            write_beside,
            (adding("main", "second"), adding("dev", "beside"), adding("dev", "again")),
            "dev",
            matters=(rf"bytes g/{layout.COMMIT_ACTORS}/(data/|{VERSIONS[1:]})",),
            least=4,
        ),
        Program(
            "schema apply",
            small,
            apply_to("main"),
            (evolving("main"),),
            matters=(r"bytes g/_*schema", rf"bytes g/nodes/[0-9a-f]+(/data/|{VERSIONS})"),
            least=4,
            again=apply_again("main"),
        ),
        Program(
            "schema apply on a branch",
            with_branch,
            apply_to("dev"),
            (evolving("dev"),),
            "dev",
            matters=(r"bytes g/_*schema", rf"bytes g/nodes/[0-9a-f]+/(tree/dev/)?(data/|{VERSIONS[1:]})"),
            least=4,
            again=apply_again("main"),
            is_long=True,
        ),
        Program("init", nothing, initialise, (Step("done", lambda world: {"main": frozenset()}),)),
    )
}


def main() -> None:
    from tests.support.power_cut_upkeep import ALL

    name, home, said = sys.argv[1:]
    place = Path(home, "g")
    opens = name not in ("init", "roll forward", "complete", "roll back")
    graph = Graph.open(str(place), load_settings(), OpenMode.READ_WRITE) if opens else None
    ALL[name].run(graph, Path(home), Path(said))


if __name__ == "__main__":
    main()


def publish_people(root: Path, *, fsync: bool, name: str) -> None:
    """Add a person and an acquaintance, and publish both at once."""
    import pyarrow as pa

    from omnigraph_core.manifest.request import Publish, Update
    from omnigraph_core.manifest.rows import VersionMetadata
    from omnigraph_core.tables.durability import manifest_path, sync_manifests, sync_staged
    from omnigraph_core.tables.stage import stage_append
    from tests.support.graphs import head

    storage = open_storage(parse_location(str(root), root), Settings(fsync=fsync))
    tables = Tables(storage)
    manifest = Manifest(tables)
    snapshot = manifest.snapshot()
    assert snapshot.head is not None
    rows = {
        "node:Person": {"id": [name], "name": [name], "age": [7]},
        "edge:Knows": {"id": [f"{name}-{name}"], "src": [name], "dst": [name], "since": [None]},
    }
    staged = []
    for key, columns in rows.items():
        entry = snapshot.entry(key)
        table = tables.open(entry.ref, entry.table_version)
        set_aside_torn(tables, entry.ref, entry.table_version, lambda: None)
        data = pa.table([columns[each.name] for each in table.schema], schema=table.schema)
        staged.append(stage_append(storage, table, data, f"publish-{name}"))
    sync_staged(storage, staged)
    committed = [commit_exact(tables, write, lambda: None) for write in staged]
    sync_manifests(tables, committed)
    updates = [
        Update(
            table.ref.key,
            table.version,
            None,
            table.count_rows(),
            VersionMetadata(manifest_path(table.ref, table.version)),
        )
        for table in committed
    ]
    expected = {key: snapshot.entry(key).table_version for key in rows}
    request = Publish(
        MAIN, head(name), updates=updates, expected_versions=expected, expected_head=snapshot.head.commit_id
    )
    Publisher(manifest).publish(request, lambda: None)
