"""`omnigraph load` as a user meets it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.processes import Finished, Omnigraph, closed_stdin
from tests.support.records import edge, exported, make_people, node, nodes, write_jsonl
from tests.support.terminal import CTRL_D, on_a_terminal
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")
GOOD = '{"type":"Person","data":{"name":"Eve"}}\n'


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_people(tmp_path_factory.mktemp("people") / "g")


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    """S1 with D1."""
    shutil.copytree(template, tmp_path / "g")
    return Graph.open(str(tmp_path / "g"), SETTINGS)


@pytest.fixture
def data(tmp_path: Path) -> Callable[..., Path]:
    """Writes records, or any bytes, to a file."""

    def write(*content: Any) -> Path:
        path = tmp_path / "in.jsonl"
        if len(content) == 1 and isinstance(content[0], bytes):
            path.write_bytes(content[0])
        else:
            write_jsonl(path, content)
        return path

    return write


def refused(done: Finished, code: int, graph: Graph, before: list[dict[str, Any]]) -> dict[str, Any]:
    """The one object on stderr of a load that changed nothing."""
    assert (done.code, done.out) == (code, ""), done
    assert exported(graph) == before
    assert graph.branches() == ["main"]
    failure: dict[str, Any] = json.loads(done.err)
    assert failure["exit"] == code
    assert {"error", "code", "retryable", "hint"} <= set(failure)
    return failure


def test_what_a_load_says(graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph) -> None:
    path = data(node("Person", name="Eve", age=1), edge("Knows", "Eve", "Ann"))
    done = omnigraph("load", "g", "--data", path, "--mode", "append", "--as", "zoe", "--json")
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    head = graph.log().history("main")[0]
    assert answer.pop("uri") == graph.location.uri
    assert answer == {
        "branch": "main",
        "mode": "append",
        "base_branch": None,
        "branch_created": False,
        "nodes": [{"name": "Person", "entities_loaded": 1}],
        "edges": [{"name": "Knows", "entities_loaded": 1}],
        "nodes_loaded": 1,
        "edges_loaded": 1,
        "node_types_loaded": 1,
        "edge_types_loaded": 1,
        "total_entities": 2,
        "unmatchable": 0,
        "rejected": 0,
        "commit": head.commit_id,
        "warnings": [],
        "dry_run": False,
    }
    assert (head.actor_id, head.operation) == ("zoe", "load")
    check_whole(graph)


def test_people_are_told_where_and_how_much(
    graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph
) -> None:
    path = data(node("Person", name="Eve"), edge("Knows", "Ann", "Ann"))
    done = omnigraph("load", "g", "--data", path, "--mode", "merge", "--message", "why")
    lines = done.out.splitlines()
    assert (done.code, lines[0]) == (0, "loaded main (merge): 2 entities")
    head = graph.log().history("main")[0]
    counted = [["edge:Knows", "1"], ["node:Person", "1"]]
    assert [line.split() for line in lines[1:]] == [*counted, ["commit", head.commit_id]]
    assert done.err.splitlines()[0] == f"omnigraph load → {graph.location.uri} (direct, local)"
    # The edge has neither id nor @unique group.
    assert "warning: 1 record had no id, no key and no complete @unique group: added as new" in done.err
    assert head.message == "why"
    quiet = omnigraph("load", "g", "--data", data(node("Person", name="Eve")), "--mode", "merge", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_standard_input_alone_and_beside_a_file(
    graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph
) -> None:
    assert omnigraph("load", "g", "--data", "-", "--mode", "append", stdin=GOOD).code == 0
    assert "Eve" in nodes(graph, "Person")
    path = data(edge("Knows", "Fay", "Eve"))
    fay = '{"type":"Person","data":{"name":"Fay"}}'
    done = omnigraph("load", "g", "--data", path, "--data", "-", "--mode", "append", stdin=fay)
    assert done.code == 0, done.err
    details = json.loads(graph.log().history("main")[0].details or "")
    assert [each["name"] for each in details["inputs"]] == [str(path), "<stdin>"]
    broken = omnigraph("load", "g", "--data", "-", "--mode", "append", "--json", stdin=GOOD + "{\n")
    assert [(v["file"], v["line"]) for v in json.loads(broken.err)["violations"]] == [("<stdin>", 2)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--data", "in.jsonl"],
        ["--mode", "append"],
        ["--data", "in.jsonl", "--mode", "upsert"],
        ["--data", "in.jsonl", "--mode", ""],
        ["--data", "missing.jsonl", "--mode", "append"],
        ["--data", "in.jsonl", "--data", "missing.jsonl", "--mode", "append"],
        ["--data", ".", "--mode", "append"],
        ["--data", "", "--mode", "append"],
        ["--data", "-", "--data", "-", "--mode", "append"],
        ["--data", "in.jsonl", "--mode", "append", "--from", ""],
        ["--data", "in.jsonl", "--mode", "append", "--store", "g"],
        ["--data", "in.jsonl", "--mode", "append", "--nope"],
    ],
    ids=" ".join,
)
def test_usage(arguments: list[str], graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph) -> None:
    data(node("Person", name="Eve"))
    before = exported(graph)
    failure = refused(omnigraph("load", "g", *arguments, "--json"), 2, graph, before)
    assert failure["code"] == "usage"


def test_where_it_cannot_load(graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph) -> None:
    load = ("--data", data(node("Person", name="Eve")), "--mode", "append", "--json")
    before = exported(graph)
    assert refused(omnigraph("load", "g", *load, "--branch", "nope"), 6, graph, before)["branch"] == "nope"
    refused(omnigraph("load", "g", *load, "--branch", "new", "--from", "nope"), 6, graph, before)
    refused(omnigraph("load", "elsewhere", *load), 6, graph, before)
    for name in ("__schema_apply_lock__", "a b"):
        done = omnigraph("load", "g", *load, f"--branch={name}", "--from", "main")
        assert refused(done, 5, graph, before)["code"] == "refused", name


def test_an_existing_id_is_a_conflict(graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph) -> None:
    path = data(node("Person", name="Eve"), node("Person", name="Ann"))
    before = exported(graph)
    failure = refused(omnigraph("load", "g", "--data", path, "--mode", "append", "--json"), 3, graph, before)
    assert (failure["code"], failure["key_conflict"]) == (
        "conflict",
        {"table_key": "node:Person", "id": "Ann"},
    )
    (violation,) = failure["violations"]
    assert violation == {
        "file": str(path),
        "line": 2,
        "type": "Person",
        "property": None,
        "message": "id 'Ann' already exists",
    }


PERSON = '{"type":"Person","data":{"name":"Eve"%s}}\n'
BAD_INPUTS: dict[str, tuple[bytes, tuple[int, str | None, str | None], str]] = {
    # the input; line, type and property of the first violation; a part of its message
    "NaN": ((PERSON % ',"age":NaN').encode(), (1, None, None), "NaN is not a JSON number"),
    "infinity": ((PERSON % ',"age":-Infinity').encode(), (1, None, None), "Infinity"),
    "huge integer": (
        (PERSON % f',"age":{"9" * 5000}').encode(),
        (1, "Person", "age"),
        "out of range for I32",
    ),
    "out of range": (
        (PERSON % ',"age":2147483648').encode(),
        (1, "Person", "age"),
        "2147483648 is out of range",
    ),
    "fraction": ((PERSON % ',"age":1.0').encode(), (1, "Person", "age"), "expects I32, got number 1.0"),
    "null in a list": ((PERSON % ',"tags":[null]').encode(), (1, "Person", "tags"), "null is not allowed"),
    "enum": (b'{"type":"Company","data":{"name":"x","size":"big"}}', (1, "Company", "size"), "'big'"),
    "required": (GOOD.encode() + b'{"type":"Person","data":{}}', (2, "Person", "name"), "required"),
    "unknown type": (b'\n\n{"type":"Robot","data":{}}', (3, None, None), "unknown node type 'Robot'"),
    "type in lower case": (b'{"type":"person","data":{}}', (1, None, None), "unknown node type 'person'"),
    "unknown edge": (b'{"edge":"Likes","from":"a","to":"b"}', (1, None, None), "unknown edge type 'Likes'"),
    "unknown field": ((PERSON % ',"nick":1').encode(), (1, "Person", "nick"), "unknown input field 'nick'"),
    "envelope": (b'{"type":"Person","data":{"name":"x"},"when":1}', (1, "Person", None), "when"),
    "twice": (b'{"type":"Person","data":{"name":"x","name":"y"}}', (1, "Person", "name"), "duplicate key"),
    "reserved": ((PERSON % ',"_rowid":1').encode(), (1, "Person", "_rowid"), "_rowid"),
    "dangling": (b'{"edge":"Knows","from":"Ann","to":"Zed"}', (1, "Knows", None), "dst 'Zed' not found"),
    "endpoint missing": (b'{"edge":"Knows","from":"Ann"}', (1, "Knows", None), "edge missing 'to'"),
    "truncated": (GOOD.encode() + b'{"type":"Person","data":{"na', (2, None, None), "invalid JSON"),
    "over two lines": (b'{"type":"Person",\n"data":{"name":"x"}}', (1, None, None), "invalid JSON"),
    "two on a line": (GOOD.strip().encode() * 2, (1, None, None), "invalid JSON"),
    "an array": (b"[" + GOOD.strip().encode() + b"]", (1, None, None), "must be a JSON object, got array"),
    "null": (b"null\n", (1, None, None), "must be a JSON object, got null"),
    "nested deeply": (b"[" * 200_000, (1, None, None), "nested too deeply"),
    "half a surrogate": (b'{"type":"Person","data":{"name":"\\ud800"}}', (1, "Person", "name"), "surrogate"),
    "latin-1": ((PERSON % ',"tags":["ü"]').encode("latin-1"), (1, None, None), "not valid UTF-8: byte 0xfc"),
    "UTF-16": (GOOD.encode("utf-16"), (1, None, None), "UTF-16, not UTF-8"),
    "UTF-16 without mark": (GOOD.encode("utf-16-le"), (1, None, None), "NUL bytes"),
    "UTF-32": (GOOD.encode("utf-32"), (1, None, None), "UTF-32, not UTF-8"),
    "binary": (bytes(range(0x80, 0x100)) * 20, (1, None, None), "not valid UTF-8: byte 0x80"),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_input(name: str, graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph) -> None:
    content, place, message = BAD_INPUTS[name]
    path = data(content)
    before = exported(graph)
    done = omnigraph("load", "g", "--data", path, "--mode", "merge", "--json")
    failure = refused(done, 7, graph, before)
    first = failure["violations"][0]
    assert failure["code"] == "bad_data"
    assert set(first) == {"file", "line", "type", "property", "message"}
    assert (first["file"], (first["line"], first["type"], first["property"])) == (str(path), place)
    assert message in first["message"]
    assert failure["error"].startswith(f"{path}:{place[0]}: ")


def test_bad_input_for_people(graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph) -> None:
    """All that is wrong, up to twenty lines of it, and no traceback."""
    path = data(*(node("Person", name=f"p{number}", age="old") for number in range(30)))
    done = omnigraph("load", "g", "--data", path, "--mode", "append")
    lines = done.err.splitlines()
    assert (done.code, done.out) == (7, "")
    assert lines[1] == f"error: {path}:1: Person.age: expects I32, got string 'old'"
    assert (len(lines), lines[-1]) == (22, "…and 10 more")


def test_a_cardinality_violation_names_its_type(
    graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph
) -> None:
    path = data(edge("WorksAt", "Ann", "Zeta"))
    done = omnigraph("load", "g", "--data", path, "--mode", "append", "--json")
    (violation,) = json.loads(done.err)["violations"]
    assert (done.code, violation["line"], violation["type"]) == (7, 1, "WorksAt")


@pytest.mark.parametrize("content", [b"", b"\n\n \r\n", b"\xef\xbb\xbf"], ids=["empty", "blank", "a mark"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_no_records_are_no_commit(
    content: bytes, mode: str, graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph
) -> None:
    head, before = graph.head(), exported(graph)
    done = omnigraph("load", "g", "--data", data(content), "--mode", mode)
    assert (done.code, done.out) == (0, f"loaded main ({mode}): 0 entities\n")
    assert "the input has no records; no commit was made" in done.err
    assert (graph.head(), exported(graph)) == (head, before)


def test_no_records_make_no_branch(graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph) -> None:
    options = ("--mode", "append", "--branch", "new", "--from", "main", "--json")
    done = omnigraph("load", "g", "--data", data(b""), *options)
    answer = json.loads(done.out)
    assert (done.code, answer["commit"], answer["branch_created"]) == (0, None, False)
    assert graph.branches() == ["main"]


def test_from_makes_the_branch(graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph) -> None:
    options = ("--mode", "append", "--branch", "nightly", "--from", "main", "--json")
    done = omnigraph("load", "g", "--data", data(node("Person", name="Eve")), *options)
    answer = json.loads(done.out)
    assert (done.code, answer["base_branch"], answer["branch_created"]) == (0, "main", True)
    again = json.loads(omnigraph("load", "g", "--data", data(node("Person", name="Fay")), *options).out)
    assert (again["base_branch"], again["branch_created"]) == ("main", False)
    assert {"Eve", "Fay"} <= set(nodes(graph, "Person", "nightly"))
    assert "Eve" not in nodes(graph, "Person")
    check_whole(graph)


@pytest.mark.parametrize("more", [[], ["--branch", "new", "--from", "main"]], ids=["main", "new branch"])
def test_a_dry_run_writes_nothing(
    more: list[str], graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph
) -> None:
    head = graph.head()
    good, bad = node("Person", name="Eve"), edge("Knows", "Eve", "Zed")
    options = ("--mode", "append", "--dry-run", "--json", *more)
    done = omnigraph("load", "g", "--data", data(good), *options)
    answer = json.loads(done.out)
    assert (done.code, answer["total_entities"], answer["commit"], answer["dry_run"]) == (0, 1, None, True)
    assert answer["branch_created"] is False
    assert omnigraph("load", "g", "--data", data(bad), *options).code == 7
    assert omnigraph("load", "g", "--data", data(node("Person", name="Ann")), *options).code == 3
    assert (graph.head(), graph.branches()) == (head, ["main"])
    check_whole(graph)


def test_a_closed_stdin_is_not_an_empty_one(graph: Graph, tmp_path: Path) -> None:
    done = closed_stdin("load", "g", "--data", "-", "--mode", "overwrite", cwd=tmp_path)
    assert (done.code, "standard input is closed" in done.err) == (2, True)


def test_a_file_is_loaded_whatever_stdin_is(graph: Graph, data: Callable[..., Path], tmp_path: Path) -> None:
    path = data(node("Person", name="Eve"))
    assert closed_stdin("load", "g", "--data", path, "--mode", "append", cwd=tmp_path).code == 0
    assert "Eve" in nodes(graph, "Person")


def test_a_named_pipe(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    """`--data <(zcat people.jsonl.gz)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"printf '%s' '{GOOD.strip()}' > {pipe}"]):
        assert omnigraph("load", "g", "--data", pipe, "--mode", "append").code == 0
    assert "Eve" in nodes(graph, "Person")


def test_rejects_are_exit_7_with_the_good_ones_loaded(
    graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph, tmp_path: Path
) -> None:
    path = data(node("Person", name="Eve"), node("Person", name="Fay", age="old"))
    options = ("load", "g", "--data", path, "--mode", "append", "--rejects", "bad.jsonl")
    done = omnigraph(*options, "--max-rejects", "0", "--json")
    assert (done.code, json.loads(done.err)["code"], (tmp_path / "bad.jsonl").exists()) == (9, "limit", False)
    done = omnigraph(*options, "--json")
    answer = json.loads(done.out)
    assert (done.code, answer["rejected"], answer["total_entities"]) == (7, 1, 1)
    (line,) = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "file": str(path),
        "line": 2,
        "type": "Person",
        "reason": "age: expects I32, got string 'old'",
        "record": node("Person", name="Fay", age="old"),
    }
    assert "Eve" in nodes(graph, "Person")


def test_max_rejects_needs_rejects(graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph) -> None:
    done = omnigraph("load", "g", "--data", data(), "--mode", "append", "--max-rejects", "3")
    assert (done.code, "--rejects" in done.err) == (2, True)


def test_rejects_to_standard_output(
    graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph, tmp_path: Path
) -> None:
    path = data(node("Person", name="Eve"), node("Person", name="Fay", age="old"))
    options = ("load", "g", "--data", path, "--mode", "append", "--rejects", "-")
    refused = omnigraph(*options, "--json")
    assert (refused.code, "standard output" in refused.err) == (2, True)
    done = omnigraph(*options)
    assert (done.code, json.loads(done.out)["line"]) == (7, 2)
    assert "1 record rejected, see standard output" in done.err
    assert not (tmp_path / "-").exists()
    assert {"Eve"} <= set(nodes(graph, "Person")) - {"Fay"}


def test_rejects_into_a_pipe_leave_the_pipe_where_it_is(
    graph: Graph, data: Callable[..., Path], omnigraph: Omnigraph, tmp_path: Path
) -> None:
    path, pipe = data(node("Person", name="Eve"), node("Person", name="Fay", age="old")), tmp_path / "pipe"
    os.mkfifo(pipe)
    before = pipe.stat()
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        assert omnigraph("load", "g", "--data", path, "--mode", "append", "--rejects", pipe).code == 7
        said = reader.communicate(timeout=60)[0]
    assert json.loads(said)["line"] == 2
    assert (pipe.is_fifo(), pipe.stat().st_ino) == (True, before.st_ino)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["g", "in.jsonl", "pipe"]


@pytest.mark.parametrize("ending", [b"\n" + CTRL_D, CTRL_D * 2], ids=["a whole line", "within a line"])
def test_one_end_is_enough_for_what_is_typed(ending: bytes, graph: Graph, tmp_path: Path) -> None:
    """Within a line the first Ctrl-D hands over what was typed, as in every program."""
    code, screen = on_a_terminal(
        *("load", "g", "--data", "-", "--mode", "append"),
        cwd=tmp_path,
        typed=json.dumps(node("Person", name="Eve")).encode() + ending,
        at="omnigraph load →".encode(),
    )
    assert (code, "loaded main" in screen) == (0, True)
    assert "Eve" in nodes(graph, "Person")


def test_a_folder_held_by_a_stopped_process_is_said_in_time(
    omnigraph: Omnigraph, graph: Graph, data: Callable[..., Path]
) -> None:
    before = exported(graph)
    staging = graph.location.path / layout.STAGING_DIR
    staging.mkdir(exist_ok=True)
    stopped = os.open(staging, os.O_RDONLY)
    try:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        arguments = ["load", graph.location.path, "--data", data(GOOD.encode()), "--mode", "append"]
        done = omnigraph(*arguments, "--from", "main", "--branch", "x", "--lock-timeout", "0.1", "--json")
    finally:
        os.close(stopped)
    failure = refused(done, 8, graph, before)
    assert (failure["folder"], failure["pid"]) == (str(staging), os.getpid())
    assert f"process {os.getpid()}" in failure["error"]
