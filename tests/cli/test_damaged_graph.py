"""Graphs that somebody edited, lost parts of, or wrote with a newer OmniGraph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint


@pytest.fixture
def graph(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> Path:
    assert omnigraph("init", "--schema", people, "g").code == 0
    return tmp_path / "g"


def test_comments_and_order_in_the_source_are_harmless(graph: Path, omnigraph: Omnigraph) -> None:
    reordered = (
        "// edited\n"
        + "\n".join(reversed(PEOPLE.split("\n", 4)[4].splitlines()))
        + "\n"
        + "\n".join(PEOPLE.splitlines()[:4])
    )
    (graph / "_schema.pg").write_text(reordered)
    assert omnigraph("schema", "show", graph).out.startswith("// edited")


@pytest.mark.parametrize("edit", [("I32?", "I64?"), ("@key", ""), ("node Person {", "node Person {{")])
def test_a_hand_edited_source_is_noticed(edit: tuple[str, str], graph: Path, omnigraph: Omnigraph) -> None:
    (graph / "_schema.pg").write_text(PEOPLE.replace(*edit))
    done = omnigraph("schema", "show", graph)
    assert done.code == 74
    assert "_schema.pg" in done.err
    assert "undo" in done.err


@pytest.mark.parametrize("lost", ["_schema.ir.json", "__schema_state.json", "_schema.pg"])
def test_a_lost_schema_file_is_noticed(lost: str, graph: Path, omnigraph: Omnigraph) -> None:
    (graph / lost).unlink()
    done = omnigraph("schema", "show", graph)
    assert (done.code, f"{lost} is missing" in done.err) == (74, True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("_schema.pg", PEOPLE.replace("I32?", "I64?")),
        ("_schema.pg", "node {"),
        ("_schema.pg", None),
        ("_schema.ir.json", None),
        ("_schema.ir.json", "{}"),
        ("__schema_state.json", None),
    ],
)
def test_applying_the_accepted_schema_puts_the_files_back(
    name: str, content: str | None, graph: Path, omnigraph: Omnigraph, people: Path
) -> None:
    """Nobody needs a backup for what the graph itself has kept."""
    file = graph / name
    before = file.read_bytes()
    file.unlink() if content is None else file.write_text(content)
    assert omnigraph("schema", "show", graph).code == 74
    done = omnigraph("schema", "apply", graph, "--schema", people)
    assert (done.code, "what they were again" in done.err) == (0, True), done.err
    assert file.read_bytes() == before
    again = omnigraph("schema", "apply", graph, "--schema", people)
    assert (again.code, "again" in again.err) == (0, False)
    assert omnigraph("schema", "show", graph).out == PEOPLE


def test_both_json_files_lost_is_survived(graph: Path, omnigraph: Omnigraph) -> None:
    (graph / "_schema.ir.json").unlink()
    (graph / "__schema_state.json").unlink()
    before = fingerprint(graph)
    assert omnigraph("schema", "show", graph).out == PEOPLE
    assert fingerprint(graph) == before


def test_a_source_that_was_never_published_is_not_accepted(graph: Path, omnigraph: Omnigraph) -> None:
    """Both JSON files lost and the source edited: the head commit still knows the schema's hash."""
    (graph / "_schema.ir.json").unlink()
    (graph / "__schema_state.json").unlink()
    (graph / "_schema.pg").write_text("node Alien { k: String @key }")
    assert omnigraph("schema", "show", graph).code == 74
    assert omnigraph("branch", "create", "b", "--store", graph).code == 74


def test_lost_json_files_are_rewritten_by_the_next_writer(graph: Path, omnigraph: Omnigraph) -> None:
    before = (graph / "__schema_state.json").read_text()
    (graph / "_schema.ir.json").unlink()
    (graph / "__schema_state.json").unlink()
    assert omnigraph("branch", "create", "b", "--store", graph).code == 0
    assert (graph / "__schema_state.json").read_text() == before


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"format_version": 1}', '{"format_version": 9}', "[" * 100_000],
)
def test_garbage_in_the_state_file(content: str, graph: Path, omnigraph: Omnigraph) -> None:
    (graph / "__schema_state.json").write_text(content)
    done = omnigraph("schema", "show", graph)
    assert done.code == 74
    assert "__schema_state.json" in done.err


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}", '{"ir_version": 7}'])
def test_garbage_in_the_compiled_file(content: str, graph: Path, omnigraph: Omnigraph) -> None:
    (graph / "_schema.ir.json").write_text(content)
    done = omnigraph("schema", "show", graph)
    assert done.code == 74
    assert "Traceback" not in done.err


def test_a_stamp_from_the_future(graph: Path, omnigraph: Omnigraph) -> None:
    import lance

    lance.dataset(str(graph / "__manifest")).update_schema_metadata(
        {"omnigraph:internal_schema_version": "4"}
    )
    done = omnigraph("snapshot", graph, "--json")
    failure = json.loads(done.err)
    assert (done.code, failure["hint"]) == (74, "upgrade omnigraph first")
    assert (failure["internal_schema_version"], failure["supported"]) == (4, 3)


def test_a_torn_manifest_is_a_storage_error(graph: Path, omnigraph: Omnigraph) -> None:
    for manifest in (graph / "__manifest/_versions").glob("*.manifest"):
        manifest.write_bytes(b"")
    done = omnigraph("snapshot", graph)
    assert done.code == 74
    assert "__manifest" in done.err
    assert "Traceback" not in done.err


def test_reading_writes_nothing(graph: Path, omnigraph: Omnigraph) -> None:
    before = fingerprint(graph)
    commit = json.loads(omnigraph("snapshot", graph, "--json").out)["graph_commit_id"]
    omnigraph("snapshot", graph, "--snapshot", commit)
    omnigraph("schema", "show", graph, "--snapshot", commit)
    assert fingerprint(graph) == before
