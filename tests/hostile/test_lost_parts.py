"""Parts of a graph that are missing or not its own: an error that says where (74), never "not found"."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph_core import layout
from omnigraph_core.errors import ErrorKind, StorageError
from omnigraph_core.graph import Graph
from omnigraph_core.manifest.rows import GraphHead
from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE
from tests.support.verbs import SETTINGS, ask_all, refusals
from tests.support.writers import write_three

PERSON = layout.table_path("node", "Person")
READING = ["export", "query", "diff", "change"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    write_three(graph, "one")
    graph.create_branch("dev")
    write_three(graph, "two", "dev")
    return tmp_path / "g"


@pytest.mark.parametrize("part", [PERSON, f"{PERSON}/_versions", f"{PERSON}/tree/dev"])
def test_a_missing_table_is_damage(part: str, root: Path, omnigraph: Omnigraph) -> None:
    shutil.rmtree(root / part)
    branch = "dev" if "tree" in part else "main"
    done = omnigraph("export", "--branch", branch, "--store", root, "--json")
    found = json.loads(done.err)
    assert (done.code, found["path"]) == (74, f"{PERSON}/tree/dev" if branch == "dev" else PERSON)
    kinds = {name: error.kind for name, error in refusals(ask_all(root)).items()}
    assert set(kinds.values()) <= {ErrorKind.STORAGE, ErrorKind.REFUSED, ErrorKind.NOT_FOUND}
    assert not {name for name in READING if kinds.get(name) is ErrorKind.NOT_FOUND}, kinds


def test_a_missing_newest_version_is_damage(root: Path, omnigraph: Omnigraph) -> None:
    entry = Graph.open(str(root), SETTINGS).snapshot().entry("node:Person")
    (root / entry.metadata.manifest_path).unlink()
    done = omnigraph("export", "--store", root, "--json")
    assert (done.code, json.loads(done.err)["path"]) == (74, PERSON)


def test_a_missing_file_on_a_branch_is_damage_for_its_writers(root: Path) -> None:
    """Not another writer who was faster: that would be tried again for ever."""
    company = layout.table_path("node", "Company")
    (file,) = (root / company / "tree/dev/data").iterdir()
    file.unlink()
    Graph.open(str(root), SETTINGS).change('query q() { insert Company { name: "x" } }')
    with pytest.raises(StorageError, match=f"{company}/tree/dev/data/{file.name}"):
        Graph.open(str(root), SETTINGS).change('query q() { insert Company { name: "two" } }', branch="dev")


WRONG_HEADS = {
    "commit_id": 7,
    "created_at": "soon",
    "schema_hash": ["x"],
    "lock_token": None,
    "outcome": "perhaps",
    "operation_id": {},
    "details": 5,
}


@pytest.mark.parametrize("field", WRONG_HEADS)
def test_a_head_row_of_wrong_types_is_refused(field: str, root: Path) -> None:
    graph = Graph.open(str(root), SETTINGS)
    head = graph.head()
    assert head is not None
    content = {**head.to_fields(), field: WRONG_HEADS[field]}
    with pytest.raises(Exception, match="graph_head row cannot be read") as refused:
        GraphHead.from_json(json.dumps(content))
    assert getattr(refused.value, "kind", None) is ErrorKind.STORAGE


def test_a_damaged_head_row_and_a_foreign_schema(root: Path, omnigraph: Omnigraph) -> None:
    """Written with Lance by another program: rows that say something no writer of ours does."""
    import lance

    place = str(root / layout.MANIFEST)
    pristine = root.with_name("pristine")
    shutil.copytree(root, pristine)
    head = Graph.open(str(root), SETTINGS).head()
    assert head is not None
    foreign = json.dumps({**head.to_fields(), "schema_hash": "sha256:" + "0" * 64})
    for metadata in ("{", "null", "[]", '{"commit_id": 1}', foreign, None):
        shutil.rmtree(root)
        shutil.copytree(pristine, root)
        found = lance.dataset(place)
        row = found.to_table(filter="object_id = 'graph_head'").to_pylist()[0]
        changed = pa.Table.from_pylist([{**row, "metadata": metadata}], schema=found.schema)
        found.merge_insert("object_id").when_matched_update_all().execute(changed)
        done = omnigraph("export", "--store", root, "--json")
        assert done.code == 74, (metadata, done)
        names = ["status", "export", "commits", "change", "cleanup", "doctor", "schema", "optimize"]
        kinds = {error.kind for error in refusals(ask_all(root, names)).values()}
        assert kinds == {ErrorKind.STORAGE}


def test_a_fifo_in_a_directory_of_inputs_is_refused(root: Path, omnigraph: Omnigraph) -> None:
    inputs = root.parent / "inputs"
    inputs.mkdir()
    (inputs / "a.jsonl").write_text('{"type": "Company", "data": {"name": "x"}}\n')
    os.mkfifo(inputs / "b.jsonl")
    done = omnigraph("load", "--data", inputs, "--mode", "append", "--store", root)
    assert (done.code, "b.jsonl" in done.err) == (2, True)
