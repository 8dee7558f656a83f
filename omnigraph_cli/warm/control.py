"""Asking running servers how they are, and telling them to leave."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import Any

from omnigraph_cli.warm import place, wire

_ANSWER_TIMEOUT_S = 5.0


def ask_all(kind: bytes) -> list[dict[str, Any]]:
    """What each server of this user answers; one that cannot be reached does not answer."""
    try:
        directory = place.open_directory()
    except OSError:
        return []
    names = sorted(os.listdir(place.inside(directory, ".")))
    answers = []
    for name in names:
        if name.endswith(place.SOCKET):
            with contextlib.suppress(OSError, ValueError):
                answers.append(_ask(place.inside(directory, name), kind))
    os.close(directory)
    return answers


def _ask(path: str, kind: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_TIMEOUT_S)
        connection.connect(path)
        connection.sendall(wire.head(kind))
        with connection.makefile("rb") as answer:
            found: dict[str, Any] = json.loads(answer.read().removeprefix(wire.HELLO))
    return found


def last_cold() -> str | None:
    """Why the last command that asked for a warm start did not get it."""
    try:
        directory = place.open_directory()
        with open(place.inside(directory, place.LAST_COLD), encoding="utf-8") as file:
            return file.read().strip() or None
    except (OSError, UnicodeDecodeError):
        return None
