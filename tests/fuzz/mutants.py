"""Texts and records that are almost right, from a seed: the same ones in every run."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

_SIGNS = "{ } [ ] : , \" ' \\ \\u \\ud800 \\n ; null true NaN Infinity ü \U0001f600"
_NUMBERS = "0 -0 1e999 -1 3.0 9999999999999999999999 0x1 1_0 +1 .5 5. 1e-400"
_NAMES = 'type edge from to data id src dst "type" "data":{} _rowid'
_VALUES = '2024-02-30 0000-01-01 9999-12-31T23:59:60Z base64: base64:!! [1,2] [[1]] ""'
PIECES = [
    *(each.encode() for each in f"{_SIGNS} {_NUMBERS} {_NAMES} {_VALUES}".split(" ")),
    *(b"\n", b"\r", b"\r\n", b"\t", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xa8"),
    *(b"[" * 3000, b"9" * 5000, b"a" * 70_000),
]

# What a member of a record may be in place of what it is.
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        7,
        2**63,
        2**70,
        1.5,
        float("inf"),
        float("nan"),
        "",
        "x",
        "0",
        "-1",
        "main",
    ),
    *(
        "nodes",
        "../up",
        "/etc/passwd",
        "nodes/x/../..",
        "a\x00b",
        "a\nb",
        "\ud800",
        "ü",
        "9" * 5000,
        "a" * 300,
    ),
    *([], [[]], ["nodes"], [None], {}, {"x": 1}, {"digest": "x"}),
]


def mutated_bytes(corpus: Sequence[bytes], chance: random.Random) -> bytes:
    """One of the corpus with some bytes changed, gone, doubled, or taken from elsewhere."""
    found = bytearray(chance.choice(corpus))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        start = chance.randrange(len(found) + 1)
        end = min(len(found), start + chance.choice((0, 1, 1, 2, 8, 60)))
        kind = chance.randrange(7)
        if kind == 0:
            del found[start:end]
        elif kind == 1:
            found[start:end] = chance.choice(PIECES)
        elif kind == 2:
            found[end:end] = found[start:end] * chance.choice((1, 2, 30))
        elif kind == 3:
            other = chance.choice(corpus)
            cut = chance.randrange(len(other) + 1)
            found[start:end] = other[cut : cut + chance.choice((1, 5, 40))]
        elif kind == 4:
            found[start:start] = bytes([chance.randrange(256)])
        elif kind == 5 and found:
            found[start % len(found)] ^= 1 << chance.randrange(8)
        elif chance.random() < 0.3:
            del found[start:]
    return bytes(found)


def mutated_record(corpus: Sequence[Any], chance: random.Random) -> Any:
    """One of the corpus with some members of another value, gone, added, or under another name."""
    found = copy.deepcopy(chance.choice(corpus))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        place = chance.choice(_containers(found))
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        value = copy.deepcopy(chance.choice(VALUES))
        kind = chance.randrange(8)
        if not keys or kind == 0:
            if isinstance(place, dict):
                place[chance.choice(["x", "digest", "schema_version", "branch", ""])] = value
            else:
                place.append(value)
        elif kind == 1:
            del place[chance.choice(keys)]
        elif kind == 2:
            place[chance.choice(keys)] = copy.deepcopy(place[chance.choice(keys)])
        elif kind == 3 and isinstance(place, list):
            chance.shuffle(place)
        else:
            place[chance.choice(keys)] = value
    return found


def _containers(content: Any) -> list[Any]:
    members = content.values() if isinstance(content, dict) else content
    inner = [each for member in members if isinstance(member, dict | list) for each in _containers(member)]
    return [content, *inner]


def as_json(content: Any) -> bytes:
    """Python's JSON, NaN and halves of surrogate pairs included."""
    return json.dumps(content).encode()
