"""CSV and Parquet through the library: loads of files and directories, and exports that come back whole."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_core.errors import BadDataError, OmnigraphError, UsageError
from omnigraph_core.graph import Graph
from omnigraph_core.load.formats.compressed import DamagedInput
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.rules.violations import InvalidRecords
from omnigraph_core.schema.files import Format
from omnigraph_core.settings import Settings, load_settings
from tests.support.records import D1, S1, edge, edges, exported, node, nodes, write_jsonl
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")

ALL = """
node All {
  k: String @key
  s: String?  b: Bool?  i: I32?  j: I64?  u: U32?  v: U64?  f: F32?  g: F64?  d: Date?  t: DateTime?
  w: Vector(3)?  x: Blob?  e: enum(a, b)?
  ls: [String]?  li: [I64]?  lf: [F32]?  lb: [Bool]?  ld: [Date]?  lt: [DateTime]?  lu: [U64]?
}
node Loose { t: String? }
node Same { n: I64? }
edge L: All -> Loose { w: F64? }
edge Named: All -> Loose { from: String?  to: I32? }
edge Same: Same -> Same
"""
EVERYTHING: list[dict[str, Any]] = [
    node(
        "All", k='q"uo,te\r\n☃', s="", b=True, i=-(2**31), j=2**63 - 1, u=2**32 - 1, v=2**64 - 1,
        f=0.1, g=5e-324, d="0001-01-01", t="9999-12-31T23:59:59.999Z", w=[1, -0.0, 1e-45],
        x="base64:AP8=", e="b", ls=["", 'a"b', "c,d\n", "null"], li=[2**62, -1], lf=[0.1], lb=[True, False],
        ld=["1969-12-31", 0], lt=["1969-12-31T23:59:59.999Z"], lu=[2**64 - 1],
    ),
    node("All", k="plain", s="null", b=False, i=0, j=0, u=0, v=0, f=-0.0, g=-1e300, d="1969-12-31",
         t="1969-12-31T23:59:59.001Z", x="base64:", ls=[], li=[], lf=[], lb=[], ld=[], lt=[], lu=[]),
    node("All", k="", s="  spaces  "),
    node("All", k="nulls"),
    *[node("Loose", id=f"L{number}", t="x" * number) for number in range(3)],
    node("Loose", id="bare"),
    node("Same", id="s1", n=1),
    edge("L", "", "L1", id="e1", w=0.1),
    edge("L", 'q"uo,te\r\n☃', "L2", id='e,"2'),
    edge("Named", "plain", "L0", **{"id": "n1", "from": "here", "to": 7}),
    edge("Same", "s1", "s1", id="same"),
]  # fmt: skip


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """S1 with D1."""
    graph = Graph.init(str(tmp_path / "g"), S1, SETTINGS)
    graph.load([write_jsonl(tmp_path / "d1.jsonl", D1)], LoadMode.APPEND)
    return graph


def refused(graph: Graph, kind: type[OmnigraphError], load: Callable[[], object]) -> str:
    """The message of a load that must change nothing."""
    before, head = exported(graph), graph.head()
    with pytest.raises(kind) as caught:
        load()
    assert (exported(graph), graph.head()) == (before, head)
    check_whole(graph)
    return str(caught.value)


# ---- there and back ----


@pytest.mark.once_remotely
@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_an_export_comes_back_whole(
    place: str, environment: dict[str, str], tmp_path: Path, format_: str
) -> None:
    settings = load_settings({**environment, "OMNIGRAPH_ACTOR": "ann"}, tmp_path)
    graph = Graph.init(place, ALL, settings)
    graph.load([write_jsonl(tmp_path / "all.jsonl", EVERYTHING)], LoadMode.APPEND)
    written = graph.at().export_files(tmp_path / "out", Format(format_))
    assert sorted(path.name for path in written) == sorted(
        f"{stem}.{format_}" for stem in ("All", "Loose", "L", "Named", "node:Same", "edge:Same")
    )
    assert sorted(written) == sorted((tmp_path / "out").iterdir())
    copy = Graph.init(str(tmp_path / "copy"), ALL, SETTINGS)
    copy.load([str(tmp_path / "out")], LoadMode.OVERWRITE)
    assert b"".join(copy.export()) == b"".join(graph.export())
    check_whole(copy)
    copy.load([str(tmp_path / "out")], LoadMode.MERGE)
    assert b"".join(copy.export()) == b"".join(graph.export())
    again = copy.at().export_files(tmp_path / "again", Format(format_))
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]


def test_one_type_to_a_file_or_as_text(graph: Graph, tmp_path: Path) -> None:
    text = b"".join(graph.export(types=["Person"], format=Format.CSV)).decode()
    assert text == (
        "id,age,joined,name,tags\n"
        'Ann,30,,Ann,"[""a"",""b""]"\n'
        'Bob,25,,Bob,"[""b""]"\n'
        "Cy,,,Cy,\n"
        "Dee,40,,Dee,\n"
    )
    out = tmp_path / "people.csv"
    assert graph.at().export_files(out, Format.CSV, types=["Person"]) == [out]
    assert out.read_text() == text
    (tmp_path / "there").mkdir()
    (written,) = graph.at().export_files(tmp_path / "there", Format.PARQUET, types=["Knows"])
    assert written == tmp_path / "there" / "Knows.parquet"
    assert pq.read_table(written).schema.names == ["id", "from", "to", "note", "since"]


def test_types_in_parquet(tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), ALL, SETTINGS)
    graph.at().export_files(tmp_path / "All.parquet", Format.PARQUET, types=["All"])
    schema = pq.read_schema(tmp_path / "All.parquet")
    assert schema.field("t").type == pa.timestamp("ms", "UTC")
    assert schema.field("d").type == pa.date32()
    assert schema.field("x").type == pa.large_binary()
    assert schema.field("w").type.list_size == 3
    assert (schema.field("k").nullable, schema.field("s").nullable) == (False, True)


def test_times_in_csv_are_iso(tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), "node T { d: Date?  t: DateTime? }", SETTINGS)
    records = [node("T", id="a", d=-1, t=-1), node("T", id="b", d="0001-01-01", t="2024-02-29")]
    graph.load([write_jsonl(tmp_path / "x.jsonl", records)], LoadMode.APPEND)
    text = b"".join(graph.export(format=Format.CSV)).decode()
    assert text.splitlines()[1:] == [
        "a,1969-12-31,1969-12-31T23:59:59.999Z",
        "b,0001-01-01,2024-02-29T00:00:00.000Z",
    ]


def test_exports_that_cannot_be(graph: Graph, tmp_path: Path) -> None:
    for format_, types in (
        (Format.CSV, ()),
        (Format.CSV, ("Person", "Knows")),
        (Format.PARQUET, ("Person",)),
    ):
        with pytest.raises(UsageError, match=r"is binary|holds one type per file") as refused:
            b"".join(graph.export(types=types, format=format_))
        assert refused.value.field == "out"
    (tmp_path / "file").write_text("old")
    with pytest.raises(UsageError, match="is a file"):
        graph.at().export_files(tmp_path / "file", Format.CSV)
    assert (tmp_path / "file").read_text() == "old"


def test_a_text_that_csv_cannot_say(tmp_path: Path) -> None:
    """Refused by name rather than written as a file that cannot be read; and no file is left."""
    graph = Graph.init(str(tmp_path / "g"), "node T { s: String? }\nnode U { s: String? }", SETTINGS)
    records = [node("T", id="a", s="x"), node("U", id="b", s="nul \0")]
    graph.load([write_jsonl(tmp_path / "x.jsonl", records)], LoadMode.APPEND)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "T.csv").write_text("old")
    with pytest.raises(BadDataError, match=r"U\.s holds a NUL character, which CSV cannot represent"):
        graph.at().export_files(tmp_path / "out", Format.CSV)
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {"T.csv": "old"}
    graph.at().export_files(tmp_path / "out", Format.PARQUET)
    assert pq.read_table(tmp_path / "out" / "U.parquet").column("s").to_pylist() == ["nul \0"]


# ---- loads ----


def test_a_directory_is_one_commit_that_names_its_files(graph: Graph, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "Person.csv.gz").write_bytes(gzip.compress(b"name,age\nEve,7\n"))
    packed = pa.Codec("zstd").compress(b"from,to,since\nEve,Fay,2024-01-01\n", asbytes=True)
    (folder / "knows.csv.zst").write_bytes(packed)
    pq.write_table(pa.table({"name": ["Gus"], "age": pa.array([3], pa.int16())}), folder / "Person.parquet")
    write_jsonl(folder / "more.jsonl", [node("Person", name="Fay")])
    before = len(graph.log().history("main"))
    loaded = graph.load([str(folder)], LoadMode.APPEND)
    assert dict(loaded.counts) == {"edge:Knows": 1, "node:Person": 3}
    history = graph.log().history("main")
    assert len(history) == before + 1
    inputs = json.loads(history[0].details or "")["inputs"]
    files = sorted(folder.iterdir())
    assert [each["name"] for each in inputs] == [str(path) for path in files]
    assert [each["bytes"] for each in inputs] == [path.stat().st_size for path in files]
    people = nodes(graph, "Person")
    assert (people["Eve"], people["Gus"]) == ({"name": "Eve", "age": 7}, {"name": "Gus", "age": 3})
    assert ("Eve", "Fay") in edges(graph, "Knows")
    check_whole(graph)


@pytest.mark.parametrize("mode", LoadMode)
def test_a_typed_file_without_rows(graph: Graph, tmp_path: Path, mode: LoadMode) -> None:
    """Overwriting with it empties the type; otherwise there is nothing to do."""
    before, head = exported(graph), graph.head()
    (tmp_path / "Knows.csv").write_text("from,to\n")
    pq.write_table(
        pa.table({"from": pa.array([], pa.string()), "to": pa.array([], pa.string())}),
        tmp_path / "WorksAt.parquet",
    )
    loaded = graph.load([str(tmp_path / name) for name in ("Knows.csv", "WorksAt.parquet")], mode)
    assert loaded.total == 0
    check_whole(graph)
    if mode is LoadMode.OVERWRITE:
        assert loaded.commit_id is not None
        assert (edges(graph, "Knows"), edges(graph, "WorksAt")) == ([], [])
        assert len(nodes(graph, "Person")) == 4
    else:
        assert loaded.commit_id is None
        assert (exported(graph), graph.head()) == (before, head)


@pytest.mark.parametrize("mode", [LoadMode.APPEND, LoadMode.MERGE])
def test_a_typed_file_without_rows_beside_one_with(graph: Graph, tmp_path: Path, mode: LoadMode) -> None:
    (tmp_path / "Knows.csv").write_text("from,to\n")
    (tmp_path / "Person.csv").write_text("name\nEve\n")
    loaded = graph.load([str(tmp_path / name) for name in ("Knows.csv", "Person.csv")], mode)
    assert (loaded.total, len(nodes(graph, "Person")), len(edges(graph, "Knows"))) == (1, 5, 4)
    check_whole(graph)


def test_emptying_a_type_on_a_branch_that_is_made_for_it(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "Knows.csv").write_text("from,to\n")
    loaded = graph.load([str(tmp_path / "Knows.csv")], LoadMode.OVERWRITE, branch="dev", source="main")
    assert loaded.branch_created
    assert (edges(graph, "Knows", "dev"), len(edges(graph, "Knows"))) == ([], 4)


def test_rules_name_file_and_row(graph: Graph, tmp_path: Path) -> None:
    """What readers leave to validation is said with the place all the same."""
    csv = tmp_path / "Person.csv"
    csv.write_text('name,tags\n"two\nlines",[]\nAnn,\nAnn,\n')
    assert refused(graph, InvalidRecords, lambda: graph.load([str(csv)], LoadMode.MERGE)) == (
        f"{csv}:5: @key violation on Person.name: value 'Ann' occurs twice in the input, first at {csv}:4"
    )
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"name": ["a", None], "size": ["small", "huge"]}), path)
    message = refused(graph, InvalidRecords, lambda: graph.load([str(path)], LoadMode.MERGE, type="Company"))
    assert sorted(line.partition(": ")[0] for line in message.splitlines()) == [f"{path}:2"] * 2
    assert "enum value 'huge'" in message


def test_a_broken_file_changes_nothing(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "Company.csv").write_text("name\nNew\n")
    whole = gzip.compress(b"name\n" + b"".join(b"person %d\n" % number for number in range(20_000)))
    (tmp_path / "Person.csv.gz").write_bytes(whole[:-100])
    paths = [str(tmp_path / name) for name in ("Company.csv", "Person.csv.gz")]
    message = refused(graph, DamagedInput, lambda: graph.load(paths, LoadMode.OVERWRITE))
    assert message == f"{paths[1]}: the gzip data is cut short"
    (tmp_path / "Person.csv.gz").write_bytes(whole)
    loaded = graph.load([paths[1]], LoadMode.APPEND, dry_run=True)
    assert loaded.total == 20_000
