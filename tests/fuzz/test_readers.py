"""Whatever the bytes of an input: rows that are whole, violations with their lines, or one of our errors.

Every record is accounted for: it is a row, or something is wrong with its line. Mutants are
drawn from a fixed seed, so a failure repeats; its number is in the note of the error.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.readers import run


@pytest.mark.parametrize(("name", "count"), [("jsonl", 600), ("csv", 600)])
def test_a_few_mutants(name: str, count: int, tmp_path: Path) -> None:
    assert count // 20 < run(name, tmp_path, 0, count) < count


IN_A_CHILD = """
import sys
from pathlib import Path
from tests.fuzz.readers import run
print(run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
"""


def in_a_child(name: str, folder: Path, first: int, count: int) -> int:
    """A reader in another language may take the process along."""
    command = [sys.executable, "-c", IN_A_CHILD, name, str(folder), str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{name}, mutants from {first}: {done.returncode}\n{done.stderr[-3000:]}"
    return int(done.stdout)


def test_a_few_mutants_of_parquet(tmp_path: Path) -> None:
    assert 5 < in_a_child("parquet", tmp_path, 0, 200) < 200


KEPT = """
import sys
from pathlib import Path
from omnigraph_core.load.formats.compressed import DamagedInput
from tests.fuzz.readers import by_parquet
try:
    by_parquet(Path(sys.argv[1]))
except DamagedInput:
    print("refused")
"""


@pytest.mark.parametrize("name", ["levels", "name"])
def test_a_file_that_arrow_does_not_refuse(name: str) -> None:
    """A histogram that does not fit its column: asked about the column, Arrow ends the process. And the
    name of a column chunk that is no text.
    """
    path = Path(__file__).parent / "corpus" / f"{name}.parquet"
    done = subprocess.run([sys.executable, "-c", KEPT, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("name", "rounds"), [("jsonl", 100), ("csv", 100), ("parquet", 50)])
def test_many_mutants(name: str, rounds: int, tmp_path: Path) -> None:
    for number in range(1, rounds + 1):
        in_a_child(name, tmp_path, number * 10_000, 10_000)
