"""Search: the same answer without an index, with one that has fallen behind, and with a full one."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from omnigraph_core.errors import BadDataError, RefusedError
from omnigraph_core.graph import Graph
from omnigraph_core.indexes.ensure import ensure_indexes
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.read.search import narrowing, pieces, ranking
from omnigraph_core.read.search.service import EmbedderFailed
from omnigraph_core.read.session.budget import Budget
from omnigraph_core.settings import EmbedSettings, Settings, load_settings
from omnigraph_core.tables.indexes import list_indexes
from omnigraph_core.tables.search import nearest_ids
from tests.support.records import edge, node, write_jsonl

SCHEMA = """
node Doc {
  slug: String @key
  title: String? @index
  body: String? @index
  embedding: Vector(4)? @index
  rank: F64? @index
}
node Author { name: String @key }
edge Wrote: Author -> Doc
edge Cites: Doc -> Doc
"""
WORDS = [
    "graph",
    "graphs",
    "giraffe",
    "elephant",
    "Éléphant",
    "running",
    "runs",
    "ran",
    "the",
    "of",
    "store",
    "stores",
    "query",
    "fox",
    "boxes",
    "x1",
]


def documents(count: int, seed: int = 1) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    found = []
    for number in range(count):
        text = " ".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 9)))
        vector = [round(chance.uniform(-1, 1), 3) for _ in range(4)]
        found.append(
            node(
                "Doc",
                slug=f"d{number:03}",
                title=text.split()[0] if number % 7 else None,
                body=text if number % 11 else None,
                embedding=vector if number % 5 else None,
                rank=float(number % 10),
            )
        )
    found += [node("Author", name=name) for name in ("ann", "bob")]
    found += [edge("Wrote", "ann" if n % 3 else "bob", f"d{n:03}") for n in range(count)]
    return found


def index_all(graph: Graph) -> None:
    ensure_indexes(graph.door, "main", None, "tester", unindexed_max=0)


def has_text_index(graph: Graph) -> bool:
    entry = graph.snapshot().entry("node:Doc")
    return "body_fts" in list_indexes(graph.door.tables.open(entry.ref, entry.table_version))


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    """One content, reached with indexes made at the end, half-way, and never."""
    place = tmp_path_factory.mktemp("search")
    return {name: _made(place, name) for name in ("none", "stale", "full")}


def _made(place: Path, name: str) -> Graph:
    settings = Settings(fsync=False, actor="tester", working_directory=place)
    graph = Graph.init(str(place / name), SCHEMA, settings)
    records = documents(60)
    first = [each for each in records if each.get("edge") is None and each["data"].get("slug", "a") < "d040"]
    graph.load([write_jsonl(place / "first.jsonl", first)], LoadMode.APPEND)
    if name == "stale":
        index_all(graph)
    rest = [each for each in records if each not in first]
    graph.load([write_jsonl(place / "rest.jsonl", rest)], LoadMode.APPEND)
    # Rows that the stale index knows under another text, and rows it should not know any more.
    graph.change('query q() { update Doc set { body: "moved giraffe", title: "moved" } where slug = "d001" }')
    graph.change('query q() { update Doc set { body: "nothing here" } where slug = "d002" }')
    graph.change('query q() { delete Doc where slug = "d003" }')
    if name == "full":
        index_all(graph)
    assert has_text_index(graph) == (name != "none")
    return graph


SEARCHES = [
    'match { $d: Doc search($d.body, "graph") } return { $d.slug as s }',
    'match { $d: Doc search($d.body, "Running foxes") } return { $d.slug as s }',
    'match { $d: Doc search($d.body, "elephant") } return { $d.slug as s }',
    'match { $d: Doc search($d.body, "the of") } return { $d.slug as s }',
    'match { $d: Doc search($d.body, "") } return { $d.slug as s }',
    'match { $d: Doc match_text($d.title, "store") $d.rank < 5.0 } return { $d.slug as s }',
    'match { $d: Doc search($d.body, "moved") } return { $d.slug as s }',
    'match { $d: Doc search($d.title, "run") search($d.body, "graph") } return { $d.slug as s }',
    'match { $d: Doc fuzzy($d.body, "girafe") } return { $d.slug as s }',
    'match { $d: Doc fuzzy($d.body, "elefant", 1) } '
    'return { $d.slug as s, fuzzy($d.body, "elefant", 1) as n }',
    'match { $d: Doc fuzzy($d.body, "elephant", 1) } return { $d.slug as s }',
    'match { $d: Doc fuzzy($d.body, "elephant", 0) } return { $d.slug as s }',
    'match { $a: Author { name: "bob" } $a wrote $d search($d.body, "graph") } return { $d.slug as s }',
    'match { $a: Author not { $a wrote $d search($d.body, "moved") } } return { $a.name as s }',
    'match { $d: Doc } return { $d.slug as s, bm25($d.body, "graph fox") as n } '
    'order { bm25($d.body, "graph fox") }',
    'match { $d: Doc $d.rank > 3.0 } return { $d.slug as s } order { bm25($d.body, "graph runs") } limit 4',
    'match { $a: Author { name: "bob" } $a wrote $d } return { $d.slug as s } '
    'order { bm25($d.body, "graph") }',
    "match { $d: Doc } return { $d.slug as s, nearest($d.embedding, [0.1, 0.2, 0.3, 0.4]) as n } "
    "order { nearest($d.embedding, [0.1, 0.2, 0.3, 0.4]) } limit 7",
    "match { $d: Doc $d.rank = 4.0 } return { $d.slug as s } "
    "order { nearest($d.embedding, [0.1, 0.2, 0.3, 0.4]) } limit 3",
    'match { $a: Author { name: "bob" } $a wrote $d } return { $d.slug as s } '
    "order { nearest($d.embedding, [0, 0, 0, 1]) } limit 3",
    "match { $d: Doc } return { $d.slug as s, rrf(nearest($d.embedding, [1, 0, 0, 0]), "
    'bm25($d.body, "giraffe")) as n } order { rrf(nearest($d.embedding, [1, 0, 0, 0]), '
    'bm25($d.body, "giraffe")) } limit 6',
]


@pytest.mark.parametrize("search", SEARCHES)
def test_an_index_changes_no_answer(search: str, states: dict[str, Graph]) -> None:
    found = {name: graph.query(f"query q() {{ {search} }}").to_pylist() for name, graph in states.items()}
    assert found["none"] == found["stale"] == found["full"]


def slugs(graph: Graph, search: str) -> list[str]:
    return [row["s"] for row in graph.query(f"query q() {{ {search} }}").to_pylist()]


def bodies(graph: Graph) -> dict[str, str]:
    rows = graph.query("query q() { match { $d: Doc } return { $d.slug as s, $d.body as b } }").to_pylist()
    return {row["s"]: row["b"] or "" for row in rows}


def test_words_are_stemmed_and_folded_and_stop_words_dropped(states: dict[str, Graph]) -> None:
    graph = states["stale"]
    texts = bodies(graph)
    expected = [slug for slug, text in texts.items() if {"running", "runs"} & set(text.split())]
    assert slugs(graph, 'match { $d: Doc search($d.body, "runs") } return { $d.slug as s }') == expected
    assert slugs(graph, 'match { $d: Doc search($d.body, "the") } return { $d.slug as s }') == []
    expected = [slug for slug, text in texts.items() if {"graph", "graphs"} & set(text.split())]
    assert slugs(graph, 'match { $d: Doc search($d.body, "GRAPH") } return { $d.slug as s }') == expected


def test_rows_changed_behind_an_index_are_found_by_what_they_are_now(states: dict[str, Graph]) -> None:
    for graph in states.values():
        assert slugs(graph, 'match { $d: Doc search($d.body, "moved") } return { $d.slug as s }') == ["d001"]
        assert "d002" not in slugs(
            graph, 'match { $d: Doc search($d.body, "graph") } return { $d.slug as s }'
        )


def test_fuzzy_finds_near_words_in_rows_no_index_covers(states: dict[str, Graph]) -> None:
    for graph in states.values():
        near = [slug for slug, text in bodies(graph).items() if "giraffe" in text.split()]
        assert any(slug > "d040" for slug in near)
        assert slugs(graph, 'match { $d: Doc fuzzy($d.body, "girafe", 1) } return { $d.slug as s }') == near
        same = [s for s, text in bodies(graph).items() if {"elephant", "Éléphant"} & set(text.split())]
        assert slugs(graph, 'match { $d: Doc fuzzy($d.body, "elephant", 1) } return { $d.slug as s }') == same
        assert slugs(graph, 'match { $d: Doc fuzzy($d.body, "elefan", 1) } return { $d.slug as s }') == []


def test_nearest_ranks_what_the_filter_leaves(states: dict[str, Graph]) -> None:
    """Not the nearest of all, filtered."""
    source = (
        "query q($v: Vector(4)) { match { $d: Doc $d.rank = 8.0 } return { $d.slug as s, $d.embedding as v, "
        "nearest($d.embedding, $v) as n } order { nearest($d.embedding, $v) } limit 4 }"
    )
    rows = states["none"].query(source, params={"v": [1.0, 1, 1, 1]}).to_pylist()
    assert len(rows) == 4
    distances = [sum((x - 1) ** 2 for x in row["v"]) ** 0.5 for row in rows]
    assert distances == sorted(distances)
    assert [row["n"] for row in rows] == pytest.approx(distances)


def test_bm25_puts_the_best_first_and_drops_the_rest(states: dict[str, Graph]) -> None:
    source = (
        'query q() { match { $d: Doc } return { $d.slug as s, bm25($d.body, "graph") as n } '
        'order { bm25($d.body, "graph") } }'
    )
    rows = states["full"].query(source).to_pylist()
    scores = [row["n"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > 0
    texts = bodies(states["full"])
    assert {row["s"] for row in rows} == {s for s, t in texts.items() if {"graph", "graphs"} & set(t.split())}


def test_rrf_ranks_what_both_arms_find_first(states: dict[str, Graph]) -> None:
    nearest = "nearest($d.embedding, [0.5, 0.5, 0, 0])"
    bm25 = 'bm25($d.body, "graph")'
    arms = {
        arm: slugs(states["none"], f"match {{ $d: Doc }} return {{ $d.slug as s }} order {{ {arm} }} limit 9")
        for arm in (nearest, bm25)
    }
    scores: dict[str, float] = {}
    for found in arms.values():
        for rank, slug in enumerate(found):
            scores[slug] = scores.get(slug, 0) + 1 / (10 + rank + 1)
    source = (
        f"query q() {{ match {{ $d: Doc }} return {{ $d.slug as s, rrf({nearest}, {bm25}, 10) as n }} "
        f"order {{ rrf({nearest}, {bm25}, 10) }} limit 9 }}"
    )
    rows = states["none"].query(source).to_pylist()
    assert {row["s"]: row["n"] for row in rows} == pytest.approx(
        dict(sorted(scores.items(), key=lambda item: -item[1])[:9])
    )
    assert set(arms[nearest]) & set(arms[bm25])
    assert rows[0]["s"] in set(arms[nearest]) & set(arms[bm25])


def test_a_traversal_multiplies_ranked_rows(states: dict[str, Graph]) -> None:
    graph = states["none"]
    first = slugs(
        graph, "match { $d: Doc } return { $d.slug as s } order { nearest($d.embedding, [0,0,0,0]) } limit 1"
    )
    source = (
        "match { $d: Doc $a: Author } return { $d.slug as s, $a.name as a } "
        "order { nearest($d.embedding, [0,0,0,0]) } limit 2"
    )
    rows = graph.query(f"query q() {{ {source} }}").to_pylist()
    assert rows == [{"s": first[0], "a": "ann"}, {"s": first[0], "a": "bob"}]


def test_scores_are_null_where_a_search_finds_nothing(states: dict[str, Graph]) -> None:
    source = 'query q() { match { $d: Doc } return { $d.slug as s, bm25($d.body, "moved") } }'
    rows = states["stale"].query(source).to_pylist()
    assert {row["s"] for row in rows if row["score"] is not None} == {"d001"}
    assert len(rows) == 59


def test_a_null_query_finds_nothing(states: dict[str, Graph]) -> None:
    source = "query q($t: String?) { match { $d: Doc search($d.body, $t) } return { $d.slug } }"
    assert states["full"].query(source).row_count == 0


def test_edits_beyond_reason_are_refused(states: dict[str, Graph]) -> None:
    with pytest.raises(BadDataError, match="0 to 8 edits"):
        slugs(states["none"], 'match { $d: Doc fuzzy($d.body, "x", 99) } return { $d.slug as s }')


TEXT_QUERY = (
    "query q() { match { $d: Doc } return { $d.slug as s } "
    'order { nearest($d.embedding, "some text") } limit 3 }'
)


def test_a_text_needs_an_embedder(states: dict[str, Graph]) -> None:
    with pytest.raises(RefusedError, match="embedder"):
        states["none"].query(TEXT_QUERY)


def test_the_mock_embedder_gives_the_same_vector_every_time(states: dict[str, Graph]) -> None:
    graph = states["none"]
    settings = Settings(fsync=False, embed=EmbedSettings(provider="mock"))
    mocked = Graph.open(graph.location.root, settings)
    first = mocked.query(TEXT_QUERY).to_pylist()
    assert len(first) == 3
    assert Graph.open(graph.location.root, settings).query(TEXT_QUERY).to_pylist() == first
    assert mocked.query(TEXT_QUERY.replace("some text", "other words")).to_pylist() != first


class _FakeService(BaseHTTPRequestHandler):
    """Answers like OpenAI or Gemini; busy the first time, and quotes the key where it must not be shown."""

    asked: ClassVar[list[tuple[str, dict[str, Any], str]]] = []
    status: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers.get("Authorization") or self.headers.get("x-goog-api-key") or ""
        self.asked.append((self.path, body, key))
        status = self.status.pop(0) if self.status else 200
        vector = [0.0, 0.0, 0.0, 1.0]
        answer: dict[str, Any] = {"data": [{"embedding": vector}], "embedding": {"values": vector}}
        content = json.dumps(answer if status == 200 else {"error": f"bad key {key}"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _FakeService)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    _FakeService.asked.clear()
    _FakeService.status[:] = []
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("variables", "path", "key"),
    [
        ({"OPENAI_API_KEY": "sk-secret"}, "/v1/embeddings", "Bearer sk-secret"),
        ({"OPENROUTER_API_KEY": "or-secret"}, "/v1/embeddings", "Bearer or-secret"),
        ({"GEMINI_API_KEY": "g-secret"}, "/v1/models/gemini-embedding-2:embedContent", "g-secret"),
    ],
)
def test_embedders_of_the_environment(
    variables: dict[str, str], path: str, key: str, service: str, states: dict[str, Graph], tmp_path: Path
) -> None:
    environment = {"OMNIGRAPH_EMBED_BASE_URL": service, "OMNIGRAPH_FSYNC": "off", **variables}
    settings = load_settings(environment, tmp_path)
    assert "secret" not in repr(settings)
    graph = Graph.open(states["none"].location.root, settings)
    _FakeService.status[:] = [503]
    by_vector = TEXT_QUERY.replace('"some text"', "[0, 0, 0, 1]")
    assert graph.query(TEXT_QUERY).to_pylist() == graph.query(by_vector).to_pylist()
    assert [(asked[0], asked[2]) for asked in _FakeService.asked] == [(path, key)] * 2
    assert "some text" in json.dumps(_FakeService.asked[0][1])
    _FakeService.status[:] = [401]
    with pytest.raises(EmbedderFailed, match="HTTP 401") as caught:
        graph.query(TEXT_QUERY)
    assert "secret" not in str(caught.value)


def test_a_recorded_model_must_be_the_embedders(tmp_path: Path) -> None:
    schema = 'node D { k: String @key t: String v: Vector(2)? @embed("t", model="big-one") }'
    settings = Settings(fsync=False, actor="t", embed=EmbedSettings(provider="mock"))
    graph = Graph.init(str(tmp_path / "g"), schema, settings)
    graph.change('query q() { insert D { k: "a", t: "x", v: [0, 1] } }')
    source = 'query q() { match { $d: D } return { $d.k } order { nearest($d.v, "x") } limit 1 }'
    with pytest.raises(RefusedError, match=r"big-one.*mock"):
        graph.query(source)
    named = replace(settings, embed=EmbedSettings(provider="mock", model="big-one"))
    assert Graph.open(str(tmp_path / "g"), named).query(source).row_count == 1


def test_many_candidates_are_left_to_the_index(
    states: dict[str, Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few partitions all of them are looked into, so the answer is the exact one."""
    searches = [search for search in SEARCHES if "nearest" in search]
    expected = [states["none"].query(f"query q() {{ {search} }}").to_pylist() for search in searches]
    monkeypatch.setattr(ranking, "EXACT_ROWS_MAX", 5)
    monkeypatch.setattr(narrowing, "VECTOR_BYTES_MAX", 0)
    used = []
    monkeypatch.setattr(ranking, "nearest_ids", lambda *given: used.append(given) or nearest_ids(*given))
    for search, rows in zip(searches, expected, strict=True):
        assert states["full"].query(f"query q() {{ {search} }}").to_pylist() == rows
    assert used


@pytest.mark.parametrize("size", [1, 7])
def test_texts_are_searched_in_pieces(
    size: int, states: dict[str, Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = [search for search in SEARCHES if "nearest" not in search]
    expected = [states["full"].query(f"query q() {{ {search} }}").to_pylist() for search in searches]
    monkeypatch.setattr(pieces, "_TEXTS_PER_PIECE", size)
    for search, rows in zip(searches, expected, strict=True):
        assert states["none"].query(f"query q() {{ {search} }}").to_pylist() == rows


@pytest.mark.parametrize("search", ["bm25", "fuzzy"])
@pytest.mark.parametrize("state", ["full", "none"])
def test_a_search_looks_at_the_time_before_each_word(
    state: str, search: str, states: dict[str, Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query may have thousands, each of which is looked for by itself."""
    looks: list[int] = []
    check_time = Budget.check_time

    def counted(budget: Budget) -> None:
        looks.append(1)
        check_time(budget)

    monkeypatch.setattr(Budget, "check_time", counted)
    clauses = {
        "bm25": "} return { $d.slug } order { bm25($d.body, $t)",
        "fuzzy": "fuzzy($d.body, $t) } return { $d.slug",
    }
    source = f"query q($t: String) {{ match {{ $d: Doc {clauses[search]} }} }}"
    counts = []
    for words in (1, 60):
        looks.clear()
        states[state].query(source, params={"t": " ".join(f"word{number}" for number in range(words))})
        counts.append(len(looks))
    assert counts[1] - counts[0] >= 59


def test_a_branch_searches_its_own_texts(states: dict[str, Graph]) -> None:
    """Its tables share files and indexes with main's; what it changed is found on it alone."""
    change = (
        'query q() { update Doc set { body: "moved to the side" } where slug = "d010" '
        'insert Doc { slug: "new", body: "giraffe graph", embedding: [1, 0, 0, 0] } }'
    )
    for graph in states.values():
        graph.create_branch("side")
        graph.change(change, branch="side")
    for search in SEARCHES:
        answers = [
            [
                graph.query(f"query q() {{ {search} }}", branch="side").to_pylist()
                for graph in states.values()
            ],
            [graph.query(f"query q() {{ {search} }}", ref="side").to_pylist() for graph in states.values()],
        ]
        assert all(answer == answers[0][0] for group in answers for answer in group)
    moved = 'match { $d: Doc search($d.body, "moved") } return { $d.slug as s }'
    assert slugs(states["full"], moved) == ["d001"]
    found = states["full"].query(f"query q() {{ {moved} }}", branch="side").to_pylist()
    assert [row["s"] for row in found] == ["d001", "d010"]
