"""Asking before data is lost."""

from __future__ import annotations

import sys

from typer import Abort

from omnigraph_core.values.shown import one_line


def is_terminal() -> bool:
    """Is there somebody to ask?"""
    return sys.stdin is not None and sys.stdin.isatty()


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
