"""Merges on random trees of branches, criss-cross included, against merges of dictionaries."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from omnigraph_core.history.bases import find_bases, lowest_common
from omnigraph_core.merge.base import BaseRows
from omnigraph_core.merge.rows import MergedRows, rows, three_way
from tests.unit.merge.naive import Commit, History, Outcome, State

NAMES = ("a", "b")
IDS = tuple("pqrstuvw")
SCHEMA = pa.schema([("id", pa.utf8()), *((name, pa.int64()) for name in NAMES)])


def table(state: State) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, **row} for key, row in state.items()], schema=SCHEMA)


def bases_of(history: History) -> BaseRows:
    def read(commit_id: str, ids: pa.Array) -> pa.Table:
        state = history.commits[int(commit_id)].state
        return table({key: state[key] for key in ids.to_pylist() if key in state})

    return BaseRows(history.parents, SCHEMA, lambda commit_id, ids: rows(read(commit_id, ids)))


def merge(history: History, ours: int, theirs: int) -> MergedRows:
    """With the bases and the rows of the product."""
    found = find_bases(history.parents, str(ours), str(theirs), lambda _: True)
    base = bases_of(history).of(found.commit_ids, pa.array(IDS))
    mine, other = (rows(table(history.commits[each].state)) for each in (ours, theirs))
    return three_way(base, mine, other)


def applied(state: State, merged: MergedRows) -> State:
    gone = set(merged.removed.to_pylist())
    result = {key: row for key, row in state.items() if key not in gone}
    for row in merged.upserts.to_pylist():
        result[row.pop("id")] = row
    return result


@pytest.mark.parametrize("seed", range(8))
def test_random_histories_merge_like_dictionaries(seed: int) -> None:
    history = History(random.Random(f"merge {seed}"), 3, IDS, NAMES)
    several = 0
    for _ in range(90):
        ours = history.random.randrange(3)
        if history.random.random() < 0.5:
            history.write(ours)
            continue
        # Heads, or older commits of others: that makes criss-cross.
        theirs = history.random.choice([*history.heads, history.random.randrange(len(history.commits))])
        head = history.heads[ours]
        if theirs in history.ancestors([head]):
            continue
        several += len(history.lowest([head], [theirs])) > 1
        expected, found = history.merge(head, theirs), merge(history, head, theirs)
        assert {tuple(each.values()) for each in found.clashes.to_pylist()} == expected.clashes
        back = merge(history, theirs, head)
        assert {each["id"] for each in back.clashes.to_pylist()} == {key for key, *_ in expected.clashes}
        if expected.clashes:
            history.land(ours, settled(expected, history.state(ours)), theirs)
            continue
        assert applied(history.state(ours), found) == expected.state
        # The other way round, the content is the same.
        assert applied(history.commits[theirs].state, back) == expected.state
        history.land(ours, expected.state, theirs)
    assert several


def settled(merged: Outcome, ours: State) -> State:
    """What somebody made of it who kept our rows where they clashed."""
    clashing = {key for key, *_ in merged.clashes}
    kept = {key: ours[key] for key in clashing if key in ours}
    return {**{key: row for key, row in merged.state.items() if key not in clashing}, **kept}


@dataclass
class Causal(History):
    """Values that are written once, and of every commit the writes that it knows."""

    seen: dict[int, frozenset[int]] = field(default_factory=dict)

    def __init__(self, chooser: random.Random) -> None:
        History.__init__(self, chooser, 3, IDS[:6], NAMES[:1])
        self.commits = [Commit(0, (), {key: self.new_row() for key in self.ids})]
        self.seen = {0: frozenset(row["a"] for row in self.commits[0].state.values())}

    def update(self, branch: int) -> None:
        state = {key: dict(row) for key, row in self.state(branch).items()}
        written = {self.value() for _ in range(self.random.randint(1, 2))}
        for value in written:
            state[self.random.choice(self.ids)]["a"] = value
        before = self.seen[self.heads[branch]]
        self.land(branch, state)
        self.seen[self.heads[branch]] = before | written

    def expected(self, ours: int, theirs: int) -> tuple[State, set[str]]:
        """The newer of two values wins: the one whose side knew the other. Else they clash."""
        state: State = {}
        clashes = set()
        for key in self.ids:
            mine, other = (self.commits[each].state[key]["a"] for each in (ours, theirs))
            state[key] = {"a": other if mine in self.seen[theirs] else mine}
            if mine != other and mine not in self.seen[theirs] and other not in self.seen[ours]:
                clashes.add(key)
        return state, clashes


@pytest.mark.parametrize("seed", range(8))
def test_an_edit_is_never_lost_and_never_a_false_conflict(seed: int) -> None:
    """Without bases: a side that knew the other's value and wrote its own is right."""
    history = Causal(random.Random(f"causal {seed}"))
    for _ in range(80):
        ours = history.random.randrange(3)
        if history.random.random() < 0.5:
            history.update(ours)
            continue
        theirs = history.random.choice([*history.heads, history.random.randrange(len(history.commits))])
        head = history.heads[ours]
        if theirs in history.ancestors([head]):
            continue
        state, clashes = history.expected(head, theirs)
        bases = find_bases(history.parents, str(head), str(theirs), lambda _: True).commit_ids
        schema = pa.schema([("id", pa.utf8()), ("a", pa.int64())])
        sides = [table_of(history.commits[each].state, schema) for each in (head, theirs)]

        def read(commit_id: str, ids: pa.Array, schema: pa.Schema = schema) -> pa.Table:
            there = history.commits[int(commit_id)].state
            return table_of({key: there[key] for key in ids.to_pylist()}, schema)

        base = BaseRows(
            history.parents, schema, lambda commit_id, ids, read=read: rows(read(commit_id, ids))
        ).of(bases, pa.array(history.ids))
        found = three_way(base, *map(rows, sides))
        assert {each["id"] for each in found.clashes.to_pylist()} == clashes
        if not clashes:
            assert applied(history.state(ours), found) == state
        written = {key: history.value() for key in sorted(clashes)}
        state |= {key: {"a": value} for key, value in written.items()}
        history.land(ours, state, theirs)
        known = history.seen[head] | history.seen[theirs]
        history.seen[history.heads[ours]] = known.union(written.values())


def table_of(state: State, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, **row} for key, row in state.items()], schema=schema)


def test_a_change_taken_back_stays_taken_back() -> None:
    """S sets r; X is a branch of S; S merges main; main merges X; main takes r back; S into main."""
    parents = {
        "m0": (),
        "s1": ("m0",),
        "m1": ("m0",),
        "s2": ("s1", "m1"),
        "m2": ("m1", "s1"),
        "m3": ("m2",),
    }
    values = {"m0": (0, 0), "s1": (1, 0), "m1": (0, 1), "s2": (1, 1), "m2": (1, 1), "m3": (0, 1)}

    def read(commit_id: str, ids: pa.Array) -> pa.Table:
        a, b = values[commit_id]
        return table({"r": {"a": a, "b": b}})

    assert lowest_common(parents, ["s2"], ["m3"]) == ("m1", "s1")
    ids = pa.array(["r"])
    base = BaseRows(parents, SCHEMA, lambda commit_id, ids: rows(read(commit_id, ids))).of(("m1", "s1"), ids)
    merged = three_way(base, rows(read("m3", ids)), rows(read("s2", ids)))
    assert merged.upserts.num_rows == merged.clashes.num_rows == 0


@pytest.mark.parametrize("seed", range(20))
def test_lowest_common_ancestors_of_random_graphs(seed: int) -> None:
    chooser = random.Random(f"ancestors {seed}")
    history = History(chooser, 1, IDS, NAMES)
    for number in range(1, 40):
        count = min(number, chooser.choice([1, 1, 2]))
        parents = tuple(chooser.sample(range(max(0, number - 8), number), count))
        history.commits.append(Commit(number, parents, {}))
    for _ in range(30):
        a, b = chooser.choices(range(40), k=2)
        found = {int(each) for each in lowest_common(history.parents, [str(a)], [str(b)])}
        assert found == set(history.lowest([a], [b]))
        assert found if a == b else True


def test_bases_that_cannot_be_read() -> None:
    """F was merged into main and S, and is gone with its commits: the fork is what is left."""
    parents = {"m0": (), "m1": ("m0", "f1"), "s1": ("m0", "f1")}
    assert lowest_common(parents, ["m1"], ["s1"]) == ("f1", "m0")
    found = find_bases(parents, "m1", "s1", lambda each: each != "f1")
    assert (found.commit_ids, found.unreadable) == (("m0",), ("f1",))
    # As long as somebody has its record, what is below it is no base.
    known = {**parents, "f1": ("m0",)}
    assert find_bases(known, "m1", "s1", lambda _: True).commit_ids == ("f1",)
    assert find_bases(known, "m1", "s1", lambda each: each != "f1").commit_ids == ("m0",)
    assert find_bases({"a": (), "b": ()}, "a", "b", lambda _: True).commit_ids == ()
    assert find_bases(known, "m0", "m1", lambda _: True).commit_ids == ("m0",)


def test_deep_histories_need_no_deep_stack() -> None:
    """Ten thousand commits in a row, and hundreds of crossings of which nothing differs."""
    parents: dict[str, tuple[str, ...]] = {"m0": (), "s0": ("m0",)}
    for number in range(1, 10_000):
        parents[f"m{number}"] = (f"m{number - 1}", f"s{number - 1}")
        parents[f"s{number}"] = (f"s{number - 1}", f"m{number - 1}")
    bases = lowest_common(parents, ["m9999"], ["s9999"])
    assert bases == ("m9998", "s9998")

    def read(commit_id: str, ids: pa.Array) -> pa.Table:
        return table({"r": {"a": 1, "b": 1}})

    assert (
        BaseRows(parents, SCHEMA, lambda commit_id, ids: rows(read(commit_id, ids)))
        .of(bases, pa.array(["r"]))
        .table.num_rows
        == 1
    )
