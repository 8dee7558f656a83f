"""A social network with twenty edge types: questions of LDBC SNB, ours against DuckDB's answers.

`benchmarks/ldbc.py` asks the same of graph databases, and of larger networks.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ldbc_data
from benchmarks.ldbc_answers import plain
from benchmarks.ldbc_ours import asked, made
from benchmarks.ldbc_peer import DuckDB
from benchmarks.ldbc_queries import QUESTIONS, TYPES
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings, TraversalMode


def run(people: int, keys: int, place: Path) -> None:
    """Every question for so many keys, each asked in another way of traversing."""
    network = ldbc_data.Network(people)
    ldbc_data.write(place, network)
    settings = Settings(fsync=False, actor="tester", working_directory=place)
    graph = made(place, settings)
    graph.build_topology()
    modes = [None, TraversalMode.INDEXED, TraversalMode.CSR]
    graphs = [Graph.open(str(place / "graph"), replace(settings, traversal_mode=mode)) for mode in modes]
    peer = DuckDB(place, ":memory:")
    peer.load()
    drawn = network.keys(keys)
    for turn, question in enumerate(QUESTIONS):
        rows = 0
        for number in range(keys):
            chosen = {key: values[number] for key, values in drawn.items()}
            expected = plain(peer.ask(question, {key: _naive(key, each) for key, each in chosen.items()}))
            found = asked(graphs[(turn + number) % 3], question, chosen)
            assert found == expected, f"{question} {chosen}"
            rows += len(found)
        assert rows, f"{question}: nobody answers"


def _naive(key: str, value: Any) -> Any:
    """As DuckDB takes it: moments without a zone."""
    return datetime.fromisoformat(value).replace(tzinfo=None) if TYPES[key] == "DateTime" else value


def test_a_small_network_is_answered_as_by_sql(tmp_path: Path) -> None:
    run(150, 4, tmp_path)


@pytest.mark.soak
def test_a_larger_network_is_answered_as_by_sql(tmp_path: Path) -> None:
    run(3_000, 12, tmp_path)
