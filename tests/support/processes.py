"""What tests start processes with: the repository, the installed command, a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
OMNIGRAPH = Path(sys.executable).with_name("omnigraph")


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run of the command ended."""

    code: int
    out: str
    err: str


Omnigraph = Callable[..., Finished]


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without anything that would change what OmniGraph does."""
    ignored = ("OMNIGRAPH_", "AWS_", "_OMNIGRAPH", "NO_COLOR", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ignored)}
    return {**kept, "OMNIGRAPH_FSYNC": "off", **more}


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
