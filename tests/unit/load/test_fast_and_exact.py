"""The fast reader and the exact one are one reader: same rows, same refusals, same words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from omnigraph_core.load.formats import jsonl, source
from omnigraph_core.load.formats.jsonl import read_jsonl
from omnigraph_core.load.formats.jsonl_exact import ExactReader
from omnigraph_core.load.formats.source import Source
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.rules.violations import Violation, Violations
from omnigraph_core.schema import Schema, compile_schema
from omnigraph_core.schema.arrow import table_schema
from tests.support.examples import NEW
from tests.unit.load import inputs

Outcome = tuple[dict[tuple[int, str], str], list[Violation]]


def plain(piece: TypedRows) -> dict[tuple[int, str], str]:
    """Each row as text that shows every bit: the sign of a zero, the milliseconds of a date."""
    assert piece.rows.schema == table_schema(piece.entity)
    assert piece.rows.schema.metadata == table_schema(piece.entity).metadata
    piece.rows.validate()
    columns = {name: _shown(piece.rows.column(name)) for name in piece.rows.column_names}
    columns["@given"] = [None] * piece.rows.num_rows if piece.given is None else piece.given.to_pylist()
    return {
        (line, piece.entity.table_key): repr({name: values[row] for name, values in columns.items()})
        for row, line in enumerate(piece.lines.to_pylist())
    }


def _shown(column: pa.ChunkedArray) -> list[object]:
    type_ = column.type
    if type_ == pa.date64():
        column = column.cast(pa.int64())
    elif type_ == pa.list_(pa.field("item", pa.date64())):
        column = column.cast(pa.list_(pa.int64()))
    return list(column.to_pylist())


def by_both(path: Path, schema: Schema) -> Outcome:
    found = Violations(keep=None)
    rows: dict[tuple[int, str], str] = {}
    for piece in read_jsonl([Source(str(path))], schema, found):
        assert piece.lines.to_pylist() == sorted(piece.lines.to_pylist())
        rows |= plain(piece)
    return rows, list(found.first)


def by_exact_alone(path: Path, schema: Schema) -> Outcome:
    numbered = enumerate(path.read_bytes().split(b"\n"), 1)
    pieces, violations = ExactReader(schema).read(str(path), numbered)
    rows: dict[tuple[int, str], str] = {}
    for piece in pieces:
        rows |= plain(piece)
    return rows, violations


def assert_same(outcome: Outcome, expected: Outcome) -> None:
    """Show only where the outcomes differ: there are thousands of rows."""
    rows, violations = outcome
    expected_rows, expected_violations = expected
    keys = sorted(rows.keys() | expected_rows.keys())
    different = [(k, rows.get(k), expected_rows.get(k)) for k in keys if rows.get(k) != expected_rows.get(k)]
    assert different == []
    assert violations == expected_violations


def agree(tmp_path: Path, exact_lines: int, data: st.DataObject) -> None:
    schema = data.draw(inputs.schemas())
    records = data.draw(st.lists(inputs.lines(schema), min_size=1, max_size=12))
    end = data.draw(st.sampled_from([b"\n", b"\r\n"]))
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"{}\n" + end.join(records))
    # NUL bytes at the start of a file end the reading; here they are to reach the readers.
    with (
        mock.patch.object(jsonl, "_EXACT_LINES", exact_lines),
        mock.patch.object(source, "_LOOKED_AT_BYTES", 0),
    ):
        rows, violations = by_both(path, schema)
    event(f"good rows: {min(len(rows), 4)}")
    assert_same((rows, violations), by_exact_alone(path, schema))


@pytest.mark.slow
@pytest.mark.parametrize("exact_lines", [1, 256])
@settings(max_examples=50)
@given(data=st.data())
def test_both_paths_agree(tmp_path: Path, exact_lines: int, data: st.DataObject) -> None:
    agree(tmp_path, exact_lines, data)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("exact_lines", [1, 256])
@settings(NEW, max_examples=5000)
@given(data=st.data())
def test_both_paths_agree_for_long(tmp_path: Path, exact_lines: int, data: st.DataObject) -> None:
    agree(tmp_path, exact_lines, data)


ENVELOPES = [
    '{"type":%s}',
    '{"type":"T","data":%s}',
    '{"type":"T","d\\u0061ta":%s}',
    '{"type":"T","data":{"id":%s}}',
    '{"type":"T","data":{"\\u0069d":%s}}',
    '{"type":"K","data":{"s":"x","id":%s}}',
    '{"type":"T","data":{"s":"a"},"extra":%s}',
    '{"type":"T","data":{"s":"a","s":%s}}',
    '{"type":"T","data":{"s":"a","extra":%s}}',
    '{"type":"T","type":%s}',
    '{"type":"T"} %s',
    '{"type":"T"} %s {"type":"T"}',
    '{"type":"T"}%s}',
    '{"data":%s,"type":"T"}',
    '{"data":{},"type":%s}',
    '{"edge":%s,"from":"a","to":"b"}',
    '{"edge":"E","from":%s,"to":"b"}',
    '{"edge":"E","from":"a","to":%s,"data":{}}',
    '{"edge":"E","from":"a","to":"b","data":%s}',
    '{"edge":"E","from":"a","to":"b","type":%s}',
    "%s",
]


@pytest.mark.parametrize("exact_lines", [1, 10_000])
def test_every_value_at_every_place(tmp_path: Path, exact_lines: int) -> None:
    """Each odd value in each place of a record that is not a property."""
    schema = compile_schema("node T { s: String? }\nnode K { s: String @key }\nedge E: T -> T { s: String? }")
    values = [*inputs.NUMBERS, *inputs.STRINGS, *inputs.OTHERS, '"T"', '"E"', '"e"', r'"\u0054"', '{"s":"x"}']
    path = tmp_path / "in.jsonl"
    records = ["{}"] + [envelope % value for envelope in ENVELOPES for value in values]
    path.write_bytes("\n".join(records).encode())
    with mock.patch.object(jsonl, "_EXACT_LINES", exact_lines):
        assert_same(by_both(path, schema), by_exact_alone(path, schema))


@pytest.mark.parametrize("type_", ["String", "I64", "U64", "F32", "F64", "Bool", "Date", "DateTime"])
def test_every_key_in_every_spelling(tmp_path: Path, type_: str) -> None:
    """Ids of keyed nodes are the same whichever reader made them."""
    schema = compile_schema(
        f"node One {{ k: {type_} @key }}\nnode Two {{ k: {type_}\n s: String\n @key(s, k) }}"
    )
    values = inputs.NUMBERS + inputs.STRINGS + inputs.TIMES + ["true", "false"]
    texts = [r'"x"', r'"\u0000\n\\\""', '"é"', '""']
    one = [f'{{"type":"One","data":{{"k":{value}}}}}' for value in values]
    two = [f'{{"type":"Two","data":{{"k":{value},"s":{text}}}}}' for value in values for text in texts]
    path = tmp_path / "in.jsonl"
    path.write_bytes("\n".join(one + two).encode())
    with mock.patch.object(jsonl, "_EXACT_LINES", 1):
        rows, violations = by_both(path, schema)
    assert rows
    assert_same((rows, violations), by_exact_alone(path, schema))


def test_a_record_does_not_run_over_lines(tmp_path: Path) -> None:
    """Three lines, three values for a parser that takes newlines for spaces, and no good record."""
    schema = compile_schema("node T { type: String? }")
    path = tmp_path / "in.jsonl"
    path.write_text('{"type":"T","data":\n{"type":"T"}}\n{"type":"T"} {"type":"T"}\n')
    rows, violations = by_both(path, schema)
    assert rows == {}
    assert [violation.line for violation in violations] == [1, 2, 3]


GOOD = """
{"type":"Person","data":{"name":"Ann","born":"1999-12-31","seen":"2024-01-01T10:00:00.5Z","tags":["x"]}}
{"type": "Person", "data": {"name": "Bob", "age": 3, "v": [1, 2.5], "b": "base64:QQ=="}}
{"type":"Person","data":{"name":"Cyd"}}

{"edge":"knows","from":"Ann","to":"Bob"}
{"edge":"Knows","from":"Ann","to":"Bob","data":{"w":1}}
{"edge":"Knows","from":"Ann","to":"Bob","data":{"id":"e1","w":null}}
{"data":{"w":0.5},"edge":"Knows","from":"Ann","to":"Bob"}
{"type":"Dated","data":{"id":"d1","day":19000,"at":-1,"days":[1]}}
{"type":"Dated","data":{"day":null}}
{"type":"Dated","data":{"day":-5,"at":1700000000123,"days":[]}}
"""
EVERYTHING = """
node Person {
  name: String @key
  age: I32?
  born: Date?
  seen: DateTime?
  tags: [String]?
  v: Vector(2)?
  b: Blob?
}
node Dated { day: Date?
 at: DateTime?
 days: [Date]? }
edge Knows: Person -> Person { w: F64? }
"""


def test_ordinary_records_never_need_the_exact_reader(tmp_path: Path) -> None:
    """Else every load would be slow, and no other test would notice."""
    path = tmp_path / "in.jsonl"
    path.write_text(GOOD)
    schema = compile_schema(EVERYTHING)
    seen: list[bytes] = []
    original = ExactReader.read

    def spy(self: ExactReader, name: str, numbered: Iterable[tuple[int, bytes]]) -> object:
        kept = list(numbered)
        seen.extend(text for _, text in kept if text.strip())
        return original(self, name, kept)

    with mock.patch.object(ExactReader, "read", spy):
        rows, violations = by_both(path, schema)
    assert seen == []
    assert violations == []
    assert_same((rows, violations), by_exact_alone(path, schema))
    assert len(rows) == 10


WITH_DEFAULTS = """
{"type":"Person","data":{"name":"Ann"}}
{"type":"Person","data":{"name":"mood","mood":null,"level":null}}
{"type":"Person","data":{"name":"Zo\\u00eb \\"mood\\"","mood" : null}}
{"type":"Person","data":{"name":"Cyd","level":3,"mood":"bad"}}
{"edge":"Knows","from":"Ann","to":"Cyd"}
{"edge":"Knows","from":"Ann","to":"Cyd","data":{}}
{"edge":"Knows","from":"Ann","to":"Cyd","data":{"day":null}}
"""


def test_the_fast_reader_tells_a_null_from_a_value_that_is_missing(tmp_path: Path) -> None:
    """Exports have all nulls in them, so that records with nulls must not be slow to load."""
    path = tmp_path / "in.jsonl"
    path.write_text(WITH_DEFAULTS)
    schema = compile_schema(
        "node Person { name: String @key\n level: I32? @default(-1)\n"
        " mood: enum(good, bad)? @default(good) }\n"
        'edge Knows: Person -> Person { day: Date? @default("2024-01-31") }'
    )
    with mock.patch.object(ExactReader, "read", return_value=([], [])):
        found: dict[str, list[dict[str, object]]] = {}
        for piece in read_jsonl([Source(str(path))], schema, Violations()):
            found[piece.entity.name] = piece.rows.to_pylist()
    moods = [(row["mood"], row["level"]) for row in found["Person"]]
    assert moods == [("good", -1), (None, None), (None, -1), ("bad", 3)]
    day = date(2024, 1, 31)
    assert [row["day"] for row in found["Knows"]] == [day, day, None]
    assert_same(by_both(path, schema), by_exact_alone(path, schema))


def test_one_bad_line_among_many_costs_only_its_neighbours(tmp_path: Path) -> None:
    """The good lines around it are still read by the fast reader."""
    schema = compile_schema("node T { n: I64? }")
    path = tmp_path / "in.jsonl"
    lines = [f'{{"type":"T","data":{{"n":{number}}}}}' for number in range(20_000)]
    lines[12_345] = '{"type":"T","data":{"n":"12345"}}'
    path.write_text("\n".join(lines))
    read_one_by_one = 0
    original = ExactReader.read

    def spy(self: ExactReader, name: str, numbered: Iterable[tuple[int, bytes]]) -> object:
        nonlocal read_one_by_one
        kept = list(numbered)
        read_one_by_one += len(kept)
        return original(self, name, kept)

    found = Violations()
    with mock.patch.object(ExactReader, "read", spy):
        pieces = list(read_jsonl([Source(str(path))], schema, found))
    (piece,) = pieces
    assert piece.rows.num_rows == 19_999
    assert piece.lines.to_pylist() == [n + 1 for n in range(20_000) if n != 12_345]
    assert piece.rows.column("n").to_pylist() == [n for n in range(20_000) if n != 12_345]
    assert [str(violation) for violation in found.first] == [
        f"{path}:12346: T.n: expects I64, got string '12345'"
    ]
    assert read_one_by_one <= 256
