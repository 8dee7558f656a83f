"""Which reader reads what; and compressed inputs, whole and broken."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_core.errors import BadDataError, NotFoundError, UsageError
from omnigraph_core.load.formats.compressed import DamagedInput
from omnigraph_core.load.inputs import Input, read_inputs, resolve_inputs
from omnigraph_core.progress import ProgressEvent
from omnigraph_core.rules.violations import InvalidRecords, Violations
from omnigraph_core.schema.files import Format
from tests.support import warm
from tests.support.processes import REPOSITORY
from tests.unit.load.people import SCHEMA, names

JSONL = b'{"type":"Person","data":{"name":"Ann"}}\n{"type":"Person","data":{"name":"Bob"}}\n'
CSV = b"name,age\nAnn,1\nBob,\n"


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


def put(path: Path, content: bytes = b"") -> str:
    path.write_bytes(content)
    return str(path)


def parquet(path: Path) -> str:
    pq.write_table(pa.table({"name": ["Ann", "Bob"]}), path)
    return str(path)


def shown(inputs: list[Input]) -> list[tuple[str, str, str | None]]:
    return [
        (Path(each.name).name, each.format.value, each.entity and each.entity.table_key) for each in inputs
    ]


# ---- format and type by name ----


@pytest.mark.parametrize(
    ("name", "format_", "type_"),
    [
        ("x.jsonl", "jsonl", None),
        ("x.ndjson", "jsonl", None),
        ("x.JSON", "jsonl", None),
        ("x.jsonl.gz", "jsonl", None),
        ("no-suffix", "jsonl", None),
        ("Person.csv", "csv", "node:Person"),
        ("Person.CSV.GZ", "csv", "node:Person"),
        ("Person.csv.zst", "csv", "node:Person"),
        ("Knows.csv", "csv", "edge:Knows"),
        ("kNOWS.csv", "csv", "edge:Knows"),
        ("Knows.parquet", "parquet", "edge:Knows"),
        ("node:Both.csv", "csv", "node:Both"),
        ("edge:Both.csv", "csv", "edge:Both"),
    ],
)
def test_the_name_tells(tmp_path: Path, name: str, format_: str, type_: str | None) -> None:
    assert shown(resolve_inputs([put(tmp_path / name)], SCHEMA)) == [(name, format_, type_)]


@pytest.mark.parametrize(
    ("name", "format_", "type_", "expected"),
    [
        ("x.txt", "jsonl", None, ("jsonl", None)),
        ("x.txt", "csv", "Person", ("csv", "node:Person")),
        ("x", "parquet", "knows", ("parquet", "edge:Knows")),
        ("x.csv", None, "Person", ("csv", "node:Person")),
        ("x.csv", "csv", "edge:Both", ("csv", "edge:Both")),
        ("Person.csv", None, "Knows", ("csv", "edge:Knows")),
        ("Person.dat", "csv", None, ("csv", "node:Person")),
    ],
)
def test_options_win_over_the_name(
    tmp_path: Path, name: str, format_: str | None, type_: str | None, expected: tuple[str, str | None]
) -> None:
    asked = None if format_ is None else Format(format_)
    assert shown(resolve_inputs([put(tmp_path / name)], SCHEMA, asked, type_)) == [(name, *expected)]


@pytest.mark.parametrize(
    ("name", "format_", "type_", "complaint"),
    [
        ("x.txt", None, None, "cannot tell the format"),
        ("x.txt.gz", None, None, "cannot tell the format"),
        ("x.csv", None, None, "is not named after a type"),
        ("person.csv", None, None, "is not named after a type"),
        ("Both.csv", None, None, "is both a node type and an edge type"),
        ("x.csv", None, "Both", "is both a node type and an edge type"),
        ("x.jsonl", None, "Person", "is JSON lines, where each record names its own type"),
        ("no-suffix", None, "Person", "is JSON lines, where each record names its own type"),
        ("Person.csv", "jsonl", None, "Person.csv' is csv by its name, not jsonl"),
        ("Person.parquet", "csv", None, "Person.parquet' is parquet by its name, not csv"),
        ("Person.parquet.gz", None, None, "Parquet is compressed inside"),
        ("-", "parquet", "Person", "cannot be read from standard input"),
        ("-", "csv", None, "CSV from standard input needs a type"),
        ("-", None, "Person", "is JSON lines, where each record names its own type"),
    ],
)
def test_what_cannot_work(
    tmp_path: Path, name: str, format_: str | None, type_: str | None, complaint: str
) -> None:
    path = name if name == "-" else put(tmp_path / name)
    with pytest.raises(UsageError, match=complaint):
        resolve_inputs([path], SCHEMA, None if format_ is None else Format(format_), type_)


def test_a_type_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    path = put(tmp_path / "x.csv")
    for name in ("Robot", "person", "node:Knows", "edge:Robot"):
        with pytest.raises(NotFoundError, match=r"unknown (node|edge) type|there is no type"):
            resolve_inputs([path], SCHEMA, None, name)


def test_inputs_that_are_not_there(tmp_path: Path) -> None:
    for name in ("x.jsonl", "Person.csv", "Person.parquet"):
        with pytest.raises(UsageError, match="does not exist"):
            resolve_inputs([str(tmp_path / name)], SCHEMA)
    with pytest.raises(UsageError, match="given twice"):
        resolve_inputs(["-", "-"], SCHEMA)
    with pytest.raises(UsageError, match="cannot be read"):
        resolve_inputs(["a\0b"], SCHEMA)
    os.mkfifo(tmp_path / "Person.parquet")
    with pytest.raises(UsageError, match="must be a regular file"):
        resolve_inputs([str(tmp_path / "Person.parquet")], SCHEMA)


# ---- directories ----


def test_a_directory_is_its_files_by_name(tmp_path: Path) -> None:
    for name in (
        "b.jsonl",
        "Person.csv.gz",
        "Knows.csv",
        "a.ndjson",
        ".hidden",
        "_SUCCESS",
        ".Person.csv.crc",
    ):
        put(tmp_path / name)
    parquet(tmp_path / "Person.parquet")
    assert shown(resolve_inputs([str(tmp_path)], SCHEMA)) == [
        ("Knows.csv", "csv", "edge:Knows"),
        ("Person.csv.gz", "csv", "node:Person"),
        ("Person.parquet", "parquet", "node:Person"),
        ("a.ndjson", "jsonl", None),
        ("b.jsonl", "jsonl", None),
    ]


def test_parts_of_one_type_in_a_directory(tmp_path: Path) -> None:
    for name in ("part-1.csv", "part-0.csv"):
        put(tmp_path / name)
    expected = [(name, "csv", "node:Person") for name in ("part-0.csv", "part-1.csv")]
    assert shown(resolve_inputs([str(tmp_path)], SCHEMA, Format.CSV, "Person")) == expected
    assert shown(resolve_inputs([str(tmp_path)], SCHEMA, None, "Person")) == expected


def test_what_is_odd_in_a_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no files in it"):
        resolve_inputs([str(tmp_path)], SCHEMA)
    put(tmp_path / "Person.csv")
    put(tmp_path / "README")
    with pytest.raises(UsageError, match=r"README': cannot tell the format"):
        resolve_inputs([str(tmp_path)], SCHEMA)
    (tmp_path / "README").unlink()
    (tmp_path / "more").mkdir()
    with pytest.raises(UsageError, match=r"more' is a directory inside"):
        resolve_inputs([str(tmp_path)], SCHEMA)
    (tmp_path / "more").rmdir()
    put(tmp_path / "Robot.csv")
    with pytest.raises(UsageError, match=r"Robot.csv' is not named after a type"):
        resolve_inputs([str(tmp_path)], SCHEMA)
    (tmp_path / "Robot.csv").unlink()
    with pytest.raises(UsageError, match="is csv by its name, not parquet"):
        resolve_inputs([str(tmp_path)], SCHEMA, Format.PARQUET)


# ---- reading ----


def test_all_formats_in_one_go(tmp_path: Path) -> None:
    paths = [
        put(tmp_path / "a.jsonl", JSONL),
        put(tmp_path / "Person.csv", CSV),
        parquet(tmp_path / "Person.parquet"),
        put(tmp_path / "b.jsonl.gz", gzip.compress(JSONL)),
    ]
    events: list[ProgressEvent] = []
    inputs = resolve_inputs(paths, SCHEMA)
    pieces = list(read_inputs(inputs, SCHEMA, Violations(), events.append))
    assert [piece.source for piece in pieces] == paths
    assert [name for piece in pieces for name in piece.rows.column("name").to_pylist()] == ["Ann", "Bob"] * 4
    total = sum(Path(path).stat().st_size for path in paths)
    assert (events[-1].done, events[-1].total) == (total, total)
    assert [event.done for event in events] == sorted(event.done for event in events)
    for each, path in zip(inputs, paths, strict=True):
        data = Path(path).read_bytes()
        assert (each.sha256, each.bytes_read) == (hashlib.sha256(data).hexdigest(), len(data))


@pytest.mark.parametrize("options", [[], ["csv", "Person"]], ids=["jsonl", "csv"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd])
def test_standard_input(options: list[str], compress: object) -> None:
    """Compressed or not: what is in it shows."""
    program = (
        "import sys\n"
        "from omnigraph_core.load.inputs import resolve_inputs\n"
        "from omnigraph_core.schema.files import Format\n"
        "from tests.unit.load.people import SCHEMA, names\n"
        "format_ = Format(sys.argv[1]) if sys.argv[1:] else None\n"
        "print(names(resolve_inputs(['-'], SCHEMA, format_, *sys.argv[2:])))"
    )
    data = compress(CSV if options else JSONL)  # type: ignore[operator]
    done = warm.run(
        [sys.executable, "-c", program, *options], input=data, capture_output=True, cwd=REPOSITORY, check=True
    )
    assert done.stdout.decode().strip() == "['Ann', 'Bob']"


# ---- compressed ----

COMPRESSIONS = [pytest.param(".gz", gzip.compress, id="gz"), pytest.param(".zst", zstd, id="zst")]


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSIONS)
@pytest.mark.parametrize(("name", "content"), [("x.jsonl", JSONL), ("Person.csv", CSV)])
def test_compressed_files(tmp_path: Path, suffix: str, compress: object, name: str, content: bytes) -> None:
    packed: bytes = compress(content)  # type: ignore[operator]
    for file in (name + suffix, name):  # also where the name does not say so
        inputs = resolve_inputs([put(tmp_path / file, packed)], SCHEMA)
        assert names(inputs) == ["Ann", "Bob"]
        assert (inputs[0].sha256, inputs[0].bytes_read, inputs[0].size) == (
            hashlib.sha256(packed).hexdigest(),
            len(packed),
            len(packed),
        )


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSIONS)
def test_several_compressed_parts_in_a_row_are_one_content(
    tmp_path: Path, suffix: str, compress: object
) -> None:
    first, second = CSV[:13], CSV[13:]
    packed = compress(first) + compress(b"") + compress(second)  # type: ignore[operator]
    assert names(resolve_inputs([put(tmp_path / f"Person.csv{suffix}", packed)], SCHEMA)) == ["Ann", "Bob"]


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "compress"), COMPRESSIONS)
def test_much_comes_out_of_little_a_block_at_a_time(tmp_path: Path, suffix: str, compress: object) -> None:
    """50 MB of text; never all of it at once."""
    content = b"name,age\n" + b"".join(b"%010d,\n" % number + b"\n" * 400 for number in range(120_000))
    packed: bytes = compress(content)  # type: ignore[operator]
    inputs = resolve_inputs([put(tmp_path / f"Person.csv{suffix}", packed)], SCHEMA)
    pieces = list(read_inputs(inputs, SCHEMA, Violations()))
    assert len(pieces) > 4
    assert sum(piece.rows.num_rows for piece in pieces) == 120_000
    assert pieces[-1].lines[-1].as_py() == 2 + 119_999 * 401


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSIONS)
@pytest.mark.parametrize("damage", ["cut", "cut early", "changed", "tail", "plain", "empty"])
def test_broken_compressed_files(tmp_path: Path, suffix: str, compress: object, damage: str) -> None:
    """One message with the file, not a hundred about its lines."""
    content = b"name,age\n" + b"".join(b"p%06d,%d\n" % (number, number % 90) for number in range(50_000))
    packed: bytes = compress(content)  # type: ignore[operator]
    middle = len(packed) // 2
    broken = {
        "cut": packed[:-3],
        "cut early": packed[:middle],
        "changed": packed[:middle] + bytes(64) + packed[middle + 64 :],
        "tail": packed + b"more text\n",
        "plain": content,
        "empty": b"",
    }[damage]
    inputs = resolve_inputs([put(tmp_path / f"Person.csv{suffix}", broken)], SCHEMA)
    with pytest.raises(BadDataError) as caught:
        list(read_inputs(inputs, SCHEMA, Violations()))
    if damage == "changed" and isinstance(caught.value, InvalidRecords):
        return  # it decompressed to something else, which is then no CSV
    assert isinstance(caught.value, DamagedInput)
    assert str(caught.value).startswith(f"{inputs[0].name}: ")
    assert {
        "cut": "cut short",
        "plain": "although its name says so",
        "empty": "although its name says so",
    }.get(damage, "") in str(caught.value)
