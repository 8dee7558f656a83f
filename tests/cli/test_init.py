"""`omnigraph init` as a user meets it: what it makes, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.processes import OMNIGRAPH, Omnigraph, clean_environment
from tests.support.programs import require_program
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint


def test_creates_a_graph_that_later_commands_find(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    done = omnigraph("init", "--schema", people)
    assert (done.code, done.out) == (0, f"initialized {tmp_path}/graph.omni\n")
    assert (tmp_path / "omnigraph.toml").read_text() == 'store = "graph.omni"\n'
    below = tmp_path / "deeper" / "still"
    below.mkdir(parents=True)
    found = omnigraph("snapshot", "--json", cwd=below)
    assert [table["table_key"] for table in json.loads(found.out)["tables"]] == [
        "edge:Knows",
        "edge:WorksAt",
        "node:Company",
        "node:Person",
    ]


def test_layout_on_disk(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    assert omnigraph("init", "--schema", people, "g").code == 0
    names = {path.name for path in (tmp_path / "g").iterdir()}
    assert names >= {
        "__manifest",
        "nodes",
        "edges",
        "_graph_commits.lance",
        "_schema.pg",
        "__schema_state.json",
    }
    assert {path.name for path in (tmp_path / "g/nodes").iterdir()} == {
        "40d76f1f51639ec0",
        "7cb4e55c59663b1c",
    }
    assert {path.name for path in (tmp_path / "g/edges").iterdir()} == {
        "602a25a3bd0b455b",
        "844eefbe5068b644",
    }
    assert list((tmp_path / "g/__staging").iterdir()) == []
    assert (tmp_path / "g/_schema.pg").read_text() == PEOPLE
    assert not (tmp_path / "omnigraph.toml").exists()


def test_json_answer(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    answer = json.loads(omnigraph("init", "--schema", people, "--json", "--as", "ann").out)
    assert answer["uri"] == f"{tmp_path}/graph.omni"
    assert answer["tables"] == ["edge:Knows", "edge:WorksAt", "node:Company", "node:Person"]
    assert answer["schema_hash"].startswith("sha256:")
    assert answer["config"] == f"{tmp_path}/omnigraph.toml"
    shown = json.loads(omnigraph("snapshot", "--json").out)
    assert shown["graph_commit_id"] == answer["commit"]
    assert shown["manifest_version"] == answer["manifest_version"]


@pytest.mark.parametrize("name", ["with space", "ümlaut-😀", "per%20cent", "hash#and?query", "a'quote"])
def test_any_directory_name_works(name: str, omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    assert omnigraph("init", "--schema", people, name).code == 0
    assert omnigraph("snapshot", name).code == 0
    assert (tmp_path / name / "__manifest").is_dir()
    assert {path.name for path in tmp_path.iterdir()} == {name, "people.pg"}


def test_schema_from_stdin_and_file_uri(omnigraph: Omnigraph, tmp_path: Path) -> None:
    assert omnigraph("init", "--schema", "-", f"file://{tmp_path}/a%20b", stdin=PEOPLE).code == 0
    assert omnigraph("schema", "show", tmp_path / "a b").out == PEOPLE


def test_missing_parents_are_made(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    assert omnigraph("init", "--schema", people, "x/y/z").code == 0
    assert omnigraph("snapshot", "x/y/z").code == 0


def test_an_empty_schema_is_a_graph(omnigraph: Omnigraph) -> None:
    assert omnigraph("init", "--schema", "-", stdin="// nothing yet\n").code == 0
    assert json.loads(omnigraph("snapshot", "--json").out)["tables"] == []


def test_existing_config_is_left_alone(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    (tmp_path / "omnigraph.toml").write_text('actor = "ann"\n')
    done = omnigraph("init", "--schema", people)
    assert done.code == 0
    assert (tmp_path / "omnigraph.toml").read_text() == 'actor = "ann"\n'
    assert (tmp_path / "graph.omni/__manifest").is_dir()


def test_a_graph_is_not_initialized_twice(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    omnigraph("init", "--schema", people, "g")
    before = fingerprint(tmp_path)
    again = omnigraph("init", "--schema", people, "g")
    assert (again.code, again.err) == (3, f"error: graph already initialized at {tmp_path}/g\n")
    assert fingerprint(tmp_path) == before


def test_a_foreign_directory_is_refused(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/cat.jpg").write_text("meow")
    before = fingerprint(tmp_path)
    done = omnigraph("init", "--schema", people, "photos")
    assert done.code == 5
    assert "not empty" in done.err
    assert fingerprint(tmp_path) == before


def test_an_empty_directory_is_fine(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    assert omnigraph("init", "--schema", people, "g").code == 0


BROKEN = {
    "node person { a: String }": (1, 6),
    "node Person { Name: String }": (1, 15),
    "node A { a: String, b: String }": (1, 19),
    "node A {\n  a: Strin\n}": (2, 6),
    "node A {\n  a String\n}": (2, 5),
    "node A { a: String": (1, 19),
    "edge E: A -> B": (1, 9),
    "node A { k: String? @key }": (1, 21),
    "node A { v: Vector(0) }": (1, 20),
    "node A { s: enum(x, y, x) }": (1, 24),
    "/* open\nnode A { k: String }": (1, 1),
    'node A @description("open) { k: String }': (1, 21),
    'node A @description("a\\q") { k: String }': (1, 23),
    "node A { _rowid: U64 }": (1, 10),
    "node A { id: String }": (1, 10),
    "node A { k: String @key }\nedge E: A -> A @card(3..1)": (2, 16),
    "node A { k: String @key }\nedge E: A -> A @card(..1)": (2, 22),
    "node A { k: String }\nnode A { k: String }": (2, 6),
    "node A { k: String k: I32 }": (1, 20),
    "node A { k: String @range(k, 0..5) }": (1, 27),
    "node A { k: String @key }\nedge Knows: A -> A\nedge KNOWS: A -> A": (3, 6),
    "nodeA { k: String }": (1, 1),
    "hello": (1, 1),
}


@pytest.mark.parametrize(("source", "place"), BROKEN.items(), ids=range(len(BROKEN)))
def test_a_broken_schema_is_one_message_with_its_place(
    source: str, place: tuple[int, int], omnigraph: Omnigraph, tmp_path: Path
) -> None:
    (tmp_path / "bad.pg").write_text(source)
    before = fingerprint(tmp_path)
    done = omnigraph("init", "--schema", "bad.pg", "g")
    assert done.code == 7
    assert done.out == ""
    assert done.err.startswith(f"error: bad.pg:{place[0]}:{place[1]}: "), done.err
    assert "Traceback" not in done.err
    lines = done.err.splitlines()
    caret = next(line for line in lines if line.strip() and set(line.strip()) <= {"^"})
    assert (
        caret.index("^")
        == lines[lines.index(caret) - 1].index(source.splitlines()[place[0] - 1]) + place[1] - 1
    )
    assert fingerprint(tmp_path) == before


def test_a_broken_schema_in_json(omnigraph: Omnigraph) -> None:
    done = omnigraph("init", "--schema", "-", "--json", "g", stdin="node A {\n  a: Strin\n}")
    failure = json.loads(done.err)
    assert (failure["code"], failure["exit"], failure["retryable"]) == ("bad_data", 7, False)
    assert {key: failure["violations"][0][key] for key in ("file", "line")} == {"file": "<stdin>", "line": 2}


def test_a_schema_that_is_not_text(omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "bad.pg").write_bytes(b"node A {\n  k: \xff\xfe\n}")
    done = omnigraph("init", "--schema", "bad.pg")
    assert done.code == 7
    assert done.err.startswith("error: bad.pg:2: not UTF-8 text")


@pytest.mark.parametrize(("option", "message"), [("missing.pg", "no such file"), (".", "cannot be read")])
def test_a_schema_that_cannot_be_read(
    option: str, message: str, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    done = omnigraph("init", "--schema", option)
    assert done.code == 2
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    before = fingerprint(tmp_path)
    done = omnigraph("init", "--schema", people, "file/g")
    assert done.code == 74
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 2
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("error", ["EROFS", "EACCES"])
def test_a_place_that_cannot_be_written(
    error: str, omnigraph_process: Omnigraph, people: Path, tmp_path: Path
) -> None:
    require_program("strace")
    before = fingerprint(tmp_path)
    inject = f"inject=mkdir,mkdirat:error={error}"
    prefix = ("strace", "-f", "-o", "/dev/null", "-e", "trace=mkdir,mkdirat", "-e", inject)
    done = omnigraph_process("init", "--schema", people, "g", prefix=prefix)
    assert done.code == 74
    assert str(tmp_path) in done.err
    assert "Traceback" not in done.err
    assert fingerprint(tmp_path) == before


FULL_DISK = """
mount -t tmpfs -o size={size}k none disk || exit 99
"$0" init --schema people.pg disk/g
code=$?
find disk -mindepth 1
exit $code
"""


@pytest.mark.parametrize("kilobytes", [4, 16, 32, 64, 88, 100])
def test_a_full_disk_leaves_nothing_behind(kilobytes: int, people: Path, tmp_path: Path) -> None:
    """On a really full file system: a small tmpfs in a mount namespace of its own."""
    unshare = require_program("unshare")
    (tmp_path / "disk").mkdir()
    script = FULL_DISK.format(size=kilobytes)
    done = subprocess.run(
        [unshare, "--user", "--map-root-user", "--mount", "sh", "-c", script, str(OMNIGRAPH)],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 74, done.stderr
    assert "no space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_84_types(omnigraph: Omnigraph) -> None:
    nodes = "\n".join(f"node N{i} {{ k: String @key a: I32? }}" for i in range(17))
    edges = "\n".join(f"edge E{i}: N{i % 17} -> N{i * 3 % 17} {{ w: F64? }}" for i in range(67))
    assert omnigraph("init", "--schema", "-", stdin=f"{nodes}\n{edges}\n").code == 0
    assert len(json.loads(omnigraph("snapshot", "--json").out)["tables"]) == 84


def test_a_schema_that_never_ends(omnigraph: Omnigraph, tmp_path: Path) -> None:
    """Never more than the limit is read: /dev/zero, and a sparse file far larger than memory."""
    with (tmp_path / "huge.pg").open("wb") as file:
        file.truncate(1 << 40)
    for option in ("/dev/zero", "huge.pg"):
        done = omnigraph("init", "--schema", option, "g")
        assert (done.code, f"error: {option}: larger than 16 MiB" in done.err) == (9, True)
    assert not (tmp_path / "g").exists()


def test_a_schema_as_large_as_allowed(omnigraph: Omnigraph, tmp_path: Path) -> None:
    text = "node A { k: String @key }\n"
    for extra, code in ((0, 0), (1, 9)):
        (tmp_path / "long.pg").write_text(text + " " * ((16 << 20) - len(text) + extra))
        assert omnigraph("init", "--schema", "long.pg", f"g{extra}").code == code


def test_help_says_where_the_graph_goes(omnigraph: Omnigraph) -> None:
    text = " ".join(omnigraph("init", "--help").out.split())
    assert "the graph is created where OMNIGRAPH_STORE or an omnigraph.toml in this directory says" in text
    assert "else at ./graph.omni" in text


def test_a_configured_place_is_used(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    (tmp_path / "omnigraph.toml").write_text('store = "named"\n')
    done = omnigraph("init", "--schema", people)
    assert (done.code, done.out, done.err) == (0, f"initialized {tmp_path}/named\n", "")


def test_a_config_without_a_store_is_remarked_on(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    (tmp_path / "omnigraph.toml").write_text('actor = "ann"\n')
    done = omnigraph("init", "--schema", people)
    assert done.code == 0
    assert f"{tmp_path}/omnigraph.toml does not name this graph" in done.err
    assert 'store = "graph.omni"' in done.err
    quiet = omnigraph("init", "--schema", people, "--json", "other")
    assert (quiet.code, quiet.err) == (0, "")


def test_a_config_that_cannot_be_written_is_a_remark(
    omnigraph_process: Omnigraph, people: Path, tmp_path: Path
) -> None:
    """The graph is there, and that is what counts."""
    require_program("strace")
    config = tmp_path / "omnigraph.toml"
    prefix = ("strace", "-f", "-o", "/dev/null", "-P", str(config), "-e", "inject=openat:error=ENOSPC")
    done = omnigraph_process("init", "--schema", people, prefix=prefix)
    assert (done.code, done.out) == (0, f"initialized {tmp_path}/graph.omni\n")
    assert f"{config} cannot be written: No space left on device" in done.err


def test_a_file_is_not_a_place_for_a_graph(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    before = fingerprint(tmp_path)
    for command, code in ((["init", "--schema", people], 5), (["snapshot"], 6), (["status"], 6)):
        done = omnigraph(*command, people)
        assert (done.code, f"{people} is a file, not a directory" in done.err) == (code, True)
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\x1b[31mb", "a\x7fb", "a\u0085b"], ids=ascii)
def test_control_characters_in_a_place(name: str, omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    for command in (["init", "--schema", people], ["snapshot"]):
        done = omnigraph(*command, name)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert "control character" in done.err
        assert "\x1b" not in done.err
    assert list(tmp_path.iterdir()) == [people]


@pytest.mark.parametrize("folder", [b"a\nb", b"\xff"], ids=ascii)
def test_a_working_directory_with_an_impossible_name(
    folder: bytes, omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    here = tmp_path / os.fsdecode(folder)
    here.mkdir()
    done = omnigraph("init", "--schema", people, cwd=here)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("pattern", ["(", "[", "(?=x)", "((a{100}){100}){100}"])
def test_a_pattern_that_the_engine_does_not_run_is_bad_data_and_nothing_is_made(
    pattern: str, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    (tmp_path / "bad.pg").write_text(f'node Person {{ name: String @key  @check(name, "{pattern}") }}')
    done = omnigraph("init", "--schema", "bad.pg", "g")
    assert (done.code, done.out) == (7, "")
    assert "@check" in done.err
    assert "Person" in done.err
    assert not (tmp_path / "g").exists()
