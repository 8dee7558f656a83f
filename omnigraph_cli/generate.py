"""Writes the completion scripts and manual pages, which are checked in and shipped.

A test fails when they do not match the commands; `make generate` writes them.
"""

from __future__ import annotations

import sys
from pathlib import Path

SHELLS = {"bash": "omnigraph.bash", "zsh": "_omnigraph", "fish": "omnigraph.fish"}


def completion_script(shell: str) -> str:
    """The script with which a shell asks `omnigraph` for completions."""
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="omnigraph", complete_var="_OMNIGRAPH_COMPLETE", shell=shell)
    return script.strip() + "\n"


def write_all(root: Path) -> None:
    """Write `completions/` and `man/` under the repository root; stale pages are removed."""
    from omnigraph_cli.manual import manual_pages

    written = {f"completions/{name}": completion_script(shell) for shell, name in SHELLS.items()}
    written |= {f"man/{name}": content for name, content in manual_pages().items()}
    for stale in {path.relative_to(root).as_posix() for path in root.glob("man/*/*")} - set(written):
        (root / stale).unlink()
    for name, content in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
