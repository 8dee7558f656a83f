"""Random graphs, records and modes: Spark and the local path come to the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.spark import driver, splits
from omnigraph_core.spark import load as spark_load
from tests.spark.twins import Twins
from tests.support.records import edge, node

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("in_process")]

SCHEMA = """
node A { k: String @key n: I32? u: String? @unique @range(n, 0..95) }
node B { name: String tags: [String]? at: Date? @unique(name) }
edge E: A -> A @card(0..4) { w: F64? }
edge F: A -> B { note: String? @unique(src, dst) }
"""
SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 20))]


def records(chance: random.Random, rows: int, mistakes: float) -> list[dict[str, Any]]:
    """Nodes and edges in any order; now and then one that breaks a rule."""
    people = [f"a{number}" for number in range(rows)]
    things = [f"b{number}" for number in range(rows // 3)]
    found: list[dict[str, Any]] = []
    for name in people:
        extra = {"u": f"u-{name}"} if chance.random() < 0.5 else {}
        found.append(node("A", k=name, n=chance.randrange(96), **extra))
    for name in things:
        given = {"id": name} if chance.random() < 0.9 else {}
        found.append(node("B", name=name, tags=[name, "ü"], at="2024-02-29", **given))
    pairs = {(chance.choice(people), chance.choice(things)) for _ in range(rows)}
    found += [edge("F", *pair) for pair in sorted(pairs)]
    found += [edge("E", name, chance.choice(people), w=chance.random()) for name in people]
    for _ in range(round(len(found) * mistakes)):
        found.append(
            chance.choice(
                [
                    node("A", k=chance.choice(people)),
                    node("A", k="far", n=96),
                    node("A", k=f"x{chance.random()}", u=f"u-{chance.choice(people)}"),
                    edge("E", "nobody", people[0]),
                    edge("F", chance.choice(people), "nothing"),
                    {"type": "A", "data": {"k": 1}},
                ]
            )
        )
    chance.shuffle(found)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs(
    seed: int, new_graph: Callable[[str, str], Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(splits, "SPLIT_BYTES", chance.choice([700, 2_000, 10_000]))
    monkeypatch.setattr(spark_load, "ROWS_PER_FRAGMENT", chance.choice([7, 50]))
    monkeypatch.setattr(driver, "parts_to_ask", lambda *_: chance.choice([1, 2, 5]))
    twins = Twins(new_graph, SCHEMA, tmp_path)
    for step in range(3):
        rows = chance.randrange(10, 60)
        path = twins.file(f"{step}.jsonl", records(chance, rows, chance.choice([0, 0, 0.02, 0.2])))
        mode = chance.choice(["append", "overwrite", "merge"])
        options: dict[str, Any] = {}
        if chance.random() < 0.4:
            options["rejects"] = str(tmp_path / f"{step}.rejects")
        twins.load([path], mode, **options)
