"""Whatever the text: checked queries or a `SourceError`, soon, and as the grammar has it.

The mutations are drawn from a fixed seed, so a failure repeats.
"""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import pairwise

import pytest

from omnigraph_core.query import QueryFile, RefusedMutationError, check_query, parse_queries
from omnigraph_core.query.lint import lint
from omnigraph_core.schema import SourceError, SourceText, compile_schema
from omnigraph_core.schema.lexer import Kind, tokenize
from tests.support.cpu import is_within
from tests.unit.query_grammar import in_language
from tests.unit.schema_sources import S1, S2

MUTATIONS = 3_000
MUTATIONS_SOAK = 1_000_000
SEED = 20261
# A mutant is some hundred characters; measured time is well under a millisecond.
SECONDS_PER_MUTANT_MAX = 0.5

SCHEMA = compile_schema(S1 + S2)
CORPUS = [
    """query q($n: String, $v: Vector(4), $a: [I32]?, $t: DateTime)
  @description("d \\"x\\"") @instruction("i") {
  match { $p: Person { name: $n, tags: "b", } $p knows{1,2} $f $f <knows> $g $p $w:worksAt $c
    not { $g worksAt $_ $_: Company { size: "small" } not { $p.age > 28 } }
    $p.age >= 2.5 $p.tags contains "b" "Robert" contains $p.name $p.name starts_with $n }
  return { $p.name as n, $c.size $f, now() as at, [1, 2.5] as l, date("2024-01-01") as d }
  order { n desc, $p.age asc, $f.name } limit 10
}
""",
    """query docs($v: Vector(4), $t: String) { // search
  match { $d: Doc search($d.title, $t) fuzzy($d.body, "grph", 1) match_text($d.body, $t) $d $e:cites $o }
  return { $d.slug, bm25($d.body, $t) as score, $e.weight }
  order { rrf(nearest($d.embedding, $v), bm25($d.body, $t), 60) } limit 5
}
query near($v: Vector(4)) { match { $d: Doc } return { $d }
  order { nearest($d.embedding, $v), $d.rank } limit 3
}
query groups() { match { $p: Person $p worksAt $c } return { $c.name as c, count($p) as n, avg($p.age) as a
  min($p.name) as first } order { n desc } }
""",
    """query add($n: String, $a: I32?) { /* all */
  insert Person { name: $n age: $a, joined: date("2024-01-01"), tags: ["a", "b"] }
  insert Knows { from: $n, to: "Bob", note: "x" }
  update Person set { age: 2, tags: [] } where age <= 7
}
query remove($n: String) { delete Person where name != $n delete Knows where to = "Bob" }
""",
]
_PIECES = (
    "query match return order limit not as asc desc contains starts_with insert update delete set where from "
    "to search( fuzzy( nearest( bm25( rrf( count( sum( now() now date datetime( true false null and or "
    "$p $_ $q $n $p.age .name Person Doc Knows Nope knows worksAt cites ( ) { } [ ] : , . -> .. < > = != "
    '<= >= @ ? - {1,2} {2} {0,} <knows> $w:knows $x:Person 1 2.5 9999999999999999999 "x" " \\ /* */ // I32 '
    "[I32] Vector(3) \x00 \ufeff ü \U0001f600 \udc80 \r \n \t"
)
PIECES = _PIECES.split(" ")


def tokens_of(text: str) -> list[str]:
    """The text cut between tokens, each piece with the blanks before it."""
    ends = [0, *(token.end for token in tokenize(SourceText("", text)) if token.kind is not Kind.END)]
    return [text[start:end] for start, end in pairwise(ends)]


TOKENS = [tokens_of(text) for text in CORPUS]


def mutated(chooser: random.Random) -> str:
    """One text of the corpus with some tokens removed, doubled, exchanged or replaced."""
    tokens = list(chooser.choice(TOKENS))
    for _ in range(chooser.choice((1, 1, 1, 2, 4))):
        start = chooser.randrange(len(tokens) + 1)
        end = min(len(tokens), start + chooser.choice((0, 1, 1, 2, 6)))
        kind = chooser.randrange(6)
        if kind == 0:
            del tokens[start:end]
        elif kind == 1:
            tokens[start:end] = [" ", chooser.choice(PIECES), " "]
        elif kind == 2:
            tokens[end:end] = tokens[start:end] * chooser.choice((1, 2, 20))
        elif kind == 3:
            other = chooser.choice(TOKENS)
            cut = chooser.randrange(len(other))
            tokens[start:end] = other[cut : cut + chooser.choice((1, 3, 10))]
        elif kind == 4 and start + 1 < len(tokens):
            tokens[start], tokens[start + 1] = tokens[start + 1], tokens[start]
        else:
            tokens.insert(start, chr(chooser.choice((chooser.randrange(128), 0x2028, 0x10FFFF))))
    return "".join(tokens)


def outcome(text: str) -> QueryFile | SourceError:
    """The parsed file, after each of its queries was checked too; or the first error of parsing."""
    try:
        file = parse_queries(text)
    except SourceError as error:
        return error
    for query in file.queries:
        try:
            check_query(query, SCHEMA, file.source)
        except SourceError as error:
            check_error(text, error)
        except RefusedMutationError:
            pass
    return file


def check_error(text: str, error: SourceError) -> None:
    """An error must be whole: a place in the text, a line, a caret."""
    lines = text.split("\n")
    assert 1 <= error.line <= len(lines), repr(text)
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1, repr(text)
    headline, _, carets = str(error).split("\n")
    assert headline.startswith(f"query.gq:{error.line}:{error.column}: {error.category}: "), repr(text)
    assert carets.strip("\t ") == "^" * carets.count("^") != "", repr(text)
    assert str(error).encode("utf-8"), repr(text)


def is_about_grammar(error: SourceError) -> bool:
    """Not a rule on top of the grammar: repeated names, sizes of numbers, dates, escapes, nesting."""
    if error.reason.startswith("expected a column name after 'as'"):
        return False  # The grammar would read `as` as a column; the parser is the stricter one.
    return error.reason.startswith(("expected ", "unexpected ", "unterminated ", "unknown function"))


def check_outcome(text: str) -> bool:
    """Was the text accepted? Either way the grammar must say the same."""
    results: list[QueryFile | SourceError] = []
    assert is_within(SECONDS_PER_MUTANT_MAX, lambda: results.append(outcome(text))), repr(text)
    result = results[-1]
    if isinstance(result, QueryFile):
        assert in_language(text), repr(text)
        return True
    check_error(text, result)
    if is_about_grammar(result):
        assert not in_language(text), (str(result), text)
    return False


def run(number: int, seed: int) -> int:
    """How many mutants were accepted."""
    chooser = random.Random(seed)
    return sum(check_outcome(mutated(chooser)) for _ in range(number))


def test_the_corpus_is_fine() -> None:
    for text in CORPUS:
        report = lint(SourceText("query.gq", text), SCHEMA)
        assert [result.error for result in report.results if not result.ok] == []
        assert in_language(text)


@pytest.mark.slow
def test_mutants_end_in_queries_or_a_source_error() -> None:
    """Also that the mutations are worth something: neither all fine nor all broken."""
    assert MUTATIONS // 20 < run(MUTATIONS, SEED) < MUTATIONS // 2


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_mutants_end_in_queries_or_a_source_error() -> None:
    assert MUTATIONS_SOAK // 20 < run(MUTATIONS_SOAK, SEED + 1) < MUTATIONS_SOAK // 2


@pytest.mark.parametrize("text", CORPUS, ids=["read", "search", "mutation"])
def test_every_prefix_and_every_missing_token(text: str) -> None:
    tokens = tokens_of(text)
    for position in range(len(tokens)):
        check_outcome("".join(tokens[:position]))
        check_outcome("".join(tokens[:position] + tokens[position + 1 :]))


BOMB_CHARACTERS = 200_000
_MATCH = "query q() { match { $p: Person "
BOMBS = {
    "negations": _MATCH + "not { " * (BOMB_CHARACTERS // 6),
    "closed negations": _MATCH + "not { " * 2000 + "$p.age = 1 " + "} " * 2000 + "} return { $p } }",
    "lists": _MATCH + "$p.age = " + "[" * BOMB_CHARACTERS,
    "closed lists": _MATCH + "} return { " + "[" * 5000 + "]" * 5000 + " } }",
    "aggregates": _MATCH + "} return { " + "count(" * (BOMB_CHARACTERS // 6),
    "searches": _MATCH + "search(" * (BOMB_CHARACTERS // 7),
    "fuzzy": _MATCH + "fuzzy($p.name, " * (BOMB_CHARACTERS // 15),
    "braces": "query q() " + "{" * BOMB_CHARACTERS,
    "one long word": "query " + "q" * BOMB_CHARACTERS,
    "one long integer": _MATCH + "$p.age = " + "9" * BOMB_CHARACTERS,
    "one long float": _MATCH + "$p.age = " + "9" * BOMB_CHARACTERS + ".5",
    "one long limit": _MATCH + "} return { $p } limit " + "9" * BOMB_CHARACTERS,
    "one long dimension": "query q($v: Vector(" + "9" * BOMB_CHARACTERS,
    "one long date": _MATCH + '$p.joined = date("' + "9" * BOMB_CHARACTERS + '")',
    "unterminated string": 'query q() @description("' + "a" * BOMB_CHARACTERS,
    "unterminated comment": "/*" + "*" * BOMB_CHARACTERS,
    "dollars": "$" * BOMB_CHARACTERS,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused_soon_and_briefly(text: str) -> None:
    results: list[QueryFile | SourceError] = []
    assert is_within(5, lambda: results.append(outcome(text)))
    assert isinstance(results[-1], SourceError)
    assert len(str(results[-1])) < 1000


def test_nesting_is_limited_far_beyond_what_people_write() -> None:
    text = _MATCH + "not { " * 30 + "$p.age = 1 " + "} " * 30 + "} return { $p } }"
    assert isinstance(outcome(text), QueryFile)


def test_the_language_loads_nothing_heavy() -> None:
    program = "import sys, omnigraph_core.query; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert not {"lance", "pyarrow", "numpy", "asyncio", "socket"} & set(loaded.split())
