"""Asking before something is lost."""

from __future__ import annotations

import sys

from typer import Abort


def consents(question: str) -> bool:
    """Ask on a terminal, on stderr; whoever is not on one has consented by giving the command.

    Ctrl-D is no answer and ends the command, as Ctrl-C does.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        return True
    while True:
        sys.stderr.write(f"{question} [y/N]: ")
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
