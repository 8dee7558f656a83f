"""The physical columns, and that Lance takes our plain blob column for one of its own."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph_core.schema import compile_schema
from omnigraph_core.schema.arrow import BLOB_METADATA, BLOB_STORAGE, arrow_field, table_schema

EVERY_TYPE = """node All {
  s: String b: Bool i: I32 j: I64 u: U32 v: U64 f: F32 g: F64
  d: Date t: DateTime w: Vector(3) x: Blob? l: [I64] e: enum(a, b-2, 3c) n: String?
}"""


def test_every_type_has_its_column() -> None:
    assert table_schema(compile_schema(EVERY_TYPE).node("All")).equals(
        pa.schema(
            [
                pa.field("id", pa.utf8(), nullable=False),
                pa.field("b", pa.bool_(), nullable=False),
                pa.field("d", pa.date32(), nullable=False),
                pa.field("e", pa.utf8(), nullable=False),
                pa.field("f", pa.float32(), nullable=False),
                pa.field("g", pa.float64(), nullable=False),
                pa.field("i", pa.int32(), nullable=False),
                pa.field("j", pa.int64(), nullable=False),
                pa.field("l", pa.list_(pa.field("item", pa.int64(), nullable=True)), nullable=False),
                pa.field("n", pa.utf8(), nullable=True),
                pa.field("s", pa.utf8(), nullable=False),
                pa.field("t", pa.date64(), nullable=False),
                pa.field("u", pa.uint32(), nullable=False),
                pa.field("v", pa.uint64(), nullable=False),
                pa.field("w", pa.list_(pa.field("item", pa.float32(), nullable=True), 3), nullable=False),
                pa.field("x", BLOB_STORAGE, nullable=True, metadata=BLOB_METADATA),
            ]
        ),
        check_metadata=True,
    )


@pytest.mark.parametrize(
    "base", ["String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime"]
)
def test_a_list_holds_the_column_type_of_its_base(base: str) -> None:
    scalar, listed = compile_schema(f"node A {{ a: {base} b: [{base}]? }}").node("A").properties
    field = arrow_field(listed)
    assert field.nullable
    assert field.type.value_field == pa.field("item", arrow_field(scalar).type, nullable=True)


def test_edges_have_three_fixed_columns() -> None:
    edge = compile_schema("node A {} edge E: A -> A { z: I32? a: Date }").edge("E")
    schema = table_schema(edge)
    assert schema.names == ["id", "src", "dst", "a", "z"] == list(edge.columns)
    assert [field.nullable for field in schema] == [False, False, False, False, True]


@pytest.mark.parametrize("nullable", ["", "?"])
def test_lance_stores_our_blob_column_as_a_blob(tmp_path: Path, nullable: str) -> None:
    schema = table_schema(compile_schema(f"node File {{ data: Blob{nullable} }}").node("File"))
    where = str(tmp_path / "file")
    options = {"data_storage_version": "2.2", "enable_stable_row_ids": True}
    empty = lance.write_dataset(schema.empty_table(), where, **options)
    assert empty.schema.field("data").type.extension_name == "lance.blob.v2"
    assert empty.schema.field("data").nullable == bool(nullable)

    large = bytes(range(256)) * 1024
    rows = [{"id": "1", "data": {"data": b"hello"}}, {"id": "2", "data": {"data": b""}}]
    rows += [{"id": "3", "data": {"data": large}}]
    rows += [{"id": "4", "data": None}] if nullable else []
    dataset = lance.write_dataset(pa.Table.from_pylist(rows, schema=schema), where, mode="append", **options)

    expected = [b"hello", b"", large, *([None] if nullable else [])]
    indices = list(range(len(rows)))
    taken = dataset.take_blobs("data", indices=indices)
    assert [None if blob is None else blob.readall() for blob in taken] == expected
    assert [content for _, content in dataset.read_blobs("data", indices=indices)] == expected


def test_our_blob_field_is_the_one_lance_builds(tmp_path: Path) -> None:
    """Both spellings of the field give a dataset of the same schema."""
    ours = arrow_field(compile_schema("node A { b: Blob? }").node("A").properties[0])
    schemas = [
        lance.write_dataset(
            pa.schema([field]).empty_table(), str(tmp_path / name), data_storage_version="2.2"
        ).schema
        for name, field in (("ours", ours), ("theirs", lance.blob_field("b")))
    ]
    assert schemas[0].equals(schemas[1], check_metadata=True)


def test_every_other_type_survives_a_lance_table(tmp_path: Path) -> None:
    schema = table_schema(compile_schema(EVERY_TYPE).node("All"))
    row = {
        "id": "1",
        "s": "x",
        "b": True,
        "i": -(2**31),
        "j": -(2**63),
        "u": 2**32 - 1,
        "v": 2**64 - 1,
        "f": 0.5,
        "g": 0.1,
        "d": date(1969, 12, 31),
        "t": date(2024, 2, 29),
        "w": [1.0, None, -2.5],
        "x": None,
        "l": [1, None],
        "e": "b-2",
        "n": None,
    }
    dataset = lance.write_dataset(
        pa.Table.from_pylist([row], schema=schema), str(tmp_path / "all"), data_storage_version="2.2"
    )
    names = [name for name in schema.names if name != "x"]
    read = dataset.to_table(columns=names)
    assert read.schema.equals(pa.schema([schema.field(name) for name in names]))
    assert read.to_pylist() == [{name: row[name] for name in names}]
