"""Merge, revert and reset, and tags, asleep past their lease at every step, while others act.

The sleeper may fail, or be told success; either way nothing that others were told is lost, nothing is
there twice, and what the sleeper was told is true.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from omnigraph_core.errors import NotFoundError, OmnigraphError, RefusedError
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings, load_settings
from tests.support.asleep import Act, Sleeper
from tests.support.records import PEOPLE, nodes
from tests.support.writers import check_whole, open_graph


@pytest.fixture
def settings(s3_environment: dict[str, str]) -> Settings:
    return load_settings({**s3_environment, "OMNIGRAPH_ACTOR": "ann"}, Path("/"))


def insert(graph: Graph, name: str, branch: str) -> None:
    graph.change(f'query q() {{ insert Person {{ name: "{name}", age: 1 }} }}', branch=branch)


@pytest.fixture
def place(s3_location: Callable[[], str], settings: Settings) -> str:
    Graph.init(place := s3_location(), PEOPLE, settings)
    return place


@pytest.fixture
def sleeper(place: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    return Sleeper(place, settings, monkeypatch)


def make_sides(graph: Graph, name: str) -> None:
    """`t…` is the target, which has an old and a mid; `s…` has the source's."""
    graph.create_branch(f"t{name}")
    insert(graph, "old", f"t{name}")
    graph.create_branch(f"s{name}")
    insert(graph, "source", f"s{name}")
    insert(graph, "mid", f"t{name}")


def merge(graph: Graph, name: str) -> None:
    graph.merge(f"s{name}", f"t{name}")


def revert(graph: Graph, name: str) -> None:
    graph.revert(f"t{name}", f"t{name}")


def reset(graph: Graph, name: str) -> None:
    graph.reset_branch(f"t{name}", f"s{name}")


CAME_OF = {merge: {"old", "mid", "source"}, revert: {"old"}, reset: {"source"}}


def write(graph: Graph, name: str) -> None:
    insert(graph, "rival", f"t{name}")


def same(graph: Graph, name: str) -> None:
    with suppress(OmnigraphError):
        graph.merge(f"s{name}", f"t{name}")


def replace_source(graph: Graph, name: str) -> None:
    graph.delete_branch(f"s{name}")
    graph.create_branch(f"s{name}", f"t{name}")
    insert(graph, "other", f"s{name}")


def replace_target(graph: Graph, name: str) -> None:
    with suppress(NotFoundError):
        graph.delete_branch(f"s{name}")
    graph.delete_branch(f"t{name}")
    graph.create_branch(f"t{name}")
    insert(graph, "rival", f"t{name}")


def people(place: str, settings: Settings, branch: str) -> set[str]:
    return set(nodes(open_graph(place, settings), "Person", branch))


def allowed(verb: Act, meanwhile: Act, step: str, *, told: bool) -> list[set[str]]:
    """What the target may hold in the end; if the sleeper was told success, what it did is in it."""
    before, after = {"old", "mid"}, CAME_OF[verb]
    if meanwhile is write:
        with_it = after | {"rival"}
        # A reset that comes after the rival's write takes it along; told success, that is what was asked.
        later = [with_it, *([after] if verb is reset else [])]
        return later if told else [*later, before | {"rival"}]
    if meanwhile is same:
        merged = before | {"source"}
        both = after | {"source"} if verb is not reset else after
        return [both, merged, after] if told else [merged, both, after]
    if meanwhile is replace_target:
        return [{"rival"}]
    if (verb, meanwhile, step) == (merge, replace_source, STEPS[0]):
        # It has read nothing yet: the source is the branch that has the name by now.
        return [before | {"other"}] if told else [before]
    return [after] if told else [before, after]


STEPS = [
    "recovery.sidecar_list",
    "history.carried",
    "write.before_a",
    "recovery.sidecar_write",
    "write.after_a",
    "write.table_committed.1",
    "write.after_b",
    "manifest.before_publish",
    "manifest.after_publish",
    "write.published",
    "history.commit_recorded",
    "write.after_c",
    "recovery.sidecar_delete",
]

# A third of the steps in the normal run, the others with `make soak`.
PARTS = (1, 0, 2)
CASES = [
    pytest.param(
        part,
        verb,
        meanwhile,
        marks=[] if (part, verb, meanwhile) == (1, merge, write) else [pytest.mark.soak],
    )
    for verb in (merge, revert, reset)
    for meanwhile in (write, same, replace_source, replace_target)
    for part in PARTS
]
in_parts = pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.soak] if part != 1 else []) for part in PARTS]
)


@pytest.mark.parametrize(("part", "verb", "meanwhile"), CASES)
def test_a_verb_that_slept_loses_nothing(
    part: int, verb: Act, meanwhile: Act, place: str, settings: Settings, sleeper: Sleeper
) -> None:
    graph = Graph.open(place, settings)
    make_sides(graph, "plain")
    assert sleeper.run(verb, "plain")
    passed = set(sleeper.passed)
    assert set(STEPS) - {"history.carried"} <= passed
    for number, step in enumerate([each for each in STEPS if each in passed][part::3]):
        make_sides(graph, name := f"{number}")
        told = sleeper.run(verb, name, step, meanwhile)
        assert step in sleeper.passed
        open_graph(place, settings)
        found = people(place, settings, f"t{name}")
        assert found in allowed(verb, meanwhile, step, told=told), (step, told, found)
        insert(graph, "later", f"t{name}")
    check_whole(open_graph(place, settings))


# ---- tags ----


def create_tag(graph: Graph, name: str) -> None:
    graph.create_tag(name, f"t{name}")


def delete_tag(graph: Graph, name: str) -> None:
    graph.delete_tag(name)


def delete_and_create_tag(graph: Graph, name: str) -> None:
    with suppress(NotFoundError):
        graph.delete_tag(name)
    graph.create_tag(name, f"s{name}")


def use_the_name_again(graph: Graph, name: str) -> None:
    """Refused once the tag is there: what it names must stay."""
    for branch in (f"s{name}", f"t{name}"):
        graph.delete_branch(branch)
    with suppress(RefusedError):
        graph.create_branch(f"t{name}")


@in_parts
def test_a_tag_that_was_made_asleep_names_what_is_there_or_is_not_made(
    part: int, place: str, settings: Settings, sleeper: Sleeper
) -> None:
    graph = Graph.open(place, settings)
    make_sides(graph, "plain")
    assert sleeper.run(create_tag, "plain")
    for number, step in enumerate(list(dict.fromkeys(sleeper.passed))[part::3]):
        make_sides(graph, name := f"{number}")
        wanted = graph.log().heads[f"t{name}"]
        told = sleeper.run(create_tag, name, step, use_the_name_again)
        is_made = name in {each.name for each in graph.tags()}
        assert told is is_made, step
        if is_made:
            graph.undelete_branch(f"t{name}")
            assert graph.commit(f"tag:{name}").commit_id == wanted, step


@in_parts
def test_a_tag_that_somebody_made_meanwhile_is_not_deleted(
    part: int, place: str, settings: Settings, sleeper: Sleeper
) -> None:
    graph = Graph.open(place, settings)
    make_sides(graph, "plain")
    create_tag(graph, "plain")
    assert sleeper.run(delete_tag, "plain")
    for number, step in enumerate(list(dict.fromkeys(sleeper.passed))[part::3]):
        make_sides(graph, name := f"{number}")
        create_tag(graph, name)
        sleeper.run(delete_tag, name, step, delete_and_create_tag)
        assert graph.commit(f"tag:{name}").commit_id == graph.log().heads[f"s{name}"], step
