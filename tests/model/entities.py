"""Random schemas, values and records; and a graph's content in the words of the oracle."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.model.oracle import (
    Fresh,
    Oracle,
    Prop,
    Record,
    Row,
    Rows,
    Type,
    key_of,
    single,
)

Draw = Any
"""`data.draw` of hypothesis."""
Pair = tuple[Any, Any]
"""A value as a record gives it, and as it is stored."""

ENUM = ("a", "b-2", "3c")
DIMENSION = 3
SCALARS = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
VECTOR = f"Vector({DIMENSION})"

TEXTS = ("", "a", "b", 'q"\\', "ü😀", "null", " ", "a\nb\t\x00\x01", "'--", "\u2028")
BOUNDS = {
    "I32": (-(2**31), 2**31 - 1),
    "I64": (-(2**63), 2**63 - 1),
    "U32": (0, 2**32 - 1),
    "U64": (0, 2**64 - 1),
}
DAYS: tuple[Pair, ...] = (
    ("1970-01-01", 0),
    ("2024-02-29", 19782),
    (19782, 19782),
    (-1, -1),
    ("0001-01-01", -719162),
    ("9999-12-31", 2932896),
)
MOMENTS: tuple[Pair, ...] = (
    ("1970-01-01", 0),
    (0, 0),
    ("2024-01-01T12:00:00.123+02:00", 1704103200123),
    ("2024-01-01 10:00:00.123456Z", 1704103200123),
    (-1, -1),
    ("9999-12-31T23:59:59.999", 253402300799999),
)
REALS = (0.0, -0.0, 1.5, -2.25, 0.1, 1e-7, 1e7, 16777217.0)
BYTES = ("base64:", "base64:aGVsbG8=", "base64:AP8=")

WRONG: Mapping[str, Sequence[Any]] = {
    "String": (1, True, ["a"], {}),
    "enum": ("A", "", 1, "a "),
    "Bool": ("true", 0, []),
    "I32": (2**31, -(2**31) - 1, 1.0, "1", True, 10**400),
    "I64": (2**63, -(2**63) - 1, 1e3, "1", False),
    "U32": (2**32, -1, 0.0, "1"),
    "U64": (2**64, -1, 1.5),
    "F32": ("1", True, 1e39, -(10**400), [1.0]),
    "F64": ("1", False, 10**400),
    "Date": ("2023-02-29", "2024-1-1", "2024-01-01T00:00:00", 1.0, 2932897, True),
    "DateTime": ("2024-01-01T25:00", "yesterday", 0.5, 10**18, "2024-01-01T00:00:60"),
    VECTOR: ([1, 2], [1, 2, "3"], [1, 2, None], [1, 2, 1e39], 1, [[1, 2, 3]], [1, 2, True]),
    "Blob": ("aGVsbG8=", "base64:?", "base64:aGVsbG8", 1),
}


def scalar(kind: str) -> st.SearchStrategy[Pair]:
    """Mostly from a few values, so that rows meet each other."""
    if kind == "String":
        texts = st.one_of(
            st.sampled_from(TEXTS), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
        )
        return texts.map(lambda text: (text, text))
    if kind == "enum":
        return st.sampled_from(ENUM).map(lambda text: (text, text))
    if kind == "Bool":
        return st.booleans().map(lambda value: (value, value))
    if kind in BOUNDS:
        low, high = BOUNDS[kind]
        few = st.sampled_from([low, 0, 1, 2, high])
        return st.one_of(few, st.integers(low, high)).map(lambda value: (value, value))
    if kind == "F32":
        wide = st.floats(width=32, allow_nan=False, allow_infinity=False)
        reals = st.one_of(st.sampled_from(REALS), wide, st.integers(-(2**60), 2**60))
        return reals.map(lambda value: (value, single(float(value))))
    if kind == "F64":
        wide = st.floats(allow_nan=False, allow_infinity=False)
        reals = st.one_of(st.sampled_from(REALS), wide, st.integers(-(2**53), 2**53))
        return reals.map(lambda value: (value, float(value)))
    if kind == "Date":
        days = st.integers(-719162, 2932896).map(lambda day: (day, day))
        return st.one_of(st.sampled_from(DAYS), days)
    if kind == "DateTime":
        moments = st.integers(-62135596800000, 253402300799999).map(lambda ms: (ms, ms))
        return st.one_of(st.sampled_from(MOMENTS), moments)
    if kind == "Blob":
        return st.sampled_from(BYTES).map(lambda text: (text, text))
    return st.lists(scalar("F32"), min_size=DIMENSION, max_size=DIMENSION).map(_unzipped)


def value(prop: Prop) -> st.SearchStrategy[Pair]:
    single_value = scalar(prop.kind)
    return st.lists(single_value, max_size=3).map(_unzipped) if prop.many else single_value


def _unzipped(pairs: list[Pair]) -> Pair:
    return [given for given, _ in pairs], [stored for _, stored in pairs]


def wrong(prop: Prop) -> st.SearchStrategy[Any]:
    """Values that the property does not take."""
    if prop.many:
        lists = st.sampled_from(WRONG[prop.kind]).map(lambda item: [item])
        return st.one_of(lists, st.just([None]), st.just("x"), st.just({}))
    return st.sampled_from(WRONG[prop.kind])


def seldom(one_in: int) -> st.SearchStrategy[bool]:
    """Hypothesis likes the ends of a range, so the one is in its middle."""
    return st.integers(0, one_in).map(lambda number: number == one_in // 2)


# ---- schemas ----

NAMES = ("p", "firstName", "order", "_x", "q2")


@st.composite
def properties(draw: Draw, most: int = 4) -> tuple[Prop, ...]:
    found = []
    for name in NAMES[: draw(st.sampled_from([*range(most + 1), 2]))]:
        kind = draw(st.sampled_from([*SCALARS, *SCALARS, "enum", "enum", VECTOR, "Blob"]))
        many = kind in SCALARS and draw(seldom(6))
        nullable = draw(st.sampled_from([True, True, False]))
        found.append(Prop(name, kind, nullable, many, ENUM if kind == "enum" else ()))
    return tuple(found)


def comparable(props: Sequence[Prop]) -> list[str]:
    return [prop.name for prop in props if not prop.many and prop.kind not in (VECTOR, "Blob")]


@st.composite
def groups(draw: Draw, names: Sequence[str], most: int) -> tuple[tuple[str, ...], ...]:
    """Some sets of columns, all different."""
    if not names:
        return ()
    chosen = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True).map(tuple)
    return tuple(draw(st.lists(chosen, max_size=most, unique_by=frozenset)))


@st.composite
def node_type(draw: Draw, name: str) -> Type:
    props = draw(properties())
    fit = [each for each in props if not each.nullable and each.name in comparable(props)]
    key = draw(st.sampled_from(["none", "one", "two"])) if fit else "none"
    keyed = tuple(each.name for each in fit[: {"none": 0, "one": 1, "two": 2}[key]])
    return Type(name, props, keyed, draw(groups(comparable(props), 1)))


@st.composite
def edge_type(draw: Draw, name: str, ends: tuple[str, str]) -> Type:
    props = draw(properties(2))
    card = draw(st.sampled_from([(0, None), (0, 1), (0, 2), (1, 2), (1, None), (2, None)]))
    uniques = draw(st.sampled_from([(), (("src", "dst"),), None]))
    if uniques is None:
        uniques = draw(groups([*comparable(props), "src"], 1))
    return Type(name, props, (), uniques, ends, card)


@st.composite
def schemas(draw: Draw) -> tuple[Type, ...]:
    """Two node types and two edge types, one of them from a type to itself."""
    return (
        draw(node_type("A")),
        draw(node_type("B")),
        draw(edge_type("Link", ("A", "B"))),
        draw(edge_type("Self", ("A", "A"))),
    )


# ---- records ----


def ids_of(oracle: Oracle, type_name: str) -> list[str]:
    return sorted(oracle.rows[type_name])


def drawn_values(draw: Draw, type_: Type, there: Sequence[Row]) -> tuple[dict[str, Any], Row]:
    """Values of a new row; some are those of rows that are `there`."""
    given: dict[str, Any] = {}
    stored: Row = {}
    for prop in type_.props:
        how = draw(st.integers(0 if prop.nullable else 3, 8))
        known = [row[prop.name] for row in there if row.get(prop.name) is not None]
        if how == 0:
            given[prop.name] = stored[prop.name] = None
        elif how > 5 and known:
            given[prop.name] = stored[prop.name] = draw(st.sampled_from(known))
        elif how > 1:
            given[prop.name], stored[prop.name] = draw(value(prop))
    return given, stored


def drawn_records(draw: Draw, oracle: Oracle, most: int = 5, *, spoils: bool = True) -> list[Record]:
    """Records of a few types in any order; seldom one that is wrong in itself."""
    coming: dict[str, list[str]] = {name: [] for name in oracle.types}
    rows = {name: list(oracle.rows[name].values()) for name in oracle.types}
    found = []
    named = draw(st.booleans())
    nodes = [type_ for type_ in oracle.types.values() if not type_.is_edge]
    edges = [type_ for type_ in oracle.types.values() if type_.is_edge]
    for _ in range(draw(st.sampled_from(range(1, most + 1)))):
        type_ = draw(st.sampled_from(nodes))
        given, stored = drawn_values(draw, type_, rows[type_.name])
        record = Record(type_, given, stored, _drawn_id(draw, oracle, type_, stored, named))
        coming[type_.name] += _own_ids(record)
        found.append(record)
    for _ in range(draw(st.integers(0, most))):
        type_ = draw(st.sampled_from(edges))
        assert type_.ends is not None
        known = [[*coming[end], *ids_of(oracle, end)] for end in type_.ends]
        if not all(known):
            continue
        source, target = (draw(st.sampled_from(ids)) for ids in known)
        if draw(seldom(20)):
            target = "nobody"
        given, stored = drawn_values(draw, type_, rows[type_.name])
        found.append(
            Record(type_, given, stored, _drawn_id(draw, oracle, type_, stored, named), (source, target))
        )
    if spoils and found and draw(seldom(6)):
        position = draw(st.integers(0, len(found) - 1))
        found[position] = _spoiled(draw, found[position])
    shuffled: list[Record] = draw(st.permutations(found))
    return shuffled


def _own_ids(record: Record) -> list[str]:
    if record.type.key:
        return [key_of(record.type, record.row())]
    return [] if record.id is None else [record.id]


def _drawn_id(draw: Draw, oracle: Oracle, type_: Type, stored: Row, named: bool) -> str | None:
    if type_.key:
        how = draw(st.integers(0, 9))
        return (
            None
            if how > 2 or (how == 0 and draw(st.booleans()))
            else key_of(type_, stored)
            if how
            else "other"
        )
    known = ids_of(oracle, type_.name)
    nothing = [] if named else [None, None, None]
    chosen: str | None = draw(st.sampled_from([*nothing, "i1", "i2", 'i"3', "i4", "i5", *known[:2]]))
    return chosen


def _spoiled(draw: Draw, record: Record) -> Record:
    """The record with one thing wrong, whatever else is right about it."""
    given = dict(record.given)
    ways = ["unknown field", "reserved field", *(["end"] if record.ends else [])]
    if record.type.props:
        ways += ["wrong value"] * 6
    way = draw(st.sampled_from(ways))
    if way == "unknown field":
        given["nope"] = None
    elif way == "reserved field":
        given["_rowid"] = 1
    elif way == "end":
        given["src"] = "x"
    else:
        prop = draw(st.sampled_from(record.type.props))
        given[prop.name] = draw(wrong(prop))
    return Record(record.type, given, record.stored, record.id, record.ends, is_bad=True)


def lines(draw: Draw, records: Sequence[Record]) -> str:
    """The text of a file, in one of the ways JSON can be written."""
    ascii_only, spaced = draw(st.booleans()), draw(st.booleans())
    separators = (", ", ": ") if spaced else (",", ":")
    return "".join(
        json.dumps(record.json(), ensure_ascii=ascii_only, separators=separators) + "\n" for record in records
    )


# ---- what a graph holds ----


def content(graph: Graph, types: Mapping[str, Type]) -> dict[str, Rows]:
    """The export, read back value by value; its order is checked on the way."""
    found: dict[str, Rows] = {name: {} for name in types}
    order = []
    for line in b"".join(graph.export()).splitlines():
        record = json.loads(line)
        name = record.get("type") or record["edge"]
        type_, data = types[name], record["data"]
        assert list(data) == ["id", *(prop.name for prop in _by_name(type_.props))]
        row = {prop.name: _stored(prop, data[prop.name]) for prop in type_.props}
        if type_.is_edge:
            row = {"src": record["from"], "dst": record["to"], **row}
        order.append((not type_.is_edge, name, data["id"]))
        found[name][data["id"]] = row
    assert order == sorted(set(order))
    return found


def _by_name(props: Sequence[Prop]) -> list[Prop]:
    return sorted(props, key=lambda prop: prop.name)


def _stored(prop: Prop, exported: Any) -> Any:
    if exported is None:
        return None
    if prop.many or prop.kind == VECTOR:
        assert isinstance(exported, list)
        return [_stored_scalar("F32" if prop.kind == VECTOR else prop.kind, each) for each in exported]
    return _stored_scalar(prop.kind, exported)


def _stored_scalar(kind: str, exported: Any) -> Any:
    if kind in ("F32", "F64"):
        assert isinstance(exported, (int, float))
        return single(float(exported)) if kind == "F32" else float(exported)
    kinds: dict[str, type] = {"Bool": bool, "String": str, "enum": str, "Blob": str}
    assert type(exported) is kinds.get(kind, int)
    return exported


def agree(oracle: Oracle, graph: Graph) -> None:
    """The graph holds what the oracle says; the oracle learns the ids that were made up."""
    actual = content(graph, oracle.types)
    for name, expected in oracle.rows.items():
        known = {id_: row for id_, row in expected.items() if not Fresh.made(id_)}
        new = [row for id_, row in expected.items() if Fresh.made(id_)]
        there = {id_: row for id_, row in actual[name].items() if id_ in known}
        assert _shown(there) == _shown(known), name
        others = [row for id_, row in actual[name].items() if id_ not in known]
        assert sorted(map(_shown, others)) == sorted(map(_shown, new)), name
    oracle.rows = actual


def _shown(rows: Mapping[str, Any]) -> str:
    """As text: for Python -0.0 equals 0.0, and True equals 1."""
    return repr(sorted((name, repr(value)) for name, value in rows.items()))


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="load-model-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def new_graph(place: Path, types: Sequence[Type]) -> Graph:
    return Graph.init(str(place), "\n".join(type_.source() for type_ in types), SETTINGS)


SETTINGS = Settings(fsync=False, actor="ann")
