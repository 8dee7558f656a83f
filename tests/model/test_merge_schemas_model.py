"""Random rows and random migrations on two branches merge like dictionaries that know who is who.

The oracle has columns by tokens: a column keeps its token when it is renamed or widened, one that
is dropped and added again has another, and the two sides share those of the base. It merges names
and types of columns, then the rows, value by value; and it refuses what would lose a value that
somebody wrote. Both ways must come out as it says.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.merge.ground import SchemasDiffer
from omnigraph_core.merge.run import MergeConflicts
from omnigraph_core.settings import Settings
from tests.support.records import nodes
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")
NAMES = "abcdef"
KEYS = "pqrstuvw"
WIDER = {"I32": "I64", "F32": "F64"}


@dataclass
class State:
    """One branch: columns by token as (name, type), rows by key with values by token."""

    columns: dict[str, tuple[str, str]] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def text(self, renamed: dict[str, str]) -> str:
        hints = {new: f' @rename_from("{old}")' for old, new in renamed.items() if old != new}
        body = "  ".join(f"{name}: {kind}?{hints.get(name, '')}" for name, kind in self.columns.values())
        return f"node P {{ k: String @key  {body} }}\nnode Q {{ k: String @key }}\n"

    def shown(self) -> dict[str, dict[str, Any]]:
        names = {token: name for token, (name, _) in self.columns.items()}
        return {
            k: {"k": k} | {names[t]: v for t, v in row.items() if t in names and v is not None}
            for k, row in self.rows.items()
        }


class Clash(Exception):
    """The oracle refuses: as a conflict of schemas, or of rows."""


def merged(base: State, ours: State, theirs: State) -> State:
    columns = _columns(base, ours, theirs)
    for side in (ours, theirs):
        for token in side.columns.keys() - columns.keys():
            if any(_lost(base, side, k, token) for k in side.rows):
                raise Clash("schema")
    rows = {}
    for k in base.rows.keys() | ours.rows.keys() | theirs.rows.keys():
        row = _row(*(_projected(each, k, columns) for each in (base, ours, theirs)))
        if row is not None:
            rows[k] = row
    return State(columns, rows)


def _three(base: Any, ours: Any, theirs: Any, kind: str) -> Any:
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    raise Clash(kind)


def _columns(base: State, ours: State, theirs: State) -> dict[str, tuple[str, str]]:
    found = {}
    for token, before in base.columns.items():
        mine, yours = ours.columns.get(token), theirs.columns.get(token)
        if mine is None or yours is None:
            if (mine or yours) not in (None, before):
                raise Clash("schema")
            continue
        found[token] = tuple(_three(*each, "schema") for each in zip(before, mine, yours, strict=True))
    for side in (ours, theirs):
        for token, column in side.columns.items():
            if token not in base.columns and found.setdefault(token, column) != column:
                raise Clash("schema")
    names = [name for name, _ in found.values()]
    if len(set(names)) < len(names):
        raise Clash("schema")
    return found  # type: ignore[return-value]


def _lost(base: State, side: State, k: str, token: str) -> bool:
    value = side.rows[k].get(token)
    before = base.rows.get(k)
    return value is not None if before is None else value != before.get(token)


def _projected(state: State, k: str, columns: dict[str, tuple[str, str]]) -> dict[str, Any] | None:
    row = state.rows.get(k)
    return None if row is None else {token: row.get(token) for token in columns}


def _row(
    base: dict[str, Any] | None, ours: dict[str, Any] | None, theirs: dict[str, Any] | None
) -> dict[str, Any] | None:
    if base is None and ours is not None and theirs is not None:
        if ours != theirs:
            raise Clash("rows")
        return ours
    if base is None:
        return ours or theirs
    if ours is None or theirs is None:
        left = ours if theirs is None else theirs
        if left not in (None, base):
            raise Clash("rows")
        return None
    return {token: _three(base[token], ours[token], theirs[token], "rows") for token in base}


class Writer:
    """Does the same to a branch and to its state."""

    def __init__(self, graph: Graph, branch: str, state: State, random: Random) -> None:
        self.graph, self.branch, self.state, self.random = graph, branch, state, random

    def migrate(self) -> None:
        columns = self.state.columns
        old = {token: name for token, (name, _) in columns.items()}
        renamed: dict[str, str] = {}
        token = self.random.choice(list(columns) or [""])
        free = [name for name in NAMES if name not in old.values()]
        kind = self.random.randrange(5)
        if kind == 0 and token:
            del columns[token]
            for row in self.state.rows.values():
                row.pop(token, None)
        elif kind in (1, 2) and token and free:
            renamed[old[token]] = self.random.choice(free)
            columns[token] = (renamed[old[token]], columns[token][1])
        elif kind == 3 and token and columns[token][1] in WIDER:
            columns[token] = (columns[token][0], WIDER[columns[token][1]])
        elif free:
            name = self.random.choice(free)
            columns[f"+{name}"] = (name, self.random.choice(("I32", "F32")))
            for row in self.state.rows.values():
                row.pop(f"+{name}", None)
        self.graph.apply_schema(self.state.text(renamed), branch=self.branch)

    def write(self) -> None:
        k, rows = self.random.choice(KEYS), self.state.rows
        if k in rows and self.random.random() < 0.3:
            del rows[k]
            self._change(f'delete P where k = "{k}"')
            return
        chosen = [token for token in self.state.columns if self.random.random() < 0.5]
        values = {token: self.random.randint(0, 3) for token in chosen}
        listed = ", ".join(f"{self.state.columns[t][0]}: {v}" for t, v in values.items())
        if k not in rows:
            rows[k] = dict(values)
            self._change(f'insert P {{ k: "{k}"{", " if listed else ""}{listed} }}')
        elif values:
            rows[k] |= values
            self._change(f'update P set {{ {listed} }} where k = "{k}"')

    def _change(self, body: str) -> None:
        self.graph.change(f"query q() {{ {body} }}", branch=self.branch)


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[] if n < 4 else [pytest.mark.soak]) for n in range(120)]
)
def test_branches_with_migrations_merge_like_dictionaries(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    base = State({name: (name, random.choice(("I32", "F32", "I64"))) for name in "abc"})
    graph = Graph.init(str(tmp_path / "g"), base.text({}), SETTINGS)
    first = Writer(graph, "main", base, random)
    for _ in range(4):
        first.write()
    graph.create_branch("dev")
    writers = [Writer(graph, branch, deepcopy(base), random) for branch in ("main", "dev")]
    for writer in writers:
        for _ in range(random.randint(1, 4)):
            writer.migrate() if random.random() < 0.5 else writer.write()
    main, dev = (writer.state for writer in writers)
    tips = {name: graph.head(name) for name in ("main", "dev")}
    for name in tips:
        graph.create_branch(f"{name}2", name)
    for (ours, mine), (theirs, yours) in ((("main2", main), ("dev", dev)), (("dev2", dev), ("main", main))):
        try:
            wanted = merged(base, mine, yours)
        except Clash as clash:
            with pytest.raises(SchemasDiffer if str(clash) == "schema" else (MergeConflicts, SchemasDiffer)):
                graph.merge(theirs, ours)
            assert nodes(graph, "P", ours) == mine.shown()
            continue
        graph.merge(theirs, ours)
        assert nodes(graph, "P", ours) == wanted.shown()
        names = {prop.name for prop in graph.at(branch=ours).schema.node("P").properties}
        assert names - {"k"} == {name for name, _ in wanted.columns.values()}
    check_whole(graph)
