"""Which planted bugs does a storm find, and how soon? `python -m tests.storm.planted [--spells N] [NAME …]`.

Short spells, each on a new graph and with the next seed: one command at a time with faults that repeat
exactly, then several at once, and so on until something is wrong. Six of them take a quiet machine two
minutes. Prints a row per bug, ready for docs/guarantees.md. Bugs that no storm can meet are met in vain as
well: the share counts all of them. The name `none` stands for no bug: nothing may be found then.

Each bug has a process of its own, and the commands are its forks.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from omnigraph_cli.warm.preloading import import_commands
from tests.planted.bugs import BUG_VARIABLE, REACHED_VARIABLE, plant_from_environment
from tests.planted.verbs import BUGS
from tests.storm.spell import Place, Spell, forked_place, replayed, steps_of, storm
from tests.support import warm
from tests.support.processes import REPOSITORY, clean_environment

STARTUP = REPOSITORY / "tests" / "planted" / "startup"
MODULE = "tests.storm.planted"
NONE = "none"
ALONE, TOGETHER, WORKERS = 40, 12, 3
"""Steps of a spell: all of them, and of each worker."""


def planted_environment(name: str) -> dict[str, str]:
    """Commands that are no forks plant the bug when their Python starts."""
    if name == NONE:
        return {}
    return {BUG_VARIABLE: name, "PYTHONPATH": os.pathsep.join([str(STARTUP), str(REPOSITORY)])}


def with_bug(place: Place, name: str) -> Place:
    """From now on the commands have the bug; no server lends them its clean modules."""
    planted = {**planted_environment(name), "OMNIGRAPH_WARM": ""}
    place.nemesis.environment = {**place.nemesis.environment, **planted}
    return place


def look_for(name: str, seed: int, spells: int) -> None:
    """In a process of its own, which has the bug; says when and how it was found, or nothing."""
    import_commands()
    plant_from_environment()
    warm.serve_from_here()
    commands = 0
    with tempfile.TemporaryDirectory(prefix="storm-") as folder:
        for number, spell in enumerate(_spells(Path(folder), name, seed, spells)):
            commands += spell.commands.total()
            if spell.wrong:
                said = " ".join(spell.wrong[0].split()).replace("|", "/")
                sys.stdout.write(f"{number + 1}\t{commands}\t{said}\n")
                return


def _spells(folder: Path, name: str, seed: int, count: int) -> Iterator[Spell]:
    environment = {**planted_environment(name), REACHED_VARIABLE: os.environ[REACHED_VARIABLE]}
    for number in range(1, count + 1):
        try:
            place = forked_place(folder / str(number), environment)
            if number % 2:
                yield replayed(place, seed + number, steps_of(seed + number, ALONE))
            else:
                yield storm(place, seed + number, workers=WORKERS, steps=TOGETHER)
        except Exception as error:  # Nothing is wrong with the storm itself: see the runs without a bug.
            yield Spell(seed + number, wrong=[f"{type(error).__name__}: {error}"])


def row_of(name: str, seed: int, spells: int) -> tuple[bool, str]:
    """A row of the table."""
    with tempfile.TemporaryDirectory(prefix="storm-") as folder:
        reached = Path(folder, "reached")
        environment = {**planted_environment(name), REACHED_VARIABLE: str(reached)}
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.storm.planted",
                name,
                "--one",
                f"--seed={seed}",
                f"--spells={spells}",
            ],
            env=clean_environment(**environment),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return False, f"| {name} | – | – | the search failed: {done.stderr[-300:]!r} |"
        if done.stdout:
            number, commands, said = done.stdout.rstrip("\n").split("\t", 2)
            return True, f"| {name} | {number} | {commands} | {said[:110]} |"
        why = "not found" if reached.exists() else "never reached"
        return False, f"| {name} | – | – | {why} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.storm.planted", description=__doc__)
    parser.add_argument("--spells", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    if options.one:
        look_for(options.names[0], options.seed, options.spells)
        return
    names = options.names or list(BUGS)
    found = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for is_found, row in pool.map(lambda name: row_of(name, options.seed, options.spells), names):
            found += is_found
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{found} of {len(names)} found\n")


if __name__ == "__main__":
    main()
