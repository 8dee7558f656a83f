"""What was meant by a command that does not exist: the words of git and of SQL shells, and near misses."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from omnigraph_core.errors import UsageError

_NO_SWITCH = "there is no current branch: name it with --branch B, or set OMNIGRAPH_BRANCH=B"

# Words that people bring along, and what they would do here.
_WORDS = {
    "add": "omnigraph load --data FILE --mode merge",
    "insert": "omnigraph change -e 'query q() { insert … }'",
    "update": "omnigraph change -e 'query q() { update … }'",
    "delete": "omnigraph change -e 'query q() { delete … }'",
    "rm": "omnigraph change -e 'query q() { delete … }'",
    "import": "omnigraph load --data FILE --mode append",
    "ingest": "omnigraph load --data FILE --mode append",
    "dump": "omnigraph export",
    "backup": "omnigraph export --format parquet --out DIR",
    "select": "omnigraph query -e GQ",
    "find": "omnigraph query -e GQ",
    "match": "omnigraph query -e GQ",
    "run": "omnigraph query -e GQ",
    "cat": "omnigraph get TYPE ID",
    "ls": "omnigraph describe",
    "tables": "omnigraph describe",
    "types": "omnigraph describe",
    "checkout": _NO_SWITCH,
    "switch": _NO_SWITCH,
    "reset": "omnigraph branch reset NAME REF",
    "branches": "omnigraph branch list",
    "tags": "omnigraph tag list",
    "commits": "omnigraph commit list",
    "history": "omnigraph commit list",
    "reflog": "omnigraph op log",
    "operations": "omnigraph op log",
    "rollback": "omnigraph undo",
    "restore": "omnigraph branch reset NAME REF",
    "redo": "omnigraph undo",
    "gc": "omnigraph maintain",
    "prune": "omnigraph cleanup",
    "vacuum": "omnigraph maintain",
    "compact": "omnigraph optimize",
    "fsck": "omnigraph doctor",
    "verify": "omnigraph doctor --deep",
    "validate": "omnigraph lint --query FILE",
    "recover": "omnigraph recovery run",
    "migrate": "omnigraph schema apply --schema FILE",
    "create": "omnigraph init --schema FILE",
    "new": "omnigraph init --schema FILE",
    "repl": "omnigraph shell",
    "sql": "omnigraph shell",
    "man": "omnigraph help",
    "settings": "omnigraph config list",
}


class NoSuchCommandError(UsageError):
    """The command line names a command that does not exist."""

    def __init__(self, word: str, path: str, known: Iterable[str]) -> None:
        hint = _meant(word, path, list(known)) or f"see `{path} --help`"
        super().__init__(f"there is no command `{path} {word}`", hint=hint)


def _meant(word: str, path: str, known: list[str]) -> str | None:
    lowered = word.lower()
    if path == "omnigraph" and lowered in _WORDS:
        said = _WORDS[lowered]
        return f"try `{said}`" if said.startswith("omnigraph ") else said
    near = [f"{path} {each}" for each in _below(lowered)] if path == "omnigraph" else []
    near = near or [f"{path} {each}" for each in _near(lowered, known)]
    if near:
        return "did you mean " + " or ".join(f"`{each}`" for each in near[:4]) + "?"
    words = difflib.get_close_matches(lowered, _WORDS, 1, 0.7) if path == "omnigraph" else []
    return _meant(words[0], path, known) if words else None


def _near(word: str, known: list[str]) -> list[str]:
    found = difflib.get_close_matches(word, known, 3, 0.6)
    return found or [each for each in known if len(word) > 1 and each.startswith(word)]


def _below(word: str) -> list[str]:
    """Commands of groups that are called so: `list` is `branch list`, `commit list`, …"""
    from omnigraph_cli.tree import whole_tree

    return [
        f"{group} {name}"
        for group, child in whole_tree().commands.items()
        for name, command in getattr(child, "commands", {}).items()
        if name == word and not command.hidden
    ]
