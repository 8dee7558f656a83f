"""Loads that do not fit in memory: the same rules, messages and rows as of small ones.

What makes a load big is its bytes beside OMNIGRAPH_MEMORY_LIMIT; the comparisons here
make small ones work as big ones do. That memory really suffices is measured at the end.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.rules.parts import Part, parts
from omnigraph_core.settings import Settings
from omnigraph_core.tables.sink import RowSink
from tests.support.records import edge, exported, node, nodes, write_jsonl
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann", memory_limit_bytes=1)
SCHEMA = """
node P { k: String @key mail: String? @unique a: I32? b: F64? @unique(a, b) }
node Free { name: String note: String? @unique(name) }
edge One: P -> P @card(0..2)
edge Some: P -> Free @card(1..3) { w: I32? @unique(src, dst) }
"""
Records = list[dict[str, Any]]


def few_mistakes(random_: random.Random) -> Records:
    """Records among which some break each of the rules about more than one row."""
    keys = [f"k{number}" for number in range(30)]
    good = random_.random() < 0.4
    slip = 0.0 if good else 0.04

    def key() -> str:
        return f"nobody{random_.randrange(3)}" if random_.random() < slip else random_.choice(keys)

    records: Records = []
    for number, name in enumerate(keys):
        mail = "same@x" if random_.random() < slip else f"{number}@x"
        twice = random_.random() < slip
        records.append(node("P", k=name, mail=mail, a=1 if twice else number, b=0.5))
        records += [node("P", k=name)] if random_.random() < slip else []
    frees = [f"f{number}" for number in range(8)]
    for name in frees:
        given = {"id": f"id-{name}"} if random_.random() < 0.8 or good else {"id": "id-f0"}
        records.append(node("Free", name=name, **given))
    for number in range(20):
        source = keys[number] if good else key()
        records.append(edge("One", source, key()))
        records.append(edge("Some", source, random_.choice([f"id-{name}" for name in frees]), w=number))
    random_.shuffle(records)
    return records


def outcome(folder: Path, start: Records, records: Records, mode: str, **options: Any) -> object:
    """What a load says and leaves, without the ids it makes up."""
    folder.mkdir(exist_ok=True)
    graph = Graph.init(str(folder / "g"), SCHEMA, SETTINGS)
    rejects = folder / "bad.jsonl"
    graph.load([write_jsonl(folder / "start.jsonl", start)], LoadMode.APPEND)
    said: object
    try:
        done = graph.load(
            [write_jsonl(folder / "in.jsonl", records)],
            LoadMode(mode),
            **({"rejects": str(rejects)} if options.get("rejecting") else {}),
        )
        said = (done.counts, done.rejected, done.unmatchable)
    except OmnigraphError as error:
        details = {name: value for name, value in error.details().items() if name != "key_conflict"}
        said = (type(error).__name__, str(error), details)
    bad = [json.loads(line) for line in rejects.read_text().splitlines()] if rejects.exists() else []
    rows = sorted(json.dumps(_nameless(record), sort_keys=True) for record in exported(graph))
    text = json.dumps([said, bad, rows], default=str)
    check_whole(graph)
    return json.loads(text.replace(str(folder), "FOLDER"))


def _nameless(record: dict[str, Any]) -> dict[str, Any]:
    data = {name: value for name, value in record["data"].items() if name != "id"}
    return {**record, "data": data}


def in_parts(count: int) -> Callable[[MemoryBudget, int], tuple[Part, ...]]:
    return lambda _budget, _bytes: parts(count)


@pytest.mark.parametrize("mode", ["append", "overwrite", "merge"])
@pytest.mark.parametrize("rejecting", [False, True], ids=["refusing", "rejecting"])
@pytest.mark.parametrize("seed", range(4))
def test_parts_make_no_difference(
    seed: int, rejecting: bool, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(f"{seed} {mode}")
    start = few_mistakes(random.Random(3))
    start = [each for each in start if each.get("type")] if mode == "append" else start
    records = few_mistakes(random_)
    if mode == "append":
        records = [each | {"data": _renamed(each["data"], slips=seed % 2)} for each in records]
    start = _sound(start)
    whole = outcome(tmp_path / "whole", start, records, mode, rejecting=rejecting)
    monkeypatch.setattr(MemoryBudget, "parts", in_parts(5))
    monkeypatch.setattr("omnigraph_core.rules.committed.are_few", lambda *_: False)
    assert outcome(tmp_path / "parts", start, records, mode, rejecting=rejecting) == whole


def _renamed(data: dict[str, Any], slips: int) -> dict[str, Any]:
    """Keys and ids that the start has not, but for a few."""
    found = dict(data)
    for name in ("k", "id"):
        if name in found and not (slips and found[name].endswith("7")):
            found[name] = f"new-{found[name]}"
    return found


def _sound(records: Records) -> Records:
    """Only nodes, and each of them once."""
    seen: set[str] = set()
    found = []
    for record in records:
        if record.get("type") == "P" and record["data"]["k"] not in seen:
            seen.add(record["data"]["k"])
            found.append(node("P", k=record["data"]["k"], mail=f"old-{record['data']['k']}"))
    return found


@pytest.mark.parametrize("rejecting", [False, True], ids=["refusing", "rejecting"])
@pytest.mark.parametrize("seed", range(4))
def test_records_are_matched_by_parts_as_at_once(
    seed: int, rejecting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records without ids are rows that are there by a unique group; now and then two are the same."""
    random_ = random.Random(seed)
    start = [node("Free", name=f"f{number}", id=f"id{number}") for number in range(10)]
    start += [node("P", k=f"k{number}") for number in range(10)]
    start += [edge("Some", f"k{number}", f"id{number}", w=0) for number in range(8)]
    records = []
    for number in range(16):
        named = {"id": f"id{random_.randrange(12)}"} if random_.random() < 0.3 else {}
        records.append(node("Free", name=f"f{number}", note="new", **named))
    for number in range(10):
        records.append(edge("Some", f"k{number}", f"id{random_.choice([number, 9])}", w=number))
    if seed % 2:
        records.append(edge("Some", "k3", "id3", w=99))
    random_.shuffle(records)
    whole = outcome(tmp_path / "whole", start, records, "merge", rejecting=rejecting)
    monkeypatch.setattr(MemoryBudget, "parts", in_parts(5))
    monkeypatch.setattr("omnigraph_core.rules.committed.are_few", lambda *_: False)
    assert outcome(tmp_path / "parts", start, records, "merge", rejecting=rejecting) == whole


def test_a_table_that_cannot_be_written_stops_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables are written side by side; what there is of the other goes as well."""
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, Settings(fsync=False, actor="ann"))
    before = _data_files(tmp_path / "g")
    write = RowSink.write

    def failing(sink: RowSink, *arguments: Any) -> None:
        if sink.table.ref.key == "node:P":
            raise OSError(28, "No space left on device")
        write(sink, *arguments)

    monkeypatch.setattr(RowSink, "write", failing)
    records = [node("P", k="a"), node("Free", name="b")]
    with pytest.raises(OSError, match="No space"):
        graph.load([write_jsonl(tmp_path / "in.jsonl", records)], LoadMode.APPEND)
    assert _data_files(tmp_path / "g") == before
    monkeypatch.undo()
    graph.load([write_jsonl(tmp_path / "in.jsonl", records)], LoadMode.APPEND)
    assert set(nodes(graph, "P")) == {"a"}


def _data_files(place: Path) -> list[Path]:
    return sorted(place.rglob("data/*"))


MEASURED = """
import sys
from pathlib import Path
import pyarrow as pa
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
graph = Graph.init(sys.argv[1], Path(sys.argv[3]).read_text(), Settings(fsync=False, actor="ann",
    memory_limit_bytes=int(sys.argv[2])))
graph.load(sys.argv[4:], LoadMode.APPEND)
status = Path("/proc/self/status").read_text(encoding="ascii")
print(status.split("VmHWM:")[1].split()[0])
"""


def peak_bytes(folder: Path, limit: int, schema: str, inputs: list[Path]) -> int:
    """The most memory that a process which does nothing but this load ever had."""
    path = folder / "schema.pg"
    path.write_text(schema, encoding="utf-8")
    graph = folder / f"g{len(list(folder.iterdir()))}"
    command = [sys.executable, "-c", MEASURED, str(graph), str(limit), str(path), *map(str, inputs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


def check_memory(folder: Path, rows: int, limit: int) -> None:
    """Half of the rows are nodes with a key and a unique property, half edges between them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = "node P { k: String @key mail: String @unique n: I32 }\nedge E: P -> P @card(0..9) { w: F64 }"
    random_, half = np.random.default_rng(1), rows // 2

    def names(prefix: str, numbers: Any) -> pa.Array:
        texts = pa.array(numbers).cast(pa.utf8())
        return pa.compute.binary_join_element_wise(pa.scalar(prefix), texts, "-")

    people = {"k": names("person", random_.permutation(half)), "mail": names("mail", np.arange(half))}
    people["n"] = pa.array(np.arange(half), pa.int32())
    ends = {name: names("person", random_.permutation(half)) for name in ("from", "to")}
    pq.write_table(pa.table(people), folder / "P.parquet")
    pq.write_table(pa.table({**ends, "w": pa.array(random_.random(half))}), folder / "E.parquet")
    pq.write_table(pa.table(people).slice(0, 1), folder / "few.parquet")
    (folder / "bare").mkdir()
    (folder / "few.parquet").rename(folder / "bare" / "P.parquet")
    bare = peak_bytes(folder, limit, schema, [folder / "bare" / "P.parquet"])
    peak = peak_bytes(folder, limit, schema, [folder / "P.parquet", folder / "E.parquet"])
    assert peak < bare + limit, f"{peak >> 20} MiB, of which {bare >> 20} before any rows"


def test_memory_stays_within_its_limit(tmp_path: Path) -> None:
    check_memory(tmp_path, 1_000_000, 256 << 20)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_memory_stays_within_its_limit_for_ten_million_rows(tmp_path: Path) -> None:
    check_memory(tmp_path, 10_000_000, 1 << 30)
