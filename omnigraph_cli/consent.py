"""Asking before data is lost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from typer import Abort

from omnigraph_core.errors import RefusedError
from omnigraph_core.values.shown import one_line

if TYPE_CHECKING:
    from omnigraph_cli.run import Run


def is_terminal() -> bool:
    """Is there somebody to ask?"""
    return sys.stdin is not None and sys.stdin.isatty()


def asks(run: Run) -> bool:
    """May this run ask? Not without a terminal; with --no-input one that has to ask is refused."""
    if not is_terminal():
        return False
    if run.no_input:
        raise RefusedError("this needs consent, and --no-input forbids to ask", hint="say --yes")
    return True


def consents(question: str) -> bool:
    """Ask on stderr if standard input is a terminal; otherwise running the command is consent.

    Ctrl-D ends the command, as Ctrl-C does.
    """
    if not is_terminal():
        return True
    while True:
        sys.stderr.write(f"{one_line(question)} [y/N]: ")
        sys.stderr.flush()
        line = sys.stdin.buffer.readline()
        if not line:
            sys.stderr.write("\n")
            raise Abort
        answer = line.decode("utf-8", "replace").strip().lower()
        if answer in ("y", "yes"):
            return True
        if answer in ("", "n", "no"):
            return False
