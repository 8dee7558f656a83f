"""CSV and Parquet as a user meets them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings
from tests.support.processes import Omnigraph
from tests.support.records import S1, exported, make_people, nodes

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_people(tmp_path_factory.mktemp("people") / "g")


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    """S1 with D1."""
    shutil.copytree(template, tmp_path / "g")
    return Graph.open(str(tmp_path / "g"), SETTINGS, OpenMode.READ_WRITE)


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_a_backup_directory_and_its_restoration(
    format_: str, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    done = omnigraph("export", "g", "--format", format_, "--out", "backup")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert sorted(path.name for path in (tmp_path / "backup").iterdir()) == [
        f"{name}.{format_}" for name in ("Company", "Knows", "Person", "WorksAt")
    ]
    (tmp_path / "s.pg").write_text(S1)
    assert omnigraph("init", "--schema", "s.pg", "copy").code == 0
    done = omnigraph("load", "copy", "--data", "backup", "--mode", "overwrite")
    assert done.code == 0, done.err
    assert omnigraph("export", "copy").out == omnigraph("export", "g").out


def test_one_type_through_a_pipe(graph: Graph, omnigraph: Omnigraph) -> None:
    people = omnigraph("export", "g", "--type", "Person", "--format", "csv")
    assert people.out.splitlines()[0] == "id,age,joined,name,tags"
    text = people.out.replace("Cy,,,Cy,", "Cy,50,,Cy,")
    options = ("--format", "csv", "--type", "Person", "--mode", "merge")
    done = omnigraph("load", "g", "--data", "-", *options, "--json", stdin=text)
    assert (done.code, json.loads(done.out)["total_entities"]) == (0, 4)
    assert nodes(graph, "Person")["Cy"] == {"name": "Cy", "age": 50}


def test_bad_values_with_file_and_line(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "Person.csv").write_text('name,age\n"a\nb",1\nEve,old\n')
    before = exported(graph)
    done = omnigraph("load", "g", "--data", "Person.csv", "--mode", "append", "--json")
    assert done.code == 7
    assert json.loads(done.err)["violations"] == [
        {
            "file": "Person.csv",
            "line": 4,
            "type": "Person",
            "property": "age",
            "message": "expects I32, got 'old'",
        }
    ]
    assert exported(graph) == before


def test_a_truncated_download(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(b'{"type":"Person","data":{"name":"Eve"}}\n')[:-6])
    done = omnigraph("load", "g", "--data", "x.jsonl.gz", "--mode", "append", "--json")
    failure = json.loads(done.err)
    assert (done.code, failure["code"], failure["file"]) == (7, "bad_data", "x.jsonl.gz")
    assert failure["error"] == "x.jsonl.gz: the gzip data is cut short"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["load", "g", "--data", "x.csv", "--mode", "append"], 2),
        (["load", "g", "--data", "x.csv", "--mode", "append", "--type", "Robot"], 6),
        (["load", "g", "--data", "x.csv", "--mode", "append", "--format", "jsonl"], 2),
        (["load", "g", "--data", "x.csv", "--mode", "append", "--format", "xml"], 2),
        (["load", "g", "--data", "x.csv", "--mode", "append", "--type", "Person"], 7),
        (["load", "g", "--data", "-", "--mode", "append", "--format", "parquet", "--type", "Person"], 2),
        (["load", "g", "--data", "-", "--mode", "append", "--format", "csv"], 2),
        (["load", "g", "--data", "empty", "--mode", "append"], 2),
        (["export", "g", "--format", "csv"], 2),
        (["export", "g", "--format", "parquet", "--type", "Person"], 2),
        (["export", "g", "--format", "xml"], 2),
        (["export", "g", "--format", "csv", "--out", "x.csv"], 2),
        (["export", "g", "--format", "jsonl", "--out", "empty"], 2),
        (["export", "g", "--format", "csv", "--out", "no/such/dir"], 74),
    ],
    ids=str,
)
def test_what_cannot_be_done(
    arguments: list[str], code: int, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("nonsense\n1\n")
    (tmp_path / "empty").mkdir()
    before, files = exported(graph), sorted(tmp_path.iterdir())
    done = omnigraph(*arguments, "--json")
    assert (done.code, done.out) == (code, ""), done
    assert json.loads(done.err)["exit"] == code
    assert (exported(graph), sorted(tmp_path.iterdir())) == (before, files)
    assert list((tmp_path / "empty").iterdir()) == []
