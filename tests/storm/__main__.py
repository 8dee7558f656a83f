"""`python -m tests.storm --minutes M --seed S [--s3] [--spark] [--workers N] [--replay]`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.storm.shrink import shrunk
from tests.storm.spell import Spell, cleared, local_place, remote_place, replayed, steps_of, storm

SPELL_S = 120.0
REPLAYED = 60


def main() -> int:
    options = _parser().parse_args()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="storm-"))
    end = time.monotonic() + options.minutes * 60
    seed, spells = options.seed, list[Spell]()
    while not spells or time.monotonic() < end:
        spell = _spell(options, folder / f"seed-{seed}", seed, min(SPELL_S, options.minutes * 60))
        spells.append(spell)
        say(str(spell))
        if spell.wrong:
            for each in spell.wrong:
                say(f"  {each}")
            say(f"the graph and the journal are in {folder / f'seed-{seed}'}")
            return 1
        if not options.folder:
            shutil.rmtree(folder / f"seed-{seed}")
        seed += 1
    say(_summary(spells))
    return 0


def _spell(options: argparse.Namespace, folder: Path, seed: int, seconds: float) -> Spell:
    cleared(folder)
    place = remote_place if options.s3 else local_place
    if not options.replay:
        with place(folder) as here:
            return storm(here, seed, seconds, options.workers, spark=options.spark)
    steps = steps_of(seed, options.steps)
    with place(folder) as here:
        spell = replayed(here, seed, steps)
    if spell.wrong:
        say(str(spell))
        for step in shrunk(seed, steps, folder.with_name(f"{folder.name}-shrunk"), say):
            say(f"  {step}")
    return spell


def _summary(spells: list[Spell]) -> str:
    commands = sum(spell.commands.total() for spell in spells)
    commits = sum(spell.commits for spell in spells)
    hit = sum(spell.killed_or_paused for spell in spells)
    faults = sum(sum(spell.faults.values()) for spell in spells)
    done = f"{len(spells)} spells, {commands} commands, {commits} commits"
    return f"{done}, {faults} faults, of which {hit} kills and pauses; nothing wrong"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=REPLAYED, help="of a replay")
    parser.add_argument("--s3", action="store_true", help="on a real S3 server on loopback")
    parser.add_argument("--spark", action="store_true", help="with loads by spark-submit")
    parser.add_argument("--replay", action="store_true", help="one command at a time, and shrink a failure")
    parser.add_argument("--folder", help="where graphs and journals are kept")
    return parser


if __name__ == "__main__":
    sys.exit(main())
