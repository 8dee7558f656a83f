"""Running one command, and what goes wrong with it.

Kills, errors and pauses at failpoints are chosen by name and count. Shots come at a random moment, cuts and
disk errors at a system call, network faults at a request. A clock is skewed inside the process alone. After
a power cut the disk shows any subset of what was not synced. A move is what happens before the command.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.storm.commands import Command
from tests.storm.power import disk_after_a_cut
from tests.storm.steps import Fault, Step
from tests.support.fault_proxy import FaultProxy, Operation
from tests.support.filetrace import CALLS as FILE_CALLS
from tests.support.injection import CALLS
from tests.support.paused import stops
from tests.support.processes import OMNIGRAPH, REPOSITORY, clean_environment
from tests.support.source import failpoints

STARTUP = Path(__file__).parent / "startup"
SKEW_VARIABLE = "STORM_SKEW_S"
TIMEOUT_S = 900.0
# Not `write`: the runtime below Lance wakes its threads with it, and no disk can make that fail.
ERRORS = {"fsync": "EIO", "pwrite64": "ENOSPC", "linkat": "ENOSPC", "renameat": "EIO"}
OPERATIONS: tuple[Operation, ...] = ("PUT", "GET", "HEAD", "LIST", "DELETE")
NETWORK_FAULTS = ("status", "reset", "late", "landed-status", "landed-reset")
DEADLY = (Fault.KILL, Fault.SHOOT, Fault.CUT)
SELDOM = ("init.", "spark.", "manifest.migrated")
# After the last act of a write; there is nothing left to fail.
NOTHING_FAILS = "write.after_d"
# What every write comes through. The others take a command of their own kind.
SHARED = ("write.", "manifest.", "history.", "control.create", "control.delete", "control.replace", "lock.")


@dataclass(frozen=True)
class Answer:
    """How a command ended. `code` is negative after a signal."""

    code: int
    out: str
    err: str
    fault: str = ""
    """What was done to it, in words."""

    @property
    def was_killed(self) -> bool:
        return self.code in (-signal.SIGKILL, 128 + signal.SIGKILL)


@dataclass
class Nemesis:
    """The place where commands run, and the counts of what was done to them."""

    environment: Mapping[str, str]
    directory: Path
    pause_s: float
    proxy: FaultProxy | None = None
    popen: type[subprocess.Popen[bytes]] = subprocess.Popen
    """What starts the command where nothing stands before it; others start as the installed one does."""
    counts: dict[str, int] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def run(self, step: Step, command: Command) -> Answer:
        if command.file:
            (self.directory / command.file).write_text(command.stdin)
            command = replace(command, stdin="", file="")
        done: Answer = getattr(self, f"_{step.fault.value}")(step, command)
        if done.fault and (done.was_killed or step.fault not in DEADLY):
            self.count(step.fault)
        return done

    def count(self, fault: Fault) -> None:
        with self._guard:
            self.counts[fault.value] = self.counts.get(fault.value, 0) + 1

    # ---- faults ----

    def _none(self, step: Step, command: Command) -> Answer:
        return self._finish(self._start(command), command)

    _move = _none

    def _kill(self, step: Step, command: Command) -> Answer:
        return self._at_failpoint(step, command, "kill")

    def _error(self, step: Step, command: Command) -> Answer:
        return self._at_failpoint(step, command, "error")

    def _at_failpoint(self, step: Step, command: Command, action: str) -> Answer:
        armed = f"{failpoint(step)}={action}@{step.nth}"
        if action == "error" and armed.startswith(NOTHING_FAILS):
            return self._none(step, command)
        return self._finish(self._start(command, OMNIGRAPH_FAILPOINTS=armed), command, armed)

    def _pause(self, step: Step, command: Command) -> Answer:
        """Stopped at a failpoint, its threads as well, for longer than a lease lives; then it goes on."""
        armed = f"{failpoint(step)}=stop@{step.nth}"
        process = self._start(command, OMNIGRAPH_FAILPOINTS=armed, OMNIGRAPH_WARM="")
        writer = threading.Thread(target=self._feed, args=(process, command), daemon=True)
        writer.start()
        was_stopped = stops(process)
        if was_stopped:
            time.sleep(self.pause_s)
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
        writer.join()
        process.stdin = None
        return self._finish(process, Command(()), armed if was_stopped else "")

    def _shoot(self, step: Step, command: Command) -> Answer:
        """SIGKILL at any moment; a moment is drawn short, as most commands are."""
        after_s = random.Random(step.place).expovariate(1 / 0.25)
        process = self._start(command)
        shot = threading.Timer(after_s, process.kill)
        shot.start()
        try:
            return self._finish(process, command, f"kill after {after_s:.3f} s")
        finally:
            shot.cancel()

    def _cut(self, step: Step, command: Command) -> Answer:
        call = CALLS[step.place % len(CALLS)]
        return self._traced(step, command, call, "signal=KILL")

    def _disk(self, step: Step, command: Command) -> Answer:
        call = list(ERRORS)[step.place % len(ERRORS)]
        return self._traced(step, command, call, f"error={ERRORS[call]}")

    def _traced(self, step: Step, command: Command, call: str, action: str) -> Answer:
        when = 1 + step.pick % 60
        inject = f"{call}:{action}:when={when}"
        with tempfile.NamedTemporaryFile(dir=self.directory, suffix=".strace") as log:
            prefix = ["strace", "-f", "-o", log.name, "-e", f"trace={call}", "-e", f"inject={inject}"]
            process = self._start(command, prefix, OMNIGRAPH_WARM="", OMNIGRAPH_FSYNC="on")
            done = self._finish(process, command, inject)
            was_hit = b"INJECTED" in Path(log.name).read_bytes()
        return done if was_hit or done.was_killed else Answer(done.code, done.out, done.err)

    def _power(self, step: Step, command: Command) -> Answer:
        """Traced to its end; then the disk is as it was at some moment before that, or at the end."""
        graph = Path(command.argv[command.argv.index("--store") + 1])
        with tempfile.TemporaryDirectory(dir=self.directory) as folder:
            before, log = Path(folder, "before"), Path(folder, "trace.log")
            shutil.copytree(graph, before)
            options = ["-f", "-y", "-xx", "-s", "10000000", "-e", f"trace={FILE_CALLS}", "-o", str(log)]
            process = self._start(command, ["strace", *options], OMNIGRAPH_WARM="", OMNIGRAPH_FSYNC="on")
            done = self._finish(process, command, "power cut at the end")
            cut = disk_after_a_cut(before, log, graph, random.Random(step.place))
        return done if cut is None else Answer(-signal.SIGKILL, "", "", cut)

    def _skew(self, step: Step, command: Command) -> Answer:
        """Its wall clock is hours or days off; its monotonic one is not."""
        skew = random.Random(step.place).choice((-90_000, -5_000, -60, 60, 5_000, 90_000))
        paths = os.pathsep.join([str(STARTUP), str(REPOSITORY)])
        more = {SKEW_VARIABLE: str(skew), "PYTHONPATH": paths, "OMNIGRAPH_WARM": ""}
        return self._finish(self._start(command, [], **more), command, f"clock {skew:+d} s")

    def _network(self, step: Step, command: Command) -> Answer:
        """One request among those of everybody, of this kind, from now on."""
        assert self.proxy is not None
        chance = random.Random(step.place)
        operation, fault = chance.choice(OPERATIONS), chance.choice(NETWORK_FAULTS)
        self.proxy.spoil(
            operation, ".", fault, status=chance.choice((500, 503)), skip=step.pick % 12, delay_s=4.0
        )
        return self._finish(self._start(command), command, f"{operation} {fault}")

    # ---- processes ----

    def _start(
        self, command: Command, prefix: list[str] | None = None, **more: str
    ) -> subprocess.Popen[bytes]:
        popen = self.popen if prefix is None else subprocess.Popen
        return popen(
            [*(prefix or []), str(OMNIGRAPH), *command.argv],
            env=clean_environment(**{**self.environment, **more}),
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def _feed(self, process: subprocess.Popen[bytes], command: Command) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(command.stdin.encode())
            process.stdin.close()

    def _finish(self, process: subprocess.Popen[bytes], command: Command, fault: str = "") -> Answer:
        given: Any = command.stdin.encode() if process.stdin is not None else None
        try:
            out, err = process.communicate(given, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return Answer(HANGS, out.decode(), err.decode(), fault)
        return Answer(process.returncode, out.decode(), err.decode(), fault)


HANGS = 1_000
"""In place of an exit code: the command was still there after a quarter of an hour."""


def failpoint(step: Step) -> str:
    """One that the verb may come by; half the time one of its own."""
    own = [name for name in _names() if name.startswith(_OWN_OF.get(step.verb.value, ()))]
    shared = [name for name in _names() if name.startswith(SHARED)]
    chosen = own if own and step.place % 2 else shared
    return chosen[step.place // 2 % len(chosen)]


_OWN_OF: dict[str, tuple[str, ...]] = {
    "append": ("load.", "tables.fork", "staging."),
    "merge load": ("load.", "tables.fork", "staging."),
    "overwrite": ("load.", "tables.fork"),
    "load from": ("load.", "branch.", "staging."),
    "branch create": ("branch.", "tables.fork", "move."),
    "branch delete": ("branch.", "tables.fork", "move."),
    "branch undelete": ("branch.", "move."),
    "branch rename": ("branch.", "move."),
    "tag create": ("tag.", "move."),
    "tag delete": ("tag.", "move."),
    "schema apply": ("schema.",),
    "optimize": ("optimize.",),
    "index build": ("topology.",),
    "cleanup": ("cleanup.", "tables.fork", "branch.given_up"),
    "recovery run": ("recovery.",),
}


@cache
def _names() -> tuple[str, ...]:
    return tuple(name for name in failpoints() if not name.startswith(SELDOM))
