"""What tests start processes with: the repository, the installed command, a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
"""Before a command: run it as a user who owns nothing."""
OMNIGRAPH = Path(sys.executable).with_name("omnigraph")


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run of the command ended."""

    code: int
    out: str
    err: str


Omnigraph = Callable[..., Finished]


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without anything that would change what OmniGraph does.

    With TESTS_WARM, commands that are started by the installed script may start warm.
    """
    ignored = ("OMNIGRAPH_", "AWS_", "_OMNIGRAPH", "NO_COLOR", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ignored)}
    warm = {"OMNIGRAPH_WARM": os.environ["TESTS_WARM"]} if "TESTS_WARM" in os.environ else {}
    return {**kept, "OMNIGRAPH_FSYNC": "off", **warm, **more}


def state_of(pid: int) -> str:
    """One letter, as `ps` shows it: `T` if all its threads are stopped, empty if there is no such process."""
    states = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/stat").read_text()
            states.append(text.rpartition(")")[2].split()[0])  # it follows the name in parentheses
    except (FileNotFoundError, ProcessLookupError):
        return state_of(pid) if states and os.path.exists(f"/proc/{pid}") else ""
    return next((each for each in states if each != "T"), "T") if states else ""


def closed_stdin(*arguments: str | Path, cwd: Path) -> Finished:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" <&-', OMNIGRAPH, *arguments],
        cwd=cwd,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)
