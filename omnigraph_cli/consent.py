"""Asking before data is lost."""

from __future__ import annotations

import sys

from typer import Abort

from omnigraph_core.values.shown import one_line


def consents(question: str) -> bool:
    """Ask on stderr if standard input is a terminal; otherwise running the command is consent.

    Ctrl-D ends the command, as Ctrl-C does.
    """
    if sys.stdin is None or not sys.stdin.isatty():
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
