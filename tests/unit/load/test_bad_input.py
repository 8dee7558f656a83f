"""Input that is wrong as a whole, or in many places: what `load` will say."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph_core.errors import LimitError, UsageError
from omnigraph_core.load.formats.jsonl import read_jsonl
from omnigraph_core.load.formats.source import Source
from omnigraph_core.progress import ProgressEvent
from omnigraph_core.rules.violations import InvalidRecords, Violations
from omnigraph_core.schema import compile_schema

SCHEMA = compile_schema("node T { n: I64?\n s: String? }\nedge E: T -> T")
GOOD = b'{"type":"T","data":{"n":1}}\n'


def read_all(path: Path, **options: int) -> None:
    violations = Violations()
    for _ in read_jsonl([Source(str(path), **options)], SCHEMA, violations):
        pass
    violations.raise_if_any()


def complaints(path: Path, **options: int) -> list[str]:
    """Everything said about the file, line by line as a user sees it, without the directory."""
    with pytest.raises(InvalidRecords) as caught:
        read_all(path, **options)
    return [line.removeprefix(f"{path.parent}/") for line in str(caught.value).splitlines()]


CASES: dict[str, tuple[bytes, list[str]]] = {
    "cut after a colon": (
        GOOD + b'{"type":"T","data":{"n":',
        ["in:2: invalid JSON: Expecting value at column 25"],
    ),
    "cut in a number": (
        GOOD * 3 + b'{"type":"T","data":{"n":1',
        ["in:4: invalid JSON: Expecting ',' delimiter at column 26"],
    ),
    "cut in a text": (
        GOOD + b'{"type":"T","data":{"s":"abc',
        ["in:2: invalid JSON: Unterminated string starting at column 25"],
    ),
    "latin-1": (
        GOOD + '{"type":"T","data":{"s":"é"}}'.encode("latin-1"),
        ["in:2: not valid UTF-8: byte 0xe9 at position 26"],
    ),
    "NaN": (
        GOOD + b'{"type":"T","data":{"n":NaN}}',
        ["in:2: invalid JSON: NaN is not a JSON number"],
    ),
    "huge integer": (
        GOOD + b'{"type":"T","data":{"n":9223372036854775808}}',
        ["in:2: T.n: 9223372036854775808 is out of range for I64"],
    ),
    "unknown type": (GOOD + b'{"type":"U"}\n' + GOOD, ["in:2: unknown node type 'U'"]),
    "JSON array": (b"[" + GOOD, ["in:1: invalid JSON: Expecting ',' delimiter at column 29"]),
    "carriage returns": (
        GOOD.replace(b"\n", b"\r") * 2,
        ["in:1: invalid JSON: Extra data at column 29"],
    ),
    "CSV": (
        GOOD + b"name,age\nAnn,30\n",
        [f"in:{line}: invalid JSON: Expecting value at column 1" for line in (2, 3)],
    ),
    "second byte order mark": (
        b"\xef\xbb\xbf" + GOOD + b"\xef\xbb\xbf" + GOOD,
        ["in:2: invalid JSON: Expecting value at column 1"],
    ),
    "NUL far inside": (
        GOOD * 400 + b'{"type":"T","data":{"s":"\0"}}\n',
        ["in:401: invalid JSON: Invalid control character at column 26"],
    ),
}


@pytest.mark.parametrize(("content", "expected"), CASES.values(), ids=CASES)
def test_one_clear_message(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    path = tmp_path / "in"
    path.write_bytes(content)
    assert complaints(path) == expected
    assert complaints(path, block_bytes=40) == expected


def test_binary_garbage(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(random.Random(5).randbytes(100_000))
    (complaint,) = complaints(path)
    assert complaint.endswith("the input is not UTF-8 text: it has NUL bytes")


def test_an_over_long_line(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(GOOD + b'{"type":"T","data":{"s":"' + b"x" * 10_000 + b'"}}\n')
    with pytest.raises(LimitError, match=r"in:2: the line is longer than"):
        list(read_jsonl([Source(str(path), block_bytes=64, line_bytes_max=9_000)], SCHEMA, Violations()))


def test_a_long_line_is_read_whole(tmp_path: Path) -> None:
    """Longer than a block, and far longer than pyarrow's own block of a megabyte."""
    path = tmp_path / "in"
    text = "é" * 3_000_000
    path.write_text(f'{{"type":"T","data":{{"s":"{text}"}}}}\n' + GOOD.decode())
    violations = Violations()
    pieces = list(read_jsonl([Source(str(path), block_bytes=1000)], SCHEMA, violations))
    assert violations.total == 0
    assert [value for piece in pieces for value in piece.rows.column("s").to_pylist()] == [text, None]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"  \r\n", b"\xef\xbb\xbf"])
def test_no_records(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "in"
    path.write_bytes(content)
    violations = Violations()
    assert list(read_jsonl([Source(str(path))], SCHEMA, violations)) == []
    assert violations.total == 0


def test_a_missing_file_is_noticed_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        Source(str(tmp_path / "in"))


def test_many_violations_are_counted_and_the_first_shown(tmp_path: Path) -> None:
    path = tmp_path / "in"
    bad = b'{"type":"T","data":{"n":"x","m":1}}\n'
    path.write_bytes((GOOD + bad) * 5_000)
    lines = complaints(path, block_bytes=10_000)
    assert lines[:2] == [
        "in:2: T.n: expects I64, got string 'x'",
        "in:2: T.m: unknown input field 'm' for 'node:T'",
    ]
    assert lines[19] == "in:20: T.m: unknown input field 'm' for 'node:T'"
    assert lines[20:] == ["…and 9980 more"]


def test_several_inputs_in_order_with_progress(tmp_path: Path) -> None:
    """Rows of one type come in input order, whichever reader read them, and bytes are told."""
    sources = []
    expected: list[tuple[str, int, int]] = []
    for name in ("b", "a"):
        path = tmp_path / name
        lines = []
        for number in range(3_000):
            value = "-0" if number % 7 == 0 else str(number)  # half the spellings are the exact reader's
            order = '{"data":{"n":%s},"type":"T"}' if number % 3 else '{"type":"T","data":{"n":%s}} '
            lines.append(order % value)
            expected.append((str(path), number + 1, 0 if number % 7 == 0 else number))
        path.write_text("\r\n".join(lines))
        sources.append(Source(str(path), block_bytes=5_000))
    events: list[ProgressEvent] = []
    violations = Violations()
    found: list[tuple[str, int, int]] = []
    for piece in read_jsonl(sources, SCHEMA, violations, events.append):
        numbers = piece.rows.column("n").to_pylist()
        found += zip([piece.source] * len(numbers), piece.lines.to_pylist(), numbers, strict=True)
    assert violations.total == 0
    assert found == expected
    total = sum(source.size or 0 for source in sources)
    assert (events[-1].done, events[-1].total, events[-1].unit) == (total, total, "bytes")
    assert [event.done for event in events] == sorted({event.done for event in events})


def test_giving_up_half_way_leaves_no_thread_behind(tmp_path: Path) -> None:
    import threading

    path = tmp_path / "in"
    path.write_bytes(GOOD * 10_000)
    rows = read_jsonl([Source(str(path), block_bytes=1_000)], SCHEMA, Violations())
    next(rows)
    closing: Callable[[], None] = rows.close  # type: ignore[attr-defined]
    closing()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("load")]


def test_rows_carry_nulls_for_what_is_missing(tmp_path: Path) -> None:
    schema = compile_schema("node T { n: I64\n b: Blob\n v: Vector(3) }")
    path = tmp_path / "in"
    path.write_bytes(b'{"type":"T"}\n{"type":"T","data":{}}\n')
    (piece,) = read_jsonl([Source(str(path))], schema, Violations())
    assert piece.rows.to_pylist() == [{"id": None, "b": None, "n": None, "v": None}] * 2
    assert piece.lines == pa.array([1, 2], pa.int64())
