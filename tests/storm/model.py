"""What every commit must hold: the history replayed with dictionaries, from what the commands asked for.

The graph tells which commits there are and who their parents are; the journal tells what each was to do.
A row is a dictionary of its values that are not null. A property of a person that comes and goes with the
schema is told by the commit that brought it: one that was dropped and added again is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

Key = tuple[str, str]
"""Type and id."""
Row = dict[str, Any]

KEPT = ("age", "note", "name", "size", "src", "dst", "w")


@dataclass(frozen=True)
class State:
    rows: dict[Key, Row] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    """Those of a person that come and go, with the commit that brought each."""


class Clash(Exception):
    """The merge cannot be; if there is a commit of it, it should not be there."""


@dataclass(frozen=True)
class Listed:
    """A commit as `commit list` tells of it."""

    id: str
    parent: str | None
    merged: str | None
    branch: str
    operation: str
    message: str | None
    actor: str
    is_removed: bool

    @property
    def parents(self) -> tuple[str, ...]:
        return tuple(each for each in (self.parent, self.merged) if each)


class Graph:
    """The commits by id, and who comes before whom."""

    def __init__(self, commits: Iterable[Listed]) -> None:
        self.commits = {commit.id: commit for commit in commits}

    @cached_property
    def order(self) -> list[str]:
        """Parents before children. A parent that is not listed any more is left out."""
        found: dict[str, None] = {}
        for start in self.commits:
            stack = [start]
            while stack:
                waiting = [each for each in self._parents(stack[-1]) if each not in found]
                if waiting:
                    stack.append(waiting[0])
                else:
                    found[stack.pop()] = None
        return list(found)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {commit: number for number, commit in enumerate(self.order)}

    @cached_property
    def _above(self) -> dict[str, int]:
        """Each commit and all its ancestors, as bits."""
        above: dict[str, int] = {}
        for number, commit in enumerate(self.order):
            above[commit] = 1 << number
            for parent in self._parents(commit):
                above[commit] |= above[parent]
        return above

    def _parents(self, commit: str) -> list[str]:
        return [parent for parent in self.commits[commit].parents if parent in self.commits]

    def is_ancestor(self, early: str, late: str) -> bool:
        """Or the same."""
        return bool(self._above[late] >> self._number[early] & 1)

    def lowest(self, a: Iterable[str], b: Iterable[str]) -> list[str]:
        common = self._all(a) & self._all(b)
        found = [each for each in self.order if common >> self._number[each] & 1]
        return [
            each
            for each in found
            if not any(each != other and self.is_ancestor(each, other) for other in found)
        ]

    def _all(self, commits: Iterable[str]) -> int:
        every = 0
        for commit in commits:
            every |= self._above[commit]
        return every


class Replay:
    """The states of all commits. `wrong` tells which of them should not be, and why."""

    def __init__(
        self, graph: Graph, meanings: Mapping[str, dict[str, Any]], bases: Mapping[str, Sequence[str]]
    ) -> None:
        self.graph = graph
        self.states: dict[str, State] = {}
        self.unknown: set[str] = set()
        """Commits that stand on one that is not listed any more."""
        self.wrong: list[str] = []
        self._meanings = meanings
        self._bases = bases
        for commit in graph.order:
            self._replay(graph.commits[commit])

    def _replay(self, commit: Listed) -> None:
        if commit.parent is None:
            self.states[commit.id] = State()
            return
        if commit.parent not in self.states:
            self.unknown.add(commit.id)
            return
        try:
            self.states[commit.id] = self._after(commit, self.states[commit.parent])
        except Unknown:
            self.unknown.add(commit.id)
        except Clash as clash:
            self.wrong.append(f"commit {commit.id} ({commit.message}): {clash}")
            self.unknown.add(commit.id)

    def _after(self, commit: Listed, before: State) -> State:
        meaning = self._meanings.get(commit.message or "")
        if commit.operation in ("recovery", "optimize", "repair") or meaning is None:
            return before
        apply = getattr(self, f"_{meaning['op']}")
        after: State = apply(commit, before, meaning)
        return after

    # ---- what a commit does ----

    def _same(self, commit: Listed, before: State, meaning: dict[str, Any]) -> State:
        return before

    def _put(self, commit: Listed, before: State, meaning: dict[str, Any]) -> State:
        return replace(before, rows={**before.rows, **_rows(meaning["rows"])})

    def _replace(self, commit: Listed, before: State, meaning: dict[str, Any]) -> State:
        others = {key: row for key, row in before.rows.items() if key[0] != meaning["type"]}
        return replace(before, rows={**others, **_rows(meaning["rows"])})

    def _set(self, commit: Listed, before: State, meaning: dict[str, Any]) -> State:
        key = ("Person", meaning["id"])
        if key not in before.rows:
            return before
        return replace(before, rows={**before.rows, key: {**before.rows[key], **meaning["values"]}})

    def _delete(self, commit: Listed, before: State, meaning: dict[str, Any]) -> State:
        name = meaning["id"]
        return replace(
            before,
            rows={
                key: row
                for key, row in before.rows.items()
                if key != ("Person", name) and name not in (row.get("src"), row.get("dst"))
            },
        )

    def _schema(self, commit: Listed, before: State, meaning: dict[str, Any]) -> State:
        properties = {name: before.properties.get(name, commit.id) for name in meaning["properties"]}
        gone = before.properties.keys() - properties.keys()
        rows = {
            key: {name: value for name, value in row.items() if name not in gone} if gone else row
            for key, row in before.rows.items()
        }
        return State(rows, properties)

    def _merge(self, commit: Listed, before: State, meaning: dict[str, Any]) -> State:
        if commit.merged is None or commit.parent is None:
            raise Clash("a merge without a second parent")
        bases = self._bases.get(commit.id)
        if bases is None:
            bases = self.graph.lowest([commit.parent], [self._known(commit.merged)])
        return _checked(merged(self._virtual(bases), before, self._state(commit.merged)))

    def _revert(self, commit: Listed, before: State, meaning: dict[str, Any]) -> State:
        what = self._known(meaning["commit"])
        first = self.graph.commits[what].parent
        if first is None:
            raise Clash("the first commit was taken back")
        return _checked(merged(self._state(what), before, self._state(first)))

    def _reset(self, commit: Listed, before: State, meaning: dict[str, Any]) -> State:
        return self._state(meaning["commit"])

    # ---- states ----

    def _known(self, commit: str) -> str:
        if commit not in self.graph.commits:
            raise Unknown
        return commit

    def _state(self, commit: str) -> State:
        if commit not in self.states:
            raise Unknown
        return self.states[commit]

    def _virtual(self, bases: Sequence[str]) -> State:
        """One state for several bases, where a clash between them is a value of nobody's."""
        if not bases:
            return State()
        state = self._state(bases[0])
        for place in range(1, len(bases)):
            below = self._virtual(self.graph.lowest(bases[:place], [bases[place]]))
            state = merged(below, state, self._state(bases[place]), is_virtual=True)
        return state


class Unknown(Exception):
    """It cannot be said: a commit that it takes is not listed any more."""


class _Nobodys:
    """A value that differs from every other, itself included."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def _rows(records: Iterable[Mapping[str, Any]]) -> dict[Key, Row]:
    return dict(parsed(record) for record in records)


def parsed(record: Mapping[str, Any]) -> tuple[Key, Row]:
    """A record as it is loaded or exported."""
    values = {name: value for name, value in record["data"].items() if value is not None and name != "id"}
    if "type" in record:
        return (record["type"], record["data"]["name"]), values
    return (record["edge"], record["data"]["id"]), {"src": record["from"], "dst": record["to"], **values}


# ---- three states to one ----


def merged(base: State, ours: State, theirs: State, is_virtual: bool = False) -> State:
    """Row by row and value by value."""
    properties = _merged_properties(base.properties, ours.properties, theirs.properties)
    found: dict[Key, Row] = {}
    for key in base.rows.keys() | ours.rows.keys() | theirs.rows.keys():
        three = base.rows.get(key), ours.rows.get(key), theirs.rows.get(key)
        row = _merged_row(key, *three, is_virtual=is_virtual)
        if row is not None:
            gone = row.keys() - properties.keys() - set(KEPT)
            found[key] = {name: value for name, value in row.items() if name not in gone} if gone else row
    return State(found, properties)


def _merged_properties(
    base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in base.keys() | ours.keys() | theirs.keys():
        was, mine, other = base.get(name), ours.get(name), theirs.get(name)
        kept = other if mine == was else mine
        if kept is not None:
            found[name] = kept
    return found


def _merged_row(
    key: Key, base: Row | None, ours: Row | None, theirs: Row | None, *, is_virtual: bool
) -> Row | None:
    if ours is None or theirs is None:
        left = ours if theirs is None else theirs
        if left is None or base is None:
            return left
        if left == base:
            return None
        if is_virtual:
            return {name: _Nobodys() for name in left}
        raise Clash(f"{key} was deleted on one side and changed on the other")
    if ours == theirs:
        return ours
    row: Row = {}
    for name in base.keys() | ours.keys() | theirs.keys() if base else ours.keys() | theirs.keys():
        was = base.get(name) if base else None
        mine, other = ours.get(name), theirs.get(name)
        if base is not None and other == was:
            value = mine
        elif (base is not None and mine == was) or mine == other:
            value = other
        elif is_virtual:
            value = _Nobodys()
        else:
            raise Clash(f"{key}.{name} was changed on both sides")
        if value is not None:
            row[name] = value
    return row


def _checked(state: State) -> State:
    for key, row in state.rows.items():
        for end in ("src", "dst"):
            kind = "City" if key[0] == "Lives" and end == "dst" else "Person"
            if end in row and (kind, row[end]) not in state.rows:
                raise Clash(f"{key} is an edge without its {kind} '{row[end]}'")
    return state
