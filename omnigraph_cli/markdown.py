"""Pages of docs/, which are Markdown, as plain text and as manual pages.

Only what our pages use: headings, paragraphs, lists, fenced code, tables, links, code and emphasis.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from omnigraph_core.records import dataclass

_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_WIDTH = 78


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a page; `kind` is heading, text, item, code or table."""

    kind: str
    text: str
    level: int = 0


def blocks(markdown: str) -> Iterator[Block]:
    """A page, part by part."""
    lines = iter(_COMMENT.sub("", markdown).splitlines())
    held: list[str] = []
    code: list[str] = []
    kind = "text"
    for line in lines:
        is_indented = line.startswith("    ") and not held
        starts_item = line.lstrip().startswith("- ")
        is_table = line.startswith("|")
        if line.startswith(("```", "#")) or not line.strip() or starts_item or is_table != (kind == "table"):
            if held:
                yield _joined(kind, held)
            held, kind = [], "text"
        if code and not is_indented:
            yield Block("code", "\n".join(code))
            code = []
        if line.startswith("```"):
            for inside in lines:
                if inside.startswith("```"):
                    break
                code.append(inside)
            yield Block("code", "\n".join(code))
            code = []
        elif is_indented:
            code.append(line[4:])
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            yield Block("heading", _LINK.sub(r"\1", line.lstrip("# ")), level)
        elif line.strip():
            kind = "table" if is_table else "item" if starts_item or kind == "item" else "text"
            held.append(line.strip().removeprefix("- "))
    if code:
        yield Block("code", "\n".join(code))
    if held:
        yield _joined(kind, held)


def _joined(kind: str, lines: Sequence[str]) -> Block:
    """Links are taken out of the whole: one may be broken between two lines."""
    return Block(kind, _LINK.sub(r"\1", ("\n" if kind == "table" else " ").join(lines)))


def rows_of(table: str) -> list[list[str]]:
    """The cells of a table, without the line below its head."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in table.split("\n")]
    return [[cell.replace("\\|", "|") for cell in row] for row in rows if not _is_rule(row)]


def _is_rule(row: list[str]) -> bool:
    return all(re.fullmatch(r":?-+:?", cell) for cell in row)


def plain(markdown: str) -> str:
    """For a terminal: text is wrapped, code is as it is."""
    shown: list[str] = []
    for block in blocks(markdown):
        if block.kind == "heading":
            shown.append(block.text.upper() if block.level == 1 else block.text)
        elif block.kind == "code":
            shown.append(textwrap.indent(block.text, "    "))
        elif block.kind == "table":
            shown.append(_plain_table(rows_of(block.text)))
        elif block.kind == "item":
            shown.append(textwrap.fill(block.text, _WIDTH, initial_indent="- ", subsequent_indent="  "))
        else:
            shown.append(textwrap.fill(block.text, _WIDTH))
    text = "\n\n".join(shown)
    return re.sub(r"(\n- [^\n]*(?:\n  [^\n]+)*)\n(?=\n- )", r"\1", text) + "\n"


def _plain_table(rows: list[list[str]]) -> str:
    """The first column, and below it what the others say."""
    lines = []
    for row in rows[1:]:
        lines.append(f"  {row[0]}")
        rest = "; ".join(cell for cell in row[1:] if cell)
        lines += textwrap.wrap(rest, _WIDTH, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)
