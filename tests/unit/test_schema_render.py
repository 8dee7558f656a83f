"""Rendering a schema gives text that compiles to the same schema."""

from __future__ import annotations

import pytest

from omnigraph_core.schema import compile_schema, schema_hash
from omnigraph_core.schema.render import render

SOURCES = [
    "",
    "node Person { name: String @key }",
    """
    interface Named { name: String @index @description("what it is called") }
    interface Aged { age: I32? }
    node All @team(core) @description("a \\"quoted\\"\\n line") implements Named, Aged {
      s: String @pii @since(3) @ok(true)
      b: Bool i: I32 j: I64 u: U32 v: U64 f: F32 g: F64
      d: Date t: DateTime w: Vector(3) @embed("s", model="m1") x: Blob? l: [I64]? e: enum(b-2, a, 3c)
      @key(j, i)
      @unique(u, v)
      @range(i, 0..)
      @range(g, -1.5..99.5)
      @range(f, ..7)
      @check(s, "^[A-Z]{3}\\\\-\\"[0-9]+$")
    }
    edge Owns: All -> All @card(1..3) @description("ownership") { since: DateTime? @unique(src, dst) }
    edge Likes: All -> All
    edge Any: All -> All @card(2..) @instruction("ask")
    """,
]


@pytest.mark.parametrize("source", SOURCES, ids=range(len(SOURCES)))
def test_rendered_text_is_the_same_schema(source: str) -> None:
    schema = compile_schema(source)
    text = render(schema)
    assert compile_schema(text) == schema
    assert schema_hash(compile_schema(text)) == schema_hash(schema)
    assert render(compile_schema(text)) == text
