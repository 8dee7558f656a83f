"""The checker of histories: it accepts what can be explained, and nothing else."""

from __future__ import annotations

import random

import pytest

from tests.support.linearizable import ABSENT, Call, Rows, check, table_step

EMPTY: Rows = frozenset()


def call(action: str, argument: object, result: object, called: float, returned: float | None) -> Call:
    return Call("p", action, argument, result, called, returned)


def add(key: str, rows: int | str, called: float, returned: float | None) -> Call:
    return call("add", key, rows, called, returned)


def read(keys: str | None, called: float, returned: float) -> Call:
    return call("read", None, ABSENT if keys is None else frozenset(keys), called, returned)


GOOD = {
    "nothing": [],
    "one after the other": [add("a", 1, 0, 1), add("b", 2, 2, 3), read("ab", 4, 5)],
    "overlapping, in the other order": [add("a", 2, 0, 10), add("b", 1, 1, 9), read("ab", 11, 12)],
    "a read sees a write that has not returned": [add("a", 1, 0, 10), read("a", 1, 2), read("a", 3, 4)],
    "a read does not see a write that has not returned": [add("a", 1, 0, 10), read("", 1, 2)],
    "touching at one instant": [add("a", 1, 0, 1), read("", 1, 2)],
    "a killed write took effect": [add("a", 0, 0, None), read("a", 1, 2)],
    "a killed write took effect late": [add("a", 0, 0, None), read("", 1, 2), read("a", 3, 4)],
    "a killed write never took effect": [add("a", 0, 0, None), read("", 1, 2), add("b", 1, 3, 4)],
    "an upsert of what is there": [add("a", 1, 0, 1), add("a", 1, 2, 3)],
    "a branch ends and begins": [
        call("delete", None, "deleted", 0, 1),
        add("x", ABSENT, 2, 3),
        read(None, 2, 3),
        call("create", "ab", "made", 4, 5),
        add("c", 3, 6, 7),
    ],
    "one of two creates wins": [
        call("delete", None, "deleted", 0, 1),
        call("create", "a", "exists", 2, 5),
        call("create", "a", "made", 3, 4),
        read("a", 6, 7),
    ],
    "a killed delete": [call("delete", None, None, 0, None), read("", 1, 2), read(None, 3, 4)],
}

BAD = {
    "a lost write": [add("a", 1, 0, 1), read("", 2, 3)],
    "a lost write that only the count shows": [add("a", 1, 0, 1), add("b", 1, 2, 3)],
    "both of two writers were the first": [add("a", 1, 0, 10), add("b", 1, 0, 10)],
    "a row that nobody wrote": [read("a", 0, 1)],
    "a row before it was asked for": [read("a", 0, 1), add("a", 1, 2, 3)],
    "a write that vanishes again": [add("a", 0, 0, None), read("a", 1, 2), read("", 3, 4)],
    "two reads that saw opposite orders": [
        add("a", 0, 0, None),
        add("b", 0, 0, None),
        read("a", 1, 2),
        read("b", 3, 4),
    ],
    "a killed write took effect twice": [add("a", 0, 0, None), read("a", 1, 2), add("b", 3, 3, 4)],
    "a stale read": [add("a", 1, 0, 1), add("b", 2, 2, 3), read("a", 4, 5)],
    "a write to a branch that was deleted": [call("delete", None, "deleted", 0, 1), add("a", 1, 2, 3)],
    "a new branch with rows of the old": [
        add("x", 1, 0, 1),
        call("delete", None, "deleted", 2, 3),
        call("create", "", "made", 4, 5),
        read("x", 6, 7),
    ],
    "two creates won": [
        call("delete", None, "deleted", 0, 1),
        call("create", "", "made", 2, 5),
        call("create", "", "made", 3, 4),
    ],
    "a branch that is there is not found": [read(None, 0, 1)],
}


@pytest.mark.parametrize("name", GOOD)
def test_accepts_what_an_order_explains(name: str) -> None:
    verdict = check(GOOD[name], table_step, EMPTY)
    assert verdict.linearizable
    assert {each for each in GOOD[name] if each.returned is not None} <= set(verdict.order)


@pytest.mark.parametrize("name", BAD)
def test_refuses_what_no_order_explains(name: str) -> None:
    verdict = check(BAD[name], table_step, EMPTY)
    assert not verdict.linearizable
    assert len(verdict.order) < len(BAD[name])


def simulated(seed: int, processes: int, calls: int) -> list[Call]:
    """A history of a table that is linearizable by construction: every call has a real instant."""
    chance = random.Random(seed)
    instants: list[tuple[float, int, int, float, float]] = []
    for process in range(processes):
        now = chance.random()
        for number in range(calls):
            called = now + chance.random()
            instant = called + chance.random()
            now = instant + chance.random()
            instants.append((instant, process, number, called, now))
    rows: frozenset[str] = frozenset()
    history = []
    for _, process, number, called, returned in sorted(instants):
        killed = chance.random() < 0.06
        if chance.random() < 0.3:
            history.append(Call(f"{process}", "read", None, rows, called, returned))
        elif killed and chance.random() < 0.5:
            history.append(Call(f"{process}", "add", f"{process}.{number}", None, called, None))
        else:
            rows |= {f"{process}.{number}"}
            result = None if killed else len(rows)
            ended = None if killed else returned
            history.append(Call(f"{process}", "add", f"{process}.{number}", result, called, ended))
    return history


def falsified(history: list[Call], seed: int) -> list[Call]:
    """The same history with one acknowledged write missing from everything that came after it."""
    chance = random.Random(seed)
    last = max(each.called for each in history)
    lost = chance.choice(
        [
            each
            for each in history
            if each.action == "add" and each.returned is not None and each.returned < last / 2
        ]
    )
    later = []
    for each in history:
        result = each.result
        if each is not lost and each.returned is not None and each.result is not None:
            if each.action == "read":
                result = each.result - {lost.argument}
            elif each.called > lost.called:
                result = each.result - 1
        later.append(Call(each.process, each.action, each.argument, result, each.called, each.returned))
    return later


@pytest.mark.parametrize("seed", range(20))
def test_simulated_histories(seed: int) -> None:
    history = simulated(seed, processes=6, calls=12)
    assert check(history, table_step, EMPTY).linearizable
    assert not check(falsified(history, seed), table_step, EMPTY).linearizable
