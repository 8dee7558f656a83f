"""`@default`: which text a property can hold, what value it is, and where it may not stand."""

from __future__ import annotations

import pytest

from omnigraph_core.schema import Property, SourceError, compile_schema, parse_compiled, pretty_json
from omnigraph_core.schema.arrow import PatternError, require_patterns
from omnigraph_core.schema.defaults import default_of
from omnigraph_core.schema.render import render


def prop(declared: str, name: str = "p") -> Property:
    found = compile_schema(f"node N {{ {declared} }}").node("N").find_property(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ('p: String @default("open")', "open"),
        ("p: String @default(open)", "open"),
        ("p: String @default(5)", "5"),
        ('p: String @default("")', ""),
        ("p: enum(b, a) @default(a)", "a"),
        ("p: Bool @default(true)", True),
        ('p: Bool? @default("false")', False),
        ("p: I32 @default(-1)", -1),
        ("p: I32 @default(- 1)", -1),
        ('p: I32 @default("-5")', -5),
        ("p: I32 @default(2147483647)", 2147483647),
        ("p: U64 @default(18446744073709551615)", 2**64 - 1),
        ("p: F64 @default(2)", 2.0),
        ("p: F64 @default(-1.5)", -1.5),
        ('p: F64 @default("1e-3")', 0.001),
        ("p: F32 @default(0.1)", 0.1),
        ('p: Date @default("2024-02-29")', "2024-02-29"),
        ('p: DateTime @default("2024-02-29T08:00:00Z")', "2024-02-29T08:00:00Z"),
        ("p: I32 @default(9) @range(p, 0..9)", 9),
        ("p: I32", None),
    ],
)
def test_a_default_is_a_value_of_its_property(declared: str, value: object) -> None:
    found = default_of(prop(declared))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("p: I32 @default(3000000000)", "@default on N.p is out of range for I32"),
        ("p: U32 @default(-1)", "@default on N.p is out of range for U32"),
        ("p: I32 @default(1.5)", "@default on N.p expects a whole number"),
        ("p: I32 @default(" + "9" * 5000 + ")", "@default on N.p expects a whole number"),
        ('p: I64 @default("x")', "@default on N.p expects a whole number"),
        ('p: I64 @default("１")', "@default on N.p expects a whole number"),
        ('p: F64 @default("inf")', "@default on N.p expects a number"),
        ("p: F64 @default(" + "9" * 399 + ")", "@default on N.p is not a finite F64 number"),
        ('p: F32 @default("1e39")', "@default on N.p is not a finite F32 number"),
        ("p: Bool @default(1)", "@default on N.p expects true or false"),
        ("p: enum(a, b) @default(c)", "@default on N.p expects one of a, b"),
        ('p: Date @default("2024-02-30")', "@default on N.p expects a day"),
        ("p: Date @default(19000)", "@default on N.p expects a day"),
        ('p: DateTime @default("noon")', "@default on N.p expects a moment"),
        ("p: String? @default(null)", "@default on N.p cannot be null"),
        ("p: [I32] @default(1)", "@default is not supported on list property N.p"),
        ("p: Vector(2) @default(1)", "@default is not supported on vector property N.p"),
        ('p: Blob @default("base64:aGk=")', "@default is not supported on blob property N.p"),
        ("p: I32 @default", "@default on N.p requires a value"),
        ("p: I32 @default(1, x=2)", "@default on property N.p does not accept keyword arguments"),
        ("p: I32 @default(1) @default(1)", "property N.p declares @default multiple times"),
        ("p: I32 @default(12) @range(p, 0..9)", "@default on N.p is outside @range(p, 0..9)"),
        ("p: F64 @default(-0.5) @range(p, 0..)", "@default on N.p is outside @range(p, 0..)"),
        # 0.1 is stored as 0.10000000149.
        ("p: F32 @default(0.1) @range(p, ..0.1)", "@default on N.p is outside @range(p, ..0.1)"),
    ],
)
def test_what_the_property_cannot_hold_is_bad_source_text(declared: str, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        prop(declared)
    assert reason in caught.value.reason


def test_a_default_belongs_to_a_property() -> None:
    for text in ("node N @default(1) {}", "node N {} edge E: N -> N @default(1)"):
        with pytest.raises(SourceError, match="@default is only supported on properties"):
            compile_schema(text)


def test_nodes_have_the_default_of_their_interface_unless_they_declare_the_property() -> None:
    schema = compile_schema(
        "interface I { p: I32 @default(3) } node A implements I {} node B implements I { p: I32 }"
    )
    defaults = [default_of(each) for node in schema.nodes for each in node.properties]
    assert defaults == [3, None]


def test_a_range_on_the_node_binds_the_default_of_the_interface() -> None:
    with pytest.raises(SourceError) as caught:
        compile_schema("interface I { p: I32 @default(3) }\nnode A implements I { @range(p, 4..) }")
    assert (caught.value.line, caught.value.column) == (2, 19)


def test_rendered_and_stored_forms_give_the_default_back() -> None:
    schema = compile_schema(
        'node N { a: I32 @default(-3) b: String @default("a \\"b\\"") c: Bool @default(true) '
        'd: Date @default("2024-01-02") e: F64? @default(1.50) f: F64 @default("1e3") }'
    )
    text = render(schema)
    assert "a: I32 @default(-3)" in text
    assert 'f: F64 @default("1e3")' in text
    assert compile_schema(text) == schema == parse_compiled(pretty_json(schema))


def test_a_text_that_was_metadata_before_defaults_fills_nothing() -> None:
    stored = pretty_json(compile_schema("node N { p: I32 @default(3) }")).replace('"3"', '"three"')
    (found,) = parse_compiled(stored).node("N").properties
    assert default_of(found) is None


def test_negative_numbers_are_values_of_any_annotation() -> None:
    assert prop("p: I32 @since(-2)").annotations[0].value == "-2"
    with pytest.raises(SourceError, match="expected a number, found 'x'"):
        prop("p: I32 @since(-x)")


def test_patterns_are_tried_before_a_schema_is_accepted() -> None:
    good = 'node N { a: String? b: String @default("ok") @check(a, "^x") @check(b, "^o") }'
    require_patterns(compile_schema(good))
    with pytest.raises(PatternError, match=r"Invalid regular expression: missing \)") as caught:
        require_patterns(compile_schema('node N { a: String? @check(a, "(") }'))
    assert caught.value.details()["violations"] == [
        {"type": "node:N", "property": "a", "message": caught.value.reason}
    ]
    with pytest.raises(PatternError, match="@default does not match"):
        require_patterns(compile_schema(good.replace("^o", "^O")))


def test_one_interface_may_say_what_all_of_them_rename() -> None:
    text = "interface A {{ p: I32{} }} interface B {{ p: I32{} }} node N implements A, B {{}}"
    for hints in (("", ' @rename_from("q")'), (' @rename_from("q")', ""), (' @rename_from("q")',) * 2):
        (found,) = compile_schema(text.format(*hints)).node("N").properties
        assert found.renamed_from == "q"
    with pytest.raises(SourceError, match="incompatible property semantics"):
        compile_schema(text.format(' @rename_from("q")', ' @rename_from("r")'))
