"""Schemas as Mermaid and DOT: exactly what is drawn, and that no name can break the drawing."""

from __future__ import annotations

import re

from omnigraph_core.schema import compile_schema
from omnigraph_core.schema.render_diagram import dot, mermaid

SCHEMA = compile_schema(
    """interface Named { name: String @key }
    node Person implements Named {
      age: I32? email: String? @unique tags: [String]? mood: enum(good, bad) v: Vector(3)?
    }
    node Seat { hall: String row: I32 @key(hall, row) @unique(row) }
    node Bare {}
    edge Knows: Person -> Person @card(0..5) { since: Date? }
    edge At: Person -> Seat @card(1..1)
    edge Likes: Person -> Seat"""
)


def test_mermaid_draws_types_with_their_properties_and_edges_with_their_bounds() -> None:
    assert (
        mermaid(SCHEMA)
        == """erDiagram
  "interface Named" {
    String name PK
  }
  "Bare" {
  }
  "Person" {
    I32 age "may be null"
    String email UK "may be null"
    enum mood "one of bad, good"
    String name PK
    String[] tags "may be null"
    Vector(3) v "may be null"
  }
  "Person" }o..|| "interface Named" : "implements"
  "Seat" {
    String hall PK
    I32 row PK, UK
  }
  "Person" }o--o| "Seat" : "At 1..1"
  "Person" }o--o{ "Person" : "Knows 0..5 (since: Date?)"
  "Person" }o--o{ "Seat" : "Likes"
"""
    )


def test_dot_draws_a_box_for_each_type_and_an_arrow_for_each_edge() -> None:
    drawn = dot(SCHEMA).splitlines()
    assert drawn[0] == "digraph schema {"
    assert drawn[-1] == "}"
    boxes = [line for line in drawn if "[label=<" in line]
    assert [re.sub(r"<.*>", "", box) for box in boxes] == [
        f'  "{name}" [label=];' for name in ("interface Named", "Bare", "Person", "Seat")
    ]
    assert '<tr><td align="left">row: I32 @key @unique</td></tr>' in boxes[3]
    assert '<tr><td align="left">mood: enum(bad, good)</td></tr>' in boxes[2]
    assert [line.strip() for line in drawn if "->" in line] == [
        '"Person" -> "interface Named" [style=dashed, arrowhead=empty];',
        '"Person" -> "Seat" [label="At 1..1"];',
        '"Person" -> "Person" [label="Knows 0..5 (since: Date?)"];',
        '"Person" -> "Seat" [label="Likes"];',
    ]


def test_an_interface_and_a_node_of_one_name_are_two_boxes() -> None:
    schema = compile_schema("interface N { a: I32 } node N implements N {}")
    assert mermaid(schema).count('"N" {') == 1
    assert '"N" -> "interface N"' in dot(schema)


def test_an_empty_schema_is_an_empty_drawing() -> None:
    assert mermaid(compile_schema("")) == "erDiagram\n"
    assert dot(compile_schema("")) == "digraph schema {\n  node [shape=plain];\n}\n"
