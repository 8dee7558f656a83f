"""What a worker does, drawn from a seed before anything runs: the same seed is the same program.

A step says what to do in terms that hold whatever the others do: names from a small pool, and numbers
that pick one of the commits known when the step runs. So steps can be left out, and the rest still runs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

BRANCHES = ("main", "main", "main", "dev", "dev", "exp", "fix/one")
"""Names are used again: there are few. Most of the work is on main."""
OTHERS = ("dev", "exp", "fix/one")
PEOPLE = tuple("abcdefghijkl")
CITIES = tuple("uvwxyz")
TAGS = ("v1", "v2", "v3")
PROPERTIES = ("age", "note", "p0", "p1", "p2", "p3")
"""Of a person. `p0` and so on come and go with schema changes."""


class Verb(StrEnum):
    APPEND = "append"
    MERGE_LOAD = "merge load"
    OVERWRITE = "overwrite"
    LOAD_FROM = "load from"
    SPARK = "spark load"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    BRANCH = "branch create"
    UNBRANCH = "branch delete"
    UNDELETE = "branch undelete"
    RENAME = "branch rename"
    MERGE = "branch merge"
    REVERT = "revert"
    RESET = "branch reset"
    UNDO = "undo"
    TAG = "tag create"
    UNTAG = "tag delete"
    SCHEMA = "schema apply"
    OPTIMIZE = "optimize"
    INDEX = "index build"
    CLEANUP = "cleanup"
    REPAIR = "repair"
    RECOVER = "recovery run"
    EXPORT = "export"
    EXPORT_AT = "export at"
    QUERY = "query"
    HOPS = "query of hops"
    LIST = "commit list"
    STATUS = "status"
    DOCTOR = "doctor"


WEIGHTS = {
    Verb.APPEND: 10,
    Verb.MERGE_LOAD: 10,
    Verb.OVERWRITE: 3,
    Verb.LOAD_FROM: 3,
    Verb.SPARK: 0,
    Verb.INSERT: 12,
    Verb.UPDATE: 10,
    Verb.DELETE: 6,
    Verb.BRANCH: 12,
    Verb.UNBRANCH: 2,
    Verb.UNDELETE: 3,
    Verb.RENAME: 1,
    Verb.MERGE: 10,
    Verb.REVERT: 4,
    Verb.RESET: 2,
    Verb.UNDO: 2,
    Verb.TAG: 2,
    Verb.UNTAG: 1,
    Verb.SCHEMA: 4,
    Verb.OPTIMIZE: 3,
    Verb.INDEX: 2,
    Verb.CLEANUP: 3,
    Verb.REPAIR: 1,
    Verb.RECOVER: 1,
    Verb.EXPORT: 6,
    Verb.EXPORT_AT: 5,
    Verb.QUERY: 4,
    Verb.HOPS: 3,
    Verb.LIST: 2,
    Verb.STATUS: 1,
    Verb.DOCTOR: 1,
}


class Fault(StrEnum):
    NONE = "none"
    KILL = "kill"
    ERROR = "error"
    PAUSE = "pause"
    SHOOT = "shoot"
    CUT = "cut"
    DISK = "disk"
    POWER = "power"
    MOVE = "move"
    SKEW = "skew"
    NETWORK = "network"


REPLAYABLE = {Fault.NONE: 56, Fault.KILL: 26, Fault.ERROR: 10, Fault.POWER: 6, Fault.MOVE: 2}
"""A power cut takes that nobody else is at work."""
LOCAL = {
    Fault.NONE: 58,
    Fault.KILL: 16,
    Fault.ERROR: 6,
    Fault.PAUSE: 5,
    Fault.SHOOT: 9,
    Fault.CUT: 2,
    Fault.DISK: 2,
    Fault.SKEW: 2,
    Fault.MOVE: 1,
}
REMOTE = {
    Fault.NONE: 58,
    Fault.KILL: 14,
    Fault.ERROR: 6,
    Fault.PAUSE: 8,
    Fault.SHOOT: 6,
    Fault.SKEW: 2,
    Fault.NETWORK: 6,
}


@dataclass(frozen=True)
class Step:
    """One command. `name` is also the message of the commit it makes."""

    name: str
    verb: Verb
    branch: str
    other: str
    people: tuple[str, ...]
    property: str
    value: int
    pick: int
    fault: Fault
    place: int
    """Picks the failpoint, the system call or the request that goes wrong."""
    nth: int = 1


def first_step(branch: str) -> Step:
    """A load of everybody, so that there is something to change, delete and merge from the start."""
    return Step(
        name=f"start.{branch}",
        verb=Verb.MERGE_LOAD,
        branch=branch,
        other="",
        people=PEOPLE if branch == "main" else PEOPLE[:2],
        property="age",
        value=1,
        pick=0,
        fault=Fault.NONE,
        place=0,
    )


def program(
    seed: int, worker: int, faults: dict[Fault, int], weights: dict[Verb, int] = WEIGHTS
) -> Iterator[Step]:
    """The steps of one worker, for as long as anybody asks."""
    chance = random.Random(f"storm {seed} {worker}")
    verbs, odds = list(weights), list(weights.values())
    kinds, shares = list(faults), list(faults.values())
    number = 0
    while True:
        number += 1
        branch = chance.choice(BRANCHES)
        yield Step(
            name=f"s{worker}.{number}",
            verb=chance.choices(verbs, odds)[0],
            branch=branch,
            other=chance.choice([name for name in OTHERS if name != branch]),
            people=tuple(chance.sample(PEOPLE, chance.randint(1, 3))),
            property=chance.choice(PROPERTIES),
            value=worker * 1_000_000 + number,
            pick=chance.randrange(1_000_000),
            fault=chance.choices(kinds, shares)[0],
            place=chance.randrange(1_000_000),
            nth=chance.choice((1, 1, 1, 2, 3, 5)),
        )
