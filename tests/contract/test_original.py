"""Graphs of the Rust original are read as they are, and adopted with their history and branches."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph_core import layout
from omnigraph_core.catalog.files import SchemaFilesDisagree
from omnigraph_core.errors import OmnigraphError, RefusedError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.maintenance.findings import Finding, Severity
from omnigraph_core.manifest.rows import version_object_id
from omnigraph_core.original.recognition import OriginalGraph, OriginalWrote
from omnigraph_core.settings import load_settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.failures import GraphMoved
from omnigraph_core.tables.indexes import list_indexes
from tests.support.originals import (
    NAMES,
    SETTINGS,
    commits,
    datasets,
    exported,
    in_order,
    said,
    tree,
    unpack,
    unpack_in_place,
)
from tests.support.processes import NOBODY, Omnigraph

QUERY = "query q() { match { $x: Person } return { $x.name } }"


def opened(root: Path) -> Graph:
    return Graph.open(str(root), SETTINGS)


def adopted(root: Path) -> Graph:
    graph = opened(root)
    graph.adopt(actor="ann")
    return opened(root)


def without_nulls(records: Any) -> list[Any]:
    """The original leaves nulls out, and writes instants as texts and vectors in more digits."""
    return in_order(
        {**each, "data": {key: _value(value) for key, value in each["data"].items() if value is not None}}
        for each in records
    )


def _value(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], float):
        return [struct.unpack("f", struct.pack("f", each))[0] for each in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+", value):
        return int(datetime.fromisoformat(f"{value}+00:00").timestamp() * 1000)
    return value


def wrong(graph: Graph) -> list[Finding]:
    """What doctor finds, without its remarks."""
    return [each for each in graph.doctor(deep=True) if each.severity is not Severity.NOTE]


def check_same(graph: Graph, name: str) -> None:
    """Every branch has the rows, and the commits with their parents and actors, that the original said."""
    answers = said(name)
    assert graph.branches() == answers["branches"]
    for branch in answers["branches"]:
        assert without_nulls(exported(graph, branch)) == without_nulls(answers["exports"][branch])
        listed = {each["graph_commit_id"]: each for each in answers["commits"][branch]["commits"]}
        assert commits(graph, branch) == listed


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_is_read_as_it_is(name: str, tmp_path: Path) -> None:
    root = unpack_in_place(name, tmp_path)
    before = tree(root)
    graph = opened(root)
    check_same(graph, name)
    for branch, shown in said(name)["snapshot"].items():
        snapshot = graph.snapshot(branch)
        assert snapshot.manifest_version == shown["manifest_version"]
        rows = [(each.table_key, each.table_version, each.row_count) for each in snapshot.tables.values()]
        assert sorted(rows) == sorted(
            (each["table_key"], each["table_version"], each["row_count"]) for each in shown["tables"]
        )
    for commit in graph.log().commits.values():
        exported(graph, ref=commit.commit_id)
        graph.catalog_of(commit.commit_id)
        for changed in graph.diff(commit.commit_id).table_diffs():
            changed.counts()
    assert graph.is_original()
    assert tree(root) == before


@pytest.mark.parametrize("name", NAMES)
def test_an_adopted_graph_has_everything_it_had(name: str, tmp_path: Path) -> None:
    root = unpack_in_place(name, tmp_path)
    graph = opened(root)
    ids = sorted(graph.log().commits)
    then = {each: exported(graph, ref=each) for each in ids}
    graph = adopted(root)
    assert not graph.is_original()
    check_same(graph, name)
    assert {each: exported(graph, ref=each) for each in ids} == then
    head = graph.snapshot().head
    assert head is not None
    assert (head.operation, head.actor_id) == ("adopt", "ann")
    for branch in graph.branches():
        assert graph.snapshot(branch).head is not None
    assert wrong(graph) == []
    no_cleanup_of_lances_own(root)


def no_cleanup_of_lances_own(root: Path) -> None:
    for path in (*datasets(root), layout.MANIFEST, layout.COMMITS, layout.COMMIT_ACTORS):
        dataset = lance.dataset(str(root / path))
        lines = [dataset, *(dataset.checkout_version((name, None)) for name in dataset.branches.list())]
        for line in lines:
            assert not [key for key in line.config() if key.startswith("lance.auto_cleanup")], path


PERSON = '{"type":"Person","data":{"name":"Zoe"}}\n'


@pytest.mark.parametrize("name", [each for each in NAMES if each != "rich"])
def test_an_adopted_graph_is_worked_on_like_any_other(name: str, tmp_path: Path) -> None:
    graph = adopted(unpack_in_place(name, tmp_path))
    file = tmp_path / "zoe.jsonl"
    file.write_text(PERSON)
    for branch in graph.branches():
        before = exported(graph, branch)
        graph.load([str(file)], LoadMode.MERGE, branch=branch)
        rows = exported(graph, branch)
        assert next(each for each in rows if each not in before)["data"]["name"] == "Zoe"
        graph.change('query q() { delete Person where name = "Zoe" }', branch=branch)
        assert exported(graph, branch) == before
        assert exported(graph, ref=f"{branch}~2") == before
    first = min(graph.log().commits.values(), key=lambda each: each.created_at)
    graph.create_branch("from-the-start", first.commit_id)
    graph.create_branch("made", "main")
    for branch in ("made", "from-the-start"):
        graph.load([str(file)], LoadMode.MERGE, branch=branch)
    graph.merge("made", "main")
    assert "Zoe" in json.dumps(exported(graph))
    assert len(exported(graph, "from-the-start")) == len(exported(graph, ref=first.commit_id)) + 1
    assert graph.query(QUERY).to_pylist()
    for branch in graph.branches():
        graph.optimize(branch)
    graph.delete_branch("from-the-start")
    assert wrong(graph) == []
    graph.cleanup(keep=1, grace_s=0, force=True)
    assert wrong(graph) == []
    one_index_for_each_purpose(graph)


def one_index_for_each_purpose(graph: Graph) -> None:
    for entry in graph.snapshot().tables.values():
        built = list_indexes(graph._tables.open(entry.ref, entry.table_version)).values()
        purposes = [(each.column, each.kind) for each in built]
        assert len(set(purposes)) == len(purposes), entry.table_key


def test_values_of_every_type_survive(tmp_path: Path) -> None:
    graph = adopted(unpack_in_place("rich", tmp_path))
    before = exported(graph)
    file = tmp_path / "out.jsonl"
    file.write_bytes(b"".join(graph.export()))
    graph.load([str(file)], LoadMode.OVERWRITE)
    assert exported(graph) == before
    for found in ('$t: Thing search($t.note, "foxes")', '$t: Thing { name: "t1" }'):
        assert graph.query(f"query q() {{ match {{ {found} }} return {{ $t.name as n }} }}").to_pylist() == [
            {"n": "t1"}
        ]
    graph.optimize()
    assert exported(graph) == before
    assert wrong(graph) == []
    one_index_for_each_purpose(graph)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_null_blob_of_the_original_is_null(when: str, tmp_path: Path) -> None:
    root = unpack_in_place("rich", tmp_path)
    graph = opened(root) if when == "before" else adopted(root)
    for ref in (None, "01M7NYCCW3FFZ1AHG96GEH843G"):
        things = {each["data"]["id"]: each["data"] for each in exported(graph, ref=ref) if "type" in each}
        assert things["t2"]["body"] is None
        assert things["t1"]["body"] == "base64:aGVsbG8="
    with pytest.raises(OmnigraphError, match="has no body"):
        graph.at().blob("node", "Thing", "t2", "body")
    if when == "after":
        file = tmp_path / "empty.jsonl"
        file.write_text('{"type":"Thing","data":{"name":"t9","body":"base64:"}}\n')
        graph.load([str(file)], LoadMode.MERGE)
        graph.optimize()
        things = {each["data"]["id"]: each["data"] for each in exported(graph) if "type" in each}
        assert (things["t9"]["body"], things["t2"]["body"]) == ("base64:", None)


def test_drift_is_put_back_and_never_published(tmp_path: Path) -> None:
    root = unpack_in_place("deletes", tmp_path)
    graph = opened(root)
    drifted = {each.table_key for each in graph.adopt(dry_run=True).tables if each.drift}
    heads = {
        entry.table_key: lance.dataset(str(root / entry.table_path)).version
        for entry in graph.snapshot().tables.values()
    }
    moved = {key for key, entry in graph.snapshot().tables.items() if heads[key] > entry.table_version}
    assert drifted == moved != set()
    before = exported(graph)
    done = graph.adopt()
    assert {each.table_key for each in done.tables if each.drift} == moved
    assert exported(opened(root)) == before
    assert wrong(opened(root)) == []


WRITES = {
    "load": lambda graph, file: graph.load([str(file)], LoadMode.MERGE),
    "change": lambda graph, file: graph.change('query q() { delete Person where name = "Ann" }'),
    "branch create": lambda graph, file: graph.create_branch("x"),
    "branch delete": lambda graph, file: graph.delete_branch("side"),
    "tag": lambda graph, file: graph.create_tag("t"),
    "optimize": lambda graph, file: graph.optimize(),
    "cleanup": lambda graph, file: graph.cleanup(),
    "maintain": lambda graph, file: graph.maintain(),
    "repair": lambda graph, file: graph.repair(confirm=True),
    "relocate": lambda graph, file: graph.relocate(),
    "merge": lambda graph, file: graph.merge("side", "main"),
    "schema": lambda graph, file: graph.apply_schema("node A { a: String }"),
    "open": lambda graph, file: graph.prepare_for_writing(),
}


def test_nobody_but_adopt_writes_to_it(tmp_path: Path) -> None:
    root = unpack_in_place("branches", tmp_path)
    file = tmp_path / "zoe.jsonl"
    file.write_text(PERSON)
    before = tree(root)
    for write in WRITES.values():
        with pytest.raises(OriginalGraph) as refused:
            write(opened(root), file)
        assert "omnigraph adopt" in (refused.value.hint or "")
    opened(root).adopt(dry_run=True)
    assert tree(root) == before


def test_a_moved_graph_is_read_on_main_and_adopted_as_a_whole(tmp_path: Path) -> None:
    root = unpack("branches", tmp_path)
    before = tree(root)
    graph = opened(root)
    answers = said("branches")
    assert without_nulls(exported(graph)) == without_nulls(answers["exports"]["main"])
    assert set(graph.log().commits) == set(commits(graph, "main"))
    assert graph.moved_branches() == ["feat/x", "lazy", "side"]
    with pytest.raises(GraphMoved) as refused:
        graph.snapshot("side")
    assert "omnigraph adopt" in (refused.value.hint or "")
    assert tree(root) == before
    check_same(adopted(root), "branches")


def _no_schema_files(root: Path) -> None:
    (root / layout.SCHEMA_COMPILED).unlink()
    (root / layout.SCHEMA_STATE).unlink()


def _edited(path: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        text = (root / path).read_text()
        assert old in text
        (root / path).write_text(text.replace(old, new, 1))

    return edit


FORGED = {
    "both schema files missing": _no_schema_files,
    "no compiled schema": lambda root: (root / layout.SCHEMA_COMPILED).unlink(),
    "no state": lambda root: (root / layout.SCHEMA_STATE).unlink(),
    "no source": lambda root: (root / layout.SCHEMA_SOURCE).unlink(),
    "another compiled schema": _edited(layout.SCHEMA_COMPILED, '"I32"', '"I64"'),
    "another source": _edited(layout.SCHEMA_SOURCE, "I32", "I64"),
    "no schema at all": _edited(layout.SCHEMA_SOURCE, "node", "nod"),
    "not JSON": lambda root: (root / layout.SCHEMA_COMPILED).write_text("{"),
    "not text": lambda root: (root / layout.SCHEMA_STATE).write_bytes(b"\xff"),
}


@pytest.mark.parametrize("forgery", FORGED.values(), ids=FORGED.keys())
def test_schema_files_that_do_not_agree_are_refused(forgery: Callable[[Path], None], tmp_path: Path) -> None:
    root = unpack_in_place("plain", tmp_path)
    forgery(root)
    before = tree(root)
    with pytest.raises(SchemaFilesDisagree):
        exported(opened(root))
    with pytest.raises(SchemaFilesDisagree):
        opened(root).adopt()
    with pytest.raises(OmnigraphError):
        Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    assert tree(root) == before


def _publish(root: Path, row: dict[str, object]) -> None:
    manifest = lance.dataset(str(root / layout.MANIFEST))
    rows = pa.Table.from_pylist([row], schema=manifest.schema)
    manifest.merge_insert("object_id").when_not_matched_insert_all().execute(rows)


def test_rows_of_an_unknown_type_are_refused(tmp_path: Path) -> None:
    root = unpack_in_place("plain", tmp_path)
    _publish(root, {"object_id": "x", "object_type": "graph_view", "table_key": "x"})
    before = tree(root)
    with pytest.raises(RefusedError, match="graph_view"):
        opened(root).adopt()
    assert tree(root) == before
    assert exported(opened(root))


def test_a_pending_write_of_the_original_is_refused(tmp_path: Path) -> None:
    root = unpack_in_place("plain", tmp_path)
    (root / layout.RECOVERY_DIR / "01M7NYCCW3FFZ1AHG96GEH843G.json").write_text('{"schema_version": 1}')
    before = tree(root)
    with pytest.raises(RefusedError, match="not finished"):
        opened(root).adopt()
    assert tree(root) == before
    assert exported(opened(root))
    assert opened(root).pending() == []


@pytest.mark.parametrize("stamp", ["2", "4", "x"])
def test_another_stamp_is_refused(stamp: str, tmp_path: Path) -> None:
    root = unpack_in_place("plain", tmp_path)
    manifest = lance.dataset(str(root / layout.MANIFEST))
    manifest.update_schema_metadata({"omnigraph:internal_schema_version": stamp})
    before = tree(root)
    with pytest.raises(OmnigraphError):
        opened(root).adopt()
    if stamp == "4":
        with pytest.raises(OmnigraphError, match="newer"):
            opened(root).branches()
    assert tree(root) == before


def test_nothing_is_written_where_nothing_may_be(reachable_path: Path, omnigraph_process: Omnigraph) -> None:
    """As another user, who may read and not write."""
    root = unpack_in_place("branches", reachable_path)
    before = tree(root)
    for directory, _, files in os.walk(root):
        os.chmod(directory, 0o555)
        for file in files:
            os.chmod(Path(directory, file), 0o444)
    commands = [
        ("status",),
        ("export", "--branch", "side"),
        ("snapshot", "--branch", "feat/x"),
        ("schema", "show"),
        ("commit", "list"),
        ("commit", "show", "main"),
        ("branch", "list"),
        ("diff", "main~1", "main"),
        ("doctor",),
        ("query", "-e", QUERY),
        ("adopt", "--dry-run"),
    ]
    for command in commands:
        home = {"HOME": str(reachable_path), "XDG_CONFIG_HOME": str(reachable_path)}
        done = omnigraph_process(
            *command, "--store", root, prefix=NOBODY, environment=home, cwd=reachable_path
        )
        assert (done.code, done.err) == (0, ""), (command, done)
    for directory, _, _ in os.walk(root):
        os.chmod(directory, 0o755)
    assert tree(root) == before


@pytest.mark.parametrize("name", ["branches", "rich"])
def test_a_graph_that_is_put_on_s3(
    name: str, tmp_path: Path, s3_location: Callable[[], str], s3_environment: dict[str, str]
) -> None:
    root, place = unpack(name, tmp_path), s3_location()
    settings = load_settings({**s3_environment, "OMNIGRAPH_ACTOR": "ann"}, tmp_path)
    control = open_storage(parse_location(place, tmp_path), settings).control
    files = {path: data for path, data in tree(root).items() if data is not None}
    for path, data in files.items():
        control.put(path, data)
    graph = Graph.open(place, settings)
    assert without_nulls(exported(graph)) == without_nulls(said(name)["exports"]["main"])
    with pytest.raises(OriginalGraph):
        graph.create_branch("x")
    graph.adopt()
    graph = Graph.open(place, settings)
    check_same(graph, name)
    graph.create_branch("x")
    assert wrong(graph) == []


@pytest.mark.parametrize("name", ["branches", "rich"])
def test_an_export_of_one_loads_in_a_new_graph(name: str, tmp_path: Path) -> None:
    graph = opened(unpack_in_place(name, tmp_path))
    file = tmp_path / "out.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in said(name)["exports"]["main"]))
    new = Graph.init(str(tmp_path / "new"), graph.catalog().source, SETTINGS)
    new.load([str(file)], LoadMode.APPEND)
    assert without_nulls(exported(new)) == without_nulls(exported(graph))


def test_later_writes_of_the_original_are_noticed_and_not_built_upon(tmp_path: Path) -> None:
    root = unpack_in_place("plain", tmp_path)
    graph = adopted(root)
    entry = graph.snapshot().entry("node:Person")
    dataset = lance.dataset(str(root / entry.table_path))
    dataset.delete("id = 'Cy'")
    row = {
        "object_id": version_object_id("node:Person", dataset.version),
        "object_type": "table_version",
        "metadata": "{}",
        "table_key": "node:Person",
        "table_version": dataset.version,
        "row_count": 2,
    }
    _publish(root, row)
    file = tmp_path / "zoe.jsonl"
    file.write_text(PERSON)
    before = tree(root)
    with pytest.raises(OriginalWrote, match="node:Person"):
        opened(root).load([str(file)], LoadMode.MERGE)
    assert [each.code for each in opened(root).doctor() if each.code == "original-wrote"]
    changed = [path for path, data in tree(root).items() if before.get(path) != data]
    assert [path for path in changed if not path.startswith((layout.LOCKS_DIR, "nodes", "edges"))] == []


def test_indexes_that_cannot_be_read_go(tmp_path: Path) -> None:
    """As in forks of forks, where the original looks for them in the wrong place."""
    root = unpack_in_place("rich", tmp_path)
    for path in root.glob("nodes/*/_indices/*"):
        shutil.rmtree(path)
    before = exported(opened(root))
    graph = opened(root)
    dropped = {each.table_key: each.indexes for each in graph.adopt().tables}
    # Lance does not list a vector index without its files.
    assert dropped["node:Thing"] == ("id_idx", "name_idx", "note_idx")
    graph = opened(root)
    assert exported(graph) == before
    graph.optimize()
    found = graph.query('query q() { match { $t: Thing search($t.note, "foxes") } return { $t.name as n } }')
    assert found.to_pylist() == [{"n": "t1"}]
    one_index_for_each_purpose(graph)
    assert wrong(graph) == []


def test_an_index_that_lance_does_not_extend_is_built_anew(tmp_path: Path) -> None:
    """Lance refuses a sorted index with segments of the original's kind and of ours."""
    graph = adopted(unpack_in_place("plain", tmp_path))
    entry = graph.snapshot().entry("node:Person")
    assert "id_idx" in list_indexes(graph._tables.open(entry.ref, entry.table_version))
    file = tmp_path / "zoe.jsonl"
    file.write_text(PERSON)
    graph.change('query q() { delete Person where name != "" }')
    graph.load([str(file)], LoadMode.MERGE)
    graph.optimize()
    assert graph.query(QUERY).to_pylist() == [{"x.name": "Zoe"}]
    one_index_for_each_purpose(graph)
    assert wrong(graph) == []
