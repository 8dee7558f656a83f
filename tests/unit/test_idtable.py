"""Texts found among ids by arithmetic on their bytes: the same as comparing them."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from omnigraph_core.topology.idtable import IdTable

LETTERS = ["", "a", "b", "\x00", "\x01", "é", "日", "𝄞", "person-", "\x7f"]


def random_texts(chance: random.Random, count: int, pieces: int) -> list[str]:
    return ["".join(chance.choices(LETTERS, k=chance.randrange(pieces))) for _ in range(count)]


@pytest.mark.parametrize("pieces", [2, 4, 9, 40])
@pytest.mark.parametrize("seed", range(3))
def test_texts_are_found_where_they_are(seed: int, pieces: int) -> None:
    """Short and long, with zeros at the end, of any length; also in slices of a longer array."""
    chance = random.Random(seed)
    ids = list(dict.fromkeys(random_texts(chance, 500, pieces)))
    asked = [*random_texts(chance, 800, pieces), *ids, *(text + "\x00" for text in ids)]
    places = {text: place for place, text in enumerate(ids)}
    table = IdTable(pa.array(["before", *ids, "after"]).slice(1, len(ids)))
    found = table.find(pa.array(["x", *asked]).slice(1))
    assert found.tolist() == [places.get(text, -1) for text in asked]


def test_among_no_ids_nothing_is_found() -> None:
    assert IdTable(pa.array([], pa.utf8())).find(pa.array(["", "a"])).tolist() == [-1, -1]
    assert IdTable(pa.array(["a"])).find(pa.array([], pa.utf8())).tolist() == []
