"""`load` and `export` against dictionaries: random schemas, random records, every mode.

Everything a load may do is predicted by `tests/model/oracle.py`: whether it is taken, by
which kind of error it is refused, and every row afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from omnigraph_core.errors import BadDataError, ConflictError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from tests.model.entities import SETTINGS, agree, drawn_records, folder, lines, new_graph, schemas
from tests.model.oracle import Ambiguous, Bad, Conflict, Oracle, Record, Type
from tests.support.examples import NEW
from tests.support.records import node, nodes, write_jsonl
from tests.support.writers import check_whole

MODES = ("append", "merge", "merge", "overwrite")
LOADS_MAX = 5
REASONS = {"wrong record", "tuple twice", "id twice", "id is not the key", "endpoint", "cardinality"}
REASONS |= {"id taken", "tuple taken"}


class Loads:
    """One example: a graph, its oracle, and the loads that both are given."""

    def __init__(self, here: Path, types: Sequence[Type], draw: Any, seen: Counter[str]) -> None:
        self.graph = new_graph(here / "g", types)
        self.oracle = Oracle(types)
        self.seen = seen
        self._file = here / "in.jsonl"
        self._draw = draw

    def load(self, mode: str, records: Sequence[Record]) -> bool:
        """The same load here and there; was it taken?"""
        self._file.write_text(lines(self._draw, records), encoding="utf-8", newline="")
        before, head = b"".join(self.graph.export()), self.graph.head()
        try:
            total = self.oracle.load(mode, records)
        except Ambiguous:
            return False
        except (Bad, Conflict) as refusal:
            error = BadDataError if isinstance(refusal, Bad) else ConflictError
            self._count(f"{mode}: {refusal}")
            with pytest.raises(error):
                self.graph.load([str(self._file)], LoadMode(mode))
            assert (b"".join(self.graph.export()), self.graph.head()) == (before, head)
            return False
        self._count(f"{mode} of {'some' if total else 'no'} records")
        loaded = self.graph.load([str(self._file)], LoadMode(mode))
        assert loaded.total == total
        assert (loaded.commit_id is None) == (not records)
        agree(self.oracle, self.graph)
        return True

    def again(self, mode: str, records: Sequence[Record]) -> None:
        """The same input once more: a merge changes nothing, an append of an entity is refused."""
        before = b"".join(self.graph.export())
        identified = all(self.oracle.identifies(record) for record in records)
        taken = self.load(mode, records)
        if mode == "append" and any(self.oracle.identifies(record) for record in records):
            assert not taken
        if mode == "merge" and identified:
            assert b"".join(self.graph.export()) == before
            self._count("merge twice")

    def _count(self, what: str) -> None:
        self.seen[what] += 1
        event(what)


def run(examples: int, base: settings | None = None, **more: Any) -> Counter[str]:
    seen: Counter[str] = Counter()

    @settings(
        base,
        max_examples=examples,
        report_multiple_bugs=False,
        **more,
    )
    @given(st.data())
    def loads(data: st.DataObject) -> None:
        types = data.draw(schemas(), label="types")
        with folder() as here:
            example = Loads(here, types, data.draw, seen)
            for _ in range(data.draw(st.integers(1, LOADS_MAX))):
                mode = data.draw(st.sampled_from(MODES))
                records = drawn_records(data.draw, example.oracle)
                if example.load(mode, records) and (mode == "merge" or data.draw(st.booleans())):
                    example.again(mode, records)
            check_whole(example.graph)
            round_trip(example.graph, types, here)

    loads()
    return seen


def round_trip(graph: Graph, types: Sequence[Type], here: Path) -> None:
    """An export loaded into an empty graph is exported the same, byte by byte."""
    exported = b"".join(graph.export())
    backup = here / "backup.jsonl"
    backup.write_bytes(exported)
    copy = new_graph(here / "copy", types)
    copy.load([str(backup)], LoadMode.APPEND)
    assert b"".join(copy.export()) == exported


def test_loads_agree_with_dictionaries() -> None:
    seen = run(24, phases=(Phase.generate,))
    assert all(seen[f"{mode} of some records"] > 2 for mode in MODES), dict(seen)
    reasons = {what.partition(": ")[2] for what in seen} - {""}
    assert len(reasons) > len(REASONS) - 3, dict(seen)
    assert reasons <= REASONS
    assert seen["merge twice"] > 2, dict(seen)


@pytest.mark.parametrize(
    "records",
    [
        [{"a": 1, "b": 2}, {"a": 2, "b": 1}],
        [{"a": 1, "b": 2}, {"id": "X", "a": 3, "b": 3}],
    ],
    ids=["found by different groups", "found and named"],
)
def test_no_merged_record_is_lost(records: list[dict[str, Any]], tmp_path: Path) -> None:
    """Refused, or both there; and merging twice is merging once."""
    graph = Graph.init(str(tmp_path / "g"), "node F { a: I32? b: I32? @unique(a) @unique(b) }", SETTINGS)
    graph.load([write_jsonl(tmp_path / "x.jsonl", [node("F", id="X", a=1, b=1)])], LoadMode.APPEND)
    path = write_jsonl(tmp_path / "in.jsonl", [node("F", **record) for record in records])
    before = nodes(graph, "F")
    try:
        loaded = graph.load([path], LoadMode.MERGE)
    except (BadDataError, ConflictError):
        assert nodes(graph, "F") == before
        return
    after = nodes(graph, "F")
    assert (loaded.total, len(after)) == (2, 2)
    graph.load([path], LoadMode.MERGE)
    assert nodes(graph, "F") == after


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_loads_agree_with_dictionaries_for_long() -> None:
    """New examples every time; a failing one is kept in `.hypothesis` and tried first."""
    run(1200, NEW)
