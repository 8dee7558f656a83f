"""Texts as numbers."""

from __future__ import annotations

import random

import pyarrow as pa

from omnigraph_core.values.hashes import text_hashes

LETTERS = ["", "a", "b", "\x00", "\x01", "é", "日", "𝄞", "person-", "\x7f"]


def test_hashes_of_equal_texts_are_equal_in_every_company() -> None:
    chance = random.Random(1)
    texts = ["".join(chance.choices(LETTERS, k=chance.randrange(30))) for _ in range(300)]
    together = text_hashes(pa.array(texts)).tolist()
    assert together == [text_hashes(pa.array([text])).tolist()[0] for text in texts]
    assert len(set(together)) == len(set(texts))


def test_hashes_are_the_same_on_every_machine() -> None:
    """An executor and its driver need not be of one kind."""
    array = pa.array(["", "a", "ab", "ba", "ä", "\0", "\0\0"])
    assert [hex(number) for number in text_hashes(array)] == EXPECTED


EXPECTED = [
    "0x0",
    "0x453182972e731246",
    "0x1fe861deee6b1607",
    "0x3b60c4d50c754dbd",
    "0x8ee766d39f19b366",
    "0xd6e8feb86659fd93",
    "0x9cb68617bd3f367d",
]
