"""Standard streams that are full, closed or nobody's: the right exit code, and no traceback."""

from __future__ import annotations

import array
import fcntl
import os
import shlex
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.support.processes import OMNIGRAPH, REPOSITORY, Finished, Omnigraph, clean_environment
from tests.support.terminal import on_a_terminal

LIGHT = (["--help"], ["--version"], ["init", "--help"], ["version"], ["completion", "bash"])


@pytest.fixture
def graph(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> Path:
    assert omnigraph("init", "--schema", people, "g").code == 0
    return tmp_path / "g"


def shell(redirection: str, *arguments: str | Path, cwd: Path) -> Finished:
    """Run under a shell that redirects as told."""
    line = f"exec {shlex.join([str(OMNIGRAPH), *map(str, arguments)])} {redirection}"
    done = subprocess.run(
        ["sh", "-c", line], cwd=cwd, env=clean_environment(), capture_output=True, text=True, check=False
    )
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_a_reader_that_is_gone_before_the_help(arguments: list[str], tmp_path: Path) -> None:
    """`omnigraph --help | true`: exit 141 and not a word."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [OMNIGRAPH, *arguments],
        stdout=write_end,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        cwd=tmp_path,
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("arguments", [*LIGHT, ["snapshot", "g"], ["snapshot", "g", "--json"]], ids=" ".join)
def test_stdout_on_a_full_disk(arguments: list[str], graph: Path, tmp_path: Path) -> None:
    done = shell(">/dev/full", *arguments, cwd=tmp_path)
    assert done.code == 74
    assert "No space left on device" in done.err
    assert "Traceback" not in done.err
    assert done.err.count("No space left") == 1


def test_a_table_on_a_full_terminal_is_not_a_bug(graph: Path, tmp_path: Path) -> None:
    """stderr and stdin on the terminal, stdout full."""
    with Path("/dev/full").open("wb") as full:
        code, screen = on_a_terminal("snapshot", graph, cwd=tmp_path, stdout=full.fileno())
    assert (code, "No space left on device" in screen) == (74, True)


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("arguments", "code"), [(["--help"], 0), (["snapshot", "g"], 0), (["snapshot", "nope"], 6), (["nope"], 2)]
)
def test_closed_streams(
    redirection: str, arguments: list[str], code: int, graph: Path, tmp_path: Path
) -> None:
    """As git does: a closed stream is a stream to nowhere, and no file of ours takes its number."""
    done = shell(redirection, *arguments, cwd=tmp_path)
    assert done.code == code
    assert "Traceback" not in done.err
    assert "Traceback" not in done.out


def test_a_graph_is_made_whole_with_every_stream_closed(omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "a.pg").write_text("node A { k: String @key }")
    assert shell("<&- >&- 2>&-", "init", "--schema", "a.pg", "g", cwd=tmp_path).code == 0
    assert omnigraph("schema", "show", "g").out == "node A { k: String @key }\n"


def test_stderr_on_a_full_disk_or_without_a_reader_changes_no_exit_code(graph: Path, tmp_path: Path) -> None:
    assert shell("2>/dev/full", "snapshot", "nope", cwd=tmp_path).code == 6
    assert shell("2>/dev/full", "branch", "create", "b", "--store", "g", cwd=tmp_path).code == 0
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [OMNIGRAPH, "snapshot", "nope"], stderr=write_end, env=clean_environment(), cwd=tmp_path, check=False
    )
    os.close(write_end)
    assert done.returncode == 6


def test_the_schema_from_a_closed_stdin(tmp_path: Path) -> None:
    done = shell("<&-", "init", "--schema", "-", "g", cwd=tmp_path)
    assert (done.code, "standard input is closed" in done.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_deleting_with_a_closed_stdin_does_not_ask(graph: Path, tmp_path: Path) -> None:
    assert shell("", "branch", "create", "b", "--store", "g", cwd=tmp_path).code == 0
    assert shell("<&-", "branch", "delete", "b", "--store", "g", cwd=tmp_path).code == 0


def test_text_that_the_encoding_cannot_show_is_escaped(omnigraph_process: Omnigraph) -> None:
    done = omnigraph_process("snapshot", "gräph", environment={"PYTHONIOENCODING": "ascii"})
    assert (done.code, "gr\\xe4ph" in done.err) == (6, True)


@pytest.mark.parametrize("module", ["omnigraph_cli.main", "typer", "omnigraph_core.settings"])
def test_ctrl_c_while_starting_is_silent(module: str, tmp_path: Path) -> None:
    """Interrupted in the middle of its imports."""
    (tmp_path / "sitecustomize.py").write_text(
        "import signal, sys\n"
        "class Interrupter:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupter())\n"
    )
    done = subprocess.run(
        [OMNIGRAPH, "--help"],
        env=clean_environment(PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_ignored_interrupt_stays_ignored(tmp_path: Path) -> None:
    """A job in the background of a script, or under nohup, starts with Ctrl-C ignored."""
    program = "import signal; from omnigraph_cli.entry import run\ntry: run()\nexcept SystemExit: pass\n"
    program += "print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    done = subprocess.run(
        ["sh", "-c", f"trap '' INT; exec {sys.executable} -c {shlex.quote(program)} --version"],
        env=clean_environment(),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "True"


PIPE_BYTES = 65536


def _waiting_in(pipe: int) -> int:
    """How many bytes have been written to a pipe and not read."""
    found = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, found)
    return found[0]


def test_a_slow_reader_of_a_non_blocking_pipe_gets_everything(omnigraph: Omnigraph, tmp_path: Path) -> None:
    """Another program may have made our standard output non-blocking; a full pipe is then an error."""
    source = "// " + "long " * 40_000 + "\nnode A { k: String @key }\n"
    assert omnigraph("init", "--schema", "-", "g", stdin=source).code == 0
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    process = subprocess.Popen(
        [OMNIGRAPH, "schema", "show", "g"], stdout=write_end, env=clean_environment(), cwd=tmp_path
    )
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        while _waiting_in(read_end) < PIPE_BYTES:
            assert process.poll() is None
            time.sleep(0.01)
        assert answer.read().decode() == source
    assert process.wait() == 0
