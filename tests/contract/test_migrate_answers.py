"""What the data says to a migration plan: counts and sample ids, on the image after the migration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.migrate.answers import SAMPLES_MAX, answer
from omnigraph_core.migrate.groups import Dealt
from omnigraph_core.schema import compile_schema
from omnigraph_core.schema.evolve import Answer, Question, plan_migration
from omnigraph_core.settings import Settings
from tests.support.records import edge, exported, node, write_jsonl

OLD = """
node Person {
  name: String @key
  age: I32?
  nick: String?
  mood: String?
  day: Date?
  photo: Blob?
  spot: Vector(2)?
}
edge Knows: Person -> Person { weight: I32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(str(tmp_path / "g.omni"), OLD, Settings(fsync=False, actor="ann"))


def load(graph: Graph, tmp_path: Path, *records: Mapping[str, Any], branch: str = "main") -> None:
    graph.load([write_jsonl(tmp_path / "in.jsonl", records)], LoadMode.MERGE, branch=branch)


def asked(graph: Graph, new: str, branch: str = "main") -> dict[str, Answer]:
    """The answers by the kind of their questions."""
    view = graph.at(branch=branch)
    plan = plan_migration(view.schema, compile_schema(new))
    answers = answer(graph._tables, view.snapshot, plan)
    assert set(answers) == set(plan.questions)
    plan.answered(answers)
    return {_name(question): found for question, found in answers.items()}


def _name(question: Question) -> str:
    name = type(question).__name__
    return f"{name} {question.property}" if hasattr(question, "property") else name


def changed(*replaced: tuple[str, str]) -> str:
    new = OLD
    for old, by in replaced:
        assert old in new
        new = new.replace(old, by)
    return new


def test_a_required_property_counts_every_live_row(graph: Graph, tmp_path: Path) -> None:
    new = changed(("age: I32?", "age: I32?\n  must: I32"))
    assert asked(graph, new) == {"NoRows must": Answer(0)}
    load(graph, tmp_path, *(node("Person", name=f"p{number}") for number in range(7)))
    graph.change('query q() { delete Person where name = "p0" }')
    found = asked(graph, new)["NoRows must"]
    assert (found.rows, found.samples) == (6, ("p1", "p2", "p3", "p4", "p5"))


def test_nulls_are_found_in_columns_of_every_kind(graph: Graph, tmp_path: Path) -> None:
    full = node("Person", name="full", age=1, day="2024-01-01", photo="base64:", spot=[0, 0])
    load(graph, tmp_path, full, node("Person", name="bare"))
    new = changed(
        ("age: I32?", "age: I64"),
        ("day: Date?", 'since: DateTime @rename_from("day")'),
        ("photo: Blob?", "photo: Blob"),
        ("spot: Vector(2)?", "spot: Vector(2)"),
    )
    bare = Answer(1, ("bare",))
    assert asked(graph, new) == {
        "NoNulls age": bare,
        "NoNulls since": bare,
        "NoNulls photo": bare,
        "NoNulls spot": bare,
    }


def test_an_enum_is_broken_by_other_values_and_not_by_null(graph: Graph, tmp_path: Path) -> None:
    moods = ["good", None, "it's", "Good"]
    load(graph, tmp_path, *(node("Person", name=f"p{n}", mood=mood) for n, mood in enumerate(moods)))
    found = asked(graph, changed(("mood: String?", "mood: enum(good, bad)?")))
    assert found == {"OneOf mood": Answer(2, ("p2", "p3"))}


def test_an_enum_value_whose_last_holder_was_deleted_is_unused(graph: Graph, tmp_path: Path) -> None:
    load(graph, tmp_path, node("Person", name="a", mood="good"), node("Person", name="b", mood="odd"))
    graph.change('query q() { delete Person where name = "b" }')
    assert asked(graph, changed(("mood: String?", "mood: enum(good)?"))) == {"OneOf mood": Answer(0)}


def test_a_constraint_is_asked_of_the_renamed_and_widened_column(graph: Graph, tmp_path: Path) -> None:
    ages = [5, None, 200, -1, 90]
    load(graph, tmp_path, *(node("Person", name=f"p{n}", age=age) for n, age in enumerate(ages)))
    new = changed(("age: I32?", 'years: F64? @rename_from("age")\n  @range(years, 0..120)'))
    assert asked(graph, new) == {"Within": Answer(2, ("p2", "p3"))}


def test_a_check_is_asked_in_the_language_of_loads(graph: Graph, tmp_path: Path) -> None:
    nicks = ["ab", "AB", None, "aß", ""]
    load(graph, tmp_path, *(node("Person", name=f"p{n}", nick=nick) for n, nick in enumerate(nicks)))
    new = changed(("mood: String?", 'mood: String?\n  @check(nick, "^[[:lower:]]+$")'))
    assert asked(graph, new) == {"Matches": Answer(3, ("p1", "p3", "p4"))}


def test_all_rows_that_share_a_tuple_count_and_nulls_do_not(graph: Graph, tmp_path: Path) -> None:
    pairs = [("x", 1), ("x", 1), ("x", 2), ("x", None), ("x", None), ("y", 3), ("x", 1), ("y", 3)]
    load(graph, tmp_path, *(node("Person", name=f"p{n}", nick=a, age=b) for n, (a, b) in enumerate(pairs)))
    graph.change('query q() { delete Person where name = "p5" }')
    new = changed(("spot", "@unique(nick, years)\n  spot"), ("age: I32?", 'years: I64? @rename_from("age")'))
    assert asked(graph, new) == {"Distinct": Answer(3, ("p0", "p1", "p6"))}


def test_a_default_is_the_same_in_all_rows(graph: Graph, tmp_path: Path) -> None:
    load(graph, tmp_path, node("Person", name="a", nick="x"))
    alone = changed(("spot", 'made: String? @default("now") @unique\n  spot'))
    assert asked(graph, alone) == {"Distinct": Answer(0)}
    load(graph, tmp_path, node("Person", name="b", nick="y"), node("Person", name="c", nick="y"))
    assert asked(graph, alone) == {"Distinct": Answer(3, ("a", "b", "c"))}
    together = changed(("spot", 'made: String? @default("now")\n  @unique(made, nick)\n  spot'))
    assert asked(graph, together) == {"Distinct": Answer(2, ("b", "c"))}


def test_edges_are_unique_by_their_ends(graph: Graph, tmp_path: Path) -> None:
    ends = [("a", "b"), ("a", "b"), ("b", "a")]
    load(
        graph,
        tmp_path,
        *(node("Person", name=name) for name in "ab"),
        *(edge("Knows", *pair, id=f"k{n}") for n, pair in enumerate(ends)),
    )
    found = asked(graph, changed(("{ weight: I32? }", "{ weight: I32? @unique(src, dst) }")))
    assert found == {"Distinct": Answer(2, ("k0", "k1"))}


def test_a_cardinality_concerns_sources_that_have_edges(graph: Graph, tmp_path: Path) -> None:
    ends = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "a"), ("c", "a"), ("c", "b")]
    load(
        graph,
        tmp_path,
        *(node("Person", name=name) for name in "abcd"),
        *(edge("Knows", *pair) for pair in ends),
    )
    found = asked(graph, changed(("-> Person {", "-> Person @card(2..2) {")))
    assert found == {"Fits": Answer(2, ("a", "b"))}


def test_each_branch_is_asked_for_itself(graph: Graph, tmp_path: Path) -> None:
    load(graph, tmp_path, node("Person", name="a", age=1))
    graph.create_branch("side")
    load(graph, tmp_path, node("Person", name="b"), branch="side")
    new = changed(("age: I32?", "age: I32"))
    assert asked(graph, new) == {"NoNulls age": Answer(0)}
    assert asked(graph, new, "side") == {"NoNulls age": Answer(1, ("b",))}


@pytest.mark.parametrize("parts", [1, 3])
@settings(max_examples=40)
@given(
    texts=st.lists(
        st.lists(st.one_of(st.none(), st.sampled_from("abcdefgh")), max_size=6), min_size=1, max_size=4
    )
)
def test_parts_count_as_the_whole_does(parts: int, texts: list[list[str | None]]) -> None:
    every = [text for batch in texts for text in batch]
    held = Counter(text for text in every if text is not None)
    shared = [place for place, text in enumerate(every) if text is not None and held[text] > 1]
    with Dealt(parts) as dealt:
        place = 0
        for batch in texts:
            dealt.add(pa.array(batch, pa.utf8()), place)
            place += len(batch)
        assert dealt.repeated(SAMPLES_MAX) == (len(shared), shared[:SAMPLES_MAX])
        odd = sorted(text for text, count in held.items() if not 2 <= count <= 3)
        assert dealt.outnumbered(2, 3, SAMPLES_MAX) == (len(odd), odd[:SAMPLES_MAX])


People = list[tuple[int | None, str | None]]


@settings(max_examples=12)
@given(
    people=st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(0, 3)), st.one_of(st.none(), st.sampled_from(["x", "y", "zz"]))
        ),
        max_size=8,
    ),
    gone=st.sets(st.integers(0, 7), max_size=2),
)
def test_answers_are_those_of_a_look_at_every_record(
    tmp_path_factory: pytest.TempPathFactory, people: People, gone: set[int]
) -> None:
    place = tmp_path_factory.mktemp("answers")
    graph = Graph.init(str(place / "g"), OLD, Settings(fsync=False, actor="ann"))
    numbered = [node("Person", name=f"p{n}", age=age, nick=nick) for n, (age, nick) in enumerate(people)]
    load(graph, place, *numbered[::2])
    load(graph, place, *numbered[1::2])
    for number in gone:
        graph.change(f'query q() {{ delete Person where name = "p{number}" }}')
    new = changed(
        ("nick: String?", 'alias: String? @rename_from("nick") @unique\n  @check(alias, "^.$")'),
        ("age: I32?", "age: I64\n  @range(age, 1..2)"),
        ("photo", "must: Bool\n  photo"),
    )
    left = [record["data"] for record in exported(graph)]
    nicks = Counter(each["nick"] for each in left if each["nick"] is not None)
    expected = {
        "NoRows must": len(left),
        "NoNulls age": sum(each["age"] is None for each in left),
        "Within": sum(each["age"] in (0, 3) for each in left),
        "Matches": nicks["zz"],
        "Distinct": sum(count for count in nicks.values() if count > 1),
    }
    assert {name: found.rows for name, found in asked(graph, new).items()} == expected
