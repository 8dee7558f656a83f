"""Which planted bugs does a storm find, and how soon? `python -m tests.storm.planted [--seconds S] [NAME …]`.

Prints a row per bug, ready for docs/guarantees.md. Bugs that a storm cannot meet are met as well, in vain:
the share counts all of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.planted.bugs import BUG_VARIABLE, BUGS
from tests.storm.spell import Place, Spell, local_place, storm
from tests.support.processes import REPOSITORY

STARTUP = REPOSITORY / "tests" / "planted" / "startup"


def with_bug(place: Place, name: str) -> Place:
    """From now on the commands have the bug; no server lends them its clean modules."""
    paths = os.pathsep.join([str(STARTUP), str(REPOSITORY)])
    planted = {BUG_VARIABLE: name, "PYTHONPATH": paths, "OMNIGRAPH_WARM": ""}
    place.nemesis.environment = {**place.nemesis.environment, **planted}
    return place


def found_after(name: str, folder: Path, seed: int, seconds: float) -> tuple[float, Spell]:
    """How long it took, the verdict included."""
    begun = time.monotonic()
    with local_place(folder) as place:
        spell = storm(with_bug(place, name), seed, seconds)
    return time.monotonic() - begun, spell


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.storm.planted", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    names = options.names or list(BUGS)
    found = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="storm-") as folder:
            took, spell = found_after(name, Path(folder), options.seed, options.seconds)
        found += bool(spell.wrong)
        said = spell.wrong[0][:100] if spell.wrong else "not found"
        sys.stdout.write(f"| {name} | {took:.0f} s | {said} |\n")
        sys.stdout.flush()
    sys.stdout.write(f"{found} of {len(names)} found\n")


if __name__ == "__main__":
    main()
