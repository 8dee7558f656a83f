"""Fixtures every kind of test may use."""

from __future__ import annotations

import compileall
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph_core import faults
from omnigraph_core.settings import Settings

pytest_plugins = ["tests.s3server"]

# A shell ignores Ctrl-C for what it starts in the background, and children inherit that: tests
# that interrupt them would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).resolve().parent.parent
OMNIGRAPH = Path(sys.executable).with_name("omnigraph")


def pytest_configure(config: pytest.Config) -> None:
    """Compile the packages once: where Python is told to write no bytecode, every one of the
    thousands of commands that the tests start would compile all of it again."""
    if not hasattr(config, "workerinput"):
        for package in ("omnigraph_core", "omnigraph_cli"):
            compileall.compile_dir(REPOSITORY / package, quiet=2)


PEOPLE = """\
node Person {
  name: String @key
  age: I32?
}
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company @card(0..1)
"""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run of the installed command ended."""

    code: int
    out: str
    err: str


Omnigraph = Callable[..., Finished]


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without anything that would change what OmniGraph does."""
    ignored = ("OMNIGRAPH_", "AWS_", "_OMNIGRAPH", "NO_COLOR", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ignored)}
    return {**kept, "OMNIGRAPH_FSYNC": "off", **more}


@pytest.fixture
def omnigraph(tmp_path: Path) -> Omnigraph:
    """Run the installed `omnigraph` in a fresh directory."""

    def run(
        *arguments: str | Path,
        stdin: str = "",
        cwd: Path | None = None,
        environment: dict[str, str] | None = None,
        prefix: tuple[str, ...] = (),
    ) -> Finished:
        done = subprocess.run(
            [*prefix, str(OMNIGRAPH), *map(str, arguments)],
            cwd=cwd or tmp_path,
            input=stdin.encode(),
            env=clean_environment(**(environment or {})),
            capture_output=True,
            timeout=120,
            check=False,
        )
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A schema file."""
    path = tmp_path / "people.pg"
    path.write_text(PEOPLE)
    return path


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a test that is not about syncing: nothing from this machine's environment."""
    return Settings(fsync=False, actor="tester", working_directory=tmp_path)


@pytest.fixture(autouse=True)
def _no_failpoints() -> Iterator[None]:
    yield
    faults.arm("")
