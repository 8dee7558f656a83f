"""Help as text: what a command is for, examples, then the details; commands in groups; nothing cut."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from omnigraph_cli.tables import terminal_columns

_WIDTH_MAX = 100
_TERM_COLUMNS_MAX = 30
_STACKED_BELOW = 60
_EXAMPLES = "\b\nExamples:\n"


def help_of(command: Any, path: Sequence[str], room: int | None = None) -> str:
    """The help of a command, or of a group of them, for a terminal of this many columns."""
    width = min(room or terminal_columns(), _WIDTH_MAX)
    usage, (summary, rest) = _wrapped(f"Usage: {usage_of(command, path)}", width), _paragraphs(command)
    blocks = [usage, _wrapped(summary, width), _examples(command)]
    blocks += [_wrapped(each, width) for each in rest]
    if hasattr(command, "commands"):
        blocks += _children(command, path, width)
    blocks += _parameters(command, width)
    if len(path) == 1:
        topics = "refs, pg, gq, formats, exit-codes, environment"
        blocks.append(
            _wrapped(
                "`omnigraph help COMMAND` says more about a command, and `omnigraph help TOPIC` about "
                f"a topic: {topics}.",
                width,
            )
        )
    return "\n\n".join(block for block in blocks if block)


def usage_of(command: Any, path: Sequence[str]) -> str:
    """`omnigraph load [OPTIONS] [GRAPH]`."""
    if hasattr(command, "commands"):
        return f"{' '.join(path)} COMMAND [OPTIONS]"
    names = [
        argument_name(each) if each.required else f"[{argument_name(each)}]"
        for each in command.params
        if each.param_type_name == "argument"
    ]
    return " ".join([*path, "[OPTIONS]", *names])


def argument_name(parameter: Any) -> str:
    return (parameter.metavar or (parameter.name or "").upper()).strip("[]")


def summary_of(command: Any) -> str:
    """The first paragraph of its help, on one line."""
    return _paragraphs(command)[0]


def description_of(command: Any) -> list[str]:
    """The paragraphs after that."""
    return _paragraphs(command)[1]


def examples_of(command: Any) -> list[str]:
    text = (command.epilog or "").replace(_EXAMPLES, "")
    return [line.strip() for line in text.splitlines() if line.strip()]


def children_of(group: Any) -> Iterator[tuple[str, Any]]:
    """The commands of a group that are listed."""
    for name, child in group.commands.items():
        if not child.hidden:
            yield name, child


def described_options(command: Any, *, shared: bool | None = None) -> Iterator[tuple[str, str]]:
    """Options and what they do; those that many commands share, the others, or (None) all."""
    from omnigraph_cli.run import SHARED_OPTIONS

    for parameter in command.params:
        if parameter.param_type_name != "option" or parameter.hidden:
            continue
        if shared is None or (parameter.name in SHARED_OPTIONS) is shared:
            yield option_names(parameter), _option_help(parameter)
    if shared is not False:
        yield "-h, --help", "Show this help and exit."


def described_arguments(command: Any) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            yield argument_name(parameter), parameter.help or ""


def option_names(parameter: Any) -> str:
    names = ", ".join(sorted([*parameter.opts, *parameter.secondary_opts], key=len))
    return names if getattr(parameter, "is_flag", False) else f"{names} {parameter.metavar or 'VALUE'}"


def _option_help(parameter: Any) -> str:
    notes = []
    if parameter.required:
        notes.append("Required.")
    elif isinstance(parameter.default, str | int | float) and not isinstance(parameter.default, bool):
        notes.append(f"Default: {parameter.default}.")
    return " ".join([*([parameter.help] if parameter.help else []), *notes])


def _paragraphs(command: Any) -> tuple[str, list[str]]:
    text = inspect.cleandoc(command.help or "")
    paragraphs = [" ".join(each.split()) for each in text.split("\n\n")]
    return paragraphs[0], paragraphs[1:]


def _examples(command: Any) -> str:
    return (
        "\n".join(["Examples:", *(f"  {each}" for each in found)]) if (found := examples_of(command)) else ""
    )


def _children(group: Any, path: Sequence[str], width: int) -> list[str]:
    from omnigraph_cli.tree import GROUPS

    found = {name: summary_of(child) for name, child in children_of(group)}
    if len(path) > 1:
        return [_section("Commands", found.items(), width)]
    return [
        _section(title, ((name, found[name]) for name in names if name in found), width)
        for title, names in GROUPS.items()
    ]


def _parameters(command: Any, width: int) -> list[str]:
    arguments = list(described_arguments(command))
    own = list(described_options(command, shared=False))
    blocks = [_section("Arguments", arguments, width), _section("Options", own, width)]
    title = "Options of every command" if own or arguments else "Options"
    return [*blocks, _section(title, described_options(command, shared=True), width)]


def _section(title: str, entries: Iterable[tuple[str, str]], width: int) -> str:
    rows = list(entries)
    if not rows:
        return ""
    column = min(max(len(term) for term, _ in rows), _TERM_COLUMNS_MAX)
    lines = [f"{title}:"]
    for term, text in rows:
        if width < _STACKED_BELOW or len(term) > column:
            indent = " " * (6 if width < _STACKED_BELOW else column + 4)
            lines += [
                f"  {term}",
                *textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent),
            ]
        else:
            first, following = f"  {term:<{column}}  ", " " * (column + 4)
            lines += textwrap.wrap(text, width, initial_indent=first, subsequent_indent=following) or [first]
    return "\n".join(line.rstrip() for line in lines)


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False))
