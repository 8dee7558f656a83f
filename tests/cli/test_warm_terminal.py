"""Warm starts on a terminal, and under the programs that people put before a command."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paused import unread
from tests.support.processes import OMNIGRAPH, state_of
from tests.support.programs import require_program
from tests.support.records import PEOPLE
from tests.support.served import WARM, Served, children_of, serving, wait_until
from tests.support.terminal import CTRL_C, CTRL_D, on_a_terminal

INSERT = "query q($n: String) { insert Person { name: $n } }"
NAMES = "query q() { match { $p: Person } return { $p.name } }"
OFF = {"OMNIGRAPH_WARM": "off"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("warm")) as served:
        (served.directory / "people.pg").write_text(PEOPLE)
        assert served.run("init", "--schema", "people.pg").code == 0
        served.started()
        yield served


def warm_and_cold(served: Served, *arguments: str, **options: object) -> tuple[tuple[int, str], int]:
    """What a command shows on a terminal, the same both ways, and by how many the server was asked more."""
    server = served.started()
    before = served.count(server)
    shown = [
        on_a_terminal(*arguments, cwd=served.directory, **{**variables, **options})  # type: ignore[arg-type]
        for variables in (served.variables, OFF)
    ]
    assert shown[0][0] == shown[1][0]
    if options.get("typed") != CTRL_C:  # It may come while the question is flushed, which then is repeated.
        assert shown[0] == shown[1]
    return shown[0], served.count(server) - before


@pytest.mark.parametrize("columns", [40, 200])
def test_a_table_is_as_wide_as_the_terminal(served: Served, columns: int) -> None:
    (code, screen), asked = warm_and_cold(served, "commit", "list", "--full-ids", columns=columns)
    assert (code, asked) == (0, 1)
    widths = {len(re.sub(r"\033\[\d*m", "", line)) for line in screen.splitlines()}
    assert max(widths) <= columns
    assert (max(widths) > 80) is (columns > 80)


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colours(served: Served, variables: dict[str, str]) -> None:
    (code, screen), asked = warm_and_cold(served, "snapshot", "nope", **variables)
    assert (code, asked, "\033[1;31merror:" in screen) == (6, 1, not variables)


@pytest.mark.parametrize(("typed", "code"), [(b"n\n", 5), (CTRL_C, 130), (CTRL_D, 130)], ids=ascii)
def test_a_question_is_answered_on_the_terminal(served: Served, typed: bytes, code: int) -> None:
    served.run("branch", "create", "asked")
    arguments = ["branch", "delete", "asked", "--store", "graph.omni"]
    (ended, _), asked = warm_and_cold(served, *arguments, typed=typed, at=b"[y/N]: ")
    assert (ended, asked) == (code, 1)
    assert "asked" in served.run("branch", "list").out


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Caracas"])
def test_the_time_zone(served: Served, zone: str) -> None:
    (code, _), asked = warm_and_cold(served, "commit", "list", TZ=zone)
    assert (code, asked) == (0, 1)


SHELL = ["bash", "--norc", "--noprofile", "-i"]


def test_ctrl_z_and_fg_typed_at_a_shell(served: Served) -> None:
    """The record is typed after the command went on."""
    server = served.started()
    master, slave = pty.openpty()
    shell = subprocess.Popen(
        [require_program("setsid"), "--ctty", *SHELL],
        cwd=served.directory,
        env=served.environment(TERM="dumb", PS1="", HOME=str(served.directory)),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    os.write(master, f"{OMNIGRAPH} load --data - --mode merge --store graph.omni; echo first $?\n".encode())
    wait_until(lambda: len(children_of(server)) == 1)
    (command,) = children_of(server)
    wait_until(lambda: state_of(command) == "S" and read_something(master))
    time.sleep(0.2)  # until it reads; stopping it earlier would be as good
    os.write(master, b"\x1a")
    wait_until(lambda: state_of(command) == "T")
    os.write(master, b"fg; echo second $?\n")
    wait_until(lambda: state_of(command) == "S")
    record = json.dumps({"type": "Person", "data": {"name": "after fg"}})
    os.write(master, record.encode() + b"\n")

    def ends() -> bool:
        """The end of the input is the end of the shell's, once the command is done."""
        with contextlib.suppress(OSError):
            os.write(master, CTRL_D)
        time.sleep(0.1)
        return shell.poll() is not None

    wait_until(ends)
    screen = read_all(master)
    assert "first 148" in screen, screen
    assert "second 0" in screen, screen
    assert "after fg" in served.run("query", "-e", NAMES).out


_screens: dict[int, bytes] = {}


def read_something(master: int) -> bool:
    while unread(master):
        _screens[master] = _screens.get(master, b"") + os.read(master, 1 << 16)
    return True


def read_all(master: int) -> str:
    screen = _screens.pop(master, b"")
    try:
        while chunk := os.read(master, 1 << 16):
            screen += chunk
    except OSError:
        pass
    os.close(master)
    return screen.decode()


# ---- other programs ----


def test_a_prompt_is_drawn_anew_when_the_window_changes(served: Served) -> None:
    """The terminal tells the client, which is in its foreground; the command is what draws."""
    server = served.started()
    before = served.count(server)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    variables = {
        "TERM": "xterm-256color",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "XDG_STATE_HOME": str(served.directory),
    }
    prompt = subprocess.Popen(
        [require_program("setsid"), "--ctty", OMNIGRAPH, "shell", "--store", "graph.omni"],
        cwd=served.directory,
        env=served.environment(**variables),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)

    def drawn(text: bytes) -> int:
        return _screens[master].count(text) if read_something(master) and master in _screens else 0

    wait_until(lambda: drawn(b"main>") > 0)
    os.write(master, b"match { $p: Person }")
    wait_until(lambda: drawn(b"Person }") > 0 or drawn(b"}") > 0)
    prompts = drawn(b"main>")
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", 24, 30, 0, 0))
    wait_until(lambda: drawn(b"main>") > prompts)
    os.write(master, CTRL_C)
    os.write(master, CTRL_D)
    read_all(master)
    assert prompt.wait() == 0
    assert served.count(server) == before + 1


def test_nohup(served: Served) -> None:
    served.started()
    done = served.run("version", "-v", prefix=[require_program("nohup")])
    assert (done.code, WARM in done.err) == (0, True)


@pytest.mark.parametrize(("number", "code"), [("TERM", 124), ("INT", 124), ("KILL", 137)])
def test_a_command_that_is_timed_out_is_gone(served: Served, number: str, code: int) -> None:
    server = served.started()
    prefix = [require_program("timeout"), "-s", number, "2"]
    environment = {"OMNIGRAPH_FAILPOINTS": "write.before_a=sleep:600000"}
    process = served.popen("change", "-e", INSERT, "--param", "n=late", prefix=prefix, env=environment)
    process.communicate()
    assert process.returncode in (code, -9)
    wait_until(lambda: not children_of(server))
    assert "late" not in served.run("query", "-e", NAMES).out


def test_xargs_runs_each_once(served: Served) -> None:
    server = served.started()
    before = served.count(server)
    command = [str(OMNIGRAPH), "change", "-e", INSERT, "--lock-timeout", "200", "--param", "n=parallel-{}"]
    done = subprocess.run(
        [require_program("xargs"), "-P", "4", "-I{}", *command],
        input="\n".join(map(str, range(8))),
        cwd=served.directory,
        env=served.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names = [json.loads(line)["p.name"] for line in served.run("query", "-e", NAMES).out.splitlines()]
    assert sorted(name for name in names if name.startswith("parallel")) == [
        f"parallel-{i}" for i in range(8)
    ]
    assert served.count(server) > before


def test_an_environment_as_cron_gives_it(served: Served, tmp_path: Path) -> None:
    """Next to no variables, no terminal, a directory of its own; a server of that kind is found again."""
    variables = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", **served.variables}

    def status() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", f"{OMNIGRAPH} version -v"],
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            start_new_session=True,
        )

    first = status().stdout
    wait_until(lambda: WARM in status().stderr)
    assert status().stdout == first
