"""Whatever a load does, it does with Spark: the same graph, counts, messages and rejects."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.schema.files import Format
from omnigraph_core.spark import check, driver, splits
from omnigraph_core.spark import load as spark_load
from omnigraph_core.spark.options import SparkOptions
from tests.spark.conftest import SPARK
from tests.spark.twins import Twins, ended
from tests.support.records import D1, S1, edge, node

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("in_process")]

SCHEMA = """
node P { k: String @key n: I32? mail: String? @unique @range(n, 0..99) }
node Free { name: String note: String? @unique(name) pic: Blob? kind: String @default("plain") }
edge Link: P -> P @card(0..3) { w: I32? @unique(src, dst) }
edge Likes: P -> Free
"""
START = [
    *(node("P", k=f"p{number}", n=number) for number in range(6)),
    *(node("Free", id=f"t{number}", name=f"name{number}") for number in range(6)),
    edge("Link", "p0", "p1", w=1, id="first"),
]


@pytest.fixture(params=["by the front", "by tasks"])
def checked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who asks the rules; tasks do when keys are many, of three parts here, with the committed rows dealt."""
    if request.param == "by tasks":
        monkeypatch.setattr(driver, "parts_to_ask", lambda *_: 3)
        monkeypatch.setattr(check, "pays_to_deal", lambda texts, rows: rows > 0)
    return str(request.param)


@pytest.fixture
def twins(new_graph: Callable[[str, str], Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Twins:
    """Parts of a few lines and fragments of three rows, so that there are many of both."""
    monkeypatch.setattr(splits, "SPLIT_BYTES", 300)
    monkeypatch.setattr(spark_load, "ROWS_PER_FRAGMENT", 3)
    found = Twins(new_graph, SCHEMA, tmp_path)
    start = found.file("start.jsonl", START)
    found.both(lambda graph: graph.load([start], LoadMode.APPEND))
    return found


NEW = [
    *(node("P", k=f"new{number}", n=number, mail=f"{number}@x") for number in range(7)),
    *(node("Free", name=f"free{number}", pic="base64:aGk=") for number in range(4)),
    node("Free", id="mine", name="given"),
    *(edge("Link", f"new{number}", f"p{number}") for number in range(5)),
    edge("Link", "new0", "new1", id="my link"),
    edge("Likes", "p1", "mine"),
]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_all_new_records(mode: str, twins: Twins, checked: str) -> None:
    records = [*NEW[3:], *NEW[:3], *(START[:5] if mode == "overwrite" else [])]
    found = twins.load([twins.file("in.jsonl", records)], mode)
    assert found.failure is None
    assert found.outcome is not None
    assert found.outcome["counts"]["node:P"] >= 7
    frees = [record for record in map(json.loads, found.content) if record.get("type") == "Free"]
    assert {record["data"]["kind"] for record in frees} == {"plain"}


def test_a_merge_of_mistakes(twins: Twins) -> None:
    """Values are checked by the front, also of a part with lines that could not be read."""
    records = [node("P", k=f"m{number}", n="many" if number % 3 else 100) for number in range(18)]
    found = twins.load([twins.file("in.jsonl", records)], "merge")
    assert found.failure is not None
    assert len(found.failure[1].splitlines()) == 18


def test_a_merge(twins: Twins) -> None:
    """Its records are checked by the front, always."""
    records = [*NEW, node("P", k="p1", n=50), edge("Link", "p0", "p1", w=9)]
    found = twins.load([twins.file("in.jsonl", records)], "merge")
    assert found.outcome is not None
    assert found.outcome["counts"]["node:P"] == 8


BAD: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "a key twice": ("append", [*NEW, node("P", k="new2"), node("P", k="new5")]),
    "a key that is there": ("append", [*NEW, node("P", k="p3"), node("P", k="p1")]),
    "an id twice": (
        "append",
        [*NEW, node("Free", id="mine", name="other"), edge("Link", "p4", "p5", id="my link")],
    ),
    "a unique value twice": ("append", [*NEW, node("P", k="x", mail="3@x"), node("Free", name="free1")]),
    "a unique pair that is there": ("append", [edge("Link", "p0", "p1"), edge("Link", "p2", "p1"), *NEW]),
    "taken ids with each other's values": (
        "append",
        [*(node("Free", id=f"t{number}", name=f"name{(number + 1) % 6}") for number in range(6)), *NEW],
    ),
    "no such node": ("append", [edge("Link", "p0", "nobody"), *NEW, edge("Likes", "none", "mine")]),
    "too many edges": ("append", [*NEW, *(edge("Link", "new0", f"p{number}") for number in range(1, 5))]),
    "edges left alone": ("overwrite", [node("P", k="p0"), node("P", k="other")]),
    "values and syntax": (
        "append",
        [*NEW, node("P", k="y", n=100), node("P", k="z", n="many"), {"type": "Nothing"}, node("P", n=1)],
    ),
    "forty mistakes": ("append", [edge("Link", f"a{number}", f"b{number}") for number in range(20)]),
}


@pytest.mark.parametrize("case", BAD)
def test_every_rule(case: str, twins: Twins, checked: str) -> None:
    mode, records = BAD[case]
    found = twins.load([twins.file("in.jsonl", records)], mode)
    assert found.failure is not None
    assert found.content == tuple(sorted(found.content))


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_rejects(mode: str, twins: Twins, tmp_path: Path) -> None:
    """A rejected node takes its edges along, and every record is named with its line and content."""
    records = [
        *NEW,
        node("P", k="bad", n=100),
        node("P", k="p3") if mode == "append" else node("P", k="worse", n=-1),
        edge("Link", "bad", "p1"),
        edge("Likes", "nobody", "mine"),
        {"type": "Nothing"},
        node("P", k="new1"),
    ]
    path = twins.file("in.jsonl", records)
    lines = []
    for graph, spark in ((twins.local, None), (twins.spark, spark_load.SparkOptions())):
        file = tmp_path / f"rejects.{spark is None}"
        loaded = graph.load([path], LoadMode(mode), rejects=str(file), spark=spark)
        lines.append((loaded.rejected, loaded.counts, file.read_text()))
    assert lines[0] == lines[1]
    assert lines[0][0] == 6
    twins.load([twins.file("more.jsonl", [node("P", k="last")])], "append")


def test_several_inputs_of_every_format(twins: Twins, tmp_path: Path) -> None:
    """Lines, parts of lines, compressed lines, CSV with a newline in a field, row groups."""
    lines = "".join(json.dumps(record) + "\r\n" for record in NEW)
    others = "".join(json.dumps(node("P", k=f"other{number}")) + "\n\n" for number in range(30))
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + others.encode())
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "Free.csv").write_text('name,note\n"two\nlines",x\n"",\n')
    table = pa.table({"k": [f"q{number}" for number in range(40)], "n": pa.array(range(40), pa.int32())})
    pq.write_table(table, tmp_path / "P.parquet", row_group_size=9)
    zipped = tmp_path / "c.jsonl.zst"
    with pa.CompressedOutputStream(str(zipped), "zstd") as file:
        file.write(json.dumps(edge("Link", "q1", "q2")).encode())
    paths = [
        str(tmp_path / name) for name in ("a.jsonl", "b.jsonl.gz", "Free.csv", "P.parquet", "c.jsonl.zst")
    ]
    found = twins.load(paths, "append")
    assert found.failure is None, found.failure
    bad = pa.table(
        {"k": [f"r{number}" for number in range(20)], "n": pa.array([*range(19), 100], pa.int32())}
    )
    pq.write_table(bad, tmp_path / "bad.parquet", row_group_size=6)
    found = twins.load([str(tmp_path / "bad.parquet")], "append", type="P")
    assert found.failure is not None
    assert "bad.parquet:20" in found.failure[1]


def test_an_input_that_cannot_be_read(twins: Twins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"type": "P"}\n' * 1000)[:-9])
    (tmp_path / "wide.jsonl").write_bytes('{"type": "P"}\n'.encode("utf-16"))
    (tmp_path / "P.csv").write_text("k,nothing\n")
    for name in ("cut.jsonl.gz", "wide.jsonl", "P.csv"):
        assert twins.load([str(tmp_path / name)], "append").failure is not None
    (tmp_path / "empty.jsonl").write_text("")
    found = twins.load([str(tmp_path / "empty.jsonl")], "append")
    assert found.outcome is not None
    assert not found.outcome["commit_id"]


def test_a_csv_without_rows_empties_its_type(twins: Twins, tmp_path: Path) -> None:
    (tmp_path / "Link.csv").write_text("from,to\n")
    found = twins.load([str(tmp_path / "Link.csv")], "overwrite")
    assert found.outcome is not None
    assert found.outcome["counts"] == {"edge:Link": 0}
    assert found.outcome["commit_id"]


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_branch_that_is_made_for_the_load(mode: str, twins: Twins) -> None:
    good, bad = twins.file("good.jsonl", NEW), twins.file("bad.jsonl", [edge("Link", "p0", "nobody")])
    assert twins.load([bad], mode, branch="dev", source="main").failure is not None
    assert twins.spark.branches() == ["main"]
    empty = twins.file("empty.jsonl", [])
    twins.load([empty], mode, branch="dev", source="main")
    assert twins.spark.branches() == ["main"]
    found = twins.load([good], mode, branch="dev", source="main")
    assert found.outcome is not None
    assert found.outcome["branch_created"]
    again = twins.load([twins.file("more.jsonl", [node("P", k="again")])], mode, branch="dev")
    assert len(again.content) == len(found.content) + 1


@pytest.mark.parametrize("mode", ["append", "overwrite", "merge"])
def test_a_dry_run_changes_nothing(mode: str, twins: Twins) -> None:
    head = twins.spark.head()
    records = [*NEW, *(START[:6] if mode == "overwrite" else [])]
    found = twins.load([twins.file("in.jsonl", records)], mode, dry_run=True)
    assert found.outcome is not None
    assert found.outcome["counts"]["node:P"] >= 7
    assert twins.spark.head() == head


def test_what_the_commit_says(twins: Twins) -> None:
    path = twins.file("in.jsonl", NEW)
    twins.load([path], "append", message="with a reason", actor="eve")
    mine, theirs = (graph.commit("main") for graph in (twins.local, twins.spark))
    assert (theirs.message, theirs.actor_id) == (mine.message, mine.actor_id)
    said, also = (json.loads(commit.details or "{}") for commit in (mine, theirs))
    assert said.pop("files")
    assert also.pop("files")  # Other ones: each task writes its own.
    assert said.pop("seal") != also.pop("seal")  # Of all of it, the id and the time included.
    assert also == said


def test_the_worked_example(new_graph: Callable[[str, str], Graph], tmp_path: Path) -> None:
    twins = Twins(new_graph, S1, tmp_path)
    found = twins.load([twins.file("d1.jsonl", D1)], "append")
    assert len(found.content) == len(D1)


def test_a_type_can_be_named(twins: Twins, tmp_path: Path) -> None:
    pyarrow.csv.write_csv(pa.table({"k": ["a", "b"]}), tmp_path / "people.csv")
    found = twins.load([str(tmp_path / "people.csv")], "merge", type="P", format=Format.CSV)
    assert found.outcome is not None
    assert found.outcome["counts"] == {"node:P": 2}


def test_a_format_that_only_spark_reads(twins: Twins, tmp_path: Path) -> None:
    """ORC, against the same rows as Parquet: the same graph, and mistakes are named by their row."""
    for name, last in (("good", 39), ("bad", 100)):
        table = pa.table(
            {"k": [f"q{number}" for number in range(40)], "n": pa.array([*range(39), last], pa.int32())}
        )
        pq.write_table(table, tmp_path / f"{name}.parquet")
        orc.write_table(table, tmp_path / f"{name}.orc")
    reader = replace(SPARK, reader="orc")
    parquet = ended(twins.local, [str(tmp_path / "bad.parquet")], "append", type="P")
    mine = ended(twins.spark, [str(tmp_path / "bad.orc")], "append", type="P", spark=reader)
    assert parquet.failure is not None
    assert mine.failure == (parquet.failure[0], parquet.failure[1].replace("bad.parquet", "bad.orc"), None)
    parquet = ended(twins.local, [str(tmp_path / "good.parquet")], "merge", type="P")
    mine = ended(twins.spark, [str(tmp_path / "good.orc")], "merge", type="P", spark=reader)
    assert mine == parquet
    assert ended(twins.spark, [str(tmp_path / "good.orc")], "append", spark=reader).failure is not None
    broken = ended(
        twins.spark,
        [str(tmp_path / "good.orc")],
        "append",
        type="P",
        spark=replace(SPARK, reader="nothing"),
    )
    assert broken.failure is not None
    assert "nothing" in broken.failure[1]


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_keys_in_another_order_are_refused(
    mode: str, new_graph: Callable[[str, str], Graph], tmp_path: Path
) -> None:
    """A task does not see the edges of another, which would have to follow."""
    twins = Twins(new_graph, "node P { a: String b: String @key(a, b) } edge E: P -> P", tmp_path)
    records = [node("P", id='["y","x"]', a="x", b="y"), node("P", a="p", b="q")]
    path = twins.file("in.jsonl", records)
    assert ended(twins.local, [path], mode).failure is None
    failure = ended(twins.spark, [path], mode, spark=SparkOptions()).failure
    assert failure is not None
    assert 'in.jsonl:1: P.id: id \'["y","x"]\' is not the id its key gives' in failure[1]
    assert "only a load without Spark" in failure[1]
    bad = str(tmp_path / "bad.jsonl")
    found = ended(twins.spark, [path], mode, spark=SparkOptions(), rejects=bad)
    assert found.outcome is not None
    assert (found.outcome["counts"], found.outcome["rejected"]) == ({"node:P": 1}, 1)
