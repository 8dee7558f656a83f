"""What goes where: stdout, stderr, colours, exit codes, signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph_cli.exits import BY_KIND, MEANING
from omnigraph_core.errors import ErrorKind
from tests.support import warm
from tests.support.paused import started
from tests.support.processes import OMNIGRAPH, Finished, Omnigraph, clean_environment
from tests.support.terminal import on_a_terminal


@pytest.fixture
def graph(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> Path:
    assert omnigraph("init", "--schema", people, "g").code == 0
    return tmp_path / "g"


def test_piped_output_is_tab_separated(graph: Path, omnigraph: Omnigraph) -> None:
    lines = omnigraph("snapshot", graph).out.splitlines()
    assert lines[0].split("\t") == ["table_key", "rows", "version", "branch", "path"]
    assert lines[1].split("\t") == ["edge:Knows", "0", "1", "", "edges/602a25a3bd0b455b"]


def test_a_terminal_gets_a_table(graph: Path, tmp_path: Path) -> None:
    code, text = on_a_terminal("snapshot", graph, cwd=tmp_path)
    assert code == 0
    assert text.startswith("branch main, manifest version 2, commit ")
    assert "\t" not in text
    assert "\033[1m" in text


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_when_told(environment: dict[str, str], graph: Path, tmp_path: Path) -> None:
    code, text = on_a_terminal("snapshot", tmp_path / "nope", cwd=tmp_path, **environment)
    assert (code, "\033" in text) == (6, False)


def test_errors_are_red_on_a_terminal_only(graph: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    _, text = on_a_terminal("snapshot", "nope", cwd=tmp_path)
    assert "\033[1;31merror:" in text
    assert "\033" not in omnigraph("snapshot", "nope").err
    assert "\033[1;31merror:" in omnigraph("snapshot", "nope", environment={"FORCE_COLOR": "1"}).err
    assert "\033[1;31merror:" in omnigraph("snapshot", "nope", "--color", "always").err


def test_failures_in_json_are_one_object_on_stderr(omnigraph: Omnigraph) -> None:
    done = omnigraph("snapshot", "nope", "--json")
    assert done.out == ""
    failure = json.loads(done.err)
    assert failure["code"] == "not_found"
    assert failure["exit"] == done.code == 6
    assert failure["retryable"] is False
    assert "init" in failure["hint"]


def test_usage_failures_in_json(omnigraph: Omnigraph) -> None:
    done = omnigraph("snapshot", "--no-such-option", "--json")
    assert (done.code, json.loads(done.err)["code"]) == (2, "usage")


def test_a_near_miss_is_suggested(omnigraph: Omnigraph) -> None:
    for typed, meant in (
        (["snapsho"], "did you mean `omnigraph snapshot`?"),
        (["branch", "lst"], "did you mean `omnigraph branch list`?"),
        (["list"], "did you mean `omnigraph branch list` or `omnigraph tag list`"),
        (["checkout"], "there is no current branch"),
        (["cehckout"], "there is no current branch"),
        (["reflog"], "try `omnigraph op log`"),
        (["query", "--formt", "csv"], "did you mean --format?"),
    ):
        done = omnigraph(*typed)
        assert (done.code, f"hint: {meant}" in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("typed", "told", "hint"),
    [
        (["load", "x.jsonl"], "--data is missing", "add --data PATH|-, or see `omnigraph load --help`"),
        (["tag", "create"], "NAME is missing", "see `omnigraph tag create --help`"),
        (
            ["op", "log", "--limit", "x"],
            "--limit: 'x' is not a whole number",
            "see `omnigraph op log --help`",
        ),
        (["query", "--timeout", "1s"], "--timeout: '1s' is not a number", "see `omnigraph query --help`"),
        (["query", "-e"], "-e needs a value", "see `omnigraph --help`"),
        (["query", "--zzz"], "there is no option --zzz", "see `omnigraph query --help`"),
    ],
    ids=str,
)
def test_a_command_line_that_is_wrong_says_what_is_missing(
    typed: list[str], told: str, hint: str, omnigraph: Omnigraph
) -> None:
    done = omnigraph(*typed)
    assert (done.code, done.err) == (2, f"error: {told}\nhint: {hint}\n")


def test_help_everywhere(omnigraph: Omnigraph) -> None:
    for arguments in (["--help"], ["-h"], ["init", "-h"], ["schema", "show", "--help"]):
        done = omnigraph(*arguments)
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith("Usage: omnigraph")
    assert omnigraph().code == 2


def test_version(omnigraph: Omnigraph) -> None:
    assert re.fullmatch(r"omnigraph \d+\.\d+\.\d+\ninternal-schema 3\n", omnigraph("version").out)
    assert (
        omnigraph("--version").out
        == omnigraph("snapshot", "-V").out
        == omnigraph("version").out.splitlines()[0] + "\n"
    )
    assert json.loads(omnigraph("version", "--json").out)["internal_schema"] == 3


def test_schema_show(graph: Path, omnigraph: Omnigraph, people: Path) -> None:
    assert omnigraph("schema", "show", graph).out == people.read_text()
    answer = json.loads(omnigraph("schema", "show", graph, "--json").out)
    assert answer["schema_source"] == people.read_text()
    assert answer["schema_hash"] == json.loads((graph / "__schema_state.json").read_text())["schema_ir_hash"]
    assert omnigraph("schema", "show", graph, "--snapshot", "main").out == people.read_text()


def test_quiet_prints_nothing_but_data_that_was_asked_for(omnigraph: Omnigraph, people: Path) -> None:
    quiet = [
        omnigraph("init", "--schema", people, "-q"),
        omnigraph("change", "-q", "-e", 'query q() { insert Person { name: "Ann" } }'),
        omnigraph("branch", "create", "review", "-q"),
        omnigraph("tag", "create", "v1", "-q"),
        omnigraph("optimize", "-q"),
    ]
    assert [(done.code, done.out, done.err) for done in quiet] == [(0, "", "")] * len(quiet)
    assert omnigraph("branch", "list", "-q").out.split() == ["main", "review"]
    assert omnigraph("optimize", "-q", "--dry-run").out != ""
    assert json.loads(omnigraph("tag", "create", "v2", "-q", "--json").out)["name"] == "v2"


def test_lines_keep_their_order_in_a_merged_log(graph: Path, tmp_path: Path) -> None:
    """`>log 2>&1`: the remark before, the answer, the remark after."""
    done = warm.run(
        [OMNIGRAPH, "change", "--store", graph, "-e", 'query q() { delete Person where name = "Eve" }'],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=clean_environment(),
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.decode().splitlines() == [
        "changed main via q: 0 nodes, 0 edges",
        "nothing matched; no commit was made",
    ]


def test_a_reader_that_goes_away(graph: Path, tmp_path: Path) -> None:
    """`omnigraph snapshot | true`: exit 141 and not a word on stderr."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = warm.run(
        [OMNIGRAPH, "snapshot", graph],
        stdout=write_end,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        cwd=tmp_path,
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def test_ctrl_c_is_silent_and_leaves_nothing(people: Path, tmp_path: Path) -> None:
    command = [OMNIGRAPH, "init", "--schema", people, "g"]
    with started(command, cwd=tmp_path, stop_at="init.tables_created") as process:
        process.until_stopped()
        process.process.send_signal(signal.SIGINT)
        process.go_on()
        assert process.ended() == Finished(130, "", "")
    assert not (tmp_path / "g").exists()


def test_a_bug_is_one_line_and_a_file(graph: Path, tmp_path: Path) -> None:
    program = (
        "import omnigraph_core.graph as g\n"
        "def broken(*a, **k): raise ZeroDivisionError('planted')\n"
        "g.Graph.open = broken\n"
        "from omnigraph_cli.main import main\n"
        f"main(['snapshot', {str(graph)!r}])\n"
    )
    done = warm.run(
        [sys.executable, "-c", program],
        env=clean_environment(TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 70
    first, hint = done.stderr.splitlines()
    assert first == "error: a bug in omnigraph: ZeroDivisionError: planted"
    report = Path(hint.removeprefix("hint: the traceback is in "))
    assert "ZeroDivisionError" in report.read_text()


def test_a_panic_of_the_storage_library_is_a_storage_error(graph: Path) -> None:
    """pyo3 raises a panic of Rust code as a BaseException; the name is all there is to know it by."""
    program = (
        "import omnigraph_core.graph as g\n"
        "class PanicException(BaseException): pass\n"
        "def panic(*a, **k): raise PanicException('index out of bounds\\nand more')\n"
        "g.Graph.open = panic\n"
        "from omnigraph_cli.main import main\n"
        f"main(['snapshot', {str(graph)!r}])\n"
    )
    done = warm.run(
        [sys.executable, "-c", program],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 74
    assert done.stderr.splitlines()[0].endswith("index out of bounds")
    assert "Traceback" not in done.stderr
    assert "and more" not in done.stderr


def test_a_bug_that_cannot_be_reported_is_still_one_line(graph: Path, tmp_path: Path) -> None:
    program = (
        "import omnigraph_core.graph as g, tempfile\n"
        "def broken(*a, **k): raise ZeroDivisionError('planted \\udcff')\n"
        "g.Graph.open = broken\n"
        "from omnigraph_cli.main import main\n"
        "if {full}:\n"
        "    def full(*a, **k): raise OSError(28, 'No space left on device')\n"
        "    tempfile.NamedTemporaryFile = full\n"
        f"main(['snapshot', {str(graph)!r}])\n"
    )
    for full in (False, True):
        done = warm.run(
            [sys.executable, "-c", program.format(full=full)],
            env=clean_environment(TMPDIR=str(tmp_path)),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 70
        first, hint = done.stderr.splitlines()
        assert first == "error: a bug in omnigraph: ZeroDivisionError: planted \\udcff"
        assert ("No space left" in hint) is full


def test_verbose_and_json_leave_one_object_on_stderr(graph: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph("snapshot", graph, "--snapshot", "nope", "-v", "--json")
    assert (done.code, done.out) == (6, "")
    assert json.loads(done.err)["exit"] == 6


def test_an_unknown_colour_is_refused_with_and_without_json(graph: Path, omnigraph: Omnigraph) -> None:
    for more in ([], ["--json"]):
        done = omnigraph("snapshot", graph, "--color", "red", *more)
        assert (done.code, done.out) == (2, "")
        assert "--color: 'red'" in done.err


def test_every_kind_has_its_documented_code() -> None:
    assert {kind: BY_KIND[kind] for kind in ErrorKind} == {
        "usage": 2,
        "conflict": 3,
        "precondition": 4,
        "refused": 5,
        "not_found": 6,
        "bad_data": 7,
        "busy": 8,
        "limit": 9,
        "internal": 70,
        "storage": 74,
    }
    assert set(MEANING) == {0, 1, *BY_KIND.values(), 130, 141}
