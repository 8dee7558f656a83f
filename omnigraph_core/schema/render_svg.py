"""A schema as an SVG picture: a box for each type in a grid, a line for each edge type.

There is no layout to speak of: boxes stand in rows, in the order of the schema. A line runs from
the middle of one box to the border of the other, behind the boxes; one that ends where it starts is
a loop. Sizes are reckoned from the number of characters in a fixed-width font. Every text is
escaped, and the picture holds no script, style sheet or link.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from omnigraph_core.records import dataclass
from omnigraph_core.schema.model import InterfaceType, NodeType, Schema
from omnigraph_core.schema.render_diagram import box_lines, edge_label, title

_CHARACTER, _LINE, _PADDING = 7.3, 18, 8
_GAP_X, _GAP_Y = 120, 70
_CUT_AT = 60
"""Characters of a line; what is longer is cut, and whole in the tooltip."""


@dataclass(frozen=True, slots=True)
class _Box:
    name: str
    lines: tuple[str, ...]
    dashed: bool
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2

    def border_towards(self, x: float, y: float) -> tuple[float, float]:
        """Where a line from the middle to that point leaves the box."""
        mx, my = self.middle
        dx, dy = x - mx, y - my
        part = min(
            self.width / 2 / abs(dx) if dx else math.inf, self.height / 2 / abs(dy) if dy else math.inf, 1
        )
        return mx + dx * part, my + dy * part


def svg(schema: Schema) -> str:
    """One picture, complete in itself."""
    boxes = _laid_out([*schema.interfaces, *schema.nodes])
    by_name = {box.name: box for box in boxes}
    drawn = []
    for node in schema.nodes:
        for name in node.implements:
            drawn += _line(by_name[node.name], by_name[f"interface {name}"], "", 0, dashed=True)
    between: dict[frozenset[str], int] = {}
    for edge in schema.edges:
        ends = frozenset((edge.from_type, edge.to_type))
        between[ends] = number = between.get(ends, -1) + 1
        start, end = by_name[edge.from_type], by_name[edge.to_type]
        drawn += _line(start, end, edge_label(edge), number, dashed=False)
    for box in boxes:
        drawn += _drawn(box)
    width = max((box.x + box.width for box in boxes), default=0) + _GAP_X
    height = max((box.y + box.height for box in boxes), default=0) + _GAP_Y
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="12">'
    )
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0L10 5L0 10z"/></marker></defs>'
    )
    return (
        "\n".join([head, arrow, '<rect width="100%" height="100%" fill="white"/>', *drawn, "</svg>"]) + "\n"
    )


def _laid_out(types: Sequence[InterfaceType | NodeType]) -> list[_Box]:
    """In rows of about as many boxes as there are rows."""
    across = max(1, math.ceil(math.sqrt(len(types))))
    boxes: list[_Box] = []
    top = float(_GAP_Y)
    for start in range(0, len(types), across):
        left, row = float(_GAP_X), []
        for type_ in types[start : start + across]:
            lines = (title(type_), *box_lines(type_))
            width = max(len(_cut(line)) for line in lines) * _CHARACTER + 2 * _PADDING
            dashed = isinstance(type_, InterfaceType)
            row.append(_Box(lines[0], lines, dashed, left, top, width, len(lines) * _LINE + 2 * _PADDING))
            left += width + _GAP_X
        boxes += row
        top += max(box.height for box in row) + _GAP_Y
    return boxes


def _drawn(box: _Box) -> list[str]:
    dashes = ' stroke-dasharray="5 3"' if box.dashed else ""
    found = [
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'fill="white" stroke="black"{dashes}/>'
    ]
    for number, line in enumerate(box.lines):
        bold = ' font-weight="bold"' if number == 0 else ""
        found.append(_text(box.x + _PADDING, box.y + _PADDING + (number + 0.75) * _LINE, line, bold))
    under = box.y + _PADDING / 2 + _LINE + 2
    found.append(
        f'<path d="M{box.x:.1f} {under:.1f}H{box.x + box.width:.1f}" stroke="black" stroke-width="0.5"/>'
    )
    return found


def _line(start: _Box, end: _Box, label: str, number: int, *, dashed: bool) -> list[str]:
    """An arrow with its label; `number` counts the arrows between the same two boxes."""
    style = 'fill="none" stroke="gray" marker-end="url(#arrow)"' + (
        ' stroke-dasharray="5 3"' if dashed else ""
    )
    if start is end:
        x, y, out = start.x + start.width, start.y + _LINE * (number + 1), 40 + 8 * number
        loop = f"M{x:.1f} {y:.1f}c{out} -{_LINE} {out} {_LINE + 8} 0 8"
        return [f'<path d="{loop}" {style}/>', _text(x + 6, y - _LINE / 2, label)]
    x1, y1 = start.border_towards(*end.middle)
    x2, y2 = end.border_towards(*start.middle)
    found = [f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" {style}/>']
    if label:
        found.append(_text((x1 + x2) / 2, (y1 + y2) / 2 - 4 + number * 14, label, ' text-anchor="middle"'))
    return found


def _cut(text: str) -> str:
    return text if len(text) <= _CUT_AT else f"{text[: _CUT_AT - 1]}…"


def _text(x: float, y: float, text: str, more: str = "") -> str:
    shown = escape(_cut(text))
    whole = f"<title>{escape(text)}</title>" if len(text) > _CUT_AT else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{whole}{shown}</text>'
