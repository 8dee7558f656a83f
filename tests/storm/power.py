"""The power fails while a command is at work: what the disk shows then, by record and replay.

`tests/support/powercut.py` has the model of the disk. What was there before the command counts as synced.
"""

from __future__ import annotations

import random
from pathlib import Path

from tests.support.filetrace import parse
from tests.support.powercut import Disk, draw, turning_points


def disk_after_a_cut(before: Path, log: Path, graph: Path, chance: random.Random) -> str | None:
    """Lay the graph out as a cut left it; says where the cut was, None if the command had ended.

    At the end, half the time, nothing survives but what was synced: whatever was acknowledged must be there.
    """
    operations = parse(log, graph)
    at_the_end = chance.random() < 0.5
    where = [len(operations)] if at_the_end else turning_points(operations)
    cut = chance.choice(where)
    disk = Disk(before)
    for operation in operations[:cut]:
        disk.apply(operation)
    fates = draw(str(chance.random()), disk.unsynced())
    disk.write_to(graph, fates.__getitem__)
    return None if cut == len(operations) else f"power cut after {cut} of {len(operations)}"
