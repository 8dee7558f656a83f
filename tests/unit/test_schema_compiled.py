"""The compiled form: ids, round trips, and what does and does not change a schema's hash."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph_core.ids import fnv1a32, fnv1a64_hex
from omnigraph_core.schema import (
    CompiledSchemaError,
    IdCollisionError,
    compact_json,
    compile_schema,
    from_compiled,
    parse_compiled,
    pretty_json,
    schema_hash,
    to_compiled,
)

SMALL = """
interface Named { name: String @key }
node City @team(core) implements Named { size: enum(small, large)? pos: Vector(2) n: I32 @range(n, 0..) }
edge Near: City -> City @card(0..3) { w: F64 @unique(src, dst) }
"""


def test_ids_of_names() -> None:
    assert fnv1a32("node:Person") == 3227219152
    assert fnv1a32("edge:Knows") == 2041814322
    assert {name: fnv1a64_hex(name) for name in ("", "a", "Person", "Knows", "Company", "WorksAt")} == {
        "": "cbf29ce484222325",
        "a": "af63dc4c8601ec8c",
        "Person": "40d76f1f51639ec0",
        "Knows": "602a25a3bd0b455b",
        "Company": "7cb4e55c59663b1c",
        "WorksAt": "844eefbe5068b644",
    }
    compiled: Any = to_compiled(compile_schema("node Person { name: String } edge Knows: Person -> Person"))
    assert compiled["nodes"][0]["type_id"] == 3227219152
    assert compiled["nodes"][0]["properties"][0]["prop_id"] == fnv1a32("node:Person:name")
    assert compiled["edges"][0]["type_id"] == 2041814322


def test_the_form_is_exactly_this() -> None:
    name_type = {"scalar": "String", "nullable": False, "list": False, "enum_values": None}

    def prop(owner: str, name: str, type_: object, annotations: object = ()) -> dict[str, object]:
        return {
            "name": name,
            "prop_id": fnv1a32(f"{owner}:{name}"),
            "prop_type": type_,
            "annotations": list(annotations),  # type: ignore[call-overload]
        }

    assert to_compiled(compile_schema(SMALL)) == {
        "ir_version": 1,
        "interfaces": [
            {
                "name": "Named",
                "type_id": fnv1a32("interface:Named"),
                "properties": [
                    prop(
                        "interface:Named",
                        "name",
                        name_type,
                        [{"name": "key", "value": None, "arguments": {}}],
                    )
                ],
            }
        ],
        "nodes": [
            {
                "name": "City",
                "type_id": fnv1a32("node:City"),
                "properties": [
                    prop("node:City", "n", name_type | {"scalar": "I32"}),
                    prop("node:City", "name", name_type),
                    prop("node:City", "pos", name_type | {"scalar": {"Vector": 2}}),
                    prop(
                        "node:City",
                        "size",
                        name_type | {"nullable": True, "enum_values": ["large", "small"]},
                    ),
                ],
                "annotations": [{"name": "team", "value": "core", "arguments": {}}],
                "implements": ["Named"],
                "constraints": [
                    {"Key": ["name"]},
                    {"Range": {"property": "n", "min": {"Integer": 0}, "max": None}},
                ],
            }
        ],
        "edges": [
            {
                "name": "Near",
                "type_id": fnv1a32("edge:Near"),
                "properties": [prop("edge:Near", "w", name_type | {"scalar": "F64"})],
                "from_type": "City",
                "to_type": "City",
                "cardinality": {"min": 0, "max": 3},
                "annotations": [],
                "constraints": [{"Unique": ["dst", "src"]}],
            }
        ],
    }


def test_both_texts_read_back() -> None:
    schema = compile_schema(SMALL)
    assert parse_compiled(pretty_json(schema)) == schema
    assert parse_compiled(compact_json(schema)) == schema
    assert "\n" not in compact_json(schema)
    assert pretty_json(schema).endswith("}\n")


def test_the_hash_is_pinned() -> None:
    """A change here makes every existing graph refuse to open; it needs a migration."""
    pinned = "sha256:dd1a4edd41e319a09ce632d2ab0cc40ffff5c78827610cf1c8177913ffeca3b4"
    assert schema_hash(compile_schema(SMALL)) == pinned


SAME = {
    "comments and blank lines": SMALL.replace("\n", " // note\n\n"),
    "order of declarations": "\n".join(reversed(SMALL.strip().split("\n"))),
    "order of properties": SMALL.replace(
        "size: enum(small, large)? pos: Vector(2)", "pos: Vector(2) size: enum(small, large)?"
    ),
    "order of enum values": SMALL.replace("small, large", "large, small"),
    "order of unique columns": SMALL.replace("src, dst", "dst, src"),
    "rename hint on a type": SMALL.replace("@team", '@rename_from("Town") @team'),
    "rename hint on a property": SMALL.replace("n: I32", "n: I32 @rename_from(m)"),
    "whole bound as a float": SMALL.replace("0..)", "0.0..)"),
    "spelling of a custom value": SMALL.replace("@team(core)", '@team("core")'),
}
DIFFERENT = {
    "type name": SMALL.replace("City", "Town"),
    "property name": SMALL.replace("pos:", "position:"),
    "nullability": SMALL.replace("w: F64", "w: F64?"),
    "dimension": SMALL.replace("Vector(2)", "Vector(3)"),
    "enum values": SMALL.replace("large", "huge"),
    "cardinality": SMALL.replace("0..3", "0..4"),
    "range": SMALL.replace("n, 0..", "n, ..0"),
    "description": SMALL.replace("@team(core)", '@team(core) @description("d")'),
    "custom annotation": SMALL.replace("core", "edge"),
    "uniqueness": SMALL.replace("@unique(src, dst)", "@unique(src)"),
    "interface": SMALL.replace("implements Named", ""),
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME.keys())
def test_what_does_not_change_the_hash(text: str) -> None:
    assert text != SMALL
    assert compact_json(compile_schema(text)) == compact_json(compile_schema(SMALL))
    assert schema_hash(compile_schema(text)) == schema_hash(compile_schema(SMALL))


@pytest.mark.parametrize("text", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_changes_the_hash(text: str) -> None:
    assert schema_hash(compile_schema(text)) != schema_hash(compile_schema(SMALL))


def test_the_order_of_key_members_is_part_of_the_schema() -> None:
    one = compile_schema("node A { a: I32 b: I32 @key(a, b) }")
    other = compile_schema("node A { a: I32 b: I32 @key(b, a) }")
    assert one != other
    assert schema_hash(one) != schema_hash(other)
    assert from_compiled(to_compiled(other)) == other


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("node T74119 {} node T530824 {}", "node:T530824", "node:T74119"),
        ("node A { p139599: I32 p322382: I32 }", "node:A:p139599", "node:A:p322382"),
    ],
)
def test_colliding_ids_are_refused(text: str, first: str, second: str) -> None:
    assert fnv1a32(first) == fnv1a32(second)
    with pytest.raises(IdCollisionError) as caught:
        schema_hash(compile_schema(text))
    assert caught.value.details() == {"first": first, "second": second}


Break = Callable[[Any], object]

BROKEN: dict[str, tuple[Break, str]] = {
    "newer version": (lambda c: c.update(ir_version=2), "$.ir_version"),
    "no version": (lambda c: c.pop("ir_version"), "$.ir_version"),
    "nodes missing": (lambda c: c.pop("nodes"), "$.nodes"),
    "nodes no list": (lambda c: c.update(nodes={}), "$.nodes"),
    "node no object": (lambda c: c["nodes"].append(None), "$.nodes[1]"),
    "stale type id": (lambda c: c["nodes"][0].update(type_id=1), "$.nodes[0].type_id"),
    "stale property id": (
        lambda c: c["nodes"][0]["properties"][1].update(prop_id=0),
        "$.nodes[0].properties[1].prop_id",
    ),
    "name no text": (lambda c: c["edges"][0].update(name=7), "$.edges[0].name"),
    "unstorable text": (
        lambda c: c["nodes"][0]["annotations"][0].update(value="\udc80"),
        "$.nodes[0].annotations[0].value",
    ),
    "unknown field": (lambda c: c["edges"][0].update(weight=1), "$.edges[0].weight"),
    "unknown scalar": (
        lambda c: c["nodes"][0]["properties"][0]["prop_type"].update(scalar="I128"),
        "$.nodes[0].properties[0].prop_type.scalar",
    ),
    "vector without dimension": (
        lambda c: c["nodes"][0]["properties"][2]["prop_type"].update(scalar={"Vector": None}),
        "$.nodes[0].properties[2].prop_type.scalar.Vector",
    ),
    "nullable no boolean": (
        lambda c: c["nodes"][0]["properties"][0]["prop_type"].update(nullable=0),
        "$.nodes[0].properties[0].prop_type.nullable",
    ),
    "enum values unsorted": (
        lambda c: c["nodes"][0]["properties"][3]["prop_type"]["enum_values"].reverse(),
        "City.size.enum_values",
    ),
    "properties unsorted": (lambda c: c["nodes"][0]["properties"].reverse(), "City.properties"),
    "node twice": (lambda c: c["nodes"].append(copy.deepcopy(c["nodes"][0])), "$.nodes"),
    "constraints unsorted": (lambda c: c["nodes"][0]["constraints"].reverse(), "node:City.constraints"),
    "unknown constraint": (
        lambda c: c["nodes"][0]["constraints"].append({"Default": ["n"]}),
        "$.nodes[0].constraints[2]",
    ),
    "constraint on no property": (
        lambda c: c["nodes"][0]["constraints"][0].update(Key=["gone"]),
        "node:City",
    ),
    "bound not finite": (
        lambda c: c["nodes"][0]["constraints"][1]["Range"].update(max={"Float": float("nan")}),
        "$.nodes[0].constraints[1].Range.max.Float",
    ),
    "endpoint missing": (lambda c: c["edges"][0].update(to_type="Gone"), "edge:Near"),
    "cardinality no number": (
        lambda c: c["edges"][0]["cardinality"].update(min="0"),
        "$.edges[0].cardinality.min",
    ),
}


@pytest.mark.parametrize(("damage", "path"), BROKEN.values(), ids=BROKEN.keys())
def test_a_damaged_form_is_refused_by_name(damage: Break, path: str) -> None:
    compiled = to_compiled(compile_schema(SMALL))
    damage(compiled)
    with pytest.raises(CompiledSchemaError) as caught:
        from_compiled(compiled)
    assert caught.value.path == path
    assert caught.value.kind == "storage"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '"x"', "[" * 100_000, '{"ir_version": ' + "9" * 5000 + "}"]
)
def test_a_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(CompiledSchemaError):
        parse_compiled(text)


def test_no_single_damage_is_read_as_something_else() -> None:
    """Every value of the form, replaced by every other kind of value, is refused."""
    schema = compile_schema(SMALL)
    text = compact_json(schema)
    replacements: list[Any] = [None, True, 0, -1, 1.5, "x", [], {}, ["x"], {"x": 1}]
    places = _places(json.loads(text))
    assert len(places) > 100
    for place in places:
        for replacement in replacements:
            damaged = json.loads(text)
            target = damaged
            for step in place[:-1]:
                target = target[step]
            if target[place[-1]] == replacement:
                continue
            target[place[-1]] = replacement
            try:
                read = from_compiled(damaged)
            except CompiledSchemaError:
                continue
            assert to_compiled(read) == damaged
            assert read != schema


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    found = [path] if path else []
    for step, inner in steps:
        found += _places(inner, (*path, step))
    return found


# Random schemas, as text. Declarations and properties are shuffled again by the test.

Pieces = list[tuple[str, list[str]]]  # headers with their body lines

idents = st.from_regex(r"[a-z_][a-zA-Z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: name not in ("id", "src", "dst", "true", "false") and not name.startswith("_row")
)
type_names = st.from_regex(r"[A-Z][a-z0-9_]{0,6}", fullmatch=True)
plain_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
base_types = st.sampled_from(["String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "DateTime", "Date"])
property_types = st.one_of(
    base_types,
    base_types.map("[{}]".format),
    st.integers(1, 2**31 - 1).map("Vector({})".format),
    st.just("Blob"),
    st.lists(st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True), min_size=1, max_size=4, unique=True).map(
        lambda values: f"enum({', '.join(values)})"
    ),
)
bounds = st.one_of(
    st.integers(-(2**63), 2**63),
    st.floats(-1e20, 1e20).map(lambda value: f"{value:f}"),
)


def quoted(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(c, c) for c in text) + '"'


@st.composite
def property_texts(draw: st.DrawFn, name: str) -> tuple[str, str]:
    """A property declaration and its type."""
    type_ = draw(property_types)
    notes = draw(
        st.lists(st.sampled_from(["@pii", "@since(3)", "@x(a, b=1, a=true)", "@tag(a)"]), max_size=2)
    )
    if draw(st.booleans()):
        value = draw(plain_text.filter(str.strip))
        notes.append(f"@description({quoted(value)})")
    nullable = draw(st.sampled_from(["", "?"]))
    return f"{name}: {type_}{nullable} {' '.join(notes)}", type_ + nullable


@st.composite
def bodies(draw: st.DrawFn, *, edge: bool) -> list[str]:
    names = draw(st.lists(idents, max_size=5, unique=True))
    lines: list[str] = []
    columns = ["src", "dst"] if edge else []
    keyable: list[str] = []
    for name in names:
        text, type_ = draw(property_texts(name))
        lines.append(text)
        if type_[0] != "[" and not type_.startswith(("Blob", "Vector")):
            columns.append(name)
            if not type_.endswith("?"):
                keyable.append(name)
        if not edge and type_.rstrip("?") in ("I32", "U64", "F64") and draw(st.booleans()):
            low = draw(bounds)
            lines.append(draw(st.sampled_from([f"@range({name}, {low}..)", f"@range({name}, ..{low})"])))
        if not edge and type_ == "String" and draw(st.booleans()):
            lines.append(f"@check({name}, {quoted(draw(plain_text))})")
    if columns and draw(st.booleans()):
        word = draw(st.sampled_from(["unique", "index"]))
        chosen = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3, unique=True))
        lines.append(f"@{word}({', '.join(chosen)})")
    if keyable and not edge and draw(st.booleans()):
        chosen = draw(st.lists(st.sampled_from(keyable), min_size=1, max_size=3, unique=True))
        lines.append(f"@key({', '.join(chosen)})")
    return lines


@st.composite
def schema_pieces(draw: st.DrawFn) -> Pieces:
    nodes = draw(st.lists(type_names, min_size=1, max_size=4, unique=True))
    pieces = [(f"node {name}", draw(bodies(edge=False))) for name in nodes]
    shared = draw(st.booleans())
    if shared:
        pieces.append(("interface Shared", ["zz_shared: String? @index"]))
        header, body = pieces[0]
        pieces[0] = (f"{header} implements Shared", body)
    for name in draw(st.lists(type_names, max_size=3, unique_by=str.lower)):
        ends = f"{draw(st.sampled_from(nodes))} -> {draw(st.sampled_from(nodes))}"
        card = draw(st.sampled_from(["", "@card(0..)", "@card(1..7)", "@card(0..1) @note(x)"]))
        pieces.append((f"edge {name}: {ends} {card}", draw(bodies(edge=True))))
    return pieces


def written(pieces: Pieces, separator: str) -> str:
    return "\n".join(f"{header} {{{separator}{separator.join(body)}{separator}}}" for header, body in pieces)


@pytest.mark.slow
@settings(max_examples=120)
@given(schema_pieces(), st.randoms(use_true_random=False))
def test_random_schemas_survive_the_round_trip(pieces: Pieces, order: random.Random) -> None:
    schema = compile_schema(written(pieces, "\n  "))
    assert from_compiled(to_compiled(schema)) == schema
    assert parse_compiled(pretty_json(schema)) == schema

    shuffled = []
    for header, body in pieces:
        lines = [line for line in body if not line.startswith("@")]
        constraints = [line for line in body if line.startswith("@")]
        order.shuffle(lines)
        order.shuffle(constraints)
        shuffled.append((header, lines + constraints))
    order.shuffle(shuffled)
    again = compile_schema(written(shuffled, " /* x */ \r\n\t"))
    assert again == schema
    assert schema_hash(again) == schema_hash(schema)
