"""Schemas drawn as SVG: whole XML, every type and edge in it, no text that could be markup."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest

from omnigraph_core.schema import compile_schema
from omnigraph_core.schema.render_svg import svg

SPACE = "{http://www.w3.org/2000/svg}"
SCHEMA = """
interface Named { title: String }
node Person implements Named { name: String @key  title: String  mood: enum(good, bad)?  tags: [String]? }
node Company { name: String @key }
edge Knows: Person -> Person @card(0..5) { since: Date? }
edge WorksAt: Person -> Company
edge Owns: Person -> Company
"""


def texts(source: str) -> list[str]:
    drawn = ElementTree.fromstring(svg(compile_schema(source)))
    return [each.text or each[0].tail or "" for each in drawn.iter(f"{SPACE}text")]


def boxes(source: str) -> list[tuple[float, float, float, float]]:
    drawn = ElementTree.fromstring(svg(compile_schema(source)))
    found = [each.attrib for each in drawn.iter(f"{SPACE}rect") if "x" in each.attrib]
    return [tuple(float(each[name]) for name in ("x", "y", "width", "height")) for each in found]  # type: ignore[misc]


def test_every_type_property_and_edge_is_drawn() -> None:
    found = texts(SCHEMA)
    for wanted in ("interface Named", "Person", "Company", "name: String @key", "tags: [String]?"):
        assert wanted in found
    for edge in ("Knows 0..5 (since: Date?)", "WorksAt", "Owns"):
        assert found.count(edge) == 1
    assert svg(compile_schema(SCHEMA)).count("marker-end") == 4


@pytest.mark.parametrize("count", [1, 2, 7])
def test_boxes_do_not_overlap(count: int) -> None:
    source = "\n".join(
        f"node T{n} {{ k: String @key {' '.join(f'p{i}: I32?' for i in range(n))} }}" for n in range(count)
    )
    found = boxes(source)
    assert len(found) == count
    for (x, y, width, height), (x2, y2, width2, height2) in combinations(found, 2):
        assert x + width < x2 or x2 + width2 < x or y + height < y2 or y2 + height2 < y


def test_an_empty_schema_is_an_empty_drawing() -> None:
    assert texts("") == []


def test_long_lines_are_cut_and_whole_in_their_tooltip() -> None:
    values = ", ".join(f"value{n}" for n in range(40))
    drawn = ElementTree.fromstring(svg(compile_schema(f"node P {{ k: String @key  e: enum({values})? }}")))
    (tooltip,) = drawn.iter(f"{SPACE}title")
    assert "value39" in (tooltip.text or "")
    assert all(len(each) <= 60 for each in [tooltip.tail or ""])
