"""The files that a schema apply writes: on record while it is at work, swept when it is dead."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings
from tests.support.migrations import HARD, WANTED, exported, make_graph
from tests.support.paused import Paused, started
from tests.support.processes import REPOSITORY
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")
SECRET = "a town that nobody may read about"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_graph(tmp_path / "g")
    return tmp_path / "g"


def opened(root: Path) -> Graph:
    return Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)


def data_files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*.lance") if path.is_file() and path.parts[-4] != "__manifest"}


@contextmanager
def applying(root: Path, branch: str, armed: str, kind: str = "columns") -> Iterator[Paused]:
    command = [sys.executable, "-m", "tests.support.migrations", str(root), branch, kind]
    with started(command, cwd=REPOSITORY, stop_at=armed, OMNIGRAPH_FSYNC="off") as process:
        yield process


def staged(root: Path, before: set[Path]) -> set[Path]:
    return {path for path in data_files(root) - before if path.is_relative_to(root / "nodes")}


@pytest.mark.parametrize("branch", ["main", "dev"])
@pytest.mark.parametrize("step", ["schema.file_written", "schema.staged", "write.before_a", "write.after_a"])
def test_a_dead_apply_is_swept_and_a_live_one_is_not(step: str, branch: str, root: Path) -> None:
    before, rows = data_files(root), exported(opened(root), branch)
    with applying(root, branch, step) as process:
        process.until_stopped()
        written = staged(root, before)
        assert written
        opened(root)
        assert written <= data_files(root)
        process.kill()
    graph = opened(root)
    assert not staged(root, before)
    assert list((root / "__staging").iterdir()) == []
    assert exported(graph, branch) == rows
    assert graph.apply_schema(WANTED["columns"], branch=branch).applied
    check_whole(opened(root))


def test_a_live_apply_goes_on_beside_a_sweep(root: Path) -> None:
    with applying(root, "main", "schema.staged") as process:
        process.until_stopped()
        opened(root)
        process.go_on()
        assert process.ended().code == 0
    assert list((root / "__staging").iterdir()) == []
    assert any('"status":"new"' in row for row in exported(opened(root)))


@pytest.mark.parametrize("step", ["schema.file_written", "schema.staged", "write.before_a"])
def test_an_apply_that_fails_leaves_nothing(step: str, root: Path) -> None:
    before = data_files(root)
    with applying(root, "main", f"{step}=error") as process:
        assert process.ended().code == 1
    assert data_files(root) == before
    assert list((root / "__staging").iterdir()) == []


# ---- dropped for good ----


def secrets(root: Path) -> list[Path]:
    return [
        path
        for path in sorted((root / "nodes").rglob("*"))
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_what_is_dropped_for_good_is_gone_with_the_commits_that_had_it(branch: str, root: Path) -> None:
    """The commit that drops it has no byte of it, so it need not go itself; nor does anything else."""
    graph, other = opened(root), "dev" if branch == "main" else "main"
    secret = f'insert Person {{ name: "eve", city: "{SECRET}" }} insert Company {{ name: "firm" }}'
    graph.change(f"query add() {{ {secret} }}", branch=branch)
    assert len(secrets(root)) == 1
    graph.apply_schema(WANTED[HARD], branch=branch, allow_data_loss=True)
    rows, apart = exported(graph, branch), exported(graph, other)
    assert len(secrets(root)) == 1
    graph.cleanup(keep=1, grace_s=0, force=True)
    assert secrets(root) == []
    graph = opened(root)
    assert (exported(graph, branch), exported(graph, other)) == (rows, apart)
    assert any("Rome" in row for row in apart), "the other branch keeps what it has"
    check_whole(graph)
