"""Killing a process, or failing its disk, at a chosen system call; by `strace -e inject`.

strace counts the calls of each thread for itself, so "the Nth write" is the Nth of whatever
thread comes so far first. A dry run lists what there is: for every call on a file of the
graph, which one of its thread it was. Lance hands its file work to any idle thread, so a
later run may count a little differently: a cut then falls on a neighbouring call, or on
none at all, and whoever uses this looks at what was hit instead of assuming it.

Runnable, as the victim: `python -m tests.support.injection write ROOT BRANCH NAME`,
`create ROOT BRANCH` or `recover ROOT`. Expected errors end it with one line and exit code 74,
as on the command line.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.storage.sync import Syncer
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.tracing import run_under_strace, whole_calls
from tests.support.writers import open_graph, write_three

CALLS = ("write", "pwrite64", "fsync", "renameat", "rename", "linkat", "unlink", "unlinkat")
FAILED = 74

# What it takes to see everything that becomes durable: files are synced, or replaced by synced ones.
SYNCS = ("fsync", "rename", "renameat", "renameat2", "linkat")

# `rename("old", "new")`, or with a directory before each name: `linkat(3</dir>, "old", 3</dir>, "new", 0)`.
_RENAMED = re.compile(
    r'(?:rename|renameat2?|linkat)\((?:\S+<(?P<from>[^>]*)>, )?"(?P<old>[^"]*)", '
    r'(?:\S+<(?P<to>[^>]*)>, )?"(?P<new>[^"]*)".*\) += 0'
)
_NAMES = (("from", "old"), ("to", "new"))
_ANEW = "written anew: "
_LINE = re.compile(r"(?P<pid>\d+)\s+(?P<call>\w+)\((?P<rest>.*)")


@dataclass(frozen=True, order=True, slots=True)
class Cut:
    """The `nth` call of a kind in one thread."""

    call: str
    nth: int


@dataclass(frozen=True, slots=True)
class Traced:
    """How a traced process ended, and the lines of its calls."""

    code: int
    out: str
    err: str
    lines: tuple[str, ...]

    @property
    def injected(self) -> list[str]:
        return [line for line in self.lines if "INJECTED" in line]


def victim(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "tests.support.injection", *map(str, arguments)]


def run_traced(
    command: Sequence[str],
    log: Path,
    calls: Sequence[str],
    inject: str | None = None,
    only: str | None = None,
    **environment: str,
) -> Traced:
    """Run under strace; syncing is on, since syncs are what we cut at. `only` counts calls on one path.

    Without `--seccomp-bpf`, which is faster and loses the signals to be injected (strace 6.1).
    """
    options = ["-f", "-y", "-o", str(log), "-e", "trace=" + ",".join(calls)]
    options += ["-P", only] if only else []
    options += ["-e", f"inject={inject}"] if inject else []
    syncing = clean_environment(
        OMNIGRAPH_FSYNC="on", OMNIGRAPH_LOCK_TIMEOUT="60", PYTHONDONTWRITEBYTECODE="1", **environment
    )
    done = run_under_strace(options, command, syncing, REPOSITORY)
    return Traced(done.returncode, done.stdout, done.stderr, tuple(whole_calls(log.read_text())))


def possible_cuts(traced: Traced, root: Path) -> list[Cut]:
    """Every call on a file of the graph, by its place among the calls of its thread."""
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[Cut, None] = {}
    for line in traced.lines:
        match = _LINE.match(line)
        if match is None:
            continue
        counts[match["pid"], match["call"]] += 1
        if str(root) in match["rest"]:
            found[Cut(match["call"], counts[match["pid"], match["call"]])] = None
    return list(found)


def spread(cuts: Sequence[Cut], count: int, seed: int) -> list[Cut]:
    """Some of the cuts: each kind of call in turn, anywhere in its range."""
    chance = random.Random(seed)
    by_call: dict[str, list[Cut]] = {}
    for cut in cuts:
        by_call.setdefault(cut.call, []).append(cut)
    for each in by_call.values():
        chance.shuffle(each)
    chosen: list[Cut] = []
    while len(chosen) < count and any(by_call.values()):
        chosen += [each.pop() for each in by_call.values() if each]
    return chosen[:count]


def synced_paths(traced: Traced) -> set[str]:
    """Files and directories that were synced without an error, under the name they have in the end."""
    opened = re.compile(r"f(?:data)?sync\(\d+<(?P<path>[^>]*)>")
    synced: set[str] = set()
    for line in traced.lines:
        if " = -1 " in line:
            continue
        if match := opened.search(line):
            synced.add(match["path"])
        elif renamed := _RENAMED.search(line):
            old, new = (os.path.join(renamed[folder] or "", renamed[name]) for folder, name in _NAMES)
            synced |= {new} if old in synced else set()
    return synced


def written_anew(traced: Traced) -> set[str]:
    """Files in whose place a copy was put, as the victim tells: a trace of one path shows no renames."""
    return set(re.findall(rf"^{_ANEW}(.*)$", traced.err, re.MULTILINE))


# ---- the victim ----


def _tell_what_is_written_anew() -> None:
    original = Syncer._replace_by_copy

    def telling(syncer: Syncer, path: Path) -> None:
        original(syncer, path)
        sys.stderr.write(f"{_ANEW}{path}\n")

    Syncer._replace_by_copy = telling  # type: ignore[method-assign]


def main() -> None:
    _tell_what_is_written_anew()
    verb, root, *more = sys.argv[1:]
    try:
        graph = open_graph(Path(root))
        if verb == "create":
            graph.create_branch(more[0])
        elif verb == "write":
            branch, name = more
            published = write_three(graph, name, branch)
            sys.stdout.write(f"{published.commit_id}\n")
            sys.stderr.writelines(f"warning: {text}\n" for text in published.warnings)
    except OmnigraphError as error:
        sys.stderr.write(f"error: {type(error).__name__}: {error}\nhint: {error.hint}\n")
        raise SystemExit(FAILED) from None


if __name__ == "__main__":
    main()
