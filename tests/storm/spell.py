"""One spell of a storm: a graph, workers, faults, and the verdict."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from tests.storm.commands import Command, command, schema
from tests.storm.journal import Journal
from tests.storm.model import Key, Listed, Row, parsed
from tests.storm.nemesis import Nemesis
from tests.storm.steps import (
    LOCAL,
    OTHERS,
    REMOTE,
    REPLAYABLE,
    WEIGHTS,
    Fault,
    Step,
    Verb,
    first_step,
    program,
)
from tests.storm.verdict import Verdict
from tests.support import warm
from tests.support.fault_proxy import fault_proxy
from tests.support.processes import OMNIGRAPH, clean_environment
from tests.support.s3server import S3Server, environment_of, running_server

WORKERS = 4
LEASE_S = 2.0
SHOWN = 40


@dataclass
class Spell:
    """What came of it."""

    seed: int
    commands: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    faults: dict[str, int] = field(default_factory=dict)
    commits: int = 0
    read_back: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def killed_or_paused(self) -> int:
        return sum(self.faults.get(kind, 0) for kind in ("kill", "shoot", "cut", "pause"))

    def __str__(self) -> str:
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        return (
            f"seed {self.seed}: {self.commands.total()} commands, {self.commits} commits, "
            f"{self.read_back} states read back; faults: {faults}; exit codes: {codes}; "
            f"{len(self.wrong)} wrong"
        )


class Place:
    """Where the graph of a spell is, and how commands get there."""

    def __init__(self, folder: Path, nemesis: Nemesis, graph: str) -> None:
        self.folder, self.nemesis, self.graph = folder, nemesis, graph
        self.journal = Journal(folder / "journal.jsonl")
        self._at_work = Together()
        self._moves = 0

    def ask(self, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A command that nothing happens to."""
        full = [str(OMNIGRAPH), *argv, "--store", self.graph, "--json"]
        with self.nemesis.popen(
            full,
            # On a busy machine two seconds may pass between two renewals, and nothing is wrong with that.
            env=clean_environment(**{**self.nemesis.environment, "OMNIGRAPH_LEASE_TTL": "60"}),
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            out, err = process.communicate(stdin.encode(), timeout=1_800)
        return subprocess.CompletedProcess(full, process.returncode, out.decode(), err.decode())

    def run(self, step: Step) -> None:
        if step.fault is Fault.MOVE:
            with self._at_work.alone():
                self._move()
                self._run(step)
                self._relocate(step)
        else:
            with self._at_work.beside():
                self._run(step)

    def _run(self, step: Step) -> None:
        made = command(step, self.graph, self.journal.commits)
        if made is not None:
            self.journal.call(step, made, self.nemesis.run)

    def _move(self) -> None:
        """The directory gets another name; what refers to the old one must be noticed by every command."""
        self._moves += 1
        target = str(self.folder / f"graph-{self._moves}")
        Path(self.graph).rename(target)
        self.graph = target
        self.nemesis.count(Fault.MOVE)

    def _relocate(self, step: Step) -> None:
        """Shot at some moment half the time, and then to the end."""
        if step.pick % 2:
            argv = ("relocate", "--store", self.graph, "--json")
            self.nemesis.run(replace(step, fault=Fault.SHOOT), Command(argv, is_write=False))
        _told(self, "relocate")

    def content(self, *ref: str) -> dict[Key, Row] | None:
        done = self.ask("export", *ref)
        if done.returncode:
            return None
        return dict(parsed(json.loads(line)) for line in done.stdout.splitlines())


class Together:
    """Many beside each other, or one alone."""

    def __init__(self) -> None:
        self._inside = 0
        self._changed = threading.Condition()

    @contextmanager
    def beside(self) -> Iterator[None]:
        with self._changed:
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody begins meanwhile: the condition's lock is held until the end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._inside)
            yield


@contextmanager
def local_place(folder: Path) -> Iterator[Place]:
    with _warm(folder) as environment:
        yield _made(Place(folder, Nemesis(environment, folder, pause_s=0.3), str(folder / "graph")))


def forked_place(folder: Path, environment: Mapping[str, str]) -> Place:
    """Commands are forks of this process, with all that was changed in it."""
    folder.mkdir(parents=True, exist_ok=True)
    nemesis = Nemesis(environment, folder, pause_s=0.3, popen=warm.Popen)
    return _made(Place(folder, nemesis, str(folder / "graph")))


@contextmanager
def remote_place(folder: Path, server: S3Server | None = None) -> Iterator[Place]:
    with ExitStack() as stack:
        at = server or stack.enter_context(running_server())
        proxy = stack.enter_context(fault_proxy(at.port))
        started_warm = stack.enter_context(_warm(folder))
        environment = {**started_warm, **environment_of(proxy.endpoint), "OMNIGRAPH_LEASE_TTL": str(LEASE_S)}
        nemesis = Nemesis(environment, folder, pause_s=2 * LEASE_S, proxy=proxy)
        yield _made(Place(folder, nemesis, at.new_location()))


@contextmanager
def _warm(folder: Path) -> Iterator[dict[str, str]]:
    """Commands start warm; those whose process matters are told otherwise."""
    runtime = folder / "run"
    runtime.mkdir(mode=0o700, parents=True)
    environment = {"OMNIGRAPH_WARM": "10m", "XDG_RUNTIME_DIR": str(runtime)}
    try:
        yield environment
    finally:
        stop = [str(OMNIGRAPH), "warm", "stop"]
        subprocess.run(stop, env=clean_environment(**environment), capture_output=True, check=False)


def _made(place: Place) -> Place:
    _told(place, "init", "--schema", "-", stdin=schema(()))
    for branch in ("main", *OTHERS[:2]):
        if branch != "main":
            _told(place, "branch", "create", branch)
        place.run(first_step(branch))
    return place


def storm(
    place: Place,
    seed: int,
    seconds: float = math.inf,
    workers: int = WORKERS,
    *,
    steps: int | None = None,
    spark: bool = False,
) -> Spell:
    """Random programs side by side, until the time is up or each worker has done so many steps."""
    end = time.monotonic() + seconds
    remote = place.nemesis.proxy is not None
    weights = {**WEIGHTS, Verb.SPARK: 1 if spark else 0}

    def work(worker: int) -> None:
        for step in islice(program(seed, worker, REMOTE if remote else LOCAL, weights), steps):
            if time.monotonic() >= end:
                return
            place.run(step)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return judged(place, seed)


def steps_of(seed: int, count: int) -> list[Step]:
    """The programs of two workers in turn, with faults that repeat exactly."""
    streams = [program(seed, worker, REPLAYABLE) for worker in range(2)]
    return [next(streams[number % 2]) for number in range(count)]


def replayed(place: Place, seed: int, steps: Iterable[Step]) -> Spell:
    """One command after the other."""
    for step in steps:
        place.run(step)
    return judged(place, seed)


# ---- afterwards ----


def judged(place: Place, seed: int) -> Spell:
    spell = Spell(seed, faults=place.nemesis.counts)
    for call in place.journal.calls:
        spell.commands[call.step.verb.value] += 1
        spell.codes[call.answer.code] += 1
    try:
        _judge(place, spell)
    except Refused as refused:
        spell.wrong.append(str(refused))
    return spell


class Refused(Exception):
    """A command failed that nothing happened to."""


def _judge(place: Place, spell: Spell) -> None:
    if place.nemesis.proxy is not None:
        place.nemesis.proxy.heal()
        place.nemesis.proxy.settle()
    _told(place, "recovery", "run")
    listed = [_listed(each) for each in json.loads(_told(place, "commit", "list"))["commits"]]
    branches = json.loads(_told(place, "branch", "list"))["branches"]
    heads = {name: _head(place, name) for name in branches}
    spell.commits = len(listed)
    verdict = Verdict(place.journal, listed, heads, is_remote=place.nemesis.proxy is not None)
    spell.wrong += verdict.check()
    verdict.check_heads(lambda branch: place.content("--branch", branch) or {})
    for commit in listed[:SHOWN]:
        content = None if commit.is_removed else place.content("--snapshot", commit.id)
        if content is not None:
            spell.read_back += 1
            verdict.check_content(commit.id, content, f"commit {commit.id} ({commit.message})")
    spell.wrong = list(dict.fromkeys(spell.wrong + verdict.wrong))
    _check_usable(place, branches)


def _check_usable(place: Place, branches: Iterable[str]) -> None:
    """Nobody is needed: every branch can be written, upkeep finds nothing to complain of."""
    for branch in branches:
        text = 'query q() { insert Person { name: "afterwards" } }'
        _told(place, "change", "-e", text, "--branch", branch)
    _told(place, "maintain", "--keep", "3")
    _told(place, "cleanup", "--keep", "3", "--grace", "0s", "--yes")
    _told(place, "doctor", "--deep")


def _told(place: Place, *argv: str, stdin: str = "") -> str:
    done = place.ask(*argv, stdin=stdin)
    if done.returncode:
        said = f"{done.stdout[-1_500:]} {done.stderr}"
        raise Refused(f"`{' '.join(argv)}` ended with {done.returncode}: {said}")
    return done.stdout


def _head(place: Place, branch: str) -> str:
    return str(json.loads(_told(place, "snapshot", "--branch", branch))["graph_commit_id"])


def _listed(commit: dict[str, object]) -> Listed:
    def text(name: str) -> str | None:
        value = commit[name]
        return None if value is None else str(value)

    return Listed(
        id=str(commit["graph_commit_id"]),
        parent=text("parent_commit_id"),
        merged=text("merged_parent_commit_id"),
        branch=str(commit["manifest_branch"]),
        operation=str(commit["operation"]),
        message=text("message"),
        actor=str(commit["actor_id"]),
        is_removed=bool(commit["removed"]),
    )


def cleared(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
