"""The worked examples of the language that are accepted, and what they mean.

The refused ones are in test_schema_rejections.py.
"""

from __future__ import annotations

from omnigraph_core.schema import (
    Cardinality,
    Check,
    Embed,
    Index,
    Key,
    Range,
    Schema,
    Unique,
    compile_schema,
)
from tests.unit.schema_sources import S1, S2

A = "node A { k: String @key }\n"


def type_names(schema: Schema, node: str) -> dict[str, str]:
    return {prop.name: str(prop.type) for prop in schema.node(node).properties}


def test_s1() -> None:
    schema = compile_schema(S1)
    assert [entity.table_key for entity in schema.types()] == [
        "edge:Knows",
        "edge:WorksAt",
        "node:Company",
        "node:Person",
    ]
    assert type_names(schema, "Person") == {
        "age": "I32?",
        "joined": "Date?",
        "name": "String",
        "tags": "[String]?",
    }
    assert type_names(schema, "Company") == {"name": "String", "size": "enum(large, small)?"}
    assert schema.edge("Knows").cardinality == Cardinality()
    assert schema.edge("WorksAt").cardinality == Cardinality(0, 1)


def test_s2() -> None:
    schema = compile_schema(S2)
    doc = schema.node("Doc")
    assert doc.constraints == (Key(("slug",)), Index(("body",)), Index(("embedding",)), Index(("title",)))
    embedding = doc.find_property("embedding")
    assert embedding is not None
    assert embedding.embed == Embed("body", None)
    assert str(embedding.type) == "Vector(4)"
    assert type_names(schema, "File") == {"data": "Blob?", "path": "String"}


def test_e01_minimal_node() -> None:
    node = compile_schema("node Person { name: String @key }").node("Person")
    assert node.columns == ("id", "name")
    assert node.key == Key(("name",))


def test_e02_every_type() -> None:
    schema = compile_schema("""node All {
  s: String b: Bool i: I32 j: I64 u: U32 v: U64 f: F32 g: F64
  d: Date t: DateTime w: Vector(3) x: Blob? l: [I64] e: enum(a, b-2, 3c) n: String?
}""")
    assert schema.node("All").key is None
    assert type_names(schema, "All") == {
        "b": "Bool",
        "d": "Date",
        "e": "enum(3c, a, b-2)",
        "f": "F32",
        "g": "F64",
        "i": "I32",
        "j": "I64",
        "l": "[I64]",
        "n": "String?",
        "s": "String",
        "t": "DateTime",
        "u": "U32",
        "v": "U64",
        "w": "Vector(3)",
        "x": "Blob?",
    }


def test_e03_composite_key_keeps_its_written_order() -> None:
    assert compile_schema("node Seat { hall: String row: I32 @key(hall, row) }").node("Seat").key == Key(
        ("hall", "row")
    )
    assert compile_schema("node Seat { hall: String row: I32 @key(row, hall) }").node("Seat").key == Key(
        ("row", "hall")
    )


def test_e05_edge_with_cardinality_annotation_and_body() -> None:
    edge = compile_schema(
        A + "node B { k: String @key }\n"
        'edge Owns: A -> B @card(1..3) @description("ownership") { since: DateTime? @unique(src, dst) }'
    ).edge("Owns")
    assert edge.cardinality == Cardinality(1, 3)
    assert edge.description == "ownership"
    assert edge.constraints == (Unique(("dst", "src")),)
    assert edge.columns == ("id", "src", "dst", "since")


def test_e06_edge_without_body() -> None:
    edge = compile_schema(A + "edge Likes: A -> A").edge("Likes")
    assert edge.cardinality.is_unbounded
    assert edge.columns == ("id", "src", "dst")


def test_e07_interface_injection() -> None:
    schema = compile_schema(
        "interface Named { name: String @key }\nnode City implements Named { population: U64? }"
    )
    city = schema.node("City")
    assert city.columns == ("id", "name", "population")
    assert city.key == Key(("name",))
    assert city.implements == ("Named",)


def test_e09_comments_and_no_whitespace() -> None:
    schema = compile_schema("/* header */ node A{k:String @key}// tail\nedge L:A->A")
    assert [entity.table_key for entity in schema.types()] == ["edge:L", "node:A"]


def test_e10_range_open_range_and_check() -> None:
    item = compile_schema("""node Item {
  sku: String @key
  qty: I32
  price: F64
  @range(qty, 0..)
  @range(price, -1.5..99.5)
  @check(sku, "^[A-Z]{3}-[0-9]+$")
}""").node("Item")
    assert item.ranges == (Range("price", -1.5, 99.5), Range("qty", 0, None))
    assert item.checks == (Check("sku", "^[A-Z]{3}-[0-9]+$"),)


def test_e11_custom_annotations_are_kept_as_text() -> None:
    node = compile_schema("node A @team(core) { k: String @key note: String @pii @since(3) @ok(true) }").node(
        "A"
    )
    note = node.find_property("note")
    assert note is not None
    assert [(a.name, a.value) for a in node.annotations] == [("team", "core")]
    assert [(a.name, a.value) for a in note.annotations] == [("ok", "true"), ("pii", None), ("since", "3")]


def test_e12_embed_with_model() -> None:
    node = compile_schema(
        'node D { k: String @key body: String emb: Vector(8) @embed("body", model="m1") }'
    ).node("D")
    emb = node.find_property("emb")
    assert emb is not None
    assert emb.embed == Embed("body", "m1")
