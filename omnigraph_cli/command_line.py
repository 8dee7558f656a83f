"""The command line as Typer takes it: the words of the command first, then its options.

Options that several commands share may stand before the command, too, and between the words of
one (`omnigraph --store g branch --json list`). They are moved here, so that neither the tree of
commands nor its help has to know of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph_core.errors import UsageError

# Commands whose second word says what to do; a test compares these with the tree.
GROUPS = frozenset(
    ("blob", "branch", "commit", "config", "index", "op", "recovery", "schema", "spark", "tag", "warm")
)

_FLAGS = frozenset(("--json", "--quiet", "--verbose", "--full-ids", "--no-pager", "--no-input"))
_SHORT_FLAGS = frozenset("qv")
_VALUED = frozenset(
    (
        *("--store", "--uri", "--color", "--branch", "--snapshot", "--as", "--message", "-m"),
        *("--lock-timeout", "--progress"),
    )
)


def spelled_out(argv: Sequence[str]) -> list[str]:
    """The command line with the words of the command first.

    `lint` stands for `query lint|check`; `query --name lint` runs a query of that name. Without a
    command, what was to be moved is left out: help says what is missing, or Typer what is unknown.
    """
    words: list[str] = []
    moved: list[str] = []
    rest = list(argv)
    while True:
        count = _leading_options(rest)
        moved, rest = moved + rest[:count], rest[count:]
        if rest[:1] == ["--"]:
            rest = rest[1:]
        if not rest or rest[0].startswith("-"):
            return words + rest
        words.append(rest.pop(0))
        if words == ["query"] and rest[:1] in (["lint"], ["check"]):
            words, rest = ["lint"], rest[1:]
        if len(words) > 1 or words[0] not in GROUPS:
            return words + moved + rest


def _leading_options(argv: Sequence[str]) -> int:
    """How many of the first arguments are shared options and their values."""
    count = 0
    while count < len(argv):
        argument = argv[count]
        name, equals, _ = argument.partition("=")
        if argument in _FLAGS or (name in _VALUED and equals and name != "-m") or _is_short(argument):
            count += 1
        elif argument in _VALUED:
            if count + 1 == len(argv):
                raise UsageError(f"{argument} needs a value", hint="see `omnigraph --help`")
            count += 2
        else:
            break
    return count


def _is_short(argument: str) -> bool:
    """`-q`, `-qv`, or a message that stands right behind its `-m`."""
    if argument.startswith("--") or len(argument) < 2 or argument[0] != "-":
        return False
    return set(argument[1:]) <= _SHORT_FLAGS or (argument.startswith("-m") and len(argument) > 2)
