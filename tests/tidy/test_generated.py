"""Completions and manual pages are what the command tree says today."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from omnigraph_cli.generate import write_all
from tests.support.processes import REPOSITORY


def compared(path: Path) -> str:
    """All of it; of the pages about the languages, which are docs/ in another form, the headings."""
    lines = path.read_text().splitlines()
    return "\n".join(line for line in lines if path.suffix != ".5" or line.startswith((".TH", ".SH", ".SS")))


@pytest.mark.parametrize("folder", ["completions", "man"])
def test_checked_in_files_are_current(folder: str, tmp_path: Path) -> None:
    write_all(tmp_path)
    fresh, checked_in = (
        {path.relative_to(root): compared(path) for path in (root / folder).rglob("*") if path.is_file()}
        for root in (tmp_path, REPOSITORY)
    )
    assert checked_in == fresh, "stale: run `make generate`"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mandoc") is None and shutil.which("man") is None, reason="no man here")
def test_manual_pages_render() -> None:
    for page in sorted((REPOSITORY / "man").rglob("*.[15]")):
        done = subprocess.run(["man", "-l", str(page)], capture_output=True, text=True, check=True)
        assert "SEE ALSO" in done.stdout
        assert done.stderr == ""


@pytest.mark.skipif(
    shutil.which("mandoc") is None, reason="MANDOC IS NOT INSTALLED: manual pages are not linted"
)
def test_mandoc_finds_nothing_wrong_with_the_manual_pages() -> None:
    found = sorted((REPOSITORY / "man").rglob("*.[15]"))
    done = subprocess.run(["mandoc", "-Tlint", *found], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_every_page_has_its_parts_and_what_it_refers_to_exists() -> None:
    names = {path.name for path in (REPOSITORY / "man").rglob("*.[15]")}
    assert {"omnigraph.1", "omnigraph-branch.1", "omnigraph-pg.5", "omnigraph-gq.5"} <= names
    for page in sorted((REPOSITORY / "man").rglob("*.1")):
        text = page.read_text()
        parts = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "REFS", "EXIT STATUS", "ENVIRONMENT", "FILES"]
        assert [part for part in (*parts, "SEE ALSO") if f".SH {part}\n" not in text] == []
        referred = re.findall(r"^\.BR (\S+) \((\d)\)", text, re.MULTILINE)
        assert {f"{name.replace(chr(92), '')}.{section}" for name, section in referred} <= names


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
