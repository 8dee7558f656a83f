"""`omnigraph blob`: the bytes of one property, through the installed command."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from tests.support import warm
from tests.support.processes import OMNIGRAPH, Omnigraph, clean_environment
from tests.support.records import edge, node, write_jsonl

SMALL, LARGE = b"\x00\xffhi\n", bytes(range(256)) * 30_000


def encoded(data: bytes) -> str:
    return "base64:" + base64.b64encode(data).decode()


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    schema = "node F { k: String @key data: Blob? note: String? } edge Of: F -> F { scan: Blob? }"
    graph = Graph.init(str(tmp_path / "g"), schema, Settings(fsync=False, actor="ann"))
    records = [
        node("F", k="small", data=encoded(SMALL)),
        node("F", k="large", data=encoded(LARGE)),
        node("F", k="none"),
        node("F", k="empty", data=encoded(b"")),
        edge("Of", "small", "large", id="e", scan=encoded(b"page")),
    ]
    graph.load([write_jsonl(tmp_path / "in.jsonl", records)], LoadMode.APPEND)
    return graph


@pytest.mark.parametrize(
    ("where", "data"),
    [
        (("node", "F", "small", "data"), SMALL),
        (("node", "F", "large", "data"), LARGE),
        (("node", "F", "empty", "data"), b""),
        (("edge", "of", "e", "scan"), b"page"),
    ],
)
def test_the_bytes_come_out_as_they_went_in(
    where: tuple[str, ...], data: bytes, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    command = [OMNIGRAPH, "blob", "get", *where, "--store", "g"]
    done = warm.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (data, b"")
    assert omnigraph("blob", "get", *where, "--store", "g", "--out", "out.bin").code == 0
    assert (tmp_path / "out.bin").read_bytes() == data
    stat = omnigraph("blob", "stat", *where, "--store", "g", "--json")
    assert json.loads(stat.out)["size"] == len(data)


def test_an_old_state_still_has_its_blob(graph: Graph, omnigraph: Omnigraph) -> None:
    graph.change('query q() { delete F where k = "small" }')
    where = ("node", "F", "small", "data", "--store", "g")
    assert omnigraph("blob", "stat", *where).code == 6
    assert omnigraph("blob", "stat", *where, "--snapshot", "main~1").out == f"{len(SMALL)} bytes\n"


@pytest.mark.parametrize(
    ("where", "code", "words"),
    [
        (("node", "F", "none", "data"), 6, "F 'none' has no data"),
        (("node", "F", "nobody", "data"), 6, "no F with the id 'nobody'"),
        (("node", "F", "small", "note"), 6, "blob properties are: data"),
        (("node", "G", "small", "data"), 6, "unknown node type 'G'"),
        (("vertex", "F", "small", "data"), 2, "neither node nor edge"),
    ],
)
def test_what_there_is_not(
    where: tuple[str, ...], code: int, words: str, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    done = omnigraph("blob", "get", *where, "--store", "g", "--out", "out.bin")
    assert (done.code, words in done.err, done.out) == (code, True, ""), done.err
    assert not (tmp_path / "out.bin").exists()


@pytest.mark.parametrize(("offset", "length"), [(0, 5), (3, 4), (2, 0), (10**9, 5), (1, 10**12)])
@pytest.mark.parametrize("name", ["small", "large"])
def test_a_part_of_a_blob(
    name: str, offset: int, length: int, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    part = ["--offset", str(offset), "--length", str(length), "--out", "part.bin"]
    assert omnigraph("blob", "get", "node", "F", name, "data", "--store", "g", *part).code == 0
    whole = SMALL if name == "small" else LARGE
    assert (tmp_path / "part.bin").read_bytes() == whole[offset : offset + length]
