"""Bytes of schema and query files: mutants of every byte, and long texts of every construct.

The languages have fuzz tests of their own, of tokens and against a grammar (`tests/unit/test_schema_fuzz.py`,
`test_query_fuzz.py`). Here are the bytes below them, and time that grows with the text.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from omnigraph_core.query import RefusedMutationError, check_query, parse_queries
from omnigraph_core.schema import SourceError, compile_schema, schema_hash
from tests.fuzz.mutants import mutated_bytes
from tests.fuzz.readers import SEED, naming
from tests.support.cpu import cpu_seconds
from tests.unit.schema_sources import S1, S2


def many(part: str, count: int, between: str = " ") -> str:
    return between.join(part.replace("#", str(number)) for number in range(count))


_PEOPLE = "node P { name: String @key age: I32? }\n"
SCHEMAS: dict[str, Callable[[int], str]] = {
    "nodes": lambda n: many("node N# { a: String }", n),
    "properties": lambda n: "node N { " + many("p#: I32?", n) + " }",
    "edges": lambda n: _PEOPLE + many("edge E#: P -> P", n),
    "indexes": lambda n: "node N { " + many("p#: I32?", n) + many("@index(p#)", n) + " }",
    "unique groups": lambda n: "node N { " + many("p#: I32", n) + many("@unique(p#)", n) + " }",
    "one group": lambda n: "node N { " + many("p#: I32", n) + " @unique(" + many("p#", n, ", ") + ") }",
    "ranges": lambda n: "node N { " + many("p#: I32?", n) + many("@range(p#, 0..9)", n) + " }",
    "enum": lambda n: "node N { e: enum(" + many("v#", n, ", ") + ") }",
    "annotations": lambda n: "node N " + many('@a#("x")', n) + " { a: I32 }",
    "interfaces": lambda n: (
        many("interface I# { a#: I32 }", n) + " node N implements " + many("I#", n, ", ") + " { }"
    ),
    "implementers": lambda n: "interface I { a: I32 } " + many("node N# implements I { }", n),
    "renames": lambda n: many('node N# @rename_from("M#") { a: I32 }', n),
    "lines": lambda n: _PEOPLE + "\n" * n * 10,
    "comments": lambda n: _PEOPLE + "// x\n" * n * 10,
    "errors far down": lambda n: "\n" * n * 10 + "node",
}
_PERSON = "$p: Person "
_READ = "query q() { match { $p: Person } return { $p } }\n"
QUERIES: dict[str, Callable[[int], str]] = {
    "queries": lambda n: many("query q#() { match { $p: Person } return { $p } }", n),
    "variables": lambda n: (
        "query q() { match { " + many("$p#: Person", n) + " } return { " + many("$p#.name as n#", n) + " } }"
    ),
    "conditions": lambda n: "query q() { match { " + _PERSON + many("$p.age > #", n) + " } return { $p } }",
    "hops": lambda n: (
        "query q() { match { $p0: Person "
        + many("$p# knows $r#", n)
        + " } return { $p0 } }".replace("$r", "$p")
    ),
    "negations": lambda n: (
        "query q() { match { " + _PERSON + many("not { $p knows $x# }", n) + " } return { $p } }"
    ),
    "columns": lambda n: "query q() { match { $p: Person } return { " + many("$p.name as c#", n) + " } }",
    "aggregates": lambda n: (
        "query q() { match { $p: Person } return { " + many("count($p) as c#", n) + " } }"
    ),
    "order": lambda n: (
        "query q() { match { $p: Person } return { $p.name } order { " + many("$p.age", n, ", ") + " } }"
    ),
    "parameters": lambda n: (
        "query q(" + many("$a#: I32", n, ", ") + ") { match { $p: Person } return { $p } }"
    ),
    "inserts": lambda n: "query q() { " + many('insert Person { name: "x#" }', n) + " }",
    "values": lambda n: 'query q() { insert Person { name: "x" tags: [' + many('"t#"', n, ", ") + "] } }",
    "literals": lambda n: "query q() { match { $p: Person } return { [" + many("#", n, ", ") + "] as l } }",
    "lines": lambda n: "\n" * n * 10 + _READ,
    "errors far down": lambda n: "\n" * n * 10 + "query",
}
PEOPLE = compile_schema(S1)


def _compile(text: str) -> None:
    schema_hash(compile_schema(text))


def _check(text: str) -> None:
    file = parse_queries(text)
    for query in file.queries:
        with suppress(RefusedMutationError):
            check_query(query, PEOPLE, file.source)


def in_words(work: Callable[[str], None], text: str) -> bool:
    """Was it accepted? If not, the error has a place in the text, and nothing else is raised."""
    try:
        work(text)
    except SourceError as error:
        check_place(text, error)
        return False
    return True


def check_place(text: str, error: SourceError) -> None:
    lines = text.split("\n")
    assert 1 <= error.line <= len(lines)
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    assert str(error).encode()


LANGUAGES: dict[str, tuple[list[str], Callable[[str], None]]] = {
    "pg": ([S1, S2, *(make(3) for make in SCHEMAS.values())], _compile),
    "gq": ([make(3) for make in QUERIES.values()], _check),
}


def run(name: str, first: int, count: int) -> int:
    """How many mutants were accepted. Bytes that are no text become signs that no language has."""
    texts, work = LANGUAGES[name]
    corpus, accepted = [text.encode() for text in texts], 0
    for number in range(first, first + count):
        data = mutated_bytes(corpus, random.Random(f"{SEED} {number}"))
        with naming(number, data):
            errors = random.Random(number).choice(["replace", "surrogateescape"])
            accepted += in_words(work, data.decode(errors=errors))
    return accepted


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_few_mutants(name: str) -> None:
    assert 20 < run(name, 0, 1_000) < 980


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", LANGUAGES)
def test_many_mutants(name: str) -> None:
    assert run(name, 1_000, 1_000_000) > 20_000


LONG = {
    **{f"schema: {name}": (make, _compile) for name, make in SCHEMAS.items()},
    **{f"query: {name}": (make, _check) for name, make in QUERIES.items()},
}


@pytest.mark.parametrize("shape", LONG)
def test_time_grows_with_the_text_and_not_faster(shape: str) -> None:
    """Eight times the text; 64 times the time would be quadratic."""
    make, work = LONG[shape]
    small, large = make(100), make(800)

    def best(text: str, rounds: int) -> float:
        return min(cpu_seconds(lambda: in_words(work, text)) for _ in range(rounds))

    assert any(best(large, 2) < 24 * best(small, 5) + 0.002 for _ in range(3))
