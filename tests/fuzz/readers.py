"""Mutants of inputs, and what must be true of what is read of them."""

from __future__ import annotations

import base64
import io
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq

from omnigraph_core.errors import BadDataError, LimitError
from omnigraph_core.load.formats.csv import read_csv
from omnigraph_core.load.formats.jsonl import read_jsonl
from omnigraph_core.load.formats.parquet import ParquetSource, read_typed
from omnigraph_core.load.formats.source import Source
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.rules.violations import Violations
from omnigraph_core.schema import compile_schema
from omnigraph_core.schema.arrow import table_schema
from tests.fuzz.mutants import mutated_bytes

SEED = 20261118
SCHEMA = compile_schema("""
node T { s: String n: I32 u: U64? f: F32? b: Bool? d: Date? t: DateTime? l: [I64]? v: Vector(2)? blob: Blob?
  kind: enum(a, b)? note: String @default("x") @key(s, n) }
node Free { name: String? }
edge E: T -> Free { w: F64? }
""")
NODE = next(each for each in SCHEMA.types() if each.name == "T")

JSONL = [
    b'{"type":"T","data":{"s":"a","n":1,"u":2,"f":1.5,"b":true,"d":"2024-01-01","t":"2024-01-01T00:00:00Z"}}\n',
    b'{"type":"T","data":{"id":"[\\"1\\",\\"a\\"]","s":"a","n":1,"l":[1,2],"v":[1,2.5],"blob":"base64:aGk=",'
    b'"kind":"a","note":null}}\n{"type":"Free","data":{}}\n',
    b'{"edge":"E","from":"[\\"a\\",\\"1\\"]","to":"x","data":{"w":1e3,"id":"e"}}\r\n{"type":"Free","data":{"id":"x"}}\n',
    b'\xef\xbb\xbf{"data":{"name":"\\u00fc \\ud83d\\ude00"},"type":"Free"}\n\n{"type":"Free"}',
]
CSV = [
    b"s,n,u,f,b,d,t,l,v,blob,kind,note\n"
    b'a,1,2,1.5,true,2024-01-01,2024-01-01T00:00:00Z,"[1,2]","[1,2.5]",base64:aGk=,a,""\n',
    b'id,s,n\r\n"[""1"",""a""]",a,1\r\n,"b\nc",2\r\n',
    b's,n\n"x, ""y""",3\n\n"\xc3\xbc",-4',
]


def _parquet() -> list[bytes]:
    found = []
    for codec, count in (("none", 3), ("zstd", 40), ("snappy", 1)):
        rows = {
            "s": [f"s{number % 7}" for number in range(count)],
            "n": pa.array(range(count), pa.int32()),
            "f": pa.array([1.5] * count, pa.float32()),
            "d": pa.array([None] * count, pa.date32()),
            "l": pa.array([[1, 2]] * count, pa.list_(pa.int64())),
            "blob": pa.array([b"hi"] * count, pa.binary()),
        }
        file = io.BytesIO()
        pq.write_table(pa.table(rows), file, compression=codec, row_group_size=10)
        found.append(file.getvalue())
    return found


@contextmanager
def naming(number: int, data: bytes) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"mutant {number}: {base64.b64encode(data[:3000]).decode()}")
        raise


def by_jsonl(path: Path) -> int:
    violations = Violations(keep=None)
    seen = [line for piece in read_jsonl([Source(str(path))], SCHEMA, violations) for line in _rows(piece)]
    wrong = {each.line for each in violations.first}
    text = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    records = {at for at, line in enumerate(text.split(b"\n"), 1) if line.strip()}
    assert len(seen) == len(set(seen))
    assert set(seen).isdisjoint(wrong)
    assert records <= set(seen) | wrong <= records | {None}
    return len(seen)


def by_csv(path: Path) -> int:
    violations = Violations(keep=None)
    seen = [line for piece in read_csv(Source(str(path)), NODE, violations) for line in _rows(piece)]
    assert len(seen) == len(set(seen))
    assert set(seen).isdisjoint({each.line for each in violations.first})
    return len(seen)


def by_parquet(path: Path) -> int:
    violations = Violations(keep=None)
    pieces = read_typed(ParquetSource(str(path)), NODE, violations)
    return len([line for piece in pieces for line in _rows(piece)])


def _rows(piece: TypedRows) -> list[int]:
    assert piece.rows.schema == table_schema(piece.entity)
    # A DateTime is a date64 with the time of day, which Arrow would not have.
    days = [field.name for field in piece.rows.schema if field.type == pa.date64()]
    piece.rows.drop_columns(days).validate(full=True)
    found: list[int] = piece.lines.to_pylist()
    assert len(found) == piece.rows.num_rows
    return found


FORMATS: dict[str, tuple[Callable[[], list[bytes]], Callable[[Path], int]]] = {
    "jsonl": (lambda: JSONL, by_jsonl),
    "csv": (lambda: CSV, by_csv),
    "parquet": (_parquet, by_parquet),
}


def run(name: str, folder: Path, first: int, count: int) -> int:
    """How many of the mutants gave a row."""
    make, read = FORMATS[name]
    corpus, path, taken = make(), folder / "in", 0
    for number in range(first, first + count):
        data = mutated_bytes(corpus, random.Random(f"{SEED} {number}"))
        path.write_bytes(data)
        with naming(number, data), suppress(BadDataError, LimitError):
            taken += read(path) > 0
    return taken
