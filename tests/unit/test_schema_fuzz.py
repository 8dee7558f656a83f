"""Whatever the text: a schema or a `SourceError`, and soon.

The mutations are drawn from a fixed seed, so a failure repeats.
"""

from __future__ import annotations

import random

import pytest

from omnigraph_core.schema import Schema, SourceError, compile_schema, from_compiled, schema_hash, to_compiled
from tests.support.cpu import cpu_seconds, is_within

MUTATIONS = 3_000
MUTATIONS_SOAK = 1_000_000
SEED = 20260
# A mutant is some hundred characters. Measured time is well under a millisecond; the
# bound only has to tell linear from not.
SECONDS_PER_MUTANT_MAX = 0.5

CORPUS = [
    """node Person @description("a \\"person\\"") @team(core) {
  name: String @key
  age: I32? tags: [String]? born: DateTime size: enum(small, b-2, 3c)?
  @range(age, 0..150) @unique(name, age) @index(age) @check(name, "^[a-z]+$")
}
edge Knows: Person -> Person @card(0..3) @instruction("how") { since: Date? @unique(src, dst) }
""",
    """/* head */ interface Named { name: String @index @rename_from("title") }
interface Dated { at: DateTime? }
node Doc @rename_from("Paper") implements Named, Dated {
  slug: String part: U32 body: String
  emb: Vector(8) @index @embed("body", model="m1") data: Blob? rank: F64 @default(-1.5)
  @key(slug, part) @range(rank, -1.5..99.5) @range(part, ..7) // tail
}
edge Cites: Doc -> Doc
edge Owns:Doc->Doc@card(1..){w:F64}
""",
]
_PIECES = (
    "node edge interface implements enum Vector ( ) { } [ ] : , -> .. . @ ? = - -1.5 0.. 9999999999999999999 "
    '"x" " \\ /* */ // String Blob [Blob] Date @key @key(a) @card(0..1) @range(a, @check( @embed @unique 1 '
    "$x < >= != 3c b-2 _rowid id src \x00 \ufeff ü \U0001f600 \udc80 \r \n \t @description @rename_from "
    "@default(-1)"
)
PIECES = _PIECES.split(" ")


def mutants(count: int, seed: int) -> list[str]:
    chooser = random.Random(seed)
    return [mutated(chooser.choice(CORPUS), chooser) for _ in range(count)]


def mutated(text: str, chooser: random.Random) -> str:
    for _ in range(chooser.choice((1, 1, 1, 2, 4, 12))):
        start = chooser.randrange(len(text) + 1)
        end = min(len(text), start + chooser.choice((0, 1, 1, 3, 20)))
        kind = chooser.randrange(5)
        if kind == 0:
            text = text[:start] + text[end:]
        elif kind == 1:
            text = text[:start] + chooser.choice(PIECES) + text[end:]
        elif kind == 2:
            text = text[:end] + text[start:end] * chooser.choice((1, 2, 30)) + text[end:]
        elif kind == 3:
            other = chooser.choice(CORPUS)
            cut = chooser.randrange(len(other))
            text = text[:start] + other[cut : cut + 40] + text[end:]
        else:
            text = text[:start] + chr(chooser.choice((chooser.randrange(128), 0x2028, 0x10FFFF))) + text[end:]
    return text


def outcome(text: str) -> Schema | SourceError:
    try:
        return compile_schema(text)
    except SourceError as error:
        return error


def check_outcome(text: str) -> bool:
    """Was the text accepted? Either way the outcome must be whole."""
    results: list[Schema | SourceError] = []
    assert is_within(SECONDS_PER_MUTANT_MAX, lambda: results.append(outcome(text))), repr(text)
    result = results[-1]
    if isinstance(result, Schema):
        assert from_compiled(to_compiled(result)) == result, repr(text)
        return True
    lines = text.split("\n")
    assert 1 <= result.line <= len(lines), repr(text)
    assert 1 <= result.column <= len(lines[result.line - 1]) + 1, repr(text)
    headline, _, carets = str(result).split("\n")
    assert headline.startswith(f"schema.pg:{result.line}:{result.column}: {result.category}: "), repr(text)
    assert carets.strip("\t ") == "^" * carets.count("^") != "", repr(text)
    assert str(result).encode("utf-8"), repr(text)
    return False


def run(count: int, seed: int) -> int:
    """How many mutants were accepted."""
    return sum(check_outcome(text) for text in mutants(count, seed))


@pytest.mark.slow
def test_mutants_end_in_a_schema_or_a_source_error() -> None:
    """Also that the mutations are worth something: neither all fine nor all broken."""
    assert MUTATIONS // 50 < run(MUTATIONS, SEED) < MUTATIONS // 2


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_mutants_end_in_a_schema_or_a_source_error() -> None:
    assert MUTATIONS_SOAK // 50 < run(MUTATIONS_SOAK, SEED + 1) < MUTATIONS_SOAK // 2


def test_every_prefix_of_a_schema_ends_in_a_schema_or_a_source_error() -> None:
    accepted = [length for length in range(len(CORPUS[0])) if check_outcome(CORPUS[0][:length])]
    end_of_node = CORPUS[0].index("}\n") + 1
    end_of_edge = CORPUS[0].index("instruction") - 2
    assert {0, end_of_node, end_of_edge} <= set(accepted)
    assert not [length for length in accepted if 0 < length < end_of_node]


BOMB_CHARACTERS = 200_000
BOMBS = {
    "open lists": "node A { a: " + "[" * BOMB_CHARACTERS,
    "open braces": "node A " + "{" * BOMB_CHARACTERS,
    "open parentheses": "node A @x" + "(" * BOMB_CHARACTERS,
    "question marks": "node A { a: String" + "?" * BOMB_CHARACTERS,
    "at signs": "node A { a: String " + "@" * BOMB_CHARACTERS,
    "one long word": "node " + "A" * BOMB_CHARACTERS,
    "one long number": "node A { a: Vector(" + "9" * BOMB_CHARACTERS + ") }",
    "one long cardinality": "node A {} edge E: A -> A @card(0.." + "9" * BOMB_CHARACTERS + ")",
    "one long bound": "node A { a: I32 @range(a, " + "9" * BOMB_CHARACTERS + "..) }",
    "one long float": "node A { a: F64 @range(a, " + "9" * BOMB_CHARACTERS + ".5..) }",
    "unterminated string": 'node A @x("' + "a" * BOMB_CHARACTERS,
    "unterminated string of escapes": 'node A @x("' + "\\n" * (BOMB_CHARACTERS // 2),
    "unterminated comment": "node A {} /*" + "*" * BOMB_CHARACTERS,
    "slashes and stars": "node A {} /" + "/*" * (BOMB_CHARACTERS // 2) + "\n*",
    "quotes": '"' * (BOMB_CHARACTERS + 1),
    "points": "node A { a: I32 @range(a, " + "." * BOMB_CHARACTERS,
    "dashes in an enum": "node A { a: enum(" + "-" * BOMB_CHARACTERS + ">) }",
    "spaces": " " * BOMB_CHARACTERS + "x",
    "blank lines": "\n" * BOMB_CHARACTERS + "x",
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused_soon_and_briefly(text: str) -> None:
    results: list[Schema | SourceError] = []
    assert is_within(5, lambda: results.append(outcome(text)))
    assert isinstance(results[-1], SourceError)
    assert len(str(results[-1])) < 1000


def large_schema(nodes: int, edges: int) -> str:
    node = """node N{0} @description("kind {0}") {{
  slug: String @key
  title: String @index
  body: String?
  created: DateTime
  score: F64?
  state: enum(open, closed)
  @range(score, 0..1)
}}
"""
    edge = "edge Edge{0}: N{1} -> N{2} @card(0..) {{ since: Date? weight: F64? note: String? }}\n"
    return "".join(node.format(i) for i in range(nodes)) + "".join(
        edge.format(i, i % nodes, i * 3 % nodes) for i in range(edges)
    )


def best_of(rounds: int, text: str) -> float:
    return min(cpu_seconds(lambda: schema_hash(compile_schema(text))) for _ in range(rounds))


def test_a_schema_of_84_types_is_ready_in_milliseconds() -> None:
    """About 8 ms with its hash on the machine it was written on; every command pays it."""
    text = large_schema(17, 67)
    assert len(list(compile_schema(text).types())) == 84
    assert best_of(5, text) < 0.2


@pytest.mark.slow
def test_time_grows_with_the_text_and_not_faster() -> None:
    """Ten times the text; a hundred times the work would be quadratic."""
    small, large = best_of(10, large_schema(50, 200)), best_of(5, large_schema(500, 2000))
    assert large < 60 * small
