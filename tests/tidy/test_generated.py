"""Completions and manual pages are what the command tree says today."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from omnigraph_cli.generate import write_all
from tests.support.processes import REPOSITORY


@pytest.mark.parametrize("folder", ["completions", "man"])
def test_checked_in_files_are_current(folder: str, tmp_path: Path) -> None:
    write_all(tmp_path)
    fresh = {path.name: path.read_text() for path in (tmp_path / folder).iterdir()}
    checked_in = {path.name: path.read_text() for path in (REPOSITORY / folder).iterdir()}
    assert checked_in == fresh, "stale: run `make generate`"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mandoc") is None and shutil.which("man") is None, reason="no man here")
def test_manual_pages_render() -> None:
    for page in sorted((REPOSITORY / "man").iterdir()):
        done = subprocess.run(["man", "-l", str(page)], capture_output=True, text=True, check=True)
        assert "EXIT STATUS" in done.stdout
        assert done.stderr == ""


def test_bash_script_completes(tmp_path: Path) -> None:
    """The shipped script, sourced by a real bash, asks the installed command."""
    from tests.support.processes import OMNIGRAPH, clean_environment

    script = f"""
    PATH={OMNIGRAPH.parent}:$PATH
    source {REPOSITORY}/completions/omnigraph.bash
    COMP_WORDS=(omnigraph snap); COMP_CWORD=1
    $(complete -p omnigraph | sed 's/.*-F \\([^ ]*\\).*/\\1/') omnigraph
    echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["snapshot"]
