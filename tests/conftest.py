"""Fixtures every kind of test may use."""

from __future__ import annotations

import compileall
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omnigraph_core import faults
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support import warm
from tests.support.examples import make_them_the_same
from tests.support.processes import NOBODY, OMNIGRAPH, REPOSITORY, Finished, Omnigraph, clean_environment
from tests.support.records import PEOPLE

pytest_plugins = ["tests.support.s3server"]

ANN = Settings(fsync=False, actor="ann")

make_them_the_same()

# Where Python is told to write no bytecode, pytest would not keep what it makes of the tests' modules either:
# every worker of every run, and every run with a planted bug, would read them all again.
sys.dont_write_bytecode = False

# A shell ignores Ctrl-C for what it starts in the background, and children inherit that: tests
# that interrupt them would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Compile the packages once: where Python is told to write no bytecode, every one of the
    thousands of commands that the tests start would compile all of it again."""
    if not hasattr(config, "workerinput"):
        for package in ("omnigraph_core", "omnigraph_cli"):
            compileall.compile_dir(REPOSITORY / package, quiet=2)


@pytest.fixture
def omnigraph(tmp_path: Path) -> Omnigraph:
    """Run `omnigraph` in a fresh directory, in a process that starts warm."""
    return functools.partial(_run_command, warm.run, tmp_path)


@pytest.fixture
def omnigraph_process(tmp_path: Path) -> Omnigraph:
    """Run the installed `omnigraph` in a fresh directory: for tests of its start, and of who starts it."""
    return functools.partial(_run_command, subprocess.run, tmp_path)


def _run_command(
    start: Callable[..., subprocess.CompletedProcess[bytes]],
    directory: Path,
    *arguments: str | Path,
    stdin: str = "",
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
    prefix: tuple[str, ...] = (),
) -> Finished:
    done = start(
        [*prefix, str(OMNIGRAPH), *map(str, arguments)],
        cwd=cwd or directory,
        input=stdin.encode(),
        env=clean_environment(**(environment or {})),
        capture_output=True,
        timeout=600,
        check=False,
    )
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A schema file."""
    path = tmp_path / "people.pg"
    path.write_text(PEOPLE)
    return path


@pytest.fixture(scope="session")
def _new_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("new") / "g"
    Graph.init(str(root), PEOPLE, ANN)
    return root


@pytest.fixture
def graph(_new_graph: Path, tmp_path: Path) -> Graph:
    """A graph without rows, of the types of `PEOPLE`. Modules that start from more override it."""
    shutil.copytree(_new_graph, tmp_path / "g")
    return Graph.open(str(tmp_path / "g"), ANN)


@pytest.fixture
def reachable_path() -> Iterator[Path]:
    """A directory that every user can reach, which is not so of pytest's own."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    probe = subprocess.run([*NOBODY, "ls", str(made)], check=False)
    if probe.returncode:
        pytest.skip("other users cannot reach the directory of the tests")
    yield made
    shutil.rmtree(made)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a test that is not about syncing: nothing from this machine's environment."""
    return Settings(fsync=False, actor="tester", working_directory=tmp_path)


@pytest.fixture(autouse=True)
def _no_failpoints() -> Iterator[None]:
    yield
    faults.arm("")


# Tests that kill, cut short, pause or race writers, or compare them with a model.
HARD_ON_GRAPHS = {"crash", "concurrent", "model"}


@pytest.fixture(autouse=True)
def _doctor_is_asked(request: pytest.FixtureRequest) -> Iterator[None]:
    """They end with a doctor that finds nothing to do, unless they are marked `forged`: those make what
    no command makes, and doctor would name it. With a planted bug (tests/planted) a test has to notice
    by itself what doctor might see first."""
    is_forged = "PLANTED_BUG" in os.environ or request.node.get_closest_marker("forged")
    if is_forged or request.path.parent.name not in HARD_ON_GRAPHS:
        yield
        return
    from tests.support.writers import asks_doctor

    token = asks_doctor.set(True)
    yield
    asks_doctor.reset(token)
