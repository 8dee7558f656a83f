"""Commands that start warm through the product's own server, in a runtime directory of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.processes import OMNIGRAPH, Finished, clean_environment, state_of

WAITING_S = 240.0
WARM, COLD = "started warm", "started cold: "


class Served:
    """Runs commands with warm starts turned on, and knows their servers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runtime = directory / "run"
        self.runtime.mkdir(mode=0o700)
        self.pid = 0  # of the server for commands that are run without a prefix

    @property
    def variables(self) -> dict[str, str]:
        return {"OMNIGRAPH_WARM": "10m", "XDG_RUNTIME_DIR": str(self.runtime)}

    def environment(self, **more: str) -> dict[str, str]:
        return clean_environment(**{**self.variables, **more})

    def popen(
        self,
        *arguments: str | Path,
        prefix: Sequence[str] = (),
        env: dict[str, str] | None = None,
        **options: Any,
    ) -> subprocess.Popen[str]:
        piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [*prefix, str(OMNIGRAPH), *map(str, arguments)],
            env=self.environment(**(env or {})),
            text=True,
            **{"cwd": self.directory, **piped, **options},
        )

    def run(self, *arguments: str | Path, stdin: str = "", **options: Any) -> Finished:
        with self.popen(*arguments, **options) as process:
            out, err = process.communicate(stdin, timeout=WAITING_S)
            return Finished(process.returncode, out, err)

    def servers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run("warm", "status", "--json").out)["servers"]
        return found

    def count(self, pid: int) -> int:
        """How many commands a server has run."""
        return next(int(server["served"]) for server in self.servers() if server["pid"] == pid)

    def started(self) -> int:
        """The pid of the server, started if there is none."""
        for _ in range(200):
            done = self.run("version", "-v")
            assert done.code == 0, done.err
            if WARM in done.err:
                self.pid = self.pid if state_of(self.pid) else int(self.servers()[0]["pid"])
                return self.pid
            time.sleep(0.05)
        raise AssertionError(f"no server came: {done.err}")

    def stop(self) -> None:
        pids = [server["pid"] for server in self.servers()]
        self.run("warm", "stop")
        for pid in pids:
            wait_for_end(pid)


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[Served]:
    """The directory is the commands'; servers that are left at the end are ended."""
    served = Served(directory)
    try:
        yield served
    finally:
        pids = [server["pid"] for server in served.servers()]
        served.run("warm", "stop")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def wait_until(reached: Any) -> None:
    give_up = time.monotonic() + WAITING_S
    while not reached():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.01)


def wait_for_end(pid: int) -> None:
    wait_until(lambda: state_of(pid) in ("", "Z"))


def children_of(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def is_pending(pid: int, number: int) -> bool:
    """Whether a signal was sent to a stopped process that has not seen it yet."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)
