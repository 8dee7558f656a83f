"""Whatever a person can set is shown as text, never as markup or escapes; machines get it exactly."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from omnigraph_core.values.shown import one_line
from tests.support.processes import Omnigraph
from tests.support.records import node, write_jsonl
from tests.support.terminal import on_a_terminal

SCHEMA = 'node P { k: String @key t: String? mail: String? @unique @check(mail, "^[a-z]*$") }'
ACTOR = "ci[bot]"
MESSAGE = "[link=https://x.example]a[/link] [/] :smile: \x1b[31mred\x1b[0m\nFORGED \u202e\x9b2J\r"
KEY = "[bold]k[/]\x1b]0;title\x07\nFORGED"
DIRTY = re.compile("[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202e]|\x1b(?!\\[0?m|\\[1m|\\[1;31m)")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph in which every text is hostile, with two branches that conflict."""
    folder = tmp_path_factory.mktemp("hostile")
    settings = Settings(fsync=False, actor=ACTOR)
    graph = Graph.init(str(folder / "g"), SCHEMA, settings)

    def load(branch: str, text: str) -> None:
        path = write_jsonl(folder / "in\x1b[31m\nFORGED.jsonl", [node("P", k=KEY, t=text)])
        graph.load([path], LoadMode.MERGE, branch=branch, message=MESSAGE)

    load("main", MESSAGE)
    graph.create_branch("dev")
    load("dev", f"theirs {MESSAGE}")
    load("main", f"ours {MESSAGE}")
    graph.create_tag("t1")
    return folder


def shown(screen: str) -> list[str]:
    """The lines of a terminal without our own bold and dim."""
    assert not DIRTY.search(screen.replace("\r\n", "\n")), repr(screen)
    return re.sub("\x1b\\[[0-9;]*m", "", screen).replace("\r\n", "\n").splitlines()


COMMANDS = [
    (("commit", "list"), 0),
    (("commit", "list", "--oneline"), 0),
    (("commit", "list", "--graph"), 0),
    (("commit", "show", "main"), 0),
    (("commit", "show", "main", "--changes"), 0),
    (("op", "log"), 0),
    (("tag", "list"), 0),
    (("status",), 0),
    (("doctor", "-q"), 0),
    (("snapshot",), 0),
    (("diff", "main~1", "main", "--format", "table"), 0),
    (("diff", "main~1", "main", "--format", "md"), 0),
    (("blame", f"P/{KEY}", "--format", "table"), 0),
    (("blame", f"P/{KEY}", "--format", "md"), 0),
    (("branch", "merge", "dev", "--dry-run"), 3),
    (("branch", "merge", "dev"), 3),
    (("revert", "main~1"), 3),
    (("query", "-e", "query q() { match { $p: P } return { $p.k, $p.t } }", "--format", "table"), 0),
    (("query", "-e", "query q() { match { $p: P } return { $p.k, $p.t } }", "--format", "kv"), 0),
    (("query", "-e", "query q() { match { $p: P } return { $p.k, $p.t } }", "--format", "md"), 0),
    (("query", "-e", "query q() { match { $p: P } return { $p } }", "--format", "dot"), 0),
    (("query", "-e", "query q() { match { $p: P } return { $p } }", "--format", "html"), 0),
    (("branch", "list", "--long"), 0),
    (("describe",), 0),
    (("describe", "P"), 0),
    (("commit", "show", MESSAGE), 6),
    (("branch", "delete", "--yes", MESSAGE), 6),
    (("load", "--data", f"no {MESSAGE}.jsonl", "--mode", "merge", "-q"), 2),
    (("commit", "list", MESSAGE), 2),
    (("lint", "--query", f"{MESSAGE}.gq"), 2),
    (("schema", "diff", f"./{MESSAGE}.pg"), 2),
    (("change", "-e", "query q($k: String) { insert P { k: 'x' mail: $k } }", "--param", f"k={KEY}"), 7),
]


@pytest.mark.parametrize(("arguments", "code"), COMMANDS, ids=[" ".join(c[0])[:40] for c in COMMANDS])
def test_every_human_format(arguments: tuple[str, ...], code: int, place: Path, omnigraph: Omnigraph) -> None:
    asked = [*arguments, "--store", "g"]
    piped = omnigraph(*asked, cwd=place)
    assert piped.code == code, piped.err
    text = piped.out + piped.err
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), repr(text)
    assert not [line for line in text.splitlines() if line.startswith("FORGED")]
    ended, screen = on_a_terminal(*asked, "--color", "never", cwd=place)
    assert ended == code, screen
    assert not [line for line in shown(screen) if line.startswith("FORGED")]
    assert "\x1b]8" not in screen  # a hyperlink
    if "ci" in screen and arguments[0] in ("commit", "op", "blame", "tag"):
        assert ACTOR in "".join(shown(screen))


def test_a_listing_shows_a_message_on_its_line(place: Path, omnigraph: Omnigraph) -> None:
    lines = omnigraph("commit", "list", "g", "--oneline", cwd=place).out.splitlines()
    assert len(lines) == 4
    first, *_ = MESSAGE.strip().split("\n")
    assert lines[0].endswith(f"main {ACTOR} {one_line(first)}".rstrip())


def test_machine_formats_are_exact(place: Path, omnigraph: Omnigraph) -> None:
    listed = json.loads(omnigraph("commit", "list", "g", "--json", cwd=place).out)
    assert [each["message"] for each in listed["commits"]][:3] == [MESSAGE] * 3
    query = "query q() { match { $p: P } return { $p.k as k, $p.t as t } }"
    rows = omnigraph("query", "--store", "g", "-e", query, cwd=place).out
    assert json.loads(rows) == {"k": KEY, "t": f"ours {MESSAGE}"}
    csv = omnigraph("query", "--store", "g", "-e", query, "--format", "csv", cwd=place).out
    assert csv == f'k,t\n"{KEY}","ours {MESSAGE}"\n'
    failed = omnigraph("branch", "delete", MESSAGE, "--store", "g", "--json", cwd=place)
    assert MESSAGE.strip() in json.loads(failed.err)["error"]


def test_what_cannot_be_encoded_is_an_error_for_machines_and_escaped_for_people(
    tmp_path: Path, omnigraph_process: Omnigraph
) -> None:
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, Settings(fsync=False, actor="ann"))
    graph.load([write_jsonl(tmp_path / "in.jsonl", [node("P", k="é☃")])], LoadMode.APPEND, message="é☃")
    ascii_ = {"PYTHONIOENCODING": "ascii"}
    query = ("query", "--store", "g", "-e", "query q() { match { $p: P } return { $p.k as k } }")
    for arguments in ((*query, "--json"), (*query, "--format", "csv"), ("commit", "list", "g", "--json")):
        done = omnigraph_process(*arguments, environment=ascii_)
        assert done.code == 74, arguments
        assert "cannot be written as ascii text" in done.err
    missing = omnigraph_process("branch", "delete", "é☃", "--store", "g", "--json", environment=ascii_)
    assert "é☃" in json.loads(missing.err)["error"]
    assert "\\xe9\\u2603" in omnigraph_process("commit", "list", "g", environment=ascii_).out
    assert "\\xe9\\u2603" in omnigraph_process(*query, "--format", "kv", environment=ascii_).out
    assert Graph.open(str(tmp_path / "g"), Settings(), OpenMode.READ_ONLY).head() is not None


def test_schema_text_is_exact_in_a_file_and_harmless_on_a_terminal(
    tmp_path: Path, omnigraph: Omnigraph
) -> None:
    source = "// \x1b[31mred \u202e\nnode P {\n\tk: String @key\n}\n"
    Graph.init(str(tmp_path / "g"), source, Settings(fsync=False, actor="ann"))
    assert omnigraph("schema", "show", "g").out == source
    _, screen = on_a_terminal("schema", "show", "g", cwd=tmp_path)
    assert "\\x1b[31mred \\u202e" in screen
    assert "\x1b[31m" not in screen
    assert "\tk: String @key" in screen or "        k: String @key" in screen
