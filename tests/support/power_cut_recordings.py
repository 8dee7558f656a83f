"""Recordings of programs, and what becomes of the graph in each state that a power cut may leave.

A recording is a folder: `before/` (the graph when the program began), `trace.log`, the
facts of what it acknowledged, and `home/`, where states are laid out (Lance records
absolute paths, so a state is only itself in that place).

To see a failure again, in the folder that its report names (pytest keeps those of the
last three runs; `--basetemp` keeps one for longer):

    python -m tests.support.power_cut_recordings FOLDER CUT SEED

lays out exactly that state, says what was lost, and runs the checks; the graph is left
in `FOLDER/home/g` as the check left it. With `--lay-out` it is left as the power cut did.
CUT is the number of operations done. SEED is a number, for a random subset; or `nothing`
(that was not synced survives); or `without ` and the one thing that does not survive.
A recording has its own operations (names and threads differ from run to run), so cuts
and seeds mean something in their own folder only.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.filetrace import ACKNOWLEDGED, Operation, parse, record
from tests.support.power_cut_checks import Commits, check, observe
from tests.support.power_cut_programs import Program, World, facts_of
from tests.support.power_cut_upkeep import ALL
from tests.support.powercut import KEPT, LOST, Disk, Fate, Unsynced, draw, turning_points
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.programs import require_program

NOTHING = "nothing"
WITHOUT = "without "


@dataclass(frozen=True)
class Failure:
    """A state that was not as it must be, and how to see it again."""

    cut: int
    seed: str
    reason: str
    where: str
    """The innermost line of this library."""
    fates: Mapping[Unsynced, Fate]

    def __str__(self) -> str:
        lost = [f"      {fate}: {each}" for each, fate in self.fates.items() if fate != KEPT]
        return "\n".join([f"  cut {self.cut} seed '{self.seed}': {self.reason} ({self.where})", *lost[:12]])


def fates_for(cut: int, seed: str, unsynced: Sequence[Unsynced]) -> dict[Unsynced, Fate]:
    """What becomes of each unsynced thing in the state that a seed names."""
    if seed == NOTHING:
        return dict.fromkeys(unsynced, LOST)
    if seed.startswith(WITHOUT):
        return {each: LOST if WITHOUT + str(each) == seed else KEPT for each in unsynced}
    return draw(f"{cut}/{seed}", unsynced)


@dataclass(frozen=True)
class Recording:
    """What a program did, operation by operation."""

    folder: Path
    program: Program
    operations: list[Operation]
    before: World

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @classmethod
    def make(cls, program: Program, folder: Path) -> Recording:
        """Record it, with syncing on."""
        require_program("strace")
        program.prepare(folder / "home")
        shutil.copytree(folder / "home", folder / "before")
        (folder / "said").mkdir()
        (folder / "program").write_text(program.name)
        command = [sys.executable, "-m", "tests.support.power_cut_programs", program.name]
        record(
            [*command, str(folder / "home"), str(folder / "said")],
            folder / "home",
            clean_environment(OMNIGRAPH_FSYNC="on", PYTHONPATH=str(REPOSITORY), PYTHONDONTWRITEBYTECODE="1"),
            folder / "trace.log",
        )
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> Recording:
        home = folder / "home"
        Disk(folder / "before").write_to(home, lambda each: KEPT)
        operations = parse(folder / "trace.log", home, folder / "said")
        return cls(folder, ALL[(folder / "program").read_text()], operations, observe(home))

    def promised(self, cut: int) -> dict[str, Commits]:
        """What had been acknowledged when the power failed."""
        steps = [each.path for each in self.operations[:cut] if each.call == ACKNOWLEDGED]
        return {step: json.loads(facts_of(self.folder / "said", step).read_text()) for step in steps}

    def targeted(self) -> list[tuple[int, str]]:
        """The states that lack a single thing that matters, as late as it could be lost; and the end."""
        wanted = re.compile("|".join(self.program.matters) or "(?!)")
        last: dict[str, int] = {}
        disk, applied = Disk(self.folder / "before"), 0
        for cut in turning_points(self.operations):
            for operation in self.operations[applied:cut]:
                disk.apply(operation)
            applied = cut
            last |= {str(each): cut for each in disk.unsynced() if wanted.search(str(each))}
        return [(cut, WITHOUT + each) for each, cut in last.items()] + [(len(self.operations), NOTHING)]

    def failures(self, states: Iterable[tuple[int, str]]) -> list[Failure]:
        """Lay out each state, given by cut and seed, and check it."""
        disk, applied = Disk(self.folder / "before"), 0
        found = []
        for cut, seed in sorted(states):
            for operation in self.operations[applied:cut]:
                disk.apply(operation)
            applied = cut
            failure = self._failure(disk, cut, seed, fates_for(cut, seed, disk.unsynced()))
            if failure is not None:
                found.append(failure)
        return found

    def _failure(self, disk: Disk, cut: int, seed: str, fates: Mapping[Unsynced, Fate]) -> Failure | None:
        disk.write_to(self.home, fates.__getitem__)
        try:
            check(self.home, self.program, self.before, self.promised(cut), f"{cut}/{seed}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # Also a panic inside of Lance, which is no Exception.
            frames = [
                each
                for each in traceback.extract_tb(error.__traceback__)
                if "/omnigraph_core/" in each.filename
            ]
            frames = frames or traceback.extract_tb(error.__traceback__)
            where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno} {frames[-1].name}"
            return Failure(cut, seed, f"{type(error).__name__}: {error}", where, fates)
        return None

    def report(self, failures: list[Failure]) -> str:
        lines = [f"{self.program.name}: {len(failures)} states are wrong; the first:"]
        lines += [str(failure) for failure in failures[:5]]
        lines.append(f"replay: python -m tests.support.power_cut_recordings '{self.folder}' CUT SEED")
        return "\n".join(lines)


def main() -> None:
    folder, cut, seed, *more = sys.argv[1:]
    recording = Recording.load(Path(folder))
    disk = Disk(recording.folder / "before")
    for operation in recording.operations[: int(cut)]:
        disk.apply(operation)
    fates = fates_for(int(cut), seed, disk.unsynced())
    for each, fate in fates.items():
        sys.stdout.write(f"{fate}: {each}\n")
    disk.write_to(recording.home, fates.__getitem__)
    if "--lay-out" not in more:
        check(
            recording.home, recording.program, recording.before, recording.promised(int(cut)), f"{cut}/{seed}"
        )


if __name__ == "__main__":
    main()
