"""A short storm in every run of the tests; the model it is judged by; and that it would notice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.storm.model import Clash, Graph, Listed, Replay, State, merged
from tests.storm.planted import with_bug
from tests.storm.spell import local_place, remote_place, replayed, steps_of, storm
from tests.storm.steps import LOCAL, program
from tests.support.s3server import S3Server

SEED = 20


def test_a_storm(tmp_path: Path) -> None:
    """As much as a quiet machine does in a minute or two, however long it takes."""
    with local_place(tmp_path) as place:
        spell = storm(place, SEED, steps=25)
    assert spell.wrong == [], f"{spell}\n" + "\n".join(spell.wrong)
    assert spell.commits > 3
    assert sum(spell.faults.values()) > 0


def test_a_storm_on_s3(tmp_path: Path, s3_server: S3Server) -> None:
    with remote_place(tmp_path, s3_server) as place:
        spell = storm(place, SEED, workers=3, steps=8)
    assert spell.wrong == [], f"{spell}\n" + "\n".join(spell.wrong)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_storm_for_long(tmp_path: Path, seed: int) -> None:
    with local_place(tmp_path) as place:
        spell = storm(place, seed, seconds=360.0, spark=True)
    assert spell.wrong == [], f"{spell}\n" + "\n".join(spell.wrong)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(200, 210))
def test_a_storm_on_s3_for_long(tmp_path: Path, s3_server: S3Server, seed: int) -> None:
    with remote_place(tmp_path, s3_server) as place:
        spell = storm(place, seed, seconds=360.0)
    assert spell.wrong == [], f"{spell}\n" + "\n".join(spell.wrong)


def test_a_replay_is_the_same_every_time(tmp_path: Path) -> None:
    told = []
    for name in ("once", "again"):
        with local_place(tmp_path / name) as place:
            assert replayed(place, SEED, steps_of(SEED, 8)).wrong == []
            told.append([(call.step.name, call.answer.code) for call in place.journal.calls])
    assert told[0] == told[1]


def test_a_storm_notices_a_planted_bug(tmp_path: Path) -> None:
    """Without its redo record, a write that dies between its tables leaves them apart."""
    with local_place(tmp_path) as place:
        spell = replayed(with_bug(place, "skip-the-sidecar"), 2, steps_of(2, 40))
    assert spell.wrong


def test_the_same_seed_is_the_same_program() -> None:
    once, again = (program(3, 1, LOCAL) for _ in range(2))
    assert [next(once) for _ in range(50)] == [next(again) for _ in range(50)]


# ---- the model ----


def state(**ages: int | None) -> State:
    return State({("Person", name): {"name": name, "age": age} for name, age in ages.items()})


def test_both_sides_of_a_merge_count() -> None:
    assert merged(state(a=1, b=1), state(a=2, b=1), state(a=1, b=3)) == state(a=2, b=3)


@pytest.mark.parametrize(
    ("ours", "theirs"), [(state(a=2), state(a=3)), (state(), state(a=3)), (state(a=3), state())]
)
def test_a_merge_that_clashes_may_not_be(ours: State, theirs: State) -> None:
    with pytest.raises(Clash):
        merged(state(a=1), ours, theirs)


def listed(number: int, *parents: int, operation: str = "load") -> Listed:
    named = [str(each) for each in parents] + [None, None]
    return Listed(str(number), named[0], named[1], "main", operation, f"m{number}", "ann", False)


def put(name: str, age: int) -> dict[str, Any]:
    return {"op": "put", "rows": [{"type": "Person", "data": {"name": name, "age": age}}]}


def test_a_history_is_replayed_through_merges_and_reverts() -> None:
    graph = Graph([listed(5, 4), listed(4, 2, 3), listed(3, 1), listed(2, 1), listed(1, 0), listed(0)])
    meanings = {
        "m1": put("a", 1),
        "m2": put("b", 2),
        "m3": put("a", 3),
        "m4": {"op": "merge"},
        "m5": {"op": "revert", "commit": "2"},
    }
    replay = Replay(graph, meanings, {})
    assert replay.states["4"] == state(a=3, b=2)
    assert replay.states["5"] == state(a=3)
    assert replay.wrong == []


def test_a_merge_that_should_have_clashed_is_wrong() -> None:
    graph = Graph([listed(4, 2, 3), listed(3, 1), listed(2, 1), listed(1, 0), listed(0)])
    meanings = {"m1": put("a", 1), "m2": put("a", 2), "m3": put("a", 3), "m4": {"op": "merge"}}
    assert "both sides" in Replay(graph, meanings, {}).wrong[0]
