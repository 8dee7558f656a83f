"""The checked model: lookups, canonical order, interfaces, and the decisions on open points."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph_core.schema import (
    Annotation,
    Check,
    Index,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
    UnknownTypeError,
    compile_schema,
)


def node(text: str, name: str = "N") -> NodeType:
    return compile_schema(text).node(name)


def prop(text: str, name: str) -> Property:
    found = node(text).find_property(name)
    assert found is not None
    return found


def test_edges_are_found_exactly_first_then_ignoring_case() -> None:
    schema = compile_schema("node A {} edge WorksAt: A -> A edge Knows: A -> A")
    assert schema.edge("WorksAt").name == "WorksAt"
    assert schema.edge("worksAt").name == "WorksAt"
    assert schema.edge("worksat").name == "WorksAt"
    assert schema.find_edge("works") is None
    with pytest.raises(UnknownTypeError, match="unknown edge type 'works'") as caught:
        schema.edge("works")
    assert caught.value.hint == "edge types are: Knows, WorksAt"
    assert caught.value.details() == {"type_kind": "edge", "name": "works", "known": ["Knows", "WorksAt"]}


def test_nodes_are_found_by_exact_name_only() -> None:
    schema = compile_schema("node Person {}")
    assert schema.node("Person").table_key == "node:Person"
    with pytest.raises(UnknownTypeError, match="unknown node type 'person'"):
        schema.node("person")


def test_types_come_in_table_key_order() -> None:
    schema = compile_schema("node B {} node A {} edge Z: A -> B edge C: B -> A")
    keys = [entity.table_key for entity in schema.types()]
    assert keys == sorted(keys) == ["edge:C", "edge:Z", "node:A", "node:B"]
    assert [entity.kind for entity in schema.types()] == ["edge", "edge", "node", "node"]


def test_edges_at_a_node_are_those_of_either_end() -> None:
    schema = compile_schema("node A {} node B {} node C {} edge Ab: A -> B edge Bb: B -> B edge Ca: C -> A")
    assert [edge.name for edge in schema.edges_at("A")] == ["Ab", "Ca"]
    assert [edge.name for edge in schema.edges_at("B")] == ["Ab", "Bb"]


def test_an_upper_bound_alone_is_a_maximum() -> None:
    assert node("node N { n: I32 @range(n, ..5) }").ranges == (Range("n", None, 5),)
    assert node("node N { n: I32 @range(n, -5..) }").ranges == (Range("n", -5, None),)


def test_a_whole_bound_is_an_integer_however_it_is_written() -> None:
    assert node("node N { n: F64 @range(n, 0.0..2.50) }").ranges == (Range("n", 0, 2.5),)
    (bounds,) = node("node N { n: U64 @range(n, 1.0..18446744073709551615) }").ranges
    assert repr(bounds.minimum) == "1"
    assert bounds.maximum == 2**64 - 1


def test_key_members_keep_their_order_and_other_columns_are_sorted() -> None:
    found = node("node N { a: I32 b: I32 c: I32 @key(c, a) @unique(c, b) @index(b, a) }")
    assert found.constraints == (Key(("c", "a")), Unique(("b", "c")), Index(("a", "b")))


def test_both_spellings_of_a_constraint_are_one() -> None:
    short = node("node N { a: I32 @unique @index }")
    long = node("node N { a: I32 @index(a) @unique(a) @unique(a) }")
    assert short == long
    assert short.constraints == (Unique(("a",)), Index(("a",)))
    assert short.properties[0].annotations == ()


def test_string_escapes() -> None:
    text = r'node N @description("q\" b\\ n\n r\r t\t") { s: String @check(s, "^\\d+$") }'
    assert node(text).description == 'q" b\\ n\n r\r t\t'
    assert node(text).checks == (Check("s", r"^\d+$"),)


def test_annotations_keep_their_keyword_arguments() -> None:
    found = prop('node N { p: String @x("v", b=1.50, a=true, c="w") }', "p").annotations
    assert found == (Annotation("x", "v", (("a", "true"), ("b", "1.50"), ("c", "w"))),)


def test_rename_hints_are_kept_aside_and_are_no_part_of_equality() -> None:
    text = 'node N @rename_from("Old") { p: String @rename_from(was) } edge E: N -> N @rename_from("F")'
    schema = compile_schema(text)
    assert schema.node("N").renamed_from == "Old"
    assert schema.node("N").properties[0].renamed_from == "was"
    assert schema.edge("E").renamed_from == "F"
    assert schema == compile_schema("node N { p: String } edge E: N -> N")


def test_injected_properties_bring_their_constraints_and_own_ones_do_not() -> None:
    interface = 'interface I { k: String @key t: String @index @description("d") u: I32 @unique }\n'
    injected = node(interface + "node N implements I {}")
    assert injected.constraints == (Key(("k",)), Unique(("u",)), Index(("t",)))
    assert injected.find_property("t") == Property(
        "t", injected.properties[1].type, (Annotation("description", "d"),)
    )
    declared = node(interface + "node N implements I { k: String t: String u: I32 }")
    assert declared.constraints == ()
    assert declared.properties[1].description is None


def test_interfaces_that_agree_contribute_one_property() -> None:
    found = node(
        "interface I { p: I32 @index a: I32 } interface J { p: I32 @index b: I32 }"
        "node N implements J, I, J {}"
    )
    assert found.columns == ("id", "a", "b", "p")
    assert found.constraints == (Index(("p",)),)
    assert found.implements == ("I", "J")


def test_an_injected_embed_may_find_its_source_on_the_node() -> None:
    text = "interface I { v: Vector(2) @embed(body) } node N implements I { body: String? }"
    embed = prop(text, "v").embed
    assert embed is not None
    assert embed.source == "body"


def test_a_node_may_narrow_nothing_but_list_enum_values_in_any_order() -> None:
    text = "interface I { e: enum(a, b)? } node N implements I { e: enum(b, a)? }"
    assert str(prop(text, "e").type) == "enum(a, b)?"


@pytest.mark.parametrize(
    "spelling",
    ["String", "Blob?", "[DateTime]", "[Bool]?", "enum(a, b-2)", "enum(3c)?", "Vector(12)", "Vector(1)?"],
)
def test_display_names_read_back_as_the_same_type(spelling: str) -> None:
    shown = prop(f"node N {{ p: {spelling} }}", "p")
    assert str(shown.type) == spelling
    assert prop(f"node N {{ p: {shown.type} }}", "p") == shown


def test_constraints_read_back_from_their_display() -> None:
    properties = "s: String n: F64 m: F64"
    stated = r'@key(s) @unique(n, s) @index(n) @range(n, -1.5..2) @check(s, "a\"\\d\n\t")'
    small_and_large = f"@range(m, 0.{'0' * 9}1..1{'0' * 30}.0)"
    found = node(f"node N {{ {properties} {stated} {small_and_large} }}")
    body = " ".join(str(constraint) for constraint in found.constraints)
    assert node(f"node N {{ {properties} {body} }}") == found


def test_a_schema_can_be_sent_to_another_process() -> None:
    schema = compile_schema("interface I { a: I32 } node N implements I { k: String @key } edge E: N -> N")
    sent = pickle.loads(pickle.dumps(schema))
    assert sent == schema
    assert sent.edge("e").name == "E"
    assert sent.node("N").find_property("a") == schema.node("N").find_property("a")


def test_reading_a_schema_starts_no_heavy_library() -> None:
    script = (
        "import sys, omnigraph_core.schema as s\n"
        "s.schema_hash(s.compile_schema('node A { k: String @key }'))\n"
        "print(sorted({'pyarrow', 'lance', 'numpy', 'pandas', 'pyspark'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stdout.strip() == "[]"
