"""Power cuts of which any subset survives: before or after, nothing acknowledged lost, no person needed.

`tests/support/powercut.py` has the disk model, `power_cut_programs.py` and `power_cut_upkeep.py` what is
recorded, `power_cut_checks.py` what is asked of every state, and `power_cut_recordings.py` how a
failure is seen again. In the normal run each program is cut in a few places: without one of
some things that matter, and with a random subset by a fixed seed. In `make soak` everywhere.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.power_cut_recordings import Recording
from tests.support.power_cut_upkeep import ALL
from tests.support.powercut import turning_points

SEED = 14
TARGETED = 3
SAMPLE = 1
SOAK_SAMPLE = 8


@pytest.fixture
def recording(name: str, tmp_path: Path) -> Recording:
    return Recording.make(ALL[name], tmp_path)


@pytest.mark.parametrize("name", [name for name, each in ALL.items() if not each.is_long])
def test_any_subset_survives_a_power_cut(recording: Recording) -> None:
    targeted = recording.targeted()
    least = recording.program.least
    assert len(targeted) > least, f"only {targeted}: the program does not do what it is for"
    chance = random.Random(SEED)
    *without_one, at_the_end = targeted
    chosen = [at_the_end, *chance.sample(without_one, min(TARGETED, len(without_one)))]
    where = turning_points(recording.operations)
    drawn = [(chance.choice(where), str(SEED + number)) for number in range(SAMPLE)]
    failures = recording.failures([*chosen, *drawn])
    assert not failures, recording.report(failures)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ALL)
def test_any_subset_survives_every_power_cut(recording: Recording) -> None:
    everywhere = [(cut, "0") for cut in range(len(recording.operations) + 1)]
    where = turning_points(recording.operations)
    more = [(cut, str(1 + number)) for cut in where for number in range(SOAK_SAMPLE)]
    failures = recording.failures([*recording.targeted(), *everywhere, *more])
    assert not failures, recording.report(failures)
