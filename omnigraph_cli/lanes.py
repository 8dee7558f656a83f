"""Commits drawn as a graph: lanes of `|`, a `*` for each commit, `\\` and `/` where lanes part and meet.

A lane waits for one commit, and no two lanes wait for the same one. Lane n stands at character
2n; the characters between are for edges, which move by one lane in each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from omnigraph_core.records import dataclass

Parents = Mapping[str, Sequence[str]]

_COLORS = (31, 32, 33, 34, 35, 36)


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the drawing; `commit` is the one that stands in it, if one does."""

    cells: str
    commit: str | None = None


def children_first(commits: Sequence[str], parents: Parents) -> list[str]:
    """The commits in their order, except that none comes before one that descends from it.

    The order is by time, and clocks of two machines may disagree.
    """
    rank = {commit: number for number, commit in enumerate(commits)}
    waiting = dict.fromkeys(commits, 0)
    for commit in commits:
        for parent in parents.get(commit, ()):
            if parent in waiting:
                waiting[parent] += 1
    ready = [rank[commit] for commit, count in waiting.items() if not count]
    heapify(ready)
    found = []
    while ready:
        commit = commits[heappop(ready)]
        found.append(commit)
        for parent in parents.get(commit, ()):
            if parent in waiting:
                waiting[parent] -= 1
                if not waiting[parent]:
                    heappush(ready, rank[parent])
    return found


def shown_parents(shown: Iterable[str], parents: Parents) -> dict[str, tuple[str, ...]]:
    """The parents of each commit that is shown: where one is not, the next ones behind it that are."""
    visible = set(shown)
    behind: dict[str, tuple[str, ...]] = {}

    def resolved(commit: str) -> tuple[str, ...]:
        return (commit,) if commit in visible else behind[commit]

    waiting = [parent for commit in visible for parent in parents.get(commit, ())]
    while waiting:
        commit = waiting[-1]
        if commit in visible or commit in behind:
            waiting.pop()
            continue
        missing = [each for each in parents.get(commit, ()) if each not in visible and each not in behind]
        if missing:
            waiting += missing
            continue
        behind[commit] = _united(resolved(each) for each in parents.get(commit, ()))
        waiting.pop()
    return {commit: _united(resolved(each) for each in parents.get(commit, ())) for commit in visible}


def _united(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for group in groups for each in group))


def draw(commits: Iterable[str], parents: Parents) -> Iterator[Line]:
    """One line for each commit, children first, and lines between them where lanes change."""
    lanes: list[str] = []
    for commit in commits:
        if commit not in lanes:
            lanes.append(commit)
        lane = lanes.index(commit)
        yield Line(_row(len(lanes), {2 * lane: "*"}), commit)
        first, *others = parents.get(commit, ()) or (None,)
        for other in others:
            if other in lanes:
                yield from _reach(len(lanes), lane, lanes.index(other))
            else:
                yield Line(_opened(len(lanes), lane))
                lanes.insert(lane + 1, other)
        if first is not None and first not in lanes:
            lanes[lane] = first
            continue
        ending, target = lane, None if first is None else lanes.index(first)
        if target is not None and target > lane:
            # Of two lanes that wait for the same commit, the one to the right ends.
            lanes[lane], ending, target = lanes[target], target, lane
        yield from _closed(len(lanes), ending, target)
        del lanes[ending]


def _row(count: int, marks: Mapping[int, str], lanes: Iterable[int] | None = None) -> str:
    cells = [" "] * (2 * count + 2)
    for lane in range(count) if lanes is None else lanes:
        cells[2 * lane] = "|"
    for place, mark in marks.items():
        cells[place] = mark
    return "".join(cells).rstrip()


def _reach(count: int, lane: int, target: int) -> Iterator[Line]:
    """An edge from one lane to another, across those between; all lanes stay."""
    if target > lane:
        places = [(2 * each + 1, "\\") for each in range(lane, target)]
    else:
        places = [(2 * each - 1, "/") for each in range(lane, target, -1)]
    for place, mark in places:
        yield Line(_row(count, {place: mark}))


def _opened(count: int, lane: int) -> str:
    """A new lane to the right of one; those behind it make room."""
    return _row(count, {2 * each + 1: "\\" for each in range(lane, count)}, range(lane + 1))


def _closed(count: int, lane: int, target: int | None) -> Iterator[Line]:
    """A lane ends, in the one it meets on the left or in nothing; those behind it move up."""
    moves = {2 * each - 1: "/" for each in range(lane + 1, count)}
    if target is not None:
        moves[2 * lane - 1] = "/"
    if moves:
        yield Line(_row(count, moves, range(lane)))
    if target is not None:
        yield from _reach(count - 1, lane - 1, target)


def colored(cells: str, paint: Callable[[str, int], str]) -> str:
    """The cells, each in the colour of its lane."""
    return "".join(
        each if each in " *" else paint(each, _COLORS[place // 2 % len(_COLORS)])
        for place, each in enumerate(cells)
    )
