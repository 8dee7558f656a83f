"""Records for tests of the readers: schemas and JSON lines, right, odd and wrong."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

from hypothesis import strategies as st

from omnigraph_core.schema import EdgeType, EntityType, PropertyType, Scalar, Schema, compile_schema

SCALARS = ["String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime", "enum(a, b)"]
TYPES = [*SCALARS, *(f"[{name}]" for name in SCALARS if "enum" not in name), "Vector(2)", "Blob"]
KEYABLE = SCALARS
NAMES = ["a", "b", "type", "data", "from", "edge", "long_name", "_x"]
DEFAULTS = {
    "String": '"dflt"',
    "Bool": "true",
    "I32": "-7",
    "I64": "7",
    "U32": "7",
    "U64": "18446744073709551615",
    "F32": "0.1",
    "F64": "-0.5",
    "Date": '"2024-01-31"',
    "DateTime": '"2024-01-31T08:00:00Z"',
    "enum(a, b)": "b",
}

_NUMBER_TEXTS = """
0 -0 -0.0 0.0 1 -1 30.0 1e2 1E2 1e-2 1e400 -1e400 1e-400 0e400 NaN Infinity -Infinity Inf
2147483647 2147483648 -2147483648 -2147483649 4294967295 4294967296 9223372036854775807
9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615
18446744073709551616 0.1 3.4028235e38 3.4028235677973366e38 3.4028236e38 1e39 5e-324 2e-324 1e-46
1.00000017881393432617187499 1.000000178813934326171875001 9007199254740993 16777217
-719162 -719163 2932896 2932897 -62135596800000 -62135596800001 253402300799999 253402300800000
01 .5 +1 1. - 0x1 1_0
"""
NUMBERS = [*_NUMBER_TEXTS.split(), "1" * 400, "-" + "1" * 5000, "1" * 5000 + ".5", "0." + "1" * 400]

STRINGS = [
    r'""', r'"x"', r'"\u0000"', r'"\ud800"', r'"\udc00"', r'"\udc00\ud800"', r'"\ud83d\ude00"',
    r'"\ud800\u0041"', r'"\u0061"', r'"\n\t\\\"\/"', '"a\tb"', '"a\x01b"', '"\x7f"', '"é"', '"😀"',
    r'"\x"', r'"\u12"', '"open', '"null"', '"} null {"', r'"[\"a\",\"b\"]"', "'x'",
    '"a"', '"long_name"', r'"\"a\": null"', r'"\"b"', r'"\\"', '"a:"', r'"\u0022a\u0022:"',
]  # fmt: skip

_TIME_TEXTS = """
2024-02-29 2024-02-30 2023-02-29 0000-01-01 0001-01-01 9999-12-31 10000-01-01 2024-1-1 20240101
2024-01-01T10 2024-01-01T10:00 2024-01-01T10:00:00 2024-01-01T10:00:00Z 2024-01-01t10:00:00z
2024-01-01T10:00:00.1 2024-01-01T10:00:00.123456Z 2024-01-01T10:00:00.1234567 2024-01-01T10:00:00.
2024-12-31T23:59:60Z 2024-12-31T23:59:59.9999Z 2024-01-01T24:00:00 2024-01-01T10:60:00
2024-01-01T10:00:00+05:30 2024-01-01T10:00:00-0530 2024-01-01T10+05 2024-01-01T10:00:00+24:00
2024-01-01T10:00:00+05:60 2024-01-01Z 2024-01-01+01:00 0001-01-01T00:00:00+00:01 9999-12-31T23:59:59-00:01
1969-12-31T23:59:59.9999 1969-12-31T23:59:59.9991Z 2024-01-01T10:00:00,5 2024-W01-1 2024-001 -2024-01-01
"""
_SPACED_TIMES = ["2024-01-01 10:00:00", " 2024-01-01", "2024-01-01 ", "2024-01-01T", "２０２４-01-01"]
TIMES = [f'"{text}"' for text in _TIME_TEXTS.split() + _SPACED_TIMES]

OTHERS = [
    "null", "true", "false", "[]", "[1]", "[1, 2]", "[1,2,3]", "[1,null]", "[null]", "[0.5,1e39]", '["a"]',
    '["2024-01-01"]', '["2024-01-01", 5]', "[5, 19000]", "[[1]]", "[true]", "[NaN, 1]", "{}", '{"a":1}',
    '"base64:QQ=="', '"base64:"', '"base64:Q"', '"base64:QQ"', '"base64:Q Q=="', '"base64:Q=Q="',
    '"http://x/y"', "tru", "", "[", "[1,]", "[" * 50 + "]" * 50, "[" * 3000 + "]" * 3000,
]  # fmt: skip

ANY_VALUE = st.sampled_from(NUMBERS + STRINGS + TIMES + OTHERS)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """One to three node types, keyed or not, and up to two edge types."""
    nodes = draw(st.lists(st.sampled_from(["T", "U", "Tt"]), min_size=1, max_size=3, unique=True))
    parts = []
    for name in nodes:
        body = draw(_properties())
        keyable = [prop for prop, type_ in body if type_ in KEYABLE]
        key = draw(st.lists(st.sampled_from(keyable), max_size=3, unique=True)) if keyable else []
        lines = [
            f"  {prop}: {type_}{'' if prop in key else _mark(draw)}{_default(draw, type_)}"
            for prop, type_ in body
        ]
        lines += [f"  @key({', '.join(key)})"] if key else []
        parts.append("node " + name + " {\n" + "\n".join(lines) + "\n}")
    for name in draw(st.lists(st.sampled_from(["E", "Knows"]), max_size=2, unique=True)):
        lines = [
            f"  {prop}: {type_}{_mark(draw)}{_default(draw, type_)}" for prop, type_ in draw(_properties())
        ]
        parts.append(f"edge {name}: {nodes[0]} -> {nodes[-1]} {{\n" + "\n".join(lines) + "\n}")
    return compile_schema("\n".join(parts) + "\n")


def _mark(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(["?", ""]))


def _default(draw: st.DrawFn, type_: str) -> str:
    return f" @default({DEFAULTS[type_]})" if type_ in DEFAULTS and draw(st.booleans()) else ""


def _properties() -> st.SearchStrategy[list[tuple[str, str]]]:
    return st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(TYPES)), max_size=4, unique_by=lambda pair: pair[0]
    )


def _scalar_text(scalar: Scalar) -> st.SearchStrategy[str]:
    """A JSON text that a column of this type takes."""
    bounds = {
        Scalar.I32: (-(2**31), 2**31 - 1),
        Scalar.I64: (-(2**63), 2**63 - 1),
        Scalar.U32: (0, 2**32 - 1),
        Scalar.U64: (0, 2**64 - 1),
    }
    if scalar in bounds:
        return st.integers(*bounds[scalar]).map(str)
    if scalar is Scalar.BOOL:
        return st.sampled_from(["true", "false"])
    if scalar is Scalar.F32:
        return st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
    if scalar is Scalar.F64:
        return st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers().map(str)
    if scalar is Scalar.DATE:
        return st.dates().map(lambda day: f'"{day.isoformat()}"') | st.integers(-719162, 2932896).map(str)
    if scalar is Scalar.DATE_TIME:
        zones = st.sampled_from([None, timezone.utc, timezone(timedelta(hours=5, minutes=30))])
        moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones)
        return moments.map(lambda moment: f'"{moment.isoformat()}"') | st.integers(-(10**12), 10**13).map(str)
    if scalar is Scalar.BLOB:
        return st.sampled_from(['"base64:QQ=="', '"base64:"', '"base64:AAEC"'])
    text = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
    return st.tuples(text, st.booleans()).map(lambda pair: json.dumps(pair[0], ensure_ascii=pair[1]))


def good_value(type_: PropertyType) -> st.SearchStrategy[str]:
    if type_.scalar is Scalar.VECTOR:
        dimension = type_.dimension or 0
        number = st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
        return st.lists(number, min_size=dimension, max_size=dimension).map(_array)
    if type_.is_list:
        return st.lists(_scalar_text(type_.scalar), max_size=3).map(_array)
    return _scalar_text(type_.scalar)


def _array(items: list[str]) -> str:
    return "[" + ", ".join(items) + "]"


@st.composite
def lines(draw: st.DrawFn, schema: Schema) -> bytes:
    """One line: mostly a record that is right or nearly so."""
    if draw(st.integers(0, 30)) == 0:
        odd = ["", "  ", "null", "[]", "{}", "1", '"x"', "\x00", "}{", "{" * 3, "\ufeff{}", '{"type":1}']
        return draw(st.sampled_from(odd)).encode()
    entity = draw(st.sampled_from(list(schema.types())))
    text = _spell(draw, _envelope(draw, entity))
    damage = draw(st.integers(0, 40))
    if damage == 0:
        text = text[: draw(st.integers(0, len(text)))]
    elif damage == 1:
        text += draw(st.sampled_from([" ", "\r", "x", " null", text, " " + text, ",", "\t", "\x00", "}"]))
    elif damage == 2:
        text = draw(st.sampled_from([" ", "\t", "\x0b", "[", "\ufeff", "null "])) + text
    data = text.encode("utf-8", "surrogatepass").replace(b"\n", b" ")
    if damage == 3:
        position = draw(st.integers(0, len(data)))
        bad = draw(st.sampled_from([b"\xff", b"\xc3", b"\x00", b"\xed\xa0\x80"]))
        data = data[:position] + bad + data[position:]
    return data


def _envelope(draw: st.DrawFn, entity: EntityType) -> list[tuple[str, str]]:
    names = [entity.name, entity.name.lower(), "Missing", "", entity.name.replace("T", "\\u0054")]
    name = entity.name if draw(st.integers(0, 12)) else draw(st.sampled_from(names))
    pairs = [("edge" if isinstance(entity, EdgeType) else "type", f'"{name}"')]
    if isinstance(entity, EdgeType):
        for end in ("from", "to"):
            pairs.append((end, '"n1"' if draw(st.integers(0, 15)) else draw(ANY_VALUE)))
    if draw(st.integers(0, 8)):
        data = _spell(draw, _data(draw, entity)) if draw(st.integers(0, 25)) else draw(ANY_VALUE)
        pairs.append(("data", data))
    extra = draw(st.integers(0, 60))
    if extra == 0:
        pairs.append((draw(st.sampled_from(["x", "from", "type", "edge", "_rowid"])), draw(ANY_VALUE)))
    elif extra == 1:
        pairs.pop(draw(st.integers(0, len(pairs) - 1)))
    return pairs


def _data(draw: st.DrawFn, entity: EntityType) -> list[tuple[str, str]]:
    pairs = []
    if draw(st.integers(0, 4)) == 0:
        ids = ['"i1"', '"x"', '"7"', '""', "null", "5", r'"\ud800"']
        ids += [r'"[\"x\",\"7\"]"', r'"[\"7\",\"x\"]"', r'"[ \"7\", \"\u0078\"]"']
        pairs.append(("id", draw(st.sampled_from(ids))))
    for prop in entity.properties:
        choice = draw(st.integers(0, 12))
        if choice in (0, 3):
            continue
        value = {1: ANY_VALUE, 2: st.just("null")}.get(choice, good_value(prop.type))
        pairs.append((prop.name, draw(value)))
    if draw(st.integers(0, 40)) == 0:
        name = draw(st.sampled_from(["zz", "src", "dst", "_rowid", "_tombstone", "A", *NAMES]))
        pairs.append((name, draw(ANY_VALUE)))
    return pairs


def _spell(draw: st.DrawFn, pairs: list[tuple[str, str]]) -> str:
    """The members as one JSON object, in any order, with or without spaces."""
    if draw(st.integers(0, 6)) == 0:
        pairs = draw(st.permutations(pairs))
    space = draw(st.sampled_from(["", "", " "]))
    escape = draw(st.integers(0, 25)) == 0
    members = [f'"{_escaped(name) if escape else name}"{space}:{space}{value}' for name, value in pairs]
    return "{" + space + f",{space}".join(members) + space + "}"


def _escaped(name: str) -> str:
    return f"\\u{ord(name[0]):04x}{name[1:]}"
