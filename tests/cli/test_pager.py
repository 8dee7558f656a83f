"""Long output on a terminal: a pager gets it, in order; short output and pipes never see one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import Omnigraph
from tests.support.programs import require_program
from tests.support.terminal import on_a_terminal

# Notes that it ran, and how many lines it got; leaves after the first ten if it is told to.
PAGER = """#!/bin/sh
echo ran >> "$0.log"
{ head -n "${PAGER_LINES:-100000}"; } | sed 's/^/| /'
"""


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    path = tmp_path / "pager"
    path.write_text(PAGER)
    path.chmod(0o755)
    return path


def ran(pager: Path) -> bool:
    return Path(f"{pager}.log").exists()


def test_long_output_is_paged(pager: Path, tmp_path: Path) -> None:
    code, screen = on_a_terminal("help", "gq", cwd=tmp_path, PAGER=str(pager))
    assert (code, ran(pager)) == (0, True)
    assert screen.startswith("| QUERYING")
    code, screen = on_a_terminal("help", "gq", cwd=tmp_path, PAGER=str(pager), PAGER_LINES="10")
    assert (code, screen.count("| ")) == (0, 10)


def test_short_output_is_not(pager: Path, tmp_path: Path) -> None:
    on_a_terminal("version", cwd=tmp_path, PAGER=str(pager))
    on_a_terminal("help", "gq", "--no-pager", cwd=tmp_path, PAGER=str(pager))
    on_a_terminal("help", "gq", cwd=tmp_path, PAGER=str(pager), TERM="dumb")
    on_a_terminal("help", "gq", cwd=tmp_path, PAGER=str(pager), OMNIGRAPH_PAGER="")
    assert not ran(pager)


def test_a_pipe_is_not(pager: Path, omnigraph: Omnigraph) -> None:
    assert omnigraph("help", "gq", environment={"PAGER": str(pager)}).out.startswith("QUERYING")
    assert not ran(pager)


def test_less_leaves_the_text_and_ends_with_q(tmp_path: Path) -> None:
    require_program("less")
    code, screen = on_a_terminal("help", "gq", cwd=tmp_path, PAGER="less", typed=b"q", at=b":")
    assert (code, "QUERYING" in screen) == (0, True)


def test_a_failure_is_told_after_what_was_printed(pager: Path, tmp_path: Path) -> None:
    code, screen = on_a_terminal("help", "nothing", cwd=tmp_path, PAGER=str(pager))
    assert (code, "there is no help about 'nothing'" in screen, ran(pager)) == (6, True, False)
