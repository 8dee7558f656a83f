"""bm25: the documented formula, over what an index knows and over what the texts say."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.indexes.ensure import ensure_indexes
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from omnigraph_core.tables import postings
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.indexes import IndexKind, IndexSpec, stage_indexes
from omnigraph_core.tables.postings import IndexedTexts, indexed_texts, occurrences
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.words import Words, query_words, tokens_of
from tests.support.graphs import commit, operation
from tests.support.records import node, write_jsonl

SCHEMA = "node Doc { slug: String @key body: String? @index }"
ODD = ["the", "houses", "hous", "Running,", "runs", "ran", "don't", "a-b", "x_y", "Éléphant", "ÉLÉPHANT"]
ODD += ["हिन्दी", "ﬁsh", "İstanbul", "straße", "ｑｚｘ０", "qzx0", "qzx1", "😀", "中文字", "naïve", "1,000"]
ODD += [
    "non\u00a0breaking",
    "zero\u200bwidth",
    "tab\tbed",
    "\x1fodd\x00",
    "Ⓐ",
    "e\u0301a",
    "co-op's",
    "y" * 50,
]
QUERIES = ["houses", "Running houses the fox", "hous run don't ａ 中文字", "qzx0 हिन्दी"]


def texts(count: int) -> list[str | None]:
    chance = random.Random(5)
    found: list[str | None] = []
    for _ in range(count):
        words = [chance.choice(ODD) for _ in range(chance.randrange(12))]
        found.append(chance.choice([" ", "\n", ". ", "  "]).join(words) if chance.random() > 0.05 else None)
    return found


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Two segments of an index, rows that have gone from both or say something else, and rows in neither."""
    place = tmp_path_factory.mktemp("bm25")
    made = Graph.init(str(place / "g"), SCHEMA, Settings(fsync=False, actor="tester"))
    rows = [node("Doc", slug=f"d{number:03}", body=body) for number, body in enumerate(texts(220))]
    rows += [node("Doc", slug="often", body="houses " * 900), node("Doc", slug="both", body="fox " * 255)]
    for part in (rows[:80], rows[80:180] + rows[220:]):
        made.load([write_jsonl(place / "rows.jsonl", part)], LoadMode.APPEND)
        ensure_indexes(made.door, "main", None, "tester", unindexed_max=0)
    made.load([write_jsonl(place / "rows.jsonl", rows[180:220])], LoadMode.APPEND)
    made.change('query q() { update Doc set { body: "houses moved, houses stay" } where slug = "d001" }')
    made.change('query q() { update Doc set { body: "the" } where slug = "d090" }')
    made.change('query q() { delete Doc where slug < "d020" }')
    made.change('query q() { delete Doc where slug = "d100" }')
    made.create_branch("side")
    made.change('query q() { insert Doc { slug: "s", body: "fox houses" } }', branch="side")
    return made


def opened(graph: Graph, branch: str) -> Table:
    entry = graph.snapshot(branch).entry("node:Doc")
    return graph.door.tables.open(entry.ref, entry.table_version)


def known_texts(graph: Graph, table: Table) -> IndexedTexts:
    known = indexed_texts(graph.door.storage, table, "body")
    assert known is not None
    return known


@pytest.mark.parametrize("branch", ["main", "side"])
def test_an_index_and_the_texts_agree_on_every_word(branch: str, graph: Graph) -> None:
    table = opened(graph, branch)
    known = known_texts(graph, table)
    rows = table.read(["body"], with_row_id=True, fragment_ids=sorted(known.fragments)).sort_by("_rowid")
    spelled = Words(rows.column("body").combine_chunks())
    lengths = np.zeros(rows.num_rows, np.int64)
    places = np.searchsorted(rows.column("_rowid").to_numpy(), known.row_ids)
    lengths[places] = known.lengths
    assert lengths.tolist() == spelled.lengths.tolist()
    assert 100 < len(known.row_ids) < 180
    words = query_words(" ".join(body for body in rows.column("body").to_pylist() if body))
    assert len(words) > 30
    found = occurrences(table, "body", known, words)
    assert found is not None
    for word in words:
        texts, counts = spelled.counts(word)
        assert places[found[word].places].tolist() == texts.tolist()
        assert found[word].counts.tolist() == np.minimum(counts, 255).tolist(), word


@pytest.mark.parametrize("branch", ["main", "side"])
@pytest.mark.parametrize(
    "query", ["houses", "Running houses the fox", "hous run don't ａ 中文字", "qzx0 हिन्दी"]
)
def test_scores_are_those_of_the_formula(query: str, branch: str, graph: Graph) -> None:
    """Whatever passes the filter, rarity and mean length are those of all texts."""
    every = graph.query(
        "query q() { match { $d: Doc } return { $d.slug as s, $d.body as b } }", branch=branch
    )
    tokens = {row["s"]: Counter(tokens_of([row["b"] or ""])[1].to_pylist()) for row in every.to_pylist()}
    lengths = {slug: sum(words.values()) for slug, words in tokens.items()}
    count = sum(1 for length in lengths.values() if length)
    mean = sum(lengths.values()) / count
    expected: dict[str, float] = {}
    for slug, words in tokens.items():
        for word in set(tokens_of([query])[1].to_pylist()) & set(words):
            having = sum(1 for each in tokens.values() if word in each)
            n = min(words[word], 255)
            rarity = math.log(1 + (count - having + 0.5) / (having + 0.5))
            score = rarity * 2.2 * n / (n + 1.2 * (0.25 + 0.75 * lengths[slug] / mean))
            expected[slug] = expected.get(slug, 0) + score
    best = sorted(expected, key=lambda slug: (-expected[slug], slug))
    for where in ("", '$d.slug > "d150"'):
        source = (
            f"query q($t: String) {{ match {{ $d: Doc {where} }} return {{ $d.slug as s, "
            "bm25($d.body, $t) as n } order { bm25($d.body, $t) } limit 40 }"
        )
        found = {
            row["s"]: row["n"] for row in graph.query(source, params={"t": query}, branch=branch).to_pylist()
        }
        slugs = [slug for slug in best if not where or slug > "d150"][:40]
        assert found == pytest.approx({slug: expected[slug] for slug in slugs}, rel=1e-12)
        assert len(slugs) > 5


def test_scores_that_do_not_fit_are_not_believed(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened(graph, "main")
    known = known_texts(graph, table)
    words = query_words("houses running")
    assert occurrences(table, "body", known, words) is not None
    source = (
        'query q() { match { $d: Doc } return { $d.slug, bm25($d.body, "houses running") as n } '
        'order { bm25($d.body, "houses running") } }'
    )
    expected = graph.query(source).to_pylist()
    with monkeypatch.context() as otherwise:
        otherwise.setattr(postings, "LENGTH_SHARE", 0.7)
        assert occurrences(table, "body", known, words) is None
    monkeypatch.setattr("omnigraph_core.read.search.bm25.occurrences", lambda *given: None)
    assert graph.query(source).to_pylist() == expected


def test_words_are_read_where_the_table_is(tables: Tables) -> None:
    """On a disk and on S3 alike."""
    ref, spec = TableRef("node:Doc", "nodes/d0c"), IndexSpec("body", IndexKind.FULL_TEXT)
    fields = [pa.field("id", pa.string(), nullable=False), pa.field("body", pa.string())]
    rows = pa.table({"id": ["a", "b", "c"], "body": ["fox fox dog", None, "dog"]})
    table = create_table(tables, ref, pa.schema(fields), operation(), rows)
    table = commit(tables, stage_indexes(tables.storage, table, operation(), build=[spec]))
    known = indexed_texts(tables.storage, table, "body")
    assert known is not None
    assert (known.row_ids.tolist(), known.lengths.tolist()) == ([0, 2], [3, 1])
    found = occurrences(table, "body", known, query_words("foxes"))
    assert found is not None
    assert (found["fox"].places.tolist(), found["fox"].counts.tolist()) == ([0], [2])


def test_texts_without_words_have_no_relevance(tmp_path: Path) -> None:
    """Where no text of the type has a word there is no average to divide by; so with an index of them."""
    made = Graph.init(str(tmp_path / "g"), SCHEMA, Settings(fsync=False, actor="tester"))
    rows = [node("Doc", slug=str(number), body=body) for number, body in enumerate((None, "", "the a."))]
    made.load([write_jsonl(tmp_path / "rows.jsonl", rows)], LoadMode.APPEND)
    score = 'query q() { match { $d: Doc } return { $d.slug as s, bm25($d.body, "fox") as n } }'
    for _ in range(2):
        assert made.query(score).to_pylist() == [{"s": str(number), "n": None} for number in range(3)]
        ensure_indexes(made.door, "main", None, "tester", unindexed_max=0)
