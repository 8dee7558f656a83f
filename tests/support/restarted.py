"""Processes that are killed at random and started again. A journal says how far each has got.

A journal has one line for everything that was acknowledged; what is started again goes on after the last one.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import warm
from tests.support.processes import REPOSITORY, clean_environment


def acknowledged(journal: Path) -> list[str]:
    return journal.read_text().splitlines() if journal.exists() else []


@dataclass
class Process:
    """`python -m MODULE ARGUMENTS JOURNAL`, running; the journal is beside the graph."""

    module: str
    root: Path
    name: str
    arguments: Sequence[str]
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    @property
    def journal(self) -> Path:
        return self.root.parent / f"{self.name}.journal"

    def start(self) -> None:
        self.process = warm.Popen(
            [sys.executable, "-m", self.module, *self.arguments, str(self.journal)],
            cwd=REPOSITORY,
            env=clean_environment(),
            stderr=subprocess.PIPE,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def finish(self) -> None:
        _, errors = self.process.communicate()
        assert self.process.returncode == 0, errors.decode()


def run_with_kills(everyone: Sequence[Process], kills: int, chance: random.Random) -> None:
    """Until all have finished. Kills are counted, not timed: each waits for its victim to get on."""
    for _ in range(kills):
        alive = [each for each in everyone if each.process.poll() is None]
        if not alive:
            break
        victim = chance.choice(alive)
        seen = len(acknowledged(victim.journal))
        while victim.process.poll() is None and len(acknowledged(victim.journal)) == seen:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.1))
        victim.kill()
        victim.start()
    for each in everyone:
        each.finish()
