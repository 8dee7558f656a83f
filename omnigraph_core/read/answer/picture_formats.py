"""Pictures as text: Graphviz, and one HTML page that needs nothing but a browser.

The page holds an SVG and a style sheet, no script, and loads nothing from anywhere. Every text is
escaped. The layout is reckoned here, from the same start each time, so the same answer gives the
same bytes.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

import numpy as np

from omnigraph_core.read.answer.picture import DrawnEdge, DrawnNode, Picture
from omnigraph_core.values.shown import one_line

_COLOURS = ("#4269d0", "#efb118", "#3ca951", "#ff725c", "#6cc5b0", "#a463f2", "#97bbf5", "#9c6b4e")
_LABEL_CHARACTERS = 24
_SPACE = 90.0
"""Pixels that a node would like to have around it."""
_ROUNDS = 80

_Places = np.ndarray[Any, np.dtype[np.float64]]


def as_dot(picture: Picture) -> str:
    lines = [f"digraph {_quoted(picture.title)} {{", "  node [shape=ellipse];"]
    for node in picture.nodes:
        label = _quoted(node.node_id)
        lines.append(f"  {_quoted(_name(node))} [label={label}, tooltip={_quoted(node.type_name)}];")
    for edge in picture.edges:
        style = ", style=dashed" if edge.is_path else ""
        direction = "" if edge.is_directed else ", dir=none"
        ends = f"{_quoted(_name(edge.source))} -> {_quoted(_name(edge.target))}"
        lines.append(f"  {ends} [label={_quoted(edge.label)}{style}{direction}];")
    if picture.is_cut:
        lines.append("  // there were more rows than are drawn")
    return "\n".join([*lines, "}"]) + "\n"


def _name(node: DrawnNode) -> str:
    return f"{node.type_name}/{node.node_id}"


def _quoted(text: str) -> str:
    return '"' + one_line(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def as_html(picture: Picture) -> str:
    places = _layout(picture)
    low, high = (places.min(axis=0), places.max(axis=0)) if len(places) else (np.zeros(2), np.zeros(2))
    x, y = low - _SPACE
    width, height = high - low + 2 * _SPACE
    at = {node: (float(px), float(py)) for node, (px, py) in zip(picture.nodes, places, strict=True)}
    types = list(dict.fromkeys(node.type_name for node in picture.nodes))
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(sorted(types))}
    drawn = [_edge(edge, at) for edge in picture.edges]
    drawn += [_node(node, *at[node], colours[node.type_name]) for node in picture.nodes]
    legend = "".join(
        f'<li><span style="background:{colours[name]}"></span>{escape(one_line(name))}</li>' for name in types
    )
    more = ", and more rows than are drawn" if picture.is_cut else ""
    nodes, edges = len(picture.nodes), len(picture.edges)
    count = f"{nodes} node{'s' * (nodes != 1)}, {edges} edge{'s' * (edges != 1)}{more}"
    return _PAGE.format(
        title=escape(one_line(picture.title)),
        count=count,
        legend=legend,
        box=f"{x:.0f} {y:.0f} {width:.0f} {height:.0f}",
        drawn="\n".join(drawn),
    )


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root {{ color-scheme: light dark }}
body {{ margin: 0; font: 14px system-ui, sans-serif; color: CanvasText; background: Canvas }}
header {{ padding: 12px 16px }} h1 {{ font-size: 16px; margin: 0 }}
ul {{ list-style: none; margin: 8px 0 0; padding: 0; display: flex; gap: 16px; flex-wrap: wrap }}
li span {{ display: inline-block; width: 10px; height: 10px; border-radius: 5px; margin-right: 6px }}
svg {{ width: 100vw; height: calc(100vh - 90px) }}
text {{ fill: CanvasText; text-anchor: middle; font-size: 12px }} text.e {{ font-size: 10px; opacity: .7 }}
line, path {{ stroke: #888; fill: none }} .path {{ stroke-dasharray: 5 4 }}
circle {{ stroke: Canvas; stroke-width: 2 }} marker path {{ fill: #888; stroke: none }}
g:hover circle {{ stroke: CanvasText }}
</style></head><body>
<header><h1>{title}</h1>{count}<ul>{legend}</ul></header>
<svg viewBox="{box}" role="img" aria-label="{title}: {count}">
<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 8 4 0 8z"/></marker></defs>
{drawn}
</svg></body></html>
"""


def _node(node: DrawnNode, x: float, y: float, colour: str) -> str:
    text = one_line(node.node_id)
    shown = text if len(text) <= _LABEL_CHARACTERS else text[: _LABEL_CHARACTERS - 1] + "…"
    title = escape(f"{one_line(node.type_name)} {text}")
    return (
        f'<g><title>{title}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="10" fill="{colour}"/>'
        f'<text x="{x:.1f}" y="{y + 24:.1f}">{escape(shown)}</text></g>'
    )


def _edge(edge: DrawnEdge, at: dict[DrawnNode, tuple[float, float]]) -> str:
    (x1, y1), (x2, y2) = at[edge.source], at[edge.target]
    kind = ' class="path"' if edge.is_path else ""
    marker = ' marker-end="url(#to)"' if edge.is_directed else ""
    label = escape(one_line(edge.label))
    if edge.source == edge.target:
        loop = f"M{x1 - 6:.1f} {y1 - 9:.1f}c-20 -34 32 -34 12 0"
        return (
            f'<path d="{loop}"{kind}{marker}/><text class="e" x="{x1:.1f}" y="{y1 - 36:.1f}">{label}</text>'
        )
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    dx, dy = (x2 - x1) / length * 12, (y2 - y1) / length * 12
    return (
        f'<line x1="{x1 + dx:.1f}" y1="{y1 + dy:.1f}" x2="{x2 - dx:.1f}" y2="{y2 - dy:.1f}"{kind}{marker}/>'
        f'<text class="e" x="{(x1 + x2) / 2:.1f}" y="{(y1 + y2) / 2 - 4:.1f}">{label}</text>'
    )


def _layout(picture: Picture) -> _Places:
    """Nodes push each other away, edges pull them together (Fruchterman and Reingold)."""
    count = len(picture.nodes)
    number = {node: i for i, node in enumerate(picture.nodes)}
    turns = np.arange(count) * 2.399963  # the golden angle: no two nodes start at the same place
    places: _Places = (np.sqrt(np.arange(count) + 1) * _SPACE * np.stack([np.cos(turns), np.sin(turns)])).T
    ends = np.array([(number[each.source], number[each.target]) for each in picture.edges], np.int64)
    for done in range(_ROUNDS if count > 1 else 0):
        apart = places[:, None, :] - places[None, :, :]
        distance = np.maximum(np.sqrt((apart**2).sum(axis=2)), 1.0)
        push = (apart / distance[:, :, None] ** 2).sum(axis=1) * _SPACE**2
        if len(ends):
            along = places[ends[:, 0]] - places[ends[:, 1]]
            pull = along * (np.sqrt((along**2).sum(axis=1)) / _SPACE)[:, None]
            np.add.at(push, ends[:, 0], -pull)
            np.add.at(push, ends[:, 1], pull)
        size = np.maximum(np.sqrt((push**2).sum(axis=1)), 1e-9)
        step = np.minimum(size, _SPACE * (1 - done / _ROUNDS))
        places = places + push / size[:, None] * step[:, None]
    return places
