"""`omnigraph shell`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from omnigraph_cli.options import BranchOption
from omnigraph_cli.run import Run, command
from omnigraph_core.errors import UsageError

if TYPE_CHECKING:
    from omnigraph_cli.shell.session import Session


def register(app: typer.Typer) -> None:
    @command(
        app,
        "shell",
        is_text=False,
        examples=["omnigraph shell", "omnigraph shell --branch review", "omnigraph shell < statements.gq"],
    )
    def shell(run: Run, branch: BranchOption = None) -> None:
        """Ask and change a graph at a prompt, with history, completion and timing.

        Statements may have several lines; one ends with its last bracket. `match … return …` needs no
        name around it. Lines that begin with a backslash are commands; backslash and question mark list
        them. If standard input is not a terminal, statements are read from it.
        """
        from omnigraph_cli.shell.session import Leave, opened

        session = opened(run, branch)
        try:
            for text in _typed(session, run.settings.state_home):
                session.execute(text)
        except Leave:
            pass


def _typed(session: Session, state_home: Path | None) -> Iterator[str]:
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    if not sys.stdin.isatty():
        yield from _read()
        return
    try:
        from omnigraph_cli.shell.prompt import statements
    except ImportError:
        raise UsageError(
            "the shell needs prompt_toolkit, which is not installed", hint="pip install prompt_toolkit"
        ) from None
    yield from statements(session, None if state_home is None else state_home / "omnigraph" / "history")


def _read() -> Iterator[str]:
    """Statements of a file or a pipe."""
    from omnigraph_cli.shell.statements import is_whole

    held = ""
    for line in sys.stdin:
        held += line
        if is_whole(held.rstrip("\n")) or not line.strip():
            yield held
            held = ""
    yield held
