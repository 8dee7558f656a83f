"""A load needs at most OMNIGRAPH_MEMORY_LIMIT (of 64 MiB or more) and 250 MB, whatever its input looks like.

Measured in a child: the peak of its resident memory. The full sizes are a soak.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.processes import OMNIGRAPH, clean_environment

SCHEMA = """
node P { k: String @key t: String? }
node R { a: String b: String @key(a, b) }
edge E: R -> R
"""
OWN_MB = 250

# Runs the command and prints its exit code and its peak in bytes.
MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def _wide(count: int, size: int) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "in.jsonl"
        with path.open("w") as file:
            for number in range(count):
                text = f"{number * 2654435761 % 2**64:016x}" * (size // 16)
                file.write(f'{{"type":"P","data":{{"k":"k{number}","t":"{text}"}}}}\n')
        return path

    return write


def _newlines(count: int) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "in.jsonl"
        path.write_bytes(b"\n" * count)
        return path

    return write


def _bad(count: int) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "in.jsonl"
        with path.open("w") as file:
            file.writelines(f'{{"type":"P","data":{{"k":{number}}}}}\n' for number in range(count))
        return path

    return write


def _repeated(count: int, size: int) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        keys = pa.array([f"k{number}" for number in range(count)])
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), ["x" * size])
        path = folder / "P.parquet"
        pq.write_table(pa.table({"k": keys, "t": texts}), path, compression="zstd")
        return path

    return write


def _renamed(count: int) -> Callable[[Path], Path]:
    """Edges, then nodes whose ids have their keys in another order."""

    def write(folder: Path) -> Path:
        path = folder / "in.jsonl"
        with path.open("w") as file:
            for number in range(count):
                ends = [rf"[\"b\",\"a{each % count:016}\"]" for each in (number * 7, number * 11)]
                file.write(f'{{"edge":"E","from":"{ends[0]}","to":"{ends[1]}"}}\n')
            for number in range(count):
                key = f"a{number:016}"
                file.write(rf'{{"type":"R","data":{{"id":"[\"b\",\"{key}\"]","a":"{key}","b":"b"}}}}')
                file.write("\n")
        return path

    return write


SMALL = {
    "1 kB": (_wide(70_000, 1_000), 0, 32),
    "20 kB": (_wide(4_000, 20_000), 0, 32),
    "newlines": (_newlines(16_000_000), 0, 32),
    "bad": (_bad(60_000), 7, 32),
    "repeated": (_repeated(250_000, 400), 0, 64),
    "long repeated": (_repeated(2_000, 200_000), 0, 64),
}
FULL = {
    "1 kB": (_wide(1_500_000, 1_000), 0),
    "20 kB": (_wide(100_000, 20_000), 0),
    "newlines": (_newlines(64_000_000), 0),
    "bad": (_bad(1_000_000), 7),
    "repeated": (_repeated(2_000_000, 400), 0),
    "renamed": (_renamed(1_000_000), 0),
}


def peak(folder: Path, write: Callable[[Path], Path], limit_mib: int) -> tuple[int, int]:
    """Exit code and peak of a load, in bytes."""
    Graph.init(str(folder / "g"), SCHEMA, Settings(fsync=False, actor="ann"))
    path = write(folder)
    command = [str(OMNIGRAPH), "load", str(folder / "g"), "--data", str(path), "--mode", "append"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command, "--rejects", str(folder / "bad.jsonl")],
        env=clean_environment(OMNIGRAPH_MEMORY_LIMIT=f"{limit_mib}MiB"),
        capture_output=True,
        text=True,
        check=True,
    )
    code, found = map(int, done.stdout.split())
    return code, found


@pytest.mark.parametrize("name", SMALL)
def test_memory_is_bounded_by_bytes(name: str, tmp_path: Path) -> None:
    write, expected, limit_mib = SMALL[name]
    code, found = peak(tmp_path, write, limit_mib)
    assert code == expected
    assert found <= limit_mib * 2**20 + OWN_MB * 10**6
    if expected:
        with (tmp_path / "bad.jsonl").open() as file:
            lines = [json.loads(line)["line"] for line in file]
        assert lines == list(range(1, 60_001))


@pytest.mark.soak
@pytest.mark.parametrize("limit_mib", [64, 128, 256])
@pytest.mark.parametrize("name", FULL)
def test_memory_is_bounded_at_full_size(name: str, limit_mib: int, tmp_path: Path) -> None:
    write, expected = FULL[name]
    code, found = peak(tmp_path, write, limit_mib)
    assert code == expected
    assert found <= limit_mib * 2**20 + OWN_MB * 10**6
