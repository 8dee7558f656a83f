"""Manual pages, in roff: one for the program, each group and each command; and for the two languages.

Generated from the command tree and from docs/, checked in, and shipped. `mandoc -Tlint` finds nothing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from omnigraph_cli import pages
from omnigraph_cli.environment import ENVIRONMENT, FILES, REFS
from omnigraph_cli.exits import MEANING
from omnigraph_cli.help_text import (
    children_of,
    described_arguments,
    described_options,
    description_of,
    examples_of,
    summary_of,
    usage_of,
)
from omnigraph_cli.markdown import blocks, rows_of
from omnigraph_core import __version__

# Of the last release; a page must not change because a day has passed.
_DATE = "2026-11-18"
_WIDTH = 76
_LINE_BYTES_MAX = 80
# A topic to the pages of docs/ that are its manual page, and what that is about.
_LANGUAGES = {
    "omnigraph-pg": (("schema",), "the schema language of OmniGraph"),
    "omnigraph-gq": (("queries", "changes"), "the query language of OmniGraph"),
}


def manual_pages() -> dict[str, str]:
    """File name, with its section's folder, to content."""
    from omnigraph_cli.tree import PROGRAM, whole_tree

    found = {}
    for path, command in _commands([PROGRAM], whole_tree()):
        name = "-".join(path)
        found[f"man1/{name}.1"] = _page(path, command)
    for name, (sources, about) in _LANGUAGES.items():
        found[f"man5/{name}.5"] = _language(name, sources, about)
    return found


def _commands(path: list[str], command: Any) -> Iterator[tuple[list[str], Any]]:
    """The command and everything below it."""
    yield path, command
    if hasattr(command, "commands"):
        for name, child in children_of(command):
            yield from _commands([*path, name], child)


def _page(path: list[str], command: Any) -> str:
    lines = [
        *_head("-".join(path), 1, summary_of(command)),
        ".SH SYNOPSIS",
        *_text(usage_of(command, path), bold=len(path)),
        ".SH DESCRIPTION",
        *_text(summary_of(command)),
    ]
    for paragraph in description_of(command):
        lines += [".PP", *_text(paragraph)]
    if hasattr(command, "commands"):
        listed = {" ".join([*path, name]): summary_of(child) for name, child in children_of(command)}
        lines += [".SH COMMANDS", *_definitions(listed.items())]
    lines += _section("ARGUMENTS", described_arguments(command))
    lines += _section("OPTIONS", described_options(command))
    if examples := examples_of(command):
        lines += [".SH EXAMPLES", ".nf", *(_roff(each) for each in examples), ".fi"]
    lines += [".SH REFS", *_body("\n".join(REFS.splitlines()[2:]))]
    lines += _section("EXIT STATUS", ((str(code), meaning) for code, meaning in MEANING.items()))
    lines += _section("ENVIRONMENT", ENVIRONMENT.items()) + _section("FILES", FILES.items())
    return "\n".join([*lines, ".SH SEE ALSO", *_see_also(path, command)]) + "\n"


def _language(name: str, sources: Iterable[str], about: str) -> str:
    lines = [*_head(name, 5, about), ".SH DESCRIPTION"]
    for source in sources:
        lines += _body(pages.text(source))
    others = [each for each in _LANGUAGES if each != name]
    return (
        "\n".join([*lines, ".SH SEE ALSO", *_references([("omnigraph", 1), *((o, 5) for o in others)])])
        + "\n"
    )


def _head(name: str, section: int, about: str) -> list[str]:
    title = f'.TH "{name.upper()}" "{section}" "{_DATE}" "omnigraph {__version__}" "OmniGraph manual"'
    said = _text(f"{name} - {about.rstrip('.')}")
    return [title, ".SH NAME", said[0].replace(" \\- ", " \\- ", 1), *said[1:]]


def _see_also(path: list[str], command: Any) -> list[str]:
    """The page above, those below, and the languages."""
    above = [("-".join(path[:-1]), 1)] if len(path) > 1 else []
    below = (
        [("-".join([*path, name]), 1) for name, _ in children_of(command)]
        if hasattr(command, "commands")
        else []
    )
    return _references([*above, *below, *((name, 5) for name in _LANGUAGES)])


def _references(found: list[tuple[str, int]]) -> list[str]:
    ordered = sorted(found, key=lambda each: (each[1], each[0]))
    return [
        f".BR {_roff(name)} ({section})" + ("," if at < len(ordered) - 1 else "")
        for at, (name, section) in enumerate(ordered)
    ]


def _section(title: str, entries: Iterable[tuple[str, str]]) -> list[str]:
    lines = _definitions(entries)
    return [f".SH {title}", *lines] if lines else []


def _definitions(entries: Iterable[tuple[str, str]]) -> list[str]:
    return [
        line for term, text in entries for line in (".TP", f".B {_roff(term)}", *_text(text or "See above."))
    ]


def _body(markdown: str) -> list[str]:
    """A page of docs/, without its title."""
    lines: list[str] = []
    needs_break = False
    for block in blocks(markdown):
        if block.kind == "heading":
            lines += [] if block.level == 1 else [f'.SS "{_roff(block.text)}"']
            needs_break = False
            continue
        if block.kind == "code":
            lines += [".PP"] if needs_break else []
            lines += [".RS 4", ".nf", *map(_roff, block.text.split("\n")), ".fi", ".RE"]
        elif block.kind == "table":
            for row in rows_of(block.text)[1:]:
                lines += [".TP", f".B {_roff(_plain(row[0]))}"]
                lines += _text("; ".join(cell for cell in map(_plain, row[1:]) if cell) or "See above.")
        elif block.kind == "item":
            lines += [".IP \\(bu 2", *_text(_plain(block.text))]
        else:
            lines += [*([".PP"] if needs_break else []), *_text(_plain(block.text))]
        needs_break = True
    return lines


def _plain(text: str) -> str:
    """Marks for code and emphasis are left out: bold in the middle of a line helps nobody."""
    return text.replace("`", "").replace("**", "")


def _text(text: str, *, bold: int = 0) -> list[str]:
    """A paragraph, wrapped; roff fills its lines anew. The first `bold` words are in bold."""
    words = text.split()
    lines = [f".B {_roff(' '.join(words[:bold]))}"] if bold else []
    for width in range(_WIDTH, 20, -4):  # escapes make lines longer; 80 bytes is where mandoc frowns
        wrapped = textwrap.wrap(" ".join(words[bold:]), width, break_long_words=False, break_on_hyphens=False)
        escaped = [_roff(line) for line in wrapped]
        if all(map(_is_short, escaped)):
            break
    return [*lines, *escaped]


def _is_short(line: str) -> bool:
    """Is it one that mandoc takes without a remark? It writes other letters out, as \\[u2026]."""
    return sum(1 if each.isascii() else 8 for each in line) <= _LINE_BYTES_MAX


def _roff(text: str) -> str:
    """One line, escaped: hyphens stay as typed, it reads as no request, and ends with no blank."""
    escaped = text.rstrip().expandtabs(4).replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    escaped = escaped.replace('"', "\\(dq").replace("~", "\\(ti").replace("^", "\\(ha")
    return "\\&" + escaped if escaped.startswith(".") or not escaped else escaped
