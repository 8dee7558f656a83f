"""A schema apply beside long loads, optimize, cleanup and writers: real processes, paused and killed."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from omnigraph_core.errors import BusyError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings
from tests.support.migrations import WANTED, exported, load, make_graph
from tests.support.paused import Paused, go_on, started, stops
from tests.support.processes import REPOSITORY
from tests.support.records import PEOPLE
from tests.support.restarted import acknowledged, run_with_kills
from tests.support.sleepers import apply_another
from tests.support.source import failpoints
from tests.support.upkeep import SETTINGS as PATIENT
from tests.support.upkeep import process
from tests.support.writers import WRITTEN, check_audits, check_whole, content, open_graph

SETTINGS = Settings(fsync=False, actor="bob", lock_timeout_s=0.0)
OMNIGRAPH = (sys.executable, "-m", "omnigraph_cli")
ENVIRONMENT = {"PYTHONPATH": str(REPOSITORY), "OMNIGRAPH_FSYNC": "off", "OMNIGRAPH_ACTOR": "ann"}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With fragments to join, so that optimize has something to do, on main and on the branch."""
    root = tmp_path_factory.mktemp("template") / "g"
    graph = make_graph(root)
    for number in range(6):
        row: dict[str, object] = {"type": "Person", "data": {"name": f"p{number}", "age": number}}
        load(graph, root, [row])
        load(graph, root, [row], "dev")
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    shutil.copytree(template, tmp_path / "g")
    Graph.open(str(tmp_path / "g"), SETTINGS).relocate()
    for kind, text in WANTED.items():
        (tmp_path / f"{kind}.pg").write_text(text)
    return tmp_path / "g"


def opened(root: Path) -> Graph:
    return Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)


@contextmanager
def running(root: Path, *arguments: str, stop_at: str = "") -> Iterator[Paused]:
    command = (*OMNIGRAPH, *arguments)
    with started(command, cwd=root.parent, stop_at=stop_at, **ENVIRONMENT) as process:
        yield process


def line(name: str) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, "city": "Bern"}}) + "\n"


def test_a_load_that_reads_while_the_schema_changes_writes_nothing(root: Path) -> None:
    """Its records were read by the old one; on another branch nothing concerns it."""
    loading = ("load", "g", "--data", "-", "--mode", "append", "--branch")
    with running(root, *loading, "main") as outdated, running(root, *loading, "dev") as unconcerned:
        for process in (outdated, unconcerned):
            process.feed(line("early"))
        opened(root).apply_schema(WANTED["columns"])
        after = exported(opened(root))
        for process in (outdated, unconcerned):
            process.say(line("late"))
        done = outdated.ended()
        assert (done.code, "load them again" in done.err) == (3, True), done.err
        other = unconcerned.ended()
        assert other.code == 0, other.err
    graph = opened(root)
    assert exported(graph) == after
    assert len([row for row in exported(graph, "dev") if '"Bern"' in row]) == 2
    check_whole(graph)


@pytest.mark.parametrize("step", ["write.after_a", "write.after_b", "write.after_c"])
def test_an_apply_waits_for_a_load_that_publishes(step: str, root: Path) -> None:
    """Who does not want to wait is told who is at work; then it is applied to what was loaded."""
    (root.parent / "d.jsonl").write_text(line("first"))
    with running(root, "load", "g", "--data", "d.jsonl", "--mode", "append", stop_at=step) as loads:
        loads.until_stopped()
        apply = ("schema", "apply", "g", "--schema", "all together.pg")
        with running(root, *apply, "--lock-timeout", "0") as hasty:
            refused = hasty.ended()
        assert (refused.code, "ann" in refused.err) == (8, True), refused.err
        with running(root, *apply) as patient:
            loads.go_on()
            assert loads.ended().code == 0
            done = patient.ended()
            assert done.code == 0, done.err
    rows = exported(opened(root))
    assert len([row for row in rows if '"first"' in row and '"status":"new"' in row]) == 1
    check_whole(opened(root))


UPKEEP = {
    "optimize": ("optimize", "g"),
    "optimize of the branch": ("optimize", "g", "--branch", "dev"),
    "cleanup": ("cleanup", "g", "--keep", "1", "--force", "--yes", "--grace", "0s"),
}
APPLY = ("schema", "apply", "g", "--schema", "all together.pg")


@pytest.mark.parametrize("upkeep", UPKEEP)
def test_an_apply_while_upkeep_stands_still(upkeep: str, root: Path) -> None:
    """At every failpoint it comes to, as far as it lets others in."""
    branch = "dev" if "branch" in upkeep else "main"
    applied = places = 0
    with running(root, *UPKEEP[upkeep], stop_at=every_failpoint()) as process:
        while stops(process.process):
            places += 1
            with suppress(BusyError):
                apply_another(Graph.open(str(root), SETTINGS), branch, f"beside{places}")
                applied += 1
            go_on(process.process)
        done = process.ended()
    assert done.code in (0, 1, 3, 8), done.err
    assert places >= 3
    assert applied, "it was never let in"
    graph = opened(root)
    apply_another(graph, branch, "later")
    rows = [row for row in exported(graph, branch) if '"Person"' in row]
    assert len(rows) == 8 + (branch == "dev")
    assert all('"new_later":"asleep"' in row for row in rows)
    check_whole(graph)


@pytest.mark.parametrize("upkeep", UPKEEP)
def test_upkeep_while_an_apply_stands_still(upkeep: str, root: Path) -> None:
    """At failpoints of the apply. Upkeep leaves alone what is not at rest, and the apply lands."""
    branch = "dev" if "branch" in upkeep else "main"
    places = 0
    with running(root, *APPLY, "--branch", branch, stop_at=every_failpoint()) as process:
        while stops(process.process):
            places += 1
            if places % 3 == 0:
                with running(root, *UPKEEP[upkeep], "--lock-timeout", "0") as beside:
                    told = beside.ended()
                assert told.code in (0, 1, 8), (told.err, told.out)
            go_on(process.process)
        done = process.ended()
    assert done.code == 0, done.err
    assert places >= 10
    graph = opened(root)
    rows = [row for row in exported(graph, branch) if '"Person"' in row]
    assert len(rows) == 8 + (branch == "dev")
    assert all('"status":"new"' in row for row in rows)
    check_whole(graph)


def every_failpoint() -> str:
    """But for those inside of a replacement of one control object, where its folder is locked."""
    return ",".join(f"{name}=stop" for name in failpoints() if not name.startswith("control."))


# ---- all of them at once ----


def run_all(root: Path, count: int, kills: int, chance: random.Random) -> None:
    """Writers of rows, a loader, two that change the schema, one that optimizes; some are killed."""
    roles = {"w1": "write", "w2": "write", "l": "load", "s1": "apply", "s2": "apply", "k": "optimize"}
    everyone = [process(role, root, name, count) for name, role in roles.items()]
    run_with_kills(everyone, kills, chance)


@pytest.mark.parametrize(
    ("count", "kills"),
    [(3, 2), pytest.param(60, 60, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
)
def test_applies_beside_writers_that_are_killed(count: int, kills: int, tmp_path: Path) -> None:
    root = tmp_path / "g"
    Graph.init(str(root), PEOPLE, PATIENT)
    run_all(root, count, kills, random.Random(count))
    graph = open_graph(root, PATIENT)
    found = content(graph)
    for name in ("w1", "w2"):
        for key in acknowledged(tmp_path / f"{name}.journal"):
            assert all(key in found[table] for table in WRITTEN), f"an acknowledged write is lost: {key}"
    assert set(acknowledged(tmp_path / "l.journal")) <= found["node:Person"], "an acknowledged load is lost"
    schemas = [each.schema_hash for each in graph.log().history("main")]
    assert len(set(schemas)) > 2 * count, "the schema hardly changed"
    check_whole(graph)
    check_audits(graph)
