"""Merges, reverts and resets of a real graph on random trees of branches, against dictionaries."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.merge.conflicts import conflict_lines
from omnigraph_core.merge.resolve import read_resolution
from omnigraph_core.merge.run import MergeConflicts
from omnigraph_core.settings import Settings
from tests.support.records import node, nodes, write_jsonl
from tests.unit.merge.naive import History, Outcome, State

SCHEMA = "node Item { k: String @key  a: I64?  b: I64? }\n"
BRANCHES = ("main", "dev", "exp")
IDS = tuple("pqrstu")
NAMES = ("a", "b")


class Twins:
    """A graph, and the history that it must have."""

    def __init__(self, place: Path, seed: int) -> None:
        self.random = random.Random(f"merge model {seed}")
        self.history = History(self.random, len(BRANCHES), IDS, NAMES)
        self.place = place
        self.graph = Graph.init(str(place / "g"), SCHEMA, Settings(fsync=False, actor="ann"))
        self.put(self.history.state(0), {}, "main")
        for name in BRANCHES[1:]:
            self.graph.create_branch(name)
        self.several = 0

    def put(self, state: State, before: State, branch: str) -> None:
        changed = [node("Item", k=key, **row) for key, row in state.items() if row != before.get(key)]
        if changed:
            self.graph.load([write_jsonl(self.place / "rows", changed)], LoadMode.MERGE, branch=branch)
        for key in before.keys() - state.keys():
            self.graph.change(f'query q() {{ delete Item where k = "{key}" }}', branch=branch)

    def content(self, branch: str) -> State:
        found = nodes(self.graph, "Item", branch)
        return {key: {name: row[name] for name in NAMES} for key, row in found.items()}

    def check(self) -> None:
        for number, name in enumerate(BRANCHES):
            assert self.content(name) == self.history.state(number), name

    def write(self, branch: int) -> None:
        before = self.history.state(branch)
        self.history.write(branch)
        self.put(self.history.state(branch), before, BRANCHES[branch])

    def write_and_revert(self, branch: int) -> None:
        """Revert after commit is identity."""
        before = self.history.state(branch)
        state = {**before, self.random.choice(IDS): self.history.new_row()}
        self.put(state, before, BRANCHES[branch])
        self.graph.revert(BRANCHES[branch], BRANCHES[branch])
        assert self.content(BRANCHES[branch]) == before
        self.history.land(branch, before)

    def reset(self, branch: int, other: int) -> None:
        if self.history.heads[branch] != self.history.heads[other]:
            made = self.graph.reset_branch(BRANCHES[branch], BRANCHES[other])
            is_same = self.history.state(branch) == self.history.state(other)
            assert (made.commit_id is None) == is_same
            if not is_same:
                self.history.land(branch, self.history.state(other))

    def merge(self, ours: int, theirs: int) -> None:
        head, tip = self.history.heads[ours], self.history.heads[theirs]
        if tip in self.history.ancestors([head]):
            assert self.graph.merge(BRANCHES[theirs], BRANCHES[ours]).outcome == "already_up_to_date"
            return
        bases = self.history.lowest([head], [tip])
        self.several += len(bases) > 1
        expected = self.history.merge(head, tip)
        if expected.clashes:
            self.history.land(ours, self.settle(ours, theirs, expected), tip)
            return
        if self.random.random() < 0.3:
            self.check_the_other_way(ours, theirs, expected.state)
        made = self.graph.merge(BRANCHES[theirs], BRANCHES[ours])
        assert made.outcome == ("fast_forward" if bases == [head] else "merged")
        self.history.land(ours, expected.state, tip)

    def check_the_other_way(self, ours: int, theirs: int, expected: State) -> None:
        """The merge of A into B holds what the merge of B into A holds."""
        self.graph.create_branch("other", BRANCHES[theirs])
        self.graph.merge(BRANCHES[ours], "other")
        assert self.content("other") == expected
        self.graph.delete_branch("other")

    def settle(self, ours: int, theirs: int, expected: Outcome) -> State:
        """All conflicts at once, nothing changed; then merged with a choice for each."""
        source, target = BRANCHES[theirs], BRANCHES[ours]
        with pytest.raises(MergeConflicts) as raised:
            self.graph.merge(source, target)
        found = raised.value.conflicts
        assert {(each.entity_id, each.kind.value, each.property_name) for each in found} == expected.clashes
        assert len(found) == len(expected.clashes)
        assert self.content(target) == self.history.state(ours)
        state = dict(expected.state)
        lines = []
        for line, each in zip(conflict_lines(found, raised.value.heads), found, strict=True):
            side = self.random.choice(("ours", "theirs"))
            lines.append(json.dumps({**json.loads(line), "choice": side}))
            assert each.entity_id is not None
            taken = self.history.state(ours if side == "ours" else theirs).get(each.entity_id)
            if each.property_name is not None:
                assert taken is not None
                row = state[each.entity_id]
                state[each.entity_id] = {**row, each.property_name: taken[each.property_name]}
            elif taken is None:
                state.pop(each.entity_id, None)
            else:
                state[each.entity_id] = taken
        self.graph.merge(source, target, resolution=read_resolution(lines, "choices"))
        return state

    def undo_and_redo(self) -> None:
        """Undo after any commit is identity, and undo of that brings it back."""
        done = self.graph.operations(1)[0]
        if done.before is None or done.after is None or done.before.commit_id is None:
            return
        after = [self.content(name) for name in BRANCHES]
        number = BRANCHES.index(done.after.name)
        before = nodes_at(self.graph, done.before.commit_id)
        self.graph.undo()
        undone = [self.content(name) for name in BRANCHES]
        assert undone == [*after[:number], before, *after[number + 1 :]]
        self.graph.undo()
        assert [self.content(name) for name in BRANCHES] == after
        self.history.land(number, before)
        self.history.land(number, after[number])


def nodes_at(graph: Graph, ref: str) -> State:
    rows = [json.loads(line)["data"] for line in b"".join(graph.export(ref)).splitlines()]
    return {row["k"]: {name: row.get(name) for name in NAMES} for row in rows}


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 20))]
)
def test_random_branches_merge_like_dictionaries(seed: int, tmp_path: Path) -> None:
    twins = Twins(tmp_path, seed)
    for _ in range(45):
        one, other = twins.random.sample(range(len(BRANCHES)), 2)
        chance = twins.random.random()
        if chance < 0.45:
            twins.write(one)
        elif chance < 0.52:
            twins.write_and_revert(one)
        elif chance < 0.57:
            twins.reset(one, other)
        elif chance < 0.62:
            twins.undo_and_redo()
        else:
            twins.merge(one, other)
    twins.check()
    assert twins.several or seed
