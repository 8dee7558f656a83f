"""Running a program under strace; one that can start warm is traced from its first line of Python on."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support import warm
from tests.support.programs import require_program

_UNFINISHED = "<unfinished ...>"
_RESUMED = re.compile(r"\d+\s+<\.\.\. \w+ resumed>(?P<rest>.*)", re.DOTALL)


def run_under_strace(
    options: Sequence[str], command: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """How the program ended, and what it said."""
    strace = require_program("strace")
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    if not warm.can_start(command):
        return subprocess.run(
            [strace, *options, *command], env=dict(environment), cwd=cwd, timeout=600, check=False, **streams
        )
    with warm.Stopped(command, env=environment, cwd=cwd, **streams) as process:
        process.until_stopped()
        with subprocess.Popen(
            [strace, *options, "-p", str(process.pid)], stderr=subprocess.PIPE, text=True
        ) as tracer:
            _wait_for(tracer, process.pid)
            process.send_signal(signal.SIGCONT)
            out, err = process.communicate(timeout=600)
            tracer.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def whole_calls(text: str) -> Iterator[str]:
    """One line per call of a trace, each where the call ended; those that never ended come last.

    Where threads meet, strace tells of a call in two lines, and the second alone names no file.
    """
    begun: dict[str, str] = {}
    for line in text.splitlines():
        pid = line.partition(" ")[0]
        if line.endswith(_UNFINISHED):
            begun[pid] = line.removesuffix(_UNFINISHED).rstrip()
        elif (match := _RESUMED.match(line)) and pid in begun:
            yield begun.pop(pid) + match["rest"]
        else:
            yield line
    yield from begun.values()


def _wait_for(tracer: subprocess.Popen[str], pid: int) -> None:
    while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text():
        assert tracer.poll() is None, tracer.communicate()
        time.sleep(0.002)
