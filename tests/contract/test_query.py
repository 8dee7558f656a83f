"""`query`: the worked examples of the language and the scenarios of the specification."""

from __future__ import annotations

import importlib.util
import threading
from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from omnigraph_core.errors import NotFoundError, UsageError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.manifest.reader import BranchNotFound
from omnigraph_core.query import ParameterError, QueryChoiceError, QueryTypeError
from omnigraph_core.read.execute import Reading
from omnigraph_core.read.session.budget import QueryTimeout, TooManyRows
from omnigraph_core.schema import SourceError
from omnigraph_core.settings import Settings, TraversalMode, load_settings
from omnigraph_core.tables.failures import VersionNotFound
from tests.support.cpu import cpu_seconds
from tests.support.records import D1, S1, edge, node, write_jsonl

S2 = """
node Doc {
  slug: String @key
  title: String @index
  body: String @index
  embedding: Vector(4) @index @embed("body")
  rank: F64?
}
node File { path: String @key data: Blob? }
edge Cites: Doc -> Doc { weight: F64? }
"""
D2 = [
    node("Doc", slug="a", title="Graphs", body="a graph store", embedding=[1, 0, 0, 0], rank=1.0),
    node("Doc", slug="b", title="Stores", body="graph graph graph", embedding=[0, 1, 0, 0], rank=2.0),
    node("Doc", slug="c", title="Graph", body="tables", embedding=[0.9, 0.1, 0, 0], rank=3.0),
    node("Doc", slug="d", title="Trees", body="a graf of trees", embedding=[0, 0, 1, 0]),
]
MODES = [None, TraversalMode.INDEXED, TraversalMode.CSR]


def made(place: Path, schema: str, records: list[dict[str, Any]], **settings: Any) -> Graph:
    graph = Graph.init(str(place / "g"), schema, Settings(fsync=False, actor="tester", **settings))
    if records:
        graph.load([write_jsonl(place / "data.jsonl", records)], LoadMode.APPEND)
    return graph


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return made(tmp_path_factory.mktemp("people"), S1, D1)


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return made(tmp_path_factory.mktemp("docs"), S2, D2)


def in_mode(graph: Graph, mode: TraversalMode | None) -> Graph:
    return Graph.open(graph.location.root, replace(graph.settings, traversal_mode=mode))


def rows(graph: Graph, body: str, head: str = "", **options: Any) -> list[tuple[Any, ...]]:
    """The rows of `query q(head) { body }`, as tuples."""
    found = graph.query(f"query q({head}) {{ {body} }}", **options)
    return [tuple(row.values()) for row in found.to_pylist()]


# ---- worked examples ----

ANSWERS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "E34": (
        "match { $p: Person $p.age > 28 } return { $p.name as n } order { $p.age desc }",
        [("Dee",), ("Ann",)],
    ),
    "E35": (
        "match { $p: Person } return { $p.name as n } order { $p.age }",
        [("Cy",), ("Bob",), ("Ann",), ("Dee",)],
    ),
    "E35 desc": (
        "match { $p: Person } return { $p.name as n } order { $p.age desc }",
        [("Dee",), ("Ann",), ("Bob",), ("Cy",)],
    ),
    "E36": (
        'match { $p: Person { name: "Ann" } $p knows $f } return { $f.name as f } order { f }',
        [("Bob",), ("Dee",)],
    ),
    "E37": (
        'match { $c: Company { name: "Acme" } $p worksAt $c } return { $p.name as n } order { n }',
        [("Ann",), ("Bob",)],
    ),
    "E38": (
        'match { $c: Company { name: "Acme" } $c worksAt $p } return { $p.name as n } order { n }',
        [("Ann",), ("Bob",)],
    ),
    "E39": (
        'match { $p: Person { name: "Ann" } $p knows{1,2} $f } return { $f.name as f } order { f }',
        [("Bob",), ("Cy",), ("Dee",)],
    ),
    "E40": ('match { $p: Person { name: "Ann" } $p knows{3,3} $f } return { $f.name }', []),
    "E41": (
        'match { $p: Person { name: "Ann" } $p <knows> $f } return { $f.name as f } order { f }',
        [("Bob",), ("Cy",), ("Dee",)],
    ),
    "E42": (
        "match { $a: Person $a knows $b $b knows $c $c knows $a } "
        "return { $a.name as a, $b.name as b, $c.name as c } order { a }",
        [("Ann", "Bob", "Cy"), ("Bob", "Cy", "Ann"), ("Cy", "Ann", "Bob")],
    ),
    "E43": (
        'match { $p: Person { name: "Ann" } $p $w:knows $f } return { $f.name as f, $w.since as s } '
        "order { f }",
        [("Bob", None), ("Dee", None)],
    ),
    "E44": ("match { $p: Person not { $p worksAt $_ } } return { $p.name }", [("Cy",)]),
    "E45": (
        'match { $p: Person not { $p worksAt $c $c: Company { name: "Acme" } } } '
        "return { $p.name as n } order { n }",
        [("Cy",), ("Dee",)],
    ),
    "E46": (
        "match { $p: Person not { $p.age > 28 } } return { $p.name as n } order { n }",
        [("Bob",), ("Cy",)],
    ),
    "E47 a": ('match { $p: Person $p.tags contains "b" } return { $p.name }', [("Ann",), ("Bob",)]),
    "E47 b": ('match { $p: Person { tags: "b" } } return { $p.name }', [("Ann",), ("Bob",)]),
    "E48": (
        'match { $p: Person $p.name starts_with "B" "Robert Bob" contains $p.name } return { $p.name }',
        [("Bob",)],
    ),
    "E49": ("match { $p: Person $c: Company } return { count($p) as n }", [(8,)]),
    "E50": (
        "match { $p: Person $p worksAt $c } "
        "return { $c.name as company, count($p) as n, avg($p.age) as a } order { n desc }",
        [("Acme", 2, 27.5), ("Zeta", 1, 40.0)],
    ),
    "E51": (
        "match { $p: Person } return { count($p) as rows, count($p.age) as known, sum($p.age) as s, "
        "min($p.name) as first }",
        [(4, 3, 95.0, "Ann")],
    ),
    "E52": (
        'match { $p: Person { name: "Zed" } } return { count($p) as n, max($p.age) as m }',
        [(0, None)],
    ),
    "E53": (
        'match { $p: Person $p.joined >= date("2024-01-01") } return { $p.name, now() as at, [1, 2] as l } '
        "limit 10",
        [],
    ),
    "traversals alone": (
        "match { $a knows $b } return { $a, $b }",
        [("Ann", "Bob"), ("Ann", "Dee"), ("Bob", "Cy"), ("Cy", "Ann")],
    ),
    "empty groups": ('match { $p: Person { name: "Z" } } return { $p.age as a, count($p) as n }', []),
    "null is a group": (
        "match { $p: Person not { $p.age > 26 } } return { $p.age as a, count($p) as n }",
        [(None, 1), (25, 1)],
    ),
    "limit 0": ("match { $p: Person } return { $p.name } limit 0", []),
    "same variable twice": (
        'match { $p: Person { age: 30 } $p: Person { name: "Ann" } } return { $p }',
        [("Ann",)],
    ),
    "equality across": (
        "match { $p: Person $q: Person $p.age < $q.age } return { $p.name, $q.name as q }",
        [("Ann", "Dee"), ("Bob", "Ann"), ("Bob", "Dee")],
    ),
    "nested negation": (
        "match { $p: Person not { $p knows $f not { $f worksAt $_ } } } return { $p.name }",
        [("Ann",), ("Cy",), ("Dee",)],
    ),
    "negation of something apart": (
        'match { $p: Person not { $p.age > 20 $c: Company { name: "Nope" } } } return { $p.name }',
        [("Ann",), ("Bob",), ("Cy",), ("Dee",)],
    ),
    "a name used again after a negation": (
        "match { $p: Person not { $p knows $x $x.age > 35 } $p worksAt $x } return { $p.name, $x.name }",
        [("Bob", "Acme"), ("Dee", "Zeta")],
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("example", ANSWERS)
def test_worked_example(example: str, mode: TraversalMode | None, people: Graph) -> None:
    body, expected = ANSWERS[example]
    assert rows(in_mode(people, mode), body) == expected


def test_lookup_by_parameter(people: Graph) -> None:
    """E33."""
    source = "query q($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }"
    found = people.query(source, params={"n": "Ann"})
    assert found.columns == ["p.name", "p.age"]
    assert found.to_pylist() == [{"p.name": "Ann", "p.age": 30}]
    assert people.query(source, param_texts=["n=Bob"]).to_pylist() == [{"p.name": "Bob", "p.age": 25}]
    with pytest.raises(ParameterError, match="not provided"):
        people.query(source)


def test_optional_parameter_left_out(people: Graph) -> None:
    """E54."""
    assert rows(people, "match { $p: Person $p.age = $a } return { $p.name }", "$a: I32?") == []


def test_metadata_and_bare_variable(people: Graph) -> None:
    """E55."""
    source = 'query q() @description("d") @instruction("i") { match { $p: Person } return { $p } limit 2 }'
    assert people.query(source).to_pylist() == [{"p": "Ann"}, {"p": "Bob"}]


WRONG = {
    "E56": ("match { $p: Person { } } return { $p.name }", None),
    "E57": ("match { $p: Person $p.age > -1 } return { $p.name }", None),
    "E58": ("match { $p: Person $p.age > 1 and $p.age < 9 } return { $p.name }", None),
    "E59": ("match { $p: Person } return { $p.name } limit 5 order { $p.name }", None),
    "E60": ("match { $a: Person $a knows{2} $b } return { $b.name }", None),
    "E61": ("match { $a: Person $a Knows $b } return { $b.name }", None),
    "E62": ("match { $p: Person $p.age = null } return { $p.name }", "T7"),
    "E63 a": ("match { $x: Robot } return { $x }", "T1"),
    "E63 b": ('match { $p: Person { nick: "x" } } return { $p }', "T2"),
    "E63 c": ("match { $p: Person $p likes $q } return { $q }", "T4"),
    "E64": ("match { $c: Company $c knows $p } return { $p.name }", "T5"),
    "E65": ("match { $p: Person } return { $p.id }", "T6"),
    "E66": ('match { $p: Person $p.age = "x" } return { $p.name }', "T7"),
    "E67": ('match { $c: Company { size: "huge" } } return { $c.name }', "T3"),
    "E68": ("match { $p: Person } return { sum($p.name) as s }", "T8"),
    "E69": ('match { $p: Person } return { count($p) as n, "x" as y }', "T9"),
    "E70": ("match { $p: Person $p knows{1,} $f } return { $f.name }", "T15"),
    "E71": ("match { $p: Person $p <worksAt> $c } return { $c.name }", "T22"),
    "E72 a": ("match { $p: Person $p $w:knows $f } return { $w }", "T23"),
    "E72 b": ("match { $p: Person $p $w:knows{1,2} $f } return { $f.name }", "T23"),
}
WRONG_SEARCHES = {
    "E77": ("match { $d: Doc } return { $d.slug } order { nearest($d.embedding, [1,2,3,4]) }", "T17"),
    "E78": ("match { $d: Doc } return { $d.slug } order { nearest($d.embedding, [1,2,3]) } limit 3", "T15"),
    "E79": (
        "match { $d: Doc } return { $d.slug as s } order { nearest($d.embedding, [1,2,3,4]), s } limit 3",
        "T18",
    ),
    "E80 a": ('match { $d: Doc search($d.rank, "x") } return { $d.slug }', "T19"),
    "E80 b": ('match { $d: Doc match_text($d.rank, "x") } return { $d.slug }', "T20"),
    "E81": (
        'match { $d: Doc } return { $d.slug } order { rrf(bm25($d.title, "t"), bm25($d.body, "t")) }',
        "T21",
    ),
    "E82": ("match { $f: File } return { $f.data }", "T24"),
    "E83": (
        "match { $d: Doc } return { $d.slug } order { nearest($d.embedding, [1,2,3,4]) desc } limit 3",
        None,
    ),
}


@pytest.mark.parametrize("example", [*WRONG, *WRONG_SEARCHES])
def test_wrong_example(example: str, people: Graph, docs: Graph) -> None:
    body, code = (WRONG | WRONG_SEARCHES)[example]
    with pytest.raises(SourceError) as caught:
        rows(people if example in WRONG else docs, body)
    assert getattr(caught.value, "code", None) == code


def test_a_traversal_that_looks_like_a_filter(people: Graph) -> None:
    """E73."""
    with pytest.raises(QueryTypeError) as caught:
        rows(people, "match { $p: Person $a contains $b } return { $p.name }", "$a: String, $b: String")
    assert caught.value.code == "T4"


def test_search_examples(docs: Graph) -> None:
    """E74 to E76."""
    body = 'match { $d: Doc search($d.title, $t) fuzzy($d.body, "grph", 1) } return { $d.slug }'
    assert rows(docs, body, "$t: String", params={"t": "graphs"}) == [("a",)]
    body = "match { $d: Doc $d.rank <= 2.0 } return { $d.slug } order { nearest($d.embedding, $v) } limit 3"
    assert rows(docs, body, "$v: Vector(4)", params={"v": [1, 0, 0, 0]}) == [("a",), ("b",)]
    body = (
        "match { $d: Doc } return { $d.slug } "
        "order { rrf(nearest($d.embedding, $v), bm25($d.body, $t), 60) } limit 2"
    )
    given = {"v": [1, 0, 0, 0], "t": "graph"}
    assert rows(docs, body, "$v: Vector(4), $t: String", params=given)[0] == ("a",)


# ---- values ----


def test_values_of_every_type_survive(tmp_path: Path) -> None:
    schema = """
    node T { k: String @key i: I32? l: I64? u: U32? w: U64? f: F32? d: F64? b: Bool? day: Date? at: DateTime?
             ss: [String]? is: [I64]? days: [Date]? ats: [DateTime]? v: Vector(2)? e: enum(x, y)? }
    """
    values = {
        "i": -(2**31),
        "l": 2**63 - 1,
        "u": 2**32 - 1,
        "w": 2**63 - 1,
        "f": 0.5,
        "d": 0.1,
        "b": False,
        "ss": ["", "ä"],
        "is": [1, -1],
        "v": [0.25, -1.0],
        "e": "y",
    }
    times = {
        "day": "1969-12-31",
        "at": "1969-12-31T23:59:59.999Z",
        "days": ["2024-02-29"],
        "ats": ["2024-02-29T01:02:03.004Z"],
    }
    graph = made(tmp_path, schema, [node("T", k="full", **values, **times), node("T", k="nulls")])
    names = [*values, *times]
    returned = ", ".join(f"$t.{name} as {name}" for name in names)
    full, nulls = graph.query(f"query q() {{ match {{ $t: T }} return {{ {returned} }} }}").to_pylist()
    assert {name: full[name] for name in values} == values
    assert full["day"] == date(1969, 12, 31)
    assert full["at"] == datetime(1969, 12, 31, 23, 59, 59, 999000, timezone.utc)
    assert full["days"] == [date(2024, 2, 29)]
    assert full["ats"] == [datetime(2024, 2, 29, 1, 2, 3, 4000, timezone.utc)]
    assert nulls == dict.fromkeys(names)
    grouped = rows(graph, "match { $t: T } return { $t.ss as g, $t.v as v, count($t) as n }")
    assert grouped == [(None, None, 1), (["", "ä"], [0.25, -1.0], 1)]


def test_lists_of_instants_and_mixed_numbers(tmp_path: Path) -> None:
    noon, later = "2024-02-29T12:00:00Z", "2024-02-29T12:00:00.001Z"
    records = [node("T", k="a", at=noon, ats=[later]), node("T", k="b", at=later, ats=[noon])]
    graph = made(tmp_path, "node T { k: String @key at: DateTime? ats: [DateTime]? }", records)
    body = "match { $t: T $u: T $t.ats contains $u.at } return { $t, $u }"
    assert rows(graph, body) == [("a", "b"), ("b", "a")]
    assert len(rows(graph, "match { $t: T } return { $t.ats as ats, count($t) as n }")) == 2
    assert rows(graph, "match { $t: T } return { [1, 2.5] as l, [] as e } limit 1") == [([1.0, 2.5], [])]
    literal = f'match {{ $t: T [datetime("{noon}")] contains $t.at }} return {{ $t }}'
    assert rows(graph, literal) == [("a",)]


def test_now_is_one_instant(people: Graph) -> None:
    before = datetime.now(timezone.utc)
    found = rows(people, "match { $p: Person } return { now() as a, now() as b }")
    assert len({value for row in found for value in row}) == 1
    assert abs((found[0][0] - before).total_seconds()) < 60


def test_minus_zero_and_zero_are_one_group(tmp_path: Path) -> None:
    records = [node("T", k="a", f=0.0), node("T", k="b", f=-0.0)]
    graph = made(tmp_path, "node T { k: String @key f: F64? }", records)
    assert rows(graph, "match { $t: T } return { $t.f as f, count($t) as n }") == [(0.0, 2)]


def test_minus_zero_joins_zero(tmp_path: Path) -> None:
    schema = "node T { k: String @key f: F64? } node U { k: String @key f: F64? }"
    records = [node("T", k="a", f=0.0), node("T", k="n"), node("U", k="b", f=-0.0), node("U", k="n")]
    graph = made(tmp_path, schema, records)
    assert rows(graph, "match { $t: T $u: U $t.f = $u.f } return { $t, $u }") == [("a", "b")]


def test_large_whole_numbers_are_summed_exactly(tmp_path: Path) -> None:
    records = [node("T", k=str(n), i=2**62) for n in range(8)]
    graph = made(tmp_path, "node T { k: String @key i: I64? }", records)
    assert rows(graph, "match { $t: T } return { sum($t.i) as s, avg($t.i) as a }") == [
        (float(2**65), float(2**62))
    ]


# ---- traversals ----

CHAIN = "node N { k: String @key } node M { k: String @key } edge Next: N -> N { w: I32? } edge To: N -> M"


@pytest.mark.parametrize("mode", MODES)
def test_hop_ranges_on_a_chain(mode: TraversalMode | None, tmp_path: Path) -> None:
    """Scenario 98."""
    records = [node("N", k=f"n{n}") for n in range(6)]
    records += [edge("Next", f"n{n}", f"n{n + 1}") for n in range(5)]
    graph = made(tmp_path, CHAIN, records, traversal_mode=mode)
    for low, high in ((1, 3), (2, 3), (2, 2), (4, 9), (1, 2**32 - 1)):
        body = f'match {{ $a: N {{ k: "n0" }} $a next{{{low},{high}}} $b }} return {{ $b.k }}'
        assert rows(graph, body) == [(f"n{n}",) for n in range(low, min(high, 5) + 1)]
    back = 'match { $b: N { k: "n5" } $a next{2,3} $b } return { $a.k }'
    assert rows(graph, back) == [("n2",), ("n3",)]


@pytest.mark.parametrize("mode", MODES)
def test_cycles_end_and_loops_appear_once(mode: TraversalMode | None, tmp_path: Path) -> None:
    """Scenarios 93 and 99."""
    records = [node("N", k=name) for name in "abc"]
    records += [edge("Next", *ends) for ends in ("aa", "ab", "bc", "ca", "bb", "ab", "aa")]
    graph = made(tmp_path, CHAIN, records, traversal_mode=mode)
    body = 'match {{ $a: N {{ k: "a" }} $a {edge} $b }} return {{ $b.k }}'
    assert rows(graph, body.format(edge="next")) == [("a",), ("b",)]
    assert rows(graph, body.format(edge="next{1,9}")) == [("a",), ("b",), ("c",)]
    assert rows(graph, body.format(edge="next{2,9}")) == [("c",)]
    assert rows(graph, body.format(edge="next{3,9}")) == []
    assert rows(graph, body.format(edge="$w:next")) == [("a",), ("a",), ("b",), ("b",)]
    assert rows(graph, body.format(edge="$w:<next>")) == [("a",), ("a",), ("b",), ("b",), ("c",)]
    assert rows(graph, "match { $a next $a } return { $a.k }") == [("a",), ("b",)]


@pytest.mark.parametrize("mode", MODES)
def test_equal_ids_of_different_types_do_not_mix(mode: TraversalMode | None, tmp_path: Path) -> None:
    """Scenario 102."""
    records = [node(type_, k=name) for type_ in "NM" for name in "xy"]
    records += [edge("Next", "x", "y"), edge("To", "y", "x")]
    graph = made(tmp_path, CHAIN, records, traversal_mode=mode)
    assert rows(graph, "match { $a: N $a next $b $b to $m } return { $a, $b, $m }") == [("x", "y", "x")]
    assert rows(graph, "match { $a: N not { $a to $_ } } return { $a }") == [("x",)]
    assert rows(graph, "match { $m: M not { $_ to $m } } return { $m }") == [("y",)]


@pytest.mark.parametrize("mode", MODES)
def test_edge_properties_filter_and_order(mode: TraversalMode | None, tmp_path: Path) -> None:
    records = [node("N", k=name) for name in "abc"]
    records += [edge("Next", "a", "b", w=1), edge("Next", "a", "b", w=2), edge("Next", "a", "c")]
    graph = made(tmp_path, CHAIN, records, traversal_mode=mode)
    body = "match { $a $e:next $b $e.w >= 1 } return { $b.k as b, $e.w as w } order { $e.w desc }"
    assert rows(graph, body) == [("b", 2), ("b", 1)]
    body = "match { $a $e:next $b not { $e.w >= 2 } } return { $b.k as b, $e.w as w } order { w }"
    assert rows(graph, body) == [("c", None), ("b", 1)]
    body = "match { $a $e:next $b $a $f:next $b $e.w < $f.w } return { $e.w as x, $f.w as y }"
    assert rows(graph, body) == [(1, 2)]


def test_both_modes_agree_on_a_larger_graph(tmp_path: Path) -> None:
    """Scenario 101; enough nodes that look-ups and scans, lists and tables are all used."""
    count = 3000
    records = [node("N", k=f"n{n}") for n in range(count)]
    records += [edge("Next", f"n{n}", f"n{(n * n + 7) % count}", w=n % 5) for n in range(count)]
    records += [edge("Next", f"n{n}", f"n{(n * 31 + 1) % count}", w=n % 3) for n in range(count)]
    graph = made(tmp_path, CHAIN, records)
    modes = [in_mode(graph, mode) for mode in MODES]
    for body in (
        'match { $a: N { k: "n5" } $a next{1,6} $b } return { $b.k }',
        "match { $a: N $a next{2,3} $b } return { $a.k as a, count($b) as n } order { n desc } limit 50",
        "match { $a: N $a <next> $b $b next $c $c next $a } return { $a, $b, $c }",
        "match { $a: N not { $_ next $a } } return { count($a) as n }",
        "match { $a: N $a $e:next $b $e.w = 2 } return { $b.k as b, count($a) as n } order { n desc }",
    ):
        answers = [rows(each, body) for each in modes]
        assert answers[0] == answers[1] == answers[2]


# ---- time travel and others at work ----


def test_an_old_commit_is_read_as_it_was(tmp_path: Path) -> None:
    """Scenario 91."""
    graph = made(tmp_path, S1, D1)
    before = graph.head()
    assert before is not None
    graph.change('query q() { delete Person where name = "Bob" }')
    body = 'match { $p: Person { name: "Ann" } $p knows{1,2} $f } return { $f.name }'
    assert rows(graph, body) == [("Dee",)]
    for ref in (before.commit_id, "main~1"):
        found = graph.query(f"query q() {{ {body} }}", ref=ref)
        assert [row["f.name"] for row in found.to_pylist()] == ["Bob", "Cy", "Dee"]
        assert (found.target.branch, found.target.snapshot) == (None, before.commit_id)
        assert found.graph_commit_id == before.commit_id


def test_a_version_that_was_removed_is_not_found(tmp_path: Path) -> None:
    """Scenario 92."""
    graph = made(tmp_path, S1, D1)
    graph.change('query q() { insert Person { name: "Eve" } }')
    entry = graph.snapshot_of("main~1").entry("node:Person")
    versions = Path(graph.location.root) / entry.ref.directory / "_versions"
    for path in versions.glob("*.manifest"):
        number = int(path.name.removesuffix(".manifest"))
        if (2**64 - 1 - number if number > 2**32 else number) == entry.table_version:
            path.unlink()
    fresh = Graph.open(graph.location.root, graph.settings)
    with pytest.raises(VersionNotFound):
        rows(fresh, "match { $p: Person } return { $p }", ref="main~1")
    assert len(rows(fresh, "match { $p: Person } return { $p }")) == 5


def test_another_writers_commit_is_seen(tmp_path: Path) -> None:
    """Scenario 94."""
    graph = made(tmp_path, S1, D1)
    other = Graph.open(graph.location.root, graph.settings)
    body = "match { $p: Person } return { count($p) as n }"
    assert rows(graph, body) == [(4,)]
    other.change('query q() { insert Person { name: "Eve" } }')
    assert rows(graph, body) == [(5,)]


def test_branches_are_read_apart(tmp_path: Path) -> None:
    graph = made(tmp_path, S1, D1)
    graph.create_branch("side")
    graph.change(
        'query q() { insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Ann" } }', branch="side"
    )
    body = "match { $p: Person $p knows $f } return { $p.name }"
    assert len(rows(graph, body)) == 4
    assert len(rows(graph, body, branch="side")) == 5
    with pytest.raises(BranchNotFound):
        rows(graph, body, branch="nope")


def test_a_branch_deleted_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = made(tmp_path, S1, D1)
    graph.create_branch("side")
    graph.change('query q() { insert Person { name: "Eve" } }', branch="side")
    run = Reading.run

    def deleted_first(self: Reading, *arguments: Any, **options: Any) -> Any:
        Graph.open(graph.location.root, graph.settings).delete_branch("side")
        return run(self, *arguments, **options)

    monkeypatch.setattr(Reading, "run", deleted_first)
    with pytest.raises(BranchNotFound):
        rows(graph, "match { $p: Person } return { $p.name }", branch="side")


def test_one_snapshot_while_somebody_writes(tmp_path: Path) -> None:
    """Every insert adds a node and its edge; a read that mixed two snapshots would see one alone."""
    graph = made(tmp_path, CHAIN, [node("N", k="n0"), edge("Next", "n0", "n0")])
    stop = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        other = Graph.open(graph.location.root, graph.settings)
        number = 0
        try:
            while not stop.is_set():
                number += 1
                name = f"n{number}"
                other.change(
                    f'query q() {{ insert N {{ k: "{name}" }} insert Next {{ from: "{name}", to: "n0" }} }}'
                )
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen: set[int] = set()
        while len(seen) < 12 and not failed:
            reader = Graph.open(graph.location.root, graph.settings)
            body = "match { $a: N not { $a next $_ } } return { count($a) as lonely }"
            assert rows(reader, body) == [(0,)]
            seen.add(rows(reader, "match { $a: N } return { count($a) as n }")[0][0])
    finally:
        stop.set()
        thread.join()
    assert not failed


def test_a_list_of_the_query_is_read_once(tmp_path: Path) -> None:
    """Not once for every row."""
    records = [node("T", k=f"n{number}", i=number) for number in range(2_000)]
    graph = made(tmp_path, "node T { k: String @key i: I32? }", records)

    def asked(count: int) -> list[tuple[Any, ...]]:
        names = ", ".join(f'"n{number}"' for number in range(count))
        return rows(graph, f"match {{ $t: T [{names}] contains $t.k }} return {{ count($t) as n }}")

    def seconds(count: int) -> float:
        return min(cpu_seconds(lambda: asked(count)) for _ in range(3))

    assert (asked(3), asked(500)) == ([(3,)], [(500,)])
    assert rows(graph, "match { $t: T [1, 2.0, 3.5] contains $t.i } return { $t.k as k }") == [
        ("n1",),
        ("n2",),
    ]
    assert seconds(2_000) < 20 * seconds(20)


# ---- zeros of both signs ----


def test_which_zero_came_first_does_not_show(tmp_path: Path) -> None:
    """They are equal, so grouping, the least and the greatest do not hang on the order of rows."""
    answers = []
    for signs in ((0.0, -0.0), (-0.0, 0.0)):
        graph = Graph.init(
            str(tmp_path / f"g{signs[0]}"),
            "node T { k: String @key f: F64? g: F32? l: [F64]? } edge E: T -> T",
            Settings(fsync=False, actor="tester"),
        )
        records = [node("T", k=k, f=f, g=f, l=[f, 1.0]) for k, f in zip("ab", signs, strict=True)]
        records += [edge("E", "a", "b"), edge("E", "b", "a")]
        graph.load(records, "append")
        for match in ("$t: T", "$t: T $t e $u $u e $t"):
            for small in (graph.settings.memory_limit_bytes, 120):
                asked = Graph.open(graph.location.root, replace(graph.settings, memory_limit_bytes=small))
                for columns in ("$t.f as f, $t.g as g", "$t.l as l", "min($t.f) as l, max($t.g) as h"):
                    if small > 120 or "$t.l" not in columns:
                        body = f"match {{ {match} }} return {{ {columns}, count($t) as n }}"
                        answers.append((columns, repr(rows(asked, body))))
    assert len(set(answers)) == 3
    assert not any("-0.0" in found for _, found in answers)


# ---- limits and wrong use ----


def test_a_timeout_ends_a_read(people: Graph) -> None:
    with pytest.raises(QueryTimeout) as caught:
        rows(people, "match { $p: Person } return { $p.name }", timeout_s=1e-9)
    assert caught.value.details() == {"timeout": 1e-9}


def test_who_takes_the_rows_may_take_any_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is the query that has a time limit. Rows can be asked for again, also long after it."""
    records = [node("T", k=f"n{number}") for number in range(100)]
    graph = made(tmp_path, "node T { k: String @key }", records)
    graph = Graph.open(graph.location.root, replace(graph.settings, memory_limit_bytes=1 << 20))
    clock = [0.0]
    monkeypatch.setattr(
        "omnigraph_core.read.session.budget.time", SimpleNamespace(monotonic=lambda: clock[0])
    )
    source = "query q() { match { $a: T $b: T } return { $a.k as a, $b.k as b } }"
    result = graph.query(source, timeout_s=10)
    for _ in range(2):
        found = []
        for batch in result.to_batches():
            clock[0] += 9
            found.append(batch.num_rows)
        assert len(found) > 1
        assert sum(found) == 10_000


def test_a_product_beyond_memory_is_refused(people: Graph) -> None:
    small = Graph.open(people.location.root, replace(people.settings, memory_limit_bytes=1000))
    body = "match { $a: Person $b: Person $c: Person } return { count($a) as n }"
    with pytest.raises(TooManyRows):
        rows(small, body)
    assert rows(people, body) == [(64,)]


def test_queries_are_chosen_by_name(people: Graph) -> None:
    source = (
        "query one() { match { $p: Person } return { $p.name } } "
        'query two() { delete Person where name = "Bob" }'
    )
    assert people.query(source, name="one").row_count == 4
    with pytest.raises(QueryChoiceError, match="2 queries"):
        people.query(source)
    with pytest.raises(NotFoundError, match="no query 'three'"):
        people.query(source, name="three")
    with pytest.raises(UsageError) as caught:
        people.query(source, name="two")
    assert "omnigraph change" in (caught.value.hint or "")


def test_the_answer_in_python(people: Graph) -> None:
    found = people.query("query q() { match { $p: Person } return { $p.name as n, $p.age as a } limit 2 }")
    assert found.query_name == "q"
    assert (found.target.branch, found.target.snapshot) == ("main", None)
    head = people.head()
    assert head is not None
    assert found.graph_commit_id == head.commit_id
    assert found.to_arrow().schema.names == found.columns == ["n", "a"]
    assert str(found.to_arrow().schema.field("a").type) == "int32"
    assert found.row_count == 2
    assert [step.rows for step in found.steps][-1] == 2
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(UsageError, match="pandas"):
            found.to_pandas()
    else:
        assert list(found.to_pandas()["n"]) == ["Ann", "Bob"]


def test_queries_work_wherever_the_graph_is(place: str, environment: dict[str, str], tmp_path: Path) -> None:
    settings = load_settings({**environment, "OMNIGRAPH_ACTOR": "ann"}, tmp_path)
    graph = Graph.init(place, S1, settings)
    graph.load([write_jsonl(tmp_path / "data.jsonl", D1)], LoadMode.APPEND)
    for mode in MODES:
        reader = Graph.open(place, replace(settings, traversal_mode=mode))
        for example in ("E34", "E39", "E42", "E45", "E50"):
            body, expected = ANSWERS[example]
            assert rows(reader, body) == expected


def test_numbers_beside_an_f32_are_taken_as_it_would_hold_them(tmp_path: Path) -> None:
    """0.1 was loaded, so 0.1 finds it, although an F32 has another number nearest to it than an F64."""
    graph = made(
        tmp_path, "node T { k: String @key f: F32? }", [node("T", k="a", f=0.1), node("T", k="b", f=2)]
    )
    for condition in ("$t.f = 0.1", "$t.f = $x", "$t.f >= $x $t.f <= 0.1"):
        body = f"match {{ $t: T {condition} }} return {{ $t.k }}"
        assert rows(graph, body, "$x: F64", params={"x": 0.1}) == [("a",)]
    graph.change("query q($x: F64) { update T set { f: 7.0 } where f = $x }", params={"x": 0.1})
    assert rows(graph, "match { $t: T $t.f = 7.0 } return { $t.k }") == [("a",)]


def test_many_aggregates_take_linear_time(people: Graph) -> None:
    """Eight times as many: eight times as long, where comparing each with all others takes 64 times."""

    def seconds(count: int) -> float:
        sums = ", ".join(f"sum($p.age) as s{i}" for i in range(count))
        text = f"query q() {{ match {{ $p: Person }} return {{ {sums} }} }}"
        return min(cpu_seconds(lambda: people.query(text)) for _ in range(3))

    assert seconds(1600) < 24 * seconds(200)
