"""A load of many rows over five tables dies anywhere: afterwards all of it is there, or nothing."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from omnigraph_core.storage.control import TEMPORARY_PREFIX
from tests.support import warm
from tests.support.door_steps import STEPS as THREE_TABLE_STEPS
from tests.support.paused import started
from tests.support.processes import OMNIGRAPH, Finished, clean_environment
from tests.support.writers import check_whole, open_graph

SETTINGS = Settings(fsync=False, actor="ann")
SCHEMA = """
node Person { name: String @key age: I32? }
node Company { name: String @key }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company @card(0..1)
"""
TABLES = 5
ROWS = 60_000
MODES = ("append", "merge", "overwrite")
MOMENTS = 10
CONFLICT, INTERRUPTED = 3, 130

# The process starts with Ctrl-C as a terminal would give it, however pytest was started.


def records(rows: int, prefix: str, age: int) -> Iterator[str]:
    """Lines of a load, ids given; the nodes are named by `prefix` and their number."""
    people, others = rows // 4, rows // 8
    for n in range(people):
        yield f'{{"type":"Person","data":{{"name":"{prefix}{n}","age":{n % age}}}}}\n'
    for n in range(others):
        yield f'{{"type":"Company","data":{{"name":"{prefix}c{n}"}}}}\n'
        yield f'{{"type":"Note","data":{{"id":"{prefix}n{n}","text":"note {n}"}}}}\n'
    for n in range(people):
        start, known, company = f"{prefix}{n}", f"{prefix}{(n * 7 + 1) % people}", f"{prefix}c{n % others}"
        yield f'{{"edge":"Knows","from":"{start}","to":"{known}","data":{{"id":"{prefix}k{n}"}}}}\n'
        yield f'{{"edge":"WorksAt","from":"{start}","to":"{company}","data":{{"id":"{prefix}w{n}"}}}}\n'


@dataclass(frozen=True)
class Unharmed:
    """A load that nobody killed: what it leaves, and the seconds it takes."""

    after: bytes
    seconds: float


class Scene:
    """A graph with some rows, the input of each mode, and what becomes of them."""

    def __init__(self, here: Path, rows: int) -> None:
        self.here = here
        self.template = here / "template"
        self._write("base.jsonl", 4_000, "p", 7)
        # To append, all is new; to merge and overwrite, a part is there already with other values.
        self._write("append.jsonl", rows, "x", 90)
        self._write("merge.jsonl", rows, "p", 90)
        graph = Graph.init(str(self.template), SCHEMA, SETTINGS)
        graph.load([str(here / "base.jsonl")], LoadMode.APPEND)
        self.before = exported(graph)
        self.unharmed = cache(self._unharmed)

    def _write(self, name: str, rows: int, prefix: str, age: int) -> None:
        (self.here / name).write_text("".join(records(rows, prefix, age)))

    def copy(self, place: Path) -> Path:
        shutil.copytree(self.template, place)
        return place

    def command(self, root: Path, mode: str, *more: str) -> list[str]:
        data = self.here / ("append.jsonl" if mode == "append" else "merge.jsonl")
        return [str(OMNIGRAPH), "load", str(root), "--data", str(data), "--mode", mode, *more]

    def load(self, root: Path, mode: str, *more: str, failpoint: str = "") -> Finished:
        done = warm.run(
            self.command(root, mode, *more),
            env=clean_environment(OMNIGRAPH_FAILPOINTS=failpoint),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def _unharmed(self, mode: str) -> Unharmed:
        root = self.copy(self.here / f"unharmed-{mode}")
        started = time.monotonic()
        done = self.load(root, mode)
        seconds = time.monotonic() - started
        assert done.code == 0, done.err
        return Unharmed(exported(open_graph(root, SETTINGS)), seconds)


def exported(graph: Graph, branch: str = "main") -> bytes:
    return b"".join(graph.export(branch=branch))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("load"), ROWS)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """For deaths at a step, where the number of rows does not matter."""
    return Scene(tmp_path_factory.mktemp("small"), 2_000)


def left_over(root: Path) -> list[str]:
    """Sidecars and staging records; a file that never got its name is neither."""
    folders = (root / layout.RECOVERY_DIR, root / layout.STAGING_DIR)
    names = [path.name for folder in folders for path in folder.glob("*")]
    return [name for name in names if not name.startswith(TEMPORARY_PREFIX)]


def check_whole_or_nothing(scene: Scene, root: Path, mode: str) -> bool:
    """One read-write open settles it; then the same load again. Was the load there?"""
    graph = open_graph(root, SETTINGS)
    assert left_over(root) == []
    check_whole(graph)
    found, after = exported(graph), scene.unharmed(mode).after
    assert found in (scene.before, after)
    again = scene.load(root, mode)
    assert again.code == (CONFLICT if mode == "append" and found == after else 0), again.err
    graph = open_graph(root, SETTINGS)
    assert exported(graph) == after
    check_whole(graph)
    return found == after


def moments(mode: str) -> list[float]:
    """Parts of a load's time, one in each tenth."""
    chance = random.Random(f"load {mode}")
    return [(number + chance.random()) / MOMENTS for number in range(MOMENTS)]


def some_of(cases: list[tuple[str, str]]) -> list[object]:
    """Each case with the modes in turn; the other modes when there is time."""
    return [
        pytest.param(
            *case, marks=[] if number // len(MODES) % len(MODES) == MODES.index(case[1]) else pytest.mark.soak
        )
        for number, case in enumerate(cases)
    ]


RANDOM_DEATHS = [(str(number), mode) for number in range(MOMENTS) for mode in MODES]


@pytest.mark.parametrize(("moment", "mode"), some_of(RANDOM_DEATHS))
def test_killed_at_any_moment(moment: str, mode: str, scene: Scene, tmp_path: Path) -> None:
    root = scene.copy(tmp_path / "g")
    patience = moments(mode)[int(moment)] * scene.unharmed(mode).seconds
    process = warm.Popen(
        scene.command(root, mode), env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
    _, said = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), said.decode()
    applied = check_whole_or_nothing(scene, root, mode)
    assert applied or process.returncode != 0


# Each step of the door, and whether the load is there afterwards.
STEPS = {
    step: outcome.applied and not step.startswith("write.table_committed.")
    for step, outcome in THREE_TABLE_STEPS.items()
} | {"write.table_committed.4": False, f"write.table_committed.{TABLES}": True}
DEATHS = [(step, mode) for step in STEPS for mode in MODES]


@pytest.mark.parametrize(("step", "mode"), some_of(DEATHS))
def test_killed_at_every_step(step: str, mode: str, small: Scene, tmp_path: Path) -> None:
    root = small.copy(tmp_path / "g")
    assert small.load(root, mode, failpoint=f"{step}=kill").code == -signal.SIGKILL
    assert check_whole_or_nothing(small, root, mode) is STEPS[step]


@pytest.mark.parametrize(
    ("step", "mode"), [("write.after_a", "merge"), ("write.table_committed.4", "append")]
)
def test_a_step_that_fails_is_settled_at_once(step: str, mode: str, small: Scene, tmp_path: Path) -> None:
    root = small.copy(tmp_path / "g")
    done = small.load(root, mode, failpoint=f"{step}=error")
    assert (done.code, "Traceback" in done.err) == (74, False)
    assert check_whole_or_nothing(small, root, mode) is STEPS[step]


# ---- Ctrl-C ----


class Interruptible:
    """A load in its own process that Ctrl-C reaches."""

    def __init__(self, command: list[str], stdin: int | None = subprocess.DEVNULL) -> None:
        self.process = warm.Popen(
            command, env=clean_environment(), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def interrupt(self) -> Finished:
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=240)
        return Finished(self.process.returncode, out.decode(), err.decode())


def said_nothing(done: Finished) -> bool:
    """Silent, apart from naming the graph before it began."""
    return done.out == "" and all(line.startswith("omnigraph load → ") for line in done.err.splitlines())


def test_ctrl_c_while_reading(scene: Scene, tmp_path: Path) -> None:
    """Half of the input has come, the rest never will."""
    root = scene.copy(tmp_path / "g")
    command = [str(OMNIGRAPH), "load", str(root), "--data", "-", "--mode", "append"]
    load = Interruptible(command, stdin=subprocess.PIPE)
    assert load.process.stdin is not None
    whole = (scene.here / "append.jsonl").read_bytes()
    half = whole[: len(whole) // 2]
    # A pipe holds 64 KiB: once all is written, nearly all has been read.
    load.process.stdin.write(half)
    load.process.stdin.flush()
    done = load.interrupt()
    assert (done.code, said_nothing(done)) == (INTERRUPTED, True), done
    assert not list((root / layout.STAGING_DIR).glob("*"))
    graph = open_graph(root, SETTINGS)
    assert exported(graph) == scene.before
    check_whole(graph)


@pytest.mark.parametrize("part", [0.5, 0.65, 0.8])
def test_ctrl_c_while_working(part: float, scene: Scene, tmp_path: Path) -> None:
    root = scene.copy(tmp_path / "g")
    load = Interruptible(scene.command(root, "merge"))
    try:
        load.process.wait(part * scene.unharmed("merge").seconds)
    except subprocess.TimeoutExpired:
        done = load.interrupt()
        assert done.code in (INTERRUPTED, 0), done
        assert not list((root / layout.STAGING_DIR).glob("*"))
        is_left = bool(list((root / layout.RECOVERY_DIR).glob("*")))
        applied = check_whole_or_nothing(scene, root, "merge")
        # It may be interrupted on its way out, with everything said and done. What it says of something
        # unfinished or made is true.
        is_unfinished, is_made = "not finished" in done.err, "is made;" in done.err
        assert is_left or not is_unfinished, done
        assert applied or not is_made, done
        assert applied or (done.code == INTERRUPTED and (is_unfinished or said_nothing(done))), done


def interrupted_at(step: str, command: list[str]) -> Finished:
    """Just there: where Lance calls back into Python, a Ctrl-C may be lost."""
    with started(command, stop_at=step) as load:
        load.until_stopped()
        load.process.send_signal(signal.SIGINT)
        load.go_on()
        return load.ended()


@pytest.mark.parametrize(
    ("step", "applied"),
    [("write.before_a", False), ("write.after_a", False), ("write.after_b", True), ("write.published", True)],
)
def test_ctrl_c_at_a_step(step: str, applied: bool, small: Scene, tmp_path: Path) -> None:
    """In the middle of the door; whatever is left half done, the next open settles."""
    root = small.copy(tmp_path / "g")
    done = interrupted_at(step, small.command(root, "merge"))
    assert (done.code, done.out) == (INTERRUPTED, ""), done
    told = [line for line in done.err.splitlines() if line.startswith("interrupted: ")]
    if not applied:
        assert said_nothing(done), done
    else:
        assert len(told) == 1, done
        assert ("is made" if step == "write.published" else "not finished") in told[0]
    assert not list((root / layout.STAGING_DIR).glob("*"))
    assert check_whole_or_nothing(small, root, "merge") is applied


# ---- a branch made for the load ----

FROM_STEPS = {
    "staging.recorded": False,
    "branch.twin_created": False,
    "branch.manifest_created": False,
    "branch.made_for_write": False,
    "tables.fork_created": False,
    "write.forked": False,
    "write.before_a": False,
    "write.after_a": False,
    "write.table_committed.1": False,
    f"write.table_committed.{TABLES}": True,
    "manifest.before_publish": True,
    "write.published": True,
    "write.after_d": True,
}


@pytest.mark.parametrize("step", FROM_STEPS)
def test_a_branch_stays_only_with_its_load(step: str, small: Scene, tmp_path: Path) -> None:
    root = small.copy(tmp_path / "g")
    to_branch = ("--branch", "nightly", "--from", "main")
    assert small.load(root, "merge", *to_branch, failpoint=f"{step}=kill").code == -signal.SIGKILL
    graph = open_graph(root, SETTINGS)
    assert graph.branches() == (["main", "nightly"] if FROM_STEPS[step] else ["main"])
    check_whole(graph)
    assert exported(graph) == small.before
    again = small.load(root, "merge", *to_branch)
    assert again.code == 0, again.err
    graph = open_graph(root, SETTINGS)
    assert exported(graph, "nightly") == small.unharmed("merge").after
    assert exported(graph) == small.before
    check_whole(graph)


def test_ctrl_c_leaves_no_branch(small: Scene, tmp_path: Path) -> None:
    root = small.copy(tmp_path / "g")
    command = small.command(root, "merge", "--branch", "nightly", "--from", "main")
    done = interrupted_at("branch.made_for_write", command)
    assert (done.code, said_nothing(done)) == (INTERRUPTED, True), done
    graph = open_graph(root, SETTINGS)
    assert graph.branches() == ["main"]
    check_whole(graph)


def test_fragments_of_a_load_that_died_are_deleted_by_the_next_writer(tmp_path: Path) -> None:
    """More than a fragment's worth, so that there is a record of what was written."""
    root, path = tmp_path / "g", tmp_path / "big.jsonl"
    Graph.init(str(root), "node N { k: String @key n: I32? }", SETTINGS)
    path.write_text("".join(f'{{"type":"N","data":{{"k":"k{n}","n":{n}}}}}\n' for n in range(260_000)))
    command = [OMNIGRAPH, "load", root, "--data", path, "--mode", "append"]
    environment = clean_environment(OMNIGRAPH_FSYNC="off", OMNIGRAPH_FAILPOINTS="load.fragment_written=kill")
    done = warm.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    data = next((root / "nodes").iterdir()) / "data"
    assert len(list(data.iterdir())) == 1
    assert len(list((root / "__staging").iterdir())) == 1
    graph = open_graph(root, SETTINGS)
    assert list(data.iterdir()) == []
    check_whole(graph)
    assert graph.load([str(path)], LoadMode.APPEND).total == 260_000
    check_whole(graph)
