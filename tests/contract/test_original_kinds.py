"""More kinds of graphs of the Rust original than the fixtures: read, moved, adopted and worked on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.history.removed import CommitRemoved
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.maintenance.findings import Severity
from omnigraph_core.settings import load_settings
from omnigraph_core.storage import open_storage, parse_location
from tests.support.original_hand import Hand, Rows, without_nulls
from tests.support.original_kinds import KINDS, LOST, made
from tests.support.originals import SETTINGS, exported, tree

COMPARED = ("id", "name", "age", "years", "city", "src", "dst")
"""Columns that both programs write alike."""


def opened(root: Path) -> Graph:
    return Graph.open(str(root), SETTINGS)


def rows_of(records: list[Any]) -> Rows:
    found: Rows = {}
    for record in records:
        data = record["data"]
        if "edge" in record:
            data = {**data, "src": record["from"], "dst": record["to"]}
        kind = "edge" if "edge" in record else "node"
        found[(f"{kind}:{record.get('edge', record.get('type'))}", data["id"])] = data
    return compared(found)


def compared(rows: Rows) -> Rows:
    return {
        key: without_nulls({name: row[name] for name in COMPARED if name in row}) for key, row in rows.items()
    }


def check_same(graph: Graph, hand: Hand) -> None:
    """Every branch and every commit, as far as the original's cleanup has left them."""
    assert set(graph.branches()) == set(hand.rows)
    for branch, rows in hand.rows.items():
        if branch in hand.lost:
            with pytest.raises(OmnigraphError):
                exported(graph, branch)
        else:
            assert rows_of(exported(graph, branch)) == compared(rows), branch
    log = graph.log()
    for commit, rows in hand.commits.items():
        if commit in hand.gone:
            assert commit not in log.commits
            continue
        assert log.commits[commit].actor_id == hand.actors[commit]
        if commit in hand.lost:
            with pytest.raises(OmnigraphError):
                exported(graph, ref=commit)
        else:
            assert rows_of(exported(graph, ref=commit)) == compared(rows), commit


def check_sound(graph: Graph) -> None:
    assert [each for each in graph.doctor(deep=True) if each.severity is not Severity.NOTE] == []


def in_soak(is_long: Callable[[str], bool]) -> list[Any]:
    return [pytest.param(kind, marks=[pytest.mark.soak] if is_long(kind) else []) for kind in KINDS]


@pytest.mark.parametrize("kind", in_soak(lambda kind: kind == "compacted"))
def test_it_is_read_as_it_is_and_adopted_where_it_was_moved_to(kind: str, tmp_path: Path) -> None:
    hand = made(kind, tmp_path)
    before = tree(hand.root)
    graph = opened(hand.root)
    assert graph.is_original()
    check_same(graph, hand)
    plan = graph.adopt(dry_run=True)
    assert tree(hand.root) == before
    moved = hand.root.rename(tmp_path / "elsewhere")
    done = opened(moved).adopt(actor="ann")
    assert {each.commit_id for each in done.lost} == {each.commit_id for each in plan.lost}
    assert bool(done.lost) == (kind in LOST)
    graph = opened(moved)
    assert not graph.is_original()
    check_same(graph, hand)
    for each in done.lost:
        with pytest.raises(CommitRemoved):
            exported(graph, ref=each.commit_id)
    check_sound(graph)


@pytest.mark.parametrize("kind", in_soak(lambda kind: kind != "overwritten"))
def test_it_is_worked_on_like_any_other(kind: str, tmp_path: Path) -> None:
    hand = made(kind, tmp_path)
    opened(hand.root).adopt(actor="ann")
    graph = opened(hand.root)
    what = "Thing" if "node:Thing" in graph.snapshot().tables else "Person"
    file = tmp_path / "zoe.jsonl"
    file.write_text(f'{{"type":"{what}","data":{{"name":"Zoe"}}}}\n')
    for branch in [each for each in graph.branches() if each not in hand.lost]:
        before = exported(graph, branch)
        graph.load([str(file)], LoadMode.MERGE, branch=branch)
        assert len(exported(graph, branch)) == len(before) + 1
        graph.change(f'query q() {{ delete {what} where name = "Zoe" }}', branch=branch)
        assert exported(graph, branch) == before
    for number, commit in enumerate(sorted(hand.commits.keys() - hand.lost - hand.gone)[:3]):
        name = f"at-{number}"
        graph.create_branch(name, commit)
        graph.load([str(file)], LoadMode.MERGE, branch=name)
        assert len(exported(graph, name)) == len(hand.commits[commit]) + 1
        graph.delete_branch(name)
    graph.create_branch("made")
    graph.load([str(file)], LoadMode.MERGE, branch="made")
    graph.merge("made", layout.MAIN_BRANCH)
    assert any(row.get("name") == "Zoe" for row in rows_of(exported(graph)).values())
    for branch in [each for each in graph.branches() if each not in hand.lost]:
        graph.optimize(branch)
    check_sound(graph)
    graph.cleanup(keep=1, grace_s=0, force=True)
    check_sound(graph)


@pytest.mark.soak
def test_forks_of_forks_on_s3(
    tmp_path: Path, s3_location: Callable[[], str], s3_environment: dict[str, str]
) -> None:
    """A copy under a prefix: read on main, adopted with every branch."""
    hand, place = made("forks of forks", tmp_path), s3_location()
    settings = load_settings({**s3_environment, "OMNIGRAPH_ACTOR": "ann"}, tmp_path)
    control = open_storage(parse_location(place, tmp_path), settings).control
    for path, data in tree(hand.root).items():
        if data is not None:
            control.put(path, data)
    graph = Graph.open(place, settings)
    assert rows_of(exported(graph)) == compared(hand.rows["main"])
    graph.adopt()
    graph = Graph.open(place, settings)
    check_same(graph, hand)
    check_sound(graph)


def test_branches_whose_names_overlap_do_not_harm_each_other(tmp_path: Path) -> None:
    """Lance would remove the one with the other."""
    hand = made("overlapping names", tmp_path)
    opened(hand.root).adopt(actor="ann")
    graph = opened(hand.root)
    graph.delete_branch("sub")
    graph.cleanup(keep=1, grace_s=0, force=True)
    assert rows_of(exported(graph, "sub/x")) == compared(hand.rows["sub/x"])
    graph.change('query q() { insert Person { name: "Zoe" } }', branch="sub/x")
    assert len(exported(graph, "sub/x")) == len(hand.rows["sub/x"]) + 1
    check_sound(graph)
