"""Parquet: types are checked before rows are read, and nothing is lost on the way."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_core.errors import BadDataError
from omnigraph_core.load.formats import parquet_sizes
from omnigraph_core.load.formats.compressed import DamagedInput
from omnigraph_core.load.formats.parquet import ParquetSource, read_typed
from omnigraph_core.load.formats.typed_values import fits, widen
from omnigraph_core.progress import ProgressEvent
from omnigraph_core.rules.violations import InvalidRecords, Violation, Violations
from omnigraph_core.schema import EntityType, PropertyType, compile_schema
from omnigraph_core.schema.arrow import arrow_type, table_schema

SCHEMA = compile_schema("""
node T {
  s: String?  b: Bool?  i: I32?  l: I64?  u: U32?  v: U64?  f: F32?  g: F64?
  d: Date?  t: DateTime?  e: enum(a, b)?  n: [String]?  li: [I64]?  lt: [DateTime]?  w: Vector(2)?  x: Blob?
}
node K { k: String @key  n: I64? }
node Two { a: F64  b: String  @key(b, a) }
edge E: K -> K { w: F64? }
""")


def entity(name: str) -> EntityType:
    return next(each for each in SCHEMA.types() if each.name == name)


def type_of(name: str) -> PropertyType:
    prop = entity("T").find_property(name)
    assert prop is not None
    return prop.type


def read(
    tmp_path: Path, table: pa.Table, type_: str, **options: Any
) -> tuple[list[dict[str, Any]], list[Violation]]:
    """The rows, each with its number under `row`, and the violations."""
    path = tmp_path / "in.parquet"
    pq.write_table(table, path, **options)
    found = Violations(keep=None)
    rows = []
    for piece in read_typed(ParquetSource(str(path)), entity(type_), found):
        assert piece.rows.schema == table_schema(piece.entity)
        piece.rows.validate()
        rows += [
            {"row": n, **row} for n, row in zip(piece.lines.to_pylist(), _plain(piece.rows), strict=True)
        ]
    return rows, list(found.first)


def _plain(rows: pa.Table) -> list[dict[str, Any]]:
    return list(pa.table({name: _numbers(rows.column(name)) for name in rows.column_names}).to_pylist())


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as the numbers they are: Python would cut them to days."""
    if column.type in (pa.date32(), pa.date64()):
        return column.cast(pa.int32() if column.type == pa.date32() else pa.int64())
    if column.type == pa.list_(pa.field("item", pa.date64())):
        return column.cast(pa.list_(pa.int64()))
    return column


def said(violations: list[Violation]) -> list[str]:
    return [f"{each.line}: {each.property or ''}: {each.message}" for each in violations]


def refused(tmp_path: Path, table: pa.Table, type_: str) -> list[str]:
    with pytest.raises(InvalidRecords) as caught:
        read(tmp_path, table, type_)
    return [each.message for each in caught.value.violations]


# ---- which types a property takes ----

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)]
DATES = [pa.date32(), pa.date64()]
MOMENTS = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "+02:00")]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
OTHERS = [pa.bool_(), pa.decimal128(9, 2), pa.time32("s"), pa.duration("s"), pa.struct([("a", pa.int8())])]
SCALARS = INTEGERS + TEXTS + BYTES + DATES + MOMENTS + FLOATS + OTHERS
ANY_INTEGER_OR = set(INTEGERS)
TAKEN: dict[str, set[pa.DataType]] = {
    "s": set(TEXTS),
    "e": set(TEXTS),
    "b": {pa.bool_()},
    "i": set(INTEGERS),
    "l": set(INTEGERS),
    "u": set(INTEGERS),
    "v": set(INTEGERS),
    "f": {*INTEGERS, pa.float16(), pa.float32()},
    "g": {*INTEGERS, *FLOATS},
    "d": set(DATES),
    "t": {*MOMENTS, *DATES},
    "x": set(BYTES),
}


@pytest.mark.parametrize("name", TAKEN)
def test_which_types_fit(name: str) -> None:
    type_ = type_of(name)
    assert {found for found in SCALARS if fits(found, type_)} == TAKEN[name]
    assert {found for found in SCALARS if fits(pa.dictionary(pa.int32(), found), type_)} == TAKEN[name]
    assert fits(pa.null(), type_)
    assert not fits(pa.list_(next(iter(TAKEN[name]))), type_)


@pytest.mark.parametrize("name", TAKEN)
def test_every_type_that_fits_is_converted(name: str) -> None:
    """No type is let through that the conversion then fails on."""
    type_ = type_of(name)
    for found in [*TAKEN[name], pa.null()]:
        column = pa.nulls(3, found)
        assert widen(column, type_).values.type == arrow_type(type_)
        assert widen(column, type_).values.null_count == 3
    for found in (pa.string(), pa.int8()):
        if found in TAKEN[name]:
            encoded = pa.array(["x", None, "x"] if found == pa.string() else [1, None, 1], found)
            plain = widen(encoded, type_).values
            assert widen(encoded.dictionary_encode(), type_).values.equals(plain)


def test_which_lists_fit() -> None:
    kinds = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda item: pa.list_(item, 2)]
    for kind in kinds:
        assert fits(kind(pa.string()), type_of("n"))
        assert fits(kind(pa.int32()), type_of("li"))
        assert fits(kind(pa.uint64()), type_of("li"))
        assert not fits(kind(pa.string()), type_of("li"))
        assert fits(kind(pa.float32()), type_of("w"))
        assert not fits(kind(pa.float64()), type_of("w"))
    assert not fits(pa.list_(pa.float32(), 3), type_of("w"))
    assert fits(pa.list_(pa.float32(), 3), PropertyType(type_of("f").scalar, is_list=True))
    assert not fits(pa.string(), type_of("n"))


def test_columns_are_refused_at_once_all_of_them(tmp_path: Path) -> None:
    table = pa.table({"i": [1.0], "s": [1], "w": [[1.0, 2.0]], "l": [1], "zz": [1]})
    assert refused(tmp_path, table, "T") == [
        "unknown column 'zz' (columns are: id,b,d,e,f,g,i,l,li,lt,n,s,t,u,v,w,x)"
    ]
    assert refused(tmp_path, table.drop(["zz"]), "T") == [
        "the column 'i' expects I32, found double",
        "the column 's' expects String, found int64",
        "the column 'w' expects Vector(2), found list<element: double>",
    ]


def test_missing_and_repeated_columns(tmp_path: Path) -> None:
    assert refused(tmp_path, pa.table({"n": [1]}), "K") == ["required column 'k' is missing"]
    assert refused(tmp_path, pa.table({"from": ["a"]}), "E") == ["required column 'to' is missing"]
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["k", "k"])
    assert refused(tmp_path, twice, "K") == ["column 'k' occurs 2 times"]
    assert refused(tmp_path, pa.table({"k": ["a"], "id": [1]}), "K") == [
        "the column 'id' expects String, found int64"
    ]
    assert refused(tmp_path, pa.table({"from": [1], "to": ["a"]}), "E") == [
        "the column 'from' expects String, found int64"
    ]


# ---- values ----

JUST_BELOW = 2**53
VALUES: list[tuple[str, pa.Array, list[Any]]] = [
    ("i", pa.array([2**31 - 1, -(2**31), None], pa.int64()), [2**31 - 1, -(2**31), None]),
    ("l", pa.array([2**63 - 1, None], pa.uint64()), [2**63 - 1, None]),
    ("u", pa.array([2**32 - 1, 0, None], pa.int64()), [2**32 - 1, 0, None]),
    ("v", pa.array([127, 0], pa.int8()), [127, 0]),
    ("l", pa.array([-128, None, 127], pa.int8()), [-128, None, 127]),
    ("i", pa.array([255, None], pa.uint8()), [255, None]),
    ("l", pa.array([2**32 - 1], pa.uint32()), [2**32 - 1]),
    ("v", pa.array([2**64 - 1, None], pa.uint64()), [2**64 - 1, None]),
    ("g", pa.array([0.5, None, -0.0], pa.float32()), [0.5, None, -0.0]),
    (
        "g",
        pa.array([JUST_BELOW, 2**60, -(2**63), None], pa.int64()),
        [float(2**53), 2.0**60, -(2.0**63), None],
    ),
    ("g", pa.array([2**63], pa.uint64()), [2.0**63]),
    ("f", pa.array([2**24, None, -(2**31)], pa.int32()), [2.0**24, None, -(2.0**31)]),
    ("s", pa.array(["x", None, ""], pa.large_string()), ["x", None, ""]),
    ("s", pa.array(["x", None, "x"]).dictionary_encode(), ["x", None, "x"]),
    ("s", pa.nulls(2), [None, None]),
    ("d", pa.array([0, None, 86_400_000 * 5], pa.int64()).view(pa.date64()), [0, None, 5]),
    ("t", pa.array([-1, None], pa.int64()).view(pa.timestamp("s")), [-1000, None]),
    ("t", pa.array([-1, None], pa.int64()).view(pa.timestamp("ms", "+05:30")), [-1, None]),
    ("t", pa.array([-1000, None, 1000], pa.int64()).view(pa.timestamp("us", "UTC")), [-1, None, 1]),
    ("t", pa.array([-1_000_000, 5_000_000], pa.int64()).view(pa.timestamp("ns")), [-1, 5]),
    ("t", pa.array([1, None], pa.int32()).view(pa.date32()), [86_400_000, None]),
    ("n", pa.array([["a", ""], None, []], pa.large_list(pa.large_string())), [["a", ""], None, []]),
    ("li", pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
    ("lt", pa.array([[1000], None, []], pa.list_(pa.timestamp("us"))), [[1], None, []]),
    ("w", pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32())), [[1.0, 2.0], None, [3.0, 4.0]]),
    ("w", pa.array([[1, 2], None], pa.list_(pa.float32(), 2)), [[1.0, 2.0], None]),
]


@pytest.mark.parametrize(
    ("name", "column", "expected"), VALUES, ids=lambda each: str(getattr(each, "type", ""))
)
def test_values_arrive_as_they_are(tmp_path: Path, name: str, column: pa.Array, expected: list[Any]) -> None:
    rows, violations = read(tmp_path, pa.table({name: column}), "T")
    assert said(violations) == []
    assert repr([row[name] for row in rows]) == repr(expected)
    sliced = widen(pa.concat_arrays([column, column]).slice(len(column)), type_of(name))
    assert repr([row[name] for row in _plain(pa.table({name: sliced.values}))]) == repr(expected)


def test_blobs(tmp_path: Path) -> None:
    for kind in (pa.binary(), pa.large_binary()):
        rows, _ = read(tmp_path, pa.table({"x": pa.array([b"\0\xff", b"", None], kind)}), "T")
        assert [row["x"] and row["x"]["data"] for row in rows] == [b"\0\xff", b"", None]
    rows, _ = read(tmp_path, pa.table({"x": pa.array([b"abc"], pa.binary(3))}), "T")
    assert rows[0]["x"]["data"] == b"abc"


def moments(numbers: list[int], unit: str) -> pa.Array:
    return pa.array(numbers, pa.int64()).view(pa.timestamp(unit))


LOST: list[tuple[str, pa.Array, str]] = [
    ("i", pa.array([1, 2**31], pa.int64()), "2147483648 is out of range for I32"),
    ("i", pa.array([1, -(2**31) - 1], pa.int64()), "-2147483649 is out of range for I32"),
    ("l", pa.array([1, 2**63], pa.uint64()), "9223372036854775808 is out of range for I64"),
    ("u", pa.array([1, -1], pa.int8()), "-1 is out of range for U32"),
    ("v", pa.array([1, -1], pa.int64()), "-1 is out of range for U64"),
    ("li", pa.array([[1], [1, 2**63]], pa.list_(pa.uint64())),
     "item 1: 9223372036854775808 is out of range for I64"),
    ("g", pa.array([1, 2**53 + 1], pa.int64()), "9007199254740993 is not exact as F64"),
    ("g", pa.array([1, 2**63 - 1], pa.int64()), "9223372036854775807 is not exact as F64"),
    ("g", pa.array([1, 2**64 - 1], pa.uint64()), "18446744073709551615 is not exact as F64"),
    ("f", pa.array([1, 2**24 + 1], pa.int32()), "16777217 is not exact as F32"),
    ("g", pa.array([1, float("nan")]), "nan is not a finite F64 number"),
    ("f", pa.array([1, float("-inf")], pa.float32()), "-inf is not a finite F32 number"),
    ("t", moments([1000, 1001], "us"),
     "1970-01-01 00:00:00.001001 is more precise than a millisecond"),
    ("t", moments([0, -1], "ns"),
     "1969-12-31 23:59:59.999999999 is more precise than a millisecond"),
    ("t", moments([0, -(2**62)], "ms"), "millisecond -4611686018427387904 is outside the years 0001 to 9999"),
    ("d", pa.array([0, 2932897], pa.date32()), "day 2932897 is outside the years 0001 to 9999"),
    ("n", pa.array([["a"], ["a", None]]), "item 1: null is not allowed in a list"),
    ("lt", pa.array([[0], [0, 0, 1]], pa.list_(pa.timestamp("us"))),
     "item 2: 1970-01-01 00:00:00.000001 is more precise than a millisecond"),
    ("w", pa.array([[1, 2], [1, 2, 3]], pa.list_(pa.float32())), "expects 2 dimensions, got 3"),
    ("w", pa.array([[1, 2], []], pa.list_(pa.float32())), "expects 2 dimensions, got 0"),
    ("w", pa.array([[1, 2], [1, None]], pa.list_(pa.float32())), "item 1: null is not allowed in a list"),
    ("w", pa.array([[1, 2], [1, float("inf")]], pa.list_(pa.float32(), 2)),
     "item 1: inf is not a finite F32 number"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "column", "message"), LOST, ids=lambda each: each if isinstance(each, str) else ""
)
def test_what_would_be_lost_is_said_with_its_row(
    tmp_path: Path, name: str, column: pa.Array, message: str
) -> None:
    """The row before it, which is right, still arrives."""
    before = pa.nulls(2, column.type)
    rows, violations = read(tmp_path, pa.table({name: pa.concat_arrays([before, column])}), "T")
    assert said(violations) == [f"4: {name}: {message}"]
    assert [row["row"] for row in rows] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("t", moments([0, 2**62], "s"), "millisecond 253402300800000 is outside the years 0001 to 9999"),
        ("d", pa.array([0, 1], pa.int64()).view(pa.date64()), "1970-01-01 00:00:00.001 is not a whole day"),
    ],
)
def test_what_other_writers_than_arrow_can_write(name: str, column: pa.Array, message: str) -> None:
    (fault,) = widen(column, type_of(name)).faults
    assert fault.rows.to_pylist() == [False, True]
    assert fault.describe(1) == message


def test_texts_that_are_not_utf8(tmp_path: Path) -> None:
    texts = pa.array([b"ok", b"\xff", None, b"\xc3\xa9"]).view(pa.utf8())
    rows, violations = read(tmp_path, pa.table({"s": texts}), "T")
    assert said(violations) == ["2: s: not valid UTF-8"]
    assert [row["s"] for row in rows] == ["ok", None, "é"]


def test_ids_and_ends(tmp_path: Path) -> None:
    table = pa.table({"k": ["a", "b", None], "id": ["a", "x", "z"]})
    rows, violations = read(tmp_path, table, "K")
    assert said(violations) == ["2: id: id 'x' is not the id its key gives, 'b'"]
    assert [(row["row"], row["id"], row["k"]) for row in rows] == [(1, "a", "a"), (3, None, None)]
    table = pa.table({"from": ["a", None, "b", "c"], "to": ["b", "b", None, "d"], "id": ["i", "j", None, ""]})
    rows, violations = read(tmp_path, table, "E")
    assert said(violations) == [
        "2: : edge missing 'from'",
        "3: : edge missing 'to'",
        "4: id: an id must not be empty",
    ]
    assert [(row["src"], row["dst"], row["id"]) for row in rows] == [("a", "b", "i")]
    rows, violations = read(tmp_path, pa.table({"b": ["x", "y"], "a": [0.5, float("nan")]}), "Two")
    assert said(violations) == ["2: a: nan is not a finite F64 number"]
    assert [row["id"] for row in rows] == ['["x","0.5"]']


def test_all_that_is_wrong_with_a_row_and_what_the_row_was(tmp_path: Path) -> None:
    table = pa.table({"g": [float("nan")], "t": moments([1], "ns"), "x": pa.array([b"hi"]), "s": ["é"]})
    rows, violations = read(tmp_path, table, "T")
    assert rows == []
    assert [each.property for each in violations] == ["g", "t"]
    record = json.loads((violations[0].record or b"").decode())
    assert (record["t"], record["x"], record["s"]) == (1, "base64:aGk=", "é")


def test_only_violations_that_will_be_seen_are_worded(tmp_path: Path) -> None:
    pq.write_table(pa.table({"g": [float("nan")] * 5_000}), tmp_path / "in.parquet")
    found = Violations()
    assert [
        piece.rows.num_rows
        for piece in read_typed(ParquetSource(str(tmp_path / "in.parquet")), entity("T"), found)
    ] == [0]
    assert (found.total, len(found.first)) == (5_000, 20)


# ---- files ----


def test_no_rows_are_one_piece_without_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": pa.array([], pa.string())}), tmp_path / "in.parquet")
    (piece,) = read_typed(ParquetSource(str(tmp_path / "in.parquet")), entity("K"), Violations())
    assert (piece.rows.num_rows, len(piece.lines)) == (0, 0)
    assert piece.rows.schema == table_schema(entity("K"))


def test_a_file_comes_in_pieces_and_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_sizes, "PARQUET_BATCH_ROWS", 700)
    path = tmp_path / "in.parquet"
    pq.write_table(
        pa.table({"k": [f"k{n}" for n in range(5_000)], "n": range(5_000)}), path, row_group_size=2_000
    )
    source, events = ParquetSource(str(path)), list[ProgressEvent]()
    pieces = list(read_typed(source, entity("K"), Violations(), events.append))
    assert max(piece.rows.num_rows for piece in pieces) <= 700
    assert [n for piece in pieces for n in piece.rows.column("n").to_pylist()] == list(range(5_000))
    assert [n for piece in pieces for n in piece.lines.to_pylist()] == list(range(1, 5_001))
    assert (source.sha256, source.bytes_read) == (
        hashlib.sha256(path.read_bytes()).hexdigest(),
        path.stat().st_size,
    )
    assert (events[-1].done, events[-1].total) == (source.size, source.size)


def test_large_rows_come_in_small_batches(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    blobs = [bytes([n]) * 30_000 for n in range(20)]
    pq.write_table(pa.table({"x": pa.array(blobs)}), path, use_dictionary=False)
    pieces = list(read_typed(ParquetSource(str(path), batch_bytes=100_000), entity("T"), Violations()))
    assert max(piece.rows.num_rows for piece in pieces) <= 4
    assert sum(piece.rows.num_rows for piece in pieces) == 20


@pytest.mark.parametrize("damage", ["empty", "text", "no end", "no start", "in the middle"])
def test_a_file_that_is_not_whole(tmp_path: Path, damage: str) -> None:
    """One message with the file's name; bad data, not a broken disk."""
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"k": [f"key {n}" for n in range(20_000)]}), path, compression="zstd")
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "empty": b"",
            "text": b"k,n\nx,1\n",
            "no end": whole[:-10],
            "no start": whole[10:],
            "in the middle": whole[: middle - 200] + bytes(400) + whole[middle + 200 :],
        }[damage]
    )
    with pytest.raises(DamagedInput) as caught:
        list(read_typed(ParquetSource(str(path)), entity("K"), Violations()))
    assert isinstance(caught.value, BadDataError)
    assert str(caught.value).startswith(f"{path}: ")
    assert caught.value.details() == {"file": str(path)}


def test_texts_far_larger_than_their_file_come_a_few_at_a_time(tmp_path: Path) -> None:
    """A text that occurs often is stored once; its rows are counted by what they take when decoded."""
    path = tmp_path / "in.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 3_000, pa.int32()), ["x" * 10_000])
    pq.write_table(pa.table({"k": texts, "n": range(3_000)}), path)
    assert path.stat().st_size < 100_000
    source = ParquetSource(str(path), batch_bytes=1_000_000)
    pieces = list(read_typed(source, entity("K"), Violations()))
    assert max(piece.rows.num_rows for piece in pieces) <= 100
    assert sum(piece.rows.num_rows for piece in pieces) == 3_000
