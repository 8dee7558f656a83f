"""Random histories of nodes and edges on branches that come and go, against dictionaries.

Branches merge, revert, reset, are deleted, brought back and made anew under their names, between
optimize and cleanup. Every state, every set of conflicts and every difference must be what the
dictionaries say. Where a base was given up or removed, the merge says so, and what it came to counts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.errors import NotFoundError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.merge.conflicts import Conflict, conflict_lines
from omnigraph_core.merge.resolve import Resolution, read_resolution
from omnigraph_core.merge.run import MergeConflicts, Merged
from omnigraph_core.settings import Settings
from omnigraph_core.write.branches import BranchHasDescendants
from tests.support.records import exported, write_jsonl
from tests.unit.merge.naive import Commit, History, Outcome, State, merged

SCHEMA = "node Item { k: String @key  a: I64?  b: I64? }\nedge Link: Item -> Item { w: I64? }\n"
NODES = tuple("pqrstu")
EDGES = tuple("123456")
NAMES = ("main", "dev", "exp")
ENDS = "ends"

Clash = tuple[Any, str, str | None]
Key = tuple[str, str]
"""Type and id: both tables are one state of the dictionaries."""


class Tree(History):
    """Branches by name; what each commit is called in the graph."""

    def __init__(self, chooser: random.Random) -> None:
        self.random = chooser
        self.fresh = iter(range(1_000_000))
        self.commits = [Commit(0, (), {})]
        self.heads: dict[str, int] = {"main": 0}  # type: ignore[assignment]
        self.ids_of: dict[int, str] = {}
        self.deleted: dict[str, tuple[int, str | None]] = {}

    def judged(self, outcome: Outcome) -> Outcome:
        """The same with the edges that an end is missing of; a clash is no reason to ask for more."""
        outcome.clashes = {(key, kind, None if name == ENDS else name) for key, kind, name in outcome.clashes}
        clashing = {key for key, _, _ in outcome.clashes}
        for key, row in outcome.state.items():
            if key[0] == "Link" and key not in clashing and _loose(row, outcome.state, clashing):
                outcome.clashes.add((key, "orphan_edge", None))
        return outcome

    def three_way(self, base: State, ours: State, theirs: State) -> Outcome:
        return self.judged(merged(base, ours, theirs))


def _loose(row: dict[str, Any], state: State, clashing: set[Any]) -> bool:
    return any(("Item", end) not in state and ("Item", end) not in clashing for end in row[ENDS])


def named(conflict: Conflict) -> Clash:
    assert conflict.entity_id is not None
    kind = conflict.kind.value
    name = None if kind == "orphan_edge" else conflict.property_name
    return ((conflict.type_name, conflict.entity_id), kind, name)


class Twins:
    def __init__(self, place: Path, seed: int) -> None:
        self.random = random.Random(f"merge histories {seed}")
        self.tree = Tree(self.random)
        self.place = place
        self.graph = Graph.init(str(place / "g"), SCHEMA, Settings(fsync=False, actor="ann"))
        self.note("main")
        for _ in range(2):
            self.write("main")

    # ---- states ----

    def note(self, branch: str) -> None:
        head = self.graph.head(branch)
        assert head is not None
        self.tree.ids_of[self.tree.heads[branch]] = head.commit_id

    def land(self, branch: str, state: State, *merged_parents: int) -> None:
        """A revert or a reset of what is so already makes no commit."""
        head = self.graph.head(branch)
        assert head is not None
        if head.commit_id == self.tree.ids_of[self.tree.heads[branch]]:
            assert (self.state(branch), merged_parents) == (state, ())
            return
        self.tree.land(branch, state, *merged_parents)  # type: ignore[arg-type]
        self.note(branch)

    def state(self, branch: str) -> State:
        return self.tree.commits[self.tree.heads[branch]].state

    def content(self, branch: str) -> State:
        found: State = {}
        for record in exported(self.graph, branch):
            data = record["data"]
            if "type" in record:
                found["Item", data["k"]] = {"a": data["a"], "b": data["b"]}  # type: ignore[index]
            else:
                ends = (record["from"], record["to"])
                found["Link", data["id"]] = {ENDS: ends, "w": data["w"]}  # type: ignore[index]
        return found

    def check(self, branch: str) -> None:
        assert self.content(branch) == self.state(branch), branch

    def put(self, state: State, before: State, branch: str) -> None:
        """One commit where it can be: a load, or deletions one after the other."""
        lines = [self._record(key, row) for key, row in state.items() if row != before.get(key)]
        if lines:
            self.graph.load([write_jsonl(self.place / "rows", lines)], LoadMode.MERGE, branch=branch)
            before = {**before, **dict(state.items())}
            self.land(branch, before)
        for key in sorted(key for key in before if key not in state):
            before = self.delete(key, before, branch)

    def _record(self, key: Any, row: dict[str, Any]) -> dict[str, Any]:
        kind, id_ = key
        if kind == "Item":
            return {"type": "Item", "data": {"k": id_, **row}}
        return {"edge": "Link", "from": row[ENDS][0], "to": row[ENDS][1], "data": {"id": id_, "w": row["w"]}}

    def delete(self, key: Any, before: State, branch: str) -> State:
        if key not in before:
            return before
        kind, id_ = key
        if kind == "Link":
            self.graph.change(f"query q() {{ delete Link where w = {before[key]['w']} }}", branch=branch)
            after = {each: row for each, row in before.items() if each != key}
        else:
            self.graph.change(f'query q() {{ delete Item where k = "{id_}" }}', branch=branch)
            after = {
                each: row
                for each, row in before.items()
                if each != key and not (each[0] == "Link" and id_ in row[ENDS])
            }
        self.land(branch, after)
        return after

    # ---- what happens ----

    def write(self, branch: str) -> None:
        before = self.state(branch)
        state = {key: dict(row) for key, row in before.items()}
        items = sorted(key[1] for key in state if key[0] == "Item")
        for _ in range(self.random.randint(1, 3)):
            if len(items) < 2 or self.random.random() < 0.5:
                key: Any = ("Item", self.random.choice(NODES))
                row = state.get(key) or {"a": None, "b": None}
                state[key] = {**row, self.random.choice("ab"): self.tree.value()}
            else:
                key = ("Link", self.random.choice(EDGES))
                row = state.get(key) or {ENDS: self.random.choices(items, k=2), "w": None}
                if key in state and self.random.random() < 0.4:
                    row = {**row, ENDS: self.random.choices(items, k=2)}
                else:
                    row = {**row, "w": self.tree.value()}
                state[key] = {**row, ENDS: tuple(row[ENDS])}
                if state[key]["w"] is None:
                    state[key]["w"] = self.tree.value()
        self.put(state, before, branch)
        if self.random.random() < 0.35 and self.state(branch):
            self.delete(self.random.choice(sorted(self.state(branch))), self.state(branch), branch)

    def merge(self, ours: str, theirs: str) -> None:
        head, tip = self.tree.heads[ours], self.tree.heads[theirs]
        if tip in self.tree.ancestors([head]):
            assert self.graph.merge(theirs, ours).outcome == "already_up_to_date"
            return
        tried = self.graph.merge(theirs, ours, dry_run=True)
        if tried.warnings:
            self.merge_from_less(ours, theirs, tip)
            return
        bases = self.tree.lowest([head], [tip])
        assert set(tried.bases) == {self.tree.ids_of[each] for each in bases}
        expected = self.tree.three_way(self.tree.base(bases), self.state(ours), self.state(theirs))
        if not expected.clashes and self.random.random() < 0.2:
            self.check_the_other_way(ours, theirs, expected.state)
        assert tried.outcome == ("fast_forward" if bases == [head] else "merged")
        self.carry_out(
            ours,
            expected,
            self.state(theirs),
            lambda resolution: self.graph.merge(theirs, ours, resolution=resolution),
            tip,
        )

    def merge_from_less(self, ours: str, theirs: str, tip: int) -> None:
        """A base is gone for good: what comes of it is whole, and goes on from there."""
        if self._settles(ours, theirs):
            self.graph.merge(theirs, ours, strategy=self.random.choice(("ours", "theirs")))
        else:
            self.graph.reset_branch(ours, theirs)
        is_merged = self.graph.commit(ours).merged_parent_commit_id is not None
        self.land(ours, self.content(ours), *([tip] if is_merged else []))

    def _settles(self, ours: str, theirs: str) -> bool:
        return not self.graph.merge(theirs, ours, strategy="ours", dry_run=True).conflicts and not (
            self.graph.merge(theirs, ours, strategy="theirs", dry_run=True).conflicts
        )

    def check_the_other_way(self, ours: str, theirs: str, expected: State) -> None:
        """The merge of A into B holds what the merge of B into A holds."""
        self.graph.create_branch("other", theirs)
        self.graph.merge(ours, "other")
        assert self.content("other") == expected
        self.graph.delete_branch("other")

    def revert(self, branch: str) -> None:
        line = [self.tree.heads[branch]]
        while self.tree.commits[line[-1]].parents and len(line) < 6:
            line.append(self.tree.commits[line[-1]].parents[0])
        number = self.random.choice(line[:-1])
        taken_back, parent = (
            self.tree.commits[each].state for each in (number, self.tree.commits[number].parents[0])
        )
        expected = self.tree.three_way(taken_back, self.state(branch), parent)
        if number == line[0]:
            assert (expected.clashes, expected.state) == (set(), parent)
        try:
            self.carry_out(
                branch,
                expected,
                parent,
                lambda choices: self.graph.revert(self.tree.ids_of[number], branch, resolution=choices),
            )
        except NotFoundError:
            assert self.is_lost(number) or self.is_lost(self.tree.commits[number].parents[0])

    def reset(self, branch: str) -> None:
        number = self.random.randrange(1, len(self.tree.commits))
        if number == self.tree.heads[branch]:
            return
        try:
            self.graph.reset_branch(branch, self.tree.ids_of[number])
        except NotFoundError:
            assert self.is_lost(number)
            return
        self.land(branch, self.tree.commits[number].state)

    def is_lost(self, number: int) -> bool:
        try:
            self.graph.at(self.tree.ids_of[number])
        except NotFoundError:
            return True
        return False

    def carry_out(
        self,
        branch: str,
        expected: Outcome,
        theirs: State,
        act: Callable[[Resolution | None], Merged],
        *parents: int,
    ) -> None:
        """With all conflicts at once and nothing changed; then with a choice for each."""
        if not expected.clashes:
            act(None)
            self.land(branch, expected.state, *parents)
            return
        before = self.content(branch)
        lines: list[str] = []
        clashes, state = expected.clashes, expected.state
        while clashes:
            with pytest.raises(MergeConflicts) as raised:
                act(read_resolution(lines, "choices") if lines else None)
            found = [named(each) for each in raised.value.conflicts]
            assert set(found) == clashes, (set(found) - clashes, clashes - set(found), state, bool(lines))
            assert self.content(branch) == before
            wanted = self.chosen(branch, theirs, raised.value, state, lines)
            again = self.tree.judged(Outcome(dict(wanted)))
            state, clashes = again.state, again.clashes
        act(read_resolution(lines, "choices"))
        self.land(branch, state, *parents)

    def chosen(
        self, branch: str, theirs: State, refused: MergeConflicts, state: State, lines: list[str]
    ) -> State:
        """A choice for each conflict, and what they come to."""
        after, ours = dict(state), self.state(branch)
        written: dict[Clash, str] = {}
        written_before: dict[Any, str] = {}
        kept: set[Any] = set()
        for line, each in zip(
            conflict_lines(refused.conflicts, refused.heads), refused.conflicts, strict=True
        ):
            key, kind, name = named(each)
            if kind == "orphan_edge":
                choice = written_before.get(key) or self.random.choice(("delete", "keep_node"))
                written_before[key] = choice
                if choice == "delete":
                    after.pop(key, None)
                else:
                    for end in state[key][ENDS]:
                        kept.add(("Item", end))
            else:
                choice = self.random.choice(("ours", "theirs"))
                taken = (ours if choice == "ours" else theirs).get(key)
                unit = ENDS if kind == "divergent_update" and name is None else name
                if unit is not None:
                    assert taken is not None
                    after[key] = {**after[key], unit: taken[unit]}
                elif taken is None:
                    after.pop(key, None)
                else:
                    after[key] = taken
            written[named(each)] = json.dumps({**json.loads(line), "choice": choice})
        lines += written.values()
        for end in kept - after.keys():
            after[end] = ours.get(end) or theirs[end]
        return after

    def delete_branch(self, name: str) -> None:
        self.graph.delete_branch(name)
        self.tree.deleted[name] = (self.tree.heads.pop(name), None)

    def bring_back(self, name: str) -> None:
        """The very branch, or a new one of its name that starts anywhere."""
        if name in self.tree.deleted and self.random.random() < 0.5:
            self.graph.undelete_branch(name)
            self.tree.heads[name] = self.tree.deleted.pop(name)[0]
            return
        source = self.random.choice(list(self.tree.heads))
        self.graph.create_branch(name, source)
        self.tree.heads[name] = self.tree.heads[source]
        self.tree.deleted.pop(name, None)

    def cleanup(self) -> None:
        self.graph.cleanup(keep=self.random.choice((3, 6)), grace_s=0)
        self.tree.deleted.clear()

    def check_difference(self) -> None:
        """From any branch to any other."""
        one, other = (self.random.choice(list(self.tree.heads)) for _ in range(2))
        before, after = self.state(one), self.state(other)
        came, went, moved = set(), set(), set()
        for found in self.graph.diff(one, other).table_diffs():
            rows = found.read()
            for into, table in ((came, rows.inserted), (went, rows.deleted), (moved, rows.after)):
                into.update((found.entity.name, each) for each in table.column("id").to_pylist())
        assert came == after.keys() - before.keys()
        assert went == before.keys() - after.keys()
        assert moved == {key for key in before.keys() & after.keys() if before[key] != after[key]}

    def step(self) -> None:
        names = list(self.tree.heads)
        one = self.random.choice(names)
        chance = self.random.random()
        absent = [name for name in NAMES if name not in self.tree.heads]
        if absent and chance < 0.3:
            self.bring_back(self.random.choice(absent))
        elif chance < 0.40:
            self.write(one)
        elif chance < 0.45:
            self.revert(one)
        elif chance < 0.49:
            self.reset(one)
        elif chance < 0.52 and one != "main":
            self.try_to_delete(one)
        elif chance < 0.54:
            self.graph.optimize(one)
            if self._moved(one):
                self.tree.land(one, self.state(one))  # type: ignore[arg-type]
            self.note(one)
        elif chance < 0.55:
            self.cleanup()
        elif chance < 0.6:
            self.check_difference()
        elif len(names) > 1:
            self.merge(one, self.random.choice([name for name in names if name != one]))
        if one in self.tree.heads:
            self.check(one)

    def _moved(self, branch: str) -> bool:
        head = self.graph.head(branch)
        return head is not None and head.commit_id != self.tree.ids_of[self.tree.heads[branch]]

    def try_to_delete(self, name: str) -> None:
        try:
            self.delete_branch(name)
        except BranchHasDescendants:
            return


def run(place: Path, seed: int, steps: int) -> None:
    twins = Twins(place, seed)
    for name in NAMES[1:]:
        twins.graph.create_branch(name)
        twins.tree.heads[name] = twins.tree.heads["main"]
    for _ in range(steps):
        twins.step()
    for name in twins.tree.heads:
        twins.check(name)
    found = [each for each in twins.graph.doctor() if each.counts]
    assert found == [], found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 8))])
def test_random_histories_are_what_dictionaries_say(seed: int, tmp_path: Path) -> None:
    run(tmp_path, seed, 80 if seed else 45)
