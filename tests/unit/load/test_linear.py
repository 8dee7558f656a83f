"""Inputs that are made to be slow take time by their size, not by its square."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core.load.formats.csv import read_csv
from omnigraph_core.load.formats.jsonl import read_jsonl
from omnigraph_core.load.formats.source import Source
from omnigraph_core.rules.violations import InvalidRecords, Violations
from omnigraph_core.schema import compile_schema
from tests.support.cpu import ROUNDS

SCHEMA = compile_schema("node P { k: String @key t: String? }", "s.pg")


def _keys(count: int, *, same: bool) -> str:
    names = ",".join(f'"{"x" * 8}{0 if same else number}":1' for number in range(count))
    return f'{{"type":"P","data":{{{names}}}}}\n'


def _json(path: Path) -> Violations:
    violations = Violations()
    list(read_jsonl([Source(str(path))], SCHEMA, violations))
    return violations


def _csv(path: Path) -> Violations:
    violations = Violations()
    with pytest.raises(InvalidRecords):
        list(read_csv(Source(str(path)), SCHEMA.node("P"), violations))
    return violations


INPUTS: dict[str, tuple[Callable[[int], str], Callable[[Path], Violations]]] = {
    "keys": (lambda count: _keys(count, same=False), _json),
    "repeated keys": (lambda count: _keys(count, same=True), _json),
    "envelope": (lambda count: json.dumps({f"k{number}": 1 for number in range(count)}) + "\n", _json),
    "header": (lambda count: ",".join(f"c{number}" for number in range(count)) + "\n", _csv),
    "repeated header": (lambda count: ",".join(["c", "d"] * (count // 2)) + "\n", _csv),
}


@pytest.mark.parametrize("name", INPUTS)
def test_ten_times_the_input_takes_ten_times_the_work(name: str, tmp_path: Path) -> None:
    """Measured by CPU time of all threads, at its best of a few rounds; a square would be a hundred times."""
    write, read = INPUTS[name]
    small, large = tmp_path / "small.txt", tmp_path / "large.txt"
    small.write_text(write(4_000))
    large.write_text(write(40_000))

    def spent(path: Path) -> float:
        started = time.process_time()
        read(path)
        return time.process_time() - started

    least = max(min(spent(small) for _ in range(ROUNDS)), 0.01)
    assert any(spent(large) < 40 * least for _ in range(ROUNDS))


def test_empty_lines_are_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\n" * 200_000 + b"\r\n" * 3 + b" \n" + b'{"type":"P","data":{"k":"a"}}\n\n{"x":1}')
    violations = Violations()
    (rows,) = read_jsonl([Source(str(path))], SCHEMA, violations)
    assert rows.lines.to_pylist() == [200_005]
    assert {each.line for each in violations.first} == {200_007}
