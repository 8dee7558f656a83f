"""The picture of the floors in docs/architecture.md is drawn from the source."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.processes import REPOSITORY
from tests.support.source import CORE, floor_of, imports, sources

BEGIN, END = "<!-- drawn by tests/tidy/test_import_graph.py -->\n```\n", "```\n"

Arrows = Mapping[str, frozenset[str]]


def arrows() -> Arrows:
    """Which floors each floor imports, itself apart."""
    names = {floor_of(path) for path, _ in sources(CORE)} - {"__init__"}
    found: dict[str, set[str]] = {name: set() for name in names}
    for path, tree in sources(CORE):
        for _, name in imports(tree):
            parts = name.split(".")
            if parts[0] == "omnigraph_core" and len(parts) > 1 and parts[1] in names:
                found.get(floor_of(path), set()).add(parts[1])
    return {name: frozenset(below - {name}) for name, below in found.items()}


def reached(graph: Arrows, start: str) -> frozenset[str]:
    """Everything below a floor, however far."""
    below = graph[start]
    return below.union(*(reached(graph, each) for each in below))


def drawn() -> str:
    """One line per floor from the top down, with the floors it stands on.

    Left out are the ground (modules that import no floor) and arrows that follow from others.
    """
    graph = arrows()
    floors = {name for name in graph if (CORE / name).is_dir()}
    floors |= {name for name in graph if reached(graph, name) & floors}
    height = {name: len(reached(graph, name) & floors) for name in floors}
    width = max(map(len, floors))
    lines = []
    for name in sorted(floors, key=lambda each: (-height[each], each)):
        below = graph[name] & floors
        direct = below.difference(*(reached(graph, each) for each in below)) if below else below
        ordered = sorted(direct, key=lambda each: (-height[each], each))
        lines.append(f"{name:{width}} -> {' '.join(ordered)}" if ordered else name)
    return "".join(f"{line}\n" for line in lines)


def test_the_picture_of_the_floors_is_what_the_source_says() -> None:
    page = (REPOSITORY / "docs/architecture.md").read_text()
    begin = page.index(BEGIN) + len(BEGIN)
    shown = page[begin : page.index(END, begin)]
    assert shown == drawn(), f"docs/architecture.md is stale; the new text is:\n\n{drawn()}"
