"""Merging dictionaries, value by value, in the plainest words; and trees of branches to merge."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
State = dict[str, Row]
"""Rows by id."""
Clash = tuple[str, str, str | None]
"""Id, kind and property."""


class _Nobody:
    """A value that differs from every other, itself included."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Outcome:
    state: State = field(default_factory=dict)
    clashes: set[Clash] = field(default_factory=set)


def merged(base: State, ours: State, theirs: State) -> Outcome:
    """What a merge of three states comes to; where it clashes, the state holds a value of nobody."""
    outcome = Outcome()
    for key in base.keys() | ours.keys() | theirs.keys():
        row = _merged_row(key, base.get(key), ours.get(key), theirs.get(key), outcome.clashes)
        if row is not None:
            outcome.state[key] = row
    return outcome


def _merged_row(
    key: str,
    base: Row | None,
    ours: Row | None,
    theirs: Row | None,
    clashes: set[tuple[str, str, str | None]],
) -> Row | None:
    if ours is None or theirs is None:
        left = ours if theirs is None else theirs
        if left is None or base is None:
            return left
        if left == base:
            return None
        clashes.add((key, "delete_vs_update", None))
        return dict.fromkeys(left, _Nobody())
    if base is None:
        if ours != theirs:
            clashes.add((key, "divergent_insert", None))
        return {name: ours[name] if ours[name] == theirs[name] else _Nobody() for name in ours}
    row = {}
    for name in ours:
        if theirs[name] == base[name]:
            row[name] = ours[name]
        elif ours[name] == base[name] or ours[name] == theirs[name]:
            row[name] = theirs[name]
        else:
            row[name] = _Nobody()
            clashes.add((key, "divergent_update", name))
    return row


@dataclass
class Commit:
    number: int
    parents: tuple[int, ...]
    state: State


class History:
    """Branches that write and merge; commits by number, a parent always before its child."""

    def __init__(
        self, chooser: random.Random, branches: int, ids: Sequence[str], names: Sequence[str]
    ) -> None:
        self.random = chooser
        self.ids, self.names = ids, names
        self.fresh = iter(range(1_000_000))
        start = {key: self.new_row() for key in ids[: len(ids) // 2]}
        self.commits = [Commit(0, (), start)]
        self.heads = [0] * branches

    @property
    def parents(self) -> dict[str, tuple[str, ...]]:
        return {str(each.number): tuple(map(str, each.parents)) for each in self.commits}

    def state(self, branch: int) -> State:
        return self.commits[self.heads[branch]].state

    def new_row(self) -> Row:
        return {name: self.value() for name in self.names}

    def value(self) -> Any:
        """One that nobody ever wrote before."""
        return next(self.fresh)

    def land(self, branch: int, state: State, *merged_parents: int) -> None:
        commit = Commit(len(self.commits), (self.heads[branch], *merged_parents), state)
        self.commits.append(commit)
        self.heads[branch] = commit.number

    def write(self, branch: int) -> None:
        state = {key: dict(row) for key, row in self.state(branch).items()}
        for key in self.random.sample(self.ids, self.random.randint(1, 2)):
            if key not in state:
                state[key] = self.new_row()
            elif self.random.random() < 0.3:
                del state[key]
            else:
                state[key][self.random.choice(self.names)] = self.value()
        self.land(branch, state)

    def ancestors(self, starts: Iterable[int]) -> set[int]:
        found = set(starts)
        for number in range(len(self.commits) - 1, -1, -1):
            if number in found:
                found.update(self.commits[number].parents)
        return found

    def lowest(self, a: Iterable[int], b: Iterable[int]) -> list[int]:
        common = self.ancestors(a) & self.ancestors(b)
        return sorted(x for x in common if not any(x != y and x in self.ancestors([y]) for y in common))

    def base(self, bases: Sequence[int]) -> State:
        """The state that stands for all of them."""
        if not bases:
            return {}
        state = self.commits[bases[0]].state
        for place in range(1, len(bases)):
            below = self.base(self.lowest(bases[:place], [bases[place]]))
            state = merged(below, state, self.commits[bases[place]].state).state
        return state

    def merge(self, ours: int, theirs: int) -> Outcome:
        bases = self.lowest([ours], [theirs])
        return merged(self.base(bases), self.commits[ours].state, self.commits[theirs].state)
