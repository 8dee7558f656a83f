"""What the query benchmark asks of every engine: one graph as Parquet, and the questions with their keys.

People with a skewed number of acquaintances, nine of ten with an employer, and documents
with words and a vector. The keys of the questions are drawn once and are the same for all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = """
node Person { name: String @key age: I32 @index city: String team: I32 @index }
node Company { name: String @key }
node Doc { slug: String @key lang: String body: String @index v: Vector(64) @index }
edge Knows: Person -> Person
edge WorksAt: Person -> Company
"""
DIMENSION = 64
CITIES = 1_000
PEOPLE_PER_TEAM = 1_000
LANGUAGES = 10
WORDS = 20_000
WORDS_PER_DOC = 40


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    edges: int
    docs: int


def write(folder: Path, size: Size, rounds: int) -> None:
    """The tables, one file a type, and `keys.json`: for each question a key a round."""
    random = np.random.default_rng(7)
    names = _names("person", size.nodes)
    people = {
        "name": names,
        "age": pa.array(random.integers(0, 90, size.nodes), pa.int32()),
        "city": _names("city", CITIES).take(pa.array(random.integers(0, CITIES, size.nodes))),
        "team": pa.array(random.permutation(size.nodes) // PEOPLE_PER_TEAM, pa.int32()),
    }
    pq.write_table(pa.table(people), folder / "Person.parquet")
    companies = _names("company", max(1, size.nodes // 10))
    pq.write_table(pa.table({"name": companies}), folder / "Company.parquet")

    weights = random.lognormal(0.0, 1.0, size.nodes)
    source = random.choice(size.nodes, size.edges, p=weights / weights.sum())
    target = (random.random(size.edges) ** 1.5 * size.nodes).astype(np.int64)
    target = random.permutation(size.nodes)[target]
    target[target == source] ^= 1  # whether an edge to oneself counts is a question of taste
    knows = {"from": names.take(pa.array(source)), "to": names.take(pa.array(target))}
    pq.write_table(pa.table(knows), folder / "Knows.parquet")

    employed = np.flatnonzero(random.random(size.nodes) < 0.9)
    employers = companies.take(pa.array(random.integers(0, len(companies), len(employed))))
    works = pa.table({"from": names.take(pa.array(employed)), "to": employers})
    pq.write_table(works, folder / "WorksAt.parquet")

    vectors = random.normal(size=(size.docs, DIMENSION)).astype(np.float32)
    pq.write_table(_docs(random, vectors), folder / "Doc.parquet")

    degrees = np.bincount(source, minlength=size.nodes)
    typical = np.flatnonzero((degrees >= 5) & (degrees <= 15))
    starts = names.take(pa.array(random.choice(typical, rounds))).to_pylist()
    ages = random.integers(0, 90, rounds)
    teams = size.nodes // PEOPLE_PER_TEAM
    keys: dict[str, list[Any]] = {
        "person": starts,
        "age": ages.tolist(),
        "older": (ages + 2).tolist(),
        "city": [f"city-{number:07d}" for number in random.integers(0, CITIES, rounds)],
        "team": random.integers(0, teams, rounds).tolist(),
        "text": [" ".join(f"word{n}" for n in _words(random, 2)) for _ in range(rounds)],
        "lang": [f"lang-{number:07d}" for number in random.integers(0, LANGUAGES, rounds)],
        "vector": random.normal(size=(rounds, DIMENSION)).astype(np.float32).tolist(),
    }
    (folder / "keys.json").write_text(json.dumps(keys), encoding="utf-8")


def _docs(random: np.random.Generator, vectors: np.ndarray[Any, Any]) -> pa.Table:
    count = len(vectors)
    spelled = [f"word{number}" for number in range(WORDS)]
    words = _words(random, count * WORDS_PER_DOC).reshape(count, WORDS_PER_DOC)
    bodies = [" ".join(spelled[number] for number in row) for row in words.tolist()]
    return pa.table(
        {
            "slug": _names("doc", count),
            "lang": _names("lang", LANGUAGES).take(pa.array(random.integers(0, LANGUAGES, count))),
            "body": bodies,
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSION),
        }
    )


def _words(random: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Few words are frequent and most are rare, as in any language."""
    return (random.random(count) ** 3 * WORDS).astype(np.int64)


def _names(kind: str, count: int) -> pa.Array:
    return pa.array([f"{kind}-{number:07d}" for number in range(count)])
