"""Is a recorded history of concurrent calls explained by some order of instantaneous ones?

Wing and Gong's search with Lowe's memory of visited states: try to let each call that
could come first take effect, go on with the rest, go back when stuck. A history falls
into independent parts (here one per table and branch), and each part is searched alone.

A call whose process was killed has no return: it may have taken effect at any time after
it began, or never. A call that reports that it changed nothing is left out by whoever
records it, unless what it reports says something about the state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what was asked, what came back, and when (one clock for all processes)."""

    process: str
    action: str
    argument: Any
    result: Any
    called: float
    returned: float | None
    """None: the process was killed before the call returned; `result` means nothing then."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`order` is a proof when linearizable, else the longest explanation that was found."""

    linearizable: bool
    order: tuple[Call, ...]


Step = Callable[[State, Call], State | None]
"""The state after the call takes effect, or None when it could not have had its result then."""


class _Event:
    """A call or a return in a doubly linked list by time."""

    __slots__ = ("after", "before", "call", "match", "number")

    def __init__(self, call: Call | None, number: int) -> None:
        self.call = call
        self.number = number
        self.match: _Event | None = None
        self.before: _Event = self
        self.after: _Event | None = None

    def remove(self) -> None:
        self.before.after = self.after
        if self.after is not None:
            self.after.before = self.before

    def put_back(self) -> None:
        self.before.after = self
        if self.after is not None:
            self.after.before = self


def check(history: Sequence[Call], step: Step[State], initial: State) -> Verdict:
    """Search for an order; the time of a call lies between its call and its return."""
    start = _linked(history)
    unfinished = sum(1 for call in history if call.returned is not None)
    state, done = initial, 0
    stack: list[tuple[_Event, State]] = []
    seen: set[tuple[int, State]] = set()
    best: tuple[Call, ...] = ()
    event = start.after
    while unfinished:
        assert event is not None, "a return stands at the end, and is never passed"
        if event.call is not None:
            later = step(state, event.call)
            visited = (done | 1 << event.number, later)
            if later is not None and visited not in seen:
                seen.add(visited)  # type: ignore[arg-type]
                stack.append((event, state))
                state, done = later, visited[0]
                unfinished -= _take(event)
                event = start.after
            else:
                event = event.after
            continue
        # A call has to have taken effect by now, and did not: the last choice was wrong.
        if len(stack) > len(best):
            best = tuple(chosen.call for chosen, _ in stack if chosen.call)
        if not stack:
            return Verdict(False, best)
        chosen, state = stack.pop()
        done ^= 1 << chosen.number
        unfinished += _give_back(chosen)
        event = chosen.after
    return Verdict(True, tuple(chosen.call for chosen, _ in stack if chosen.call))


def _linked(history: Sequence[Call]) -> _Event:
    """The events by time; a return at the very instant of a call comes after it (they overlap)."""
    timed: list[tuple[float, int, _Event]] = []
    for number, call in enumerate(history):
        event = _Event(call, number)
        timed.append((call.called, 0, event))
        if call.returned is not None:
            event.match = _Event(None, number)
            timed.append((call.returned, 1, event.match))
    start = last = _Event(None, -1)
    for _, _, event in sorted(timed, key=lambda each: each[:2]):
        last.after, event.before = event, last
        last = event
    return start


def _take(event: _Event) -> int:
    """Remove a call and its return; 1 if it has one."""
    event.remove()
    if event.match is None:
        return 0
    event.match.remove()
    return 1


def _give_back(event: _Event) -> int:
    if event.match is not None:
        event.match.put_back()
    event.put_back()
    return 0 if event.match is None else 1


# ---- one table on one branch ----

ABSENT = "absent"
"""The result of a call that found no branch, and the state of one that does not exist."""

Rows = frozenset[str] | str
"""The keys in the table, or ABSENT."""


def table_step(state: Rows, call: Call) -> Rows | None:
    """A table on a branch: create and delete (of the branch), add (a key), read (all keys).

    `add` returns how many rows there are afterwards. A pending call has any result.
    """
    found = _found(state, call)
    if found is None:
        return None
    result, later = found
    return later if call.returned is None or call.result == result else None


def _found(state: Rows, call: Call) -> tuple[object, Rows] | None:
    """The result the call has in this state, and the state it leaves."""
    if isinstance(state, str):
        return ("made", frozenset(call.argument)) if call.action == "create" else (ABSENT, state)
    if call.action == "create":
        return "exists", state
    if call.action == "delete":
        return "deleted", ABSENT
    if call.action == "read":
        return state, state
    return len(state | {call.argument}), state | {call.argument}
