"""The few steps that a failure takes: halves, quarters and so on are left out while it still fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.storm.spell import cleared, local_place, replayed
from tests.storm.steps import Step

RUNS_MAX = 60


def shrunk(seed: int, steps: list[Step], folder: Path, say: Callable[[str], None]) -> list[Step]:
    """Every run is on a fresh graph; what is left out is never needed again."""
    runs = 0

    def fails(chosen: list[Step]) -> bool:
        nonlocal runs
        runs += 1
        with local_place(cleared(folder)) as place:
            return bool(replayed(place, seed, chosen).wrong)

    size = max(1, len(steps) // 2)
    while runs < RUNS_MAX:
        for start in range(0, len(steps), size):
            rest = steps[:start] + steps[start + size :]
            if rest and runs < RUNS_MAX and fails(rest):
                say(f"still fails with {len(rest)} steps")
                steps = rest
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
    return steps
