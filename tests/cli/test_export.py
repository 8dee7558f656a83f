"""`omnigraph export` as a user meets it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from tests.support import warm
from tests.support.processes import OMNIGRAPH, Omnigraph, clean_environment
from tests.support.records import S1, make_people, node, write_jsonl
from tests.support.trees import fingerprint

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_people(tmp_path_factory.mktemp("people") / "g")


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    """S1 with D1."""
    shutil.copytree(template, tmp_path / "g")
    return Graph.open(str(tmp_path / "g"), SETTINGS, OpenMode.READ_WRITE)


def test_edges_then_nodes_each_by_id(graph: Graph, omnigraph: Omnigraph) -> None:
    done = omnigraph("export", "g")
    records = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, done.err) == (0, "")
    names = [record.get("edge") or record["type"] for record in records]
    assert names == ["Knows"] * 4 + ["WorksAt"] * 3 + ["Company"] * 2 + ["Person"] * 4
    assert [record["data"]["id"] for record in records[-4:]] == ["Ann", "Bob", "Cy", "Dee"]
    assert records[-4] == {
        "type": "Person",
        "data": {"id": "Ann", "age": 30, "joined": None, "name": "Ann", "tags": ["a", "b"]},
    }


def test_a_backup_and_its_restoration(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "s.pg").write_text(S1)
    backup = omnigraph("export", "g").out
    assert omnigraph("init", "--schema", "s.pg", "copy").code == 0
    done = omnigraph("load", "copy", "--data", "-", "--mode", "overwrite", stdin=backup)
    assert done.code == 0, done.err
    assert omnigraph("export", "copy").out == backup


def test_nothing_is_written_to_the_graph(graph: Graph, omnigraph: Omnigraph) -> None:
    before = fingerprint(graph.location.path)
    assert omnigraph("export", "g").code == 0
    assert omnigraph("export", "g", "--out", "x.jsonl").code == 0
    assert fingerprint(graph.location.path) == before


def test_some_types_some_branch_some_time(graph: Graph, omnigraph: Omnigraph) -> None:
    graph.create_branch("dev")
    graph.change('query q() { insert Company { name: "New" } }', branch="dev")
    graph.change('query q() { delete Company where name = "Zeta" }')

    def companies(*arguments: str) -> list[str]:
        done = omnigraph("export", "g", "--type", "Company", *arguments)
        assert done.code == 0, done.err
        return [json.loads(line)["data"]["id"] for line in done.out.splitlines()]

    assert companies() == ["Acme"]
    assert companies("--branch", "dev") == ["Acme", "New", "Zeta"]
    assert companies("--snapshot", "main~1") == ["Acme", "Zeta"]
    assert companies("--snapshot", "dev~1") == ["Acme", "Zeta"]
    assert companies("--snapshot", "main~2") == []
    both = omnigraph("export", "g", "--type", "Company", "--type", "WorksAt").out
    assert [json.loads(line).get("edge") for line in both.splitlines()] == ["WorksAt", "WorksAt", None]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["g", "--type", "Robot"], 6),
        (["g", "--type", "person"], 6),
        (["g", "--branch", "nope"], 6),
        (["g", "--snapshot", "nope"], 6),
        (["g", "--snapshot", "main~99"], 6),
        (["nowhere"], 6),
        (["g", "--branch", "main", "--snapshot", "main"], 2),
        (["g", "--out", ""], 2),
        (["g", "--out", "."], 2),
        (["g", "--as", "me"], 2),
    ],
    ids=str,
)
def test_what_cannot_be_exported(
    arguments: list[str], code: int, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    """Whether there is a file to be written or not; none is."""
    before = fingerprint(tmp_path)
    more = [] if "--out" in arguments or "--as" in arguments else ["--out", "x.jsonl"]
    done = omnigraph("export", *arguments, *more, "--json")
    assert (done.code, done.out) == (code, "")
    assert json.loads(done.err)["exit"] == code
    assert fingerprint(tmp_path) == before


def test_a_file(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("old\n")
    before = set(tmp_path.iterdir())
    done = omnigraph("export", "g", "--out", "x.jsonl")
    assert (done.code, done.out) == (0, "")
    assert (tmp_path / "x.jsonl").read_text() == omnigraph("export", "g").out
    assert set(tmp_path.iterdir()) == before


def damage(graph: Graph, table_key: str) -> None:
    """Remove the rows of a table behind the library's back."""
    entry = graph.snapshot().entry(table_key)
    for path in (graph.location.path / entry.table_path / "data").iterdir():
        path.unlink()


@pytest.mark.parametrize("old", [None, "old\n"], ids=["no file yet", "a file"])
def test_an_export_that_fails_half_way_leaves_no_half_file(
    old: str | None, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    damage(graph, "node:Person")  # the last of all tables
    out = tmp_path / "out" / "x.jsonl"
    out.parent.mkdir()
    if old is not None:
        out.write_text(old)
    done = omnigraph("export", "g", "--out", out, "--json")
    assert done.code == 74
    assert "Traceback" not in done.err
    assert {path.name: path.read_text() for path in out.parent.iterdir()} == ({"x.jsonl": old} if old else {})


def test_a_missing_file_of_the_graph_is_not_a_bug(graph: Graph, omnigraph: Omnigraph) -> None:
    damage(graph, "node:Person")
    done = omnigraph("export", "g", "--json")
    assert (done.code, json.loads(done.err)["code"]) == (74, "storage")


def test_a_file_that_cannot_grow(graph: Graph, omnigraph_process: Omnigraph, tmp_path: Path) -> None:
    """A full disk, as far as a test can have one: the process may write no file above 1 KiB."""
    out = tmp_path / "out" / "x.jsonl"
    out.parent.mkdir()
    limited = ("bash", "-c", 'ulimit -f 1; exec "$0" "$@"')
    done = omnigraph_process("export", "g", "--out", out, "--json", prefix=limited)
    assert (done.code, done.out) == (74, "")
    assert "File too large" in json.loads(done.err)["error"]
    assert list(out.parent.iterdir()) == []


def test_a_directory_that_is_not_there(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    done = omnigraph("export", "g", "--out", tmp_path / "no" / "x.jsonl", "--json")
    assert (done.code, "No such file or directory" in json.loads(done.err)["error"]) == (74, True)


def test_out_to_a_pipe_writes_into_it(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    """Also meant: /dev/stdout, and as root any device; never try this test on one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        done = omnigraph("export", "g", "--out", pipe)
        assert (done.code, pipe.is_fifo()) == (0, True)
        assert os.read(reader, 1 << 16).decode() == omnigraph("export", "g").out
    finally:
        os.close(reader)


def test_out_to_a_link_writes_what_it_points_to(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    assert omnigraph("export", "g", "--out", "link.jsonl").code == 0
    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "real.jsonl").read_text() == omnigraph("export", "g").out


@pytest.fixture
def long(tmp_path: Path) -> Graph:
    """A graph whose export fills a pipe many times."""
    graph = Graph.init(str(tmp_path / "g"), S1, SETTINGS)
    people = (node("Person", name=f"p{number:06}", tags=["x" * 50]) for number in range(20_000))
    graph.load([write_jsonl(tmp_path / "long.jsonl", people)], LoadMode.APPEND)
    return graph


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["human", "json"])
def test_a_reader_that_has_seen_enough(more: list[str], long: Graph, tmp_path: Path) -> None:
    """`omnigraph export | head -1`."""
    with warm.Popen(
        [OMNIGRAPH, "export", "g", *more],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["data"]["id"] == "p000000"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_all_of_a_long_export_arrives(long: Graph, omnigraph: Omnigraph) -> None:
    lines = omnigraph("export", "g").out.splitlines()
    assert [json.loads(line)["data"]["id"] for line in lines] == [f"p{number:06}" for number in range(20_000)]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_export_is_utf_8_whatever_the_terminal_says(
    encoding: str, graph: Graph, omnigraph: Omnigraph
) -> None:
    graph.change('query q() { insert Company { name: "😀" } }')
    done = omnigraph("export", "g", "--type", "Company", environment={"PYTHONIOENCODING": encoding})
    names = [json.loads(line)["data"]["name"] for line in done.out.splitlines()]
    assert names == ["Acme", "Zeta", "😀"]


@pytest.mark.parametrize("out", ["g", "g/_schema.pg", "g/nodes/x.jsonl", "link/_schema.pg"])
@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
def test_an_export_does_not_write_into_its_graph(
    out: str, format_: str, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "g")
    before = fingerprint(graph.location.path)
    done = omnigraph("export", "g", "--format", format_, "--out", out)
    assert (done.code, done.out) == (2, "")
    assert "--out: " in done.err
    assert "inside the graph" in done.err
    assert fingerprint(graph.location.path) == before


def test_a_dash_is_standard_output(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    assert omnigraph("export", "g", "--out", "-").out == omnigraph("export", "g").out
    assert not (tmp_path / "-").exists()


def test_the_spellings_of_jsonl(graph: Graph, omnigraph: Omnigraph) -> None:
    assert omnigraph("export", "g", "--jsonl").out == omnigraph("export", "g").out
    assert omnigraph("export", "g", "--jsonl", "--format", "csv").code == 2
