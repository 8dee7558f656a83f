"""Hundreds of random writes against a dictionary: values, row ids, versions, files, history."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from omnigraph_core.storage import Storage
from omnigraph_core.tables import fragments, keys
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import stage_restore, unguarded
from omnigraph_core.tables.control_rewrite import stage_control_rewrite, tail_to_rewrite
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.indexes import IndexKind, IndexSpec, stage_indexes
from omnigraph_core.tables.keys import find_keys
from omnigraph_core.tables.stage import (
    stage_append,
    stage_delete,
    stage_overwrite,
    stage_upsert,
)
from omnigraph_core.tables.staged import StagedWrite, StageKind, discard_files, verify_files
from tests.support.graphs import (
    BRANCH,
    MAIN,
    PEOPLE_SCHEMA,
    PERSON,
    People,
    commit,
    ids,
    operation,
    people,
)

STEPS = 500
NAMES = [f"{letter}{number}" for letter in ("p", "it's ", "ü") for number in range(40)]
WEIGHTS = {"upsert": 20, "mixed": 35, "delete": 20, "append": 15, "overwrite": 3, "restore": 3, "discard": 6}


@dataclass
class Model:
    """What the table must hold, and the row id each person keeps for life."""

    random: random.Random
    content: People = field(default_factory=dict)
    row_ids: dict[str, int] = field(default_factory=dict)
    used_row_ids: set[int] = field(default_factory=set)

    def some(self, limit: int) -> list[str]:
        return self.random.sample(NAMES, self.random.randint(0, limit))

    def ages(self, names: list[str]) -> People:
        return {name: self.random.choice([None, self.random.randint(0, 99)]) for name in names}


def step(storage: Storage, table: Table, model: Model, kind: str) -> tuple[StagedWrite, People]:
    """One staged write, and the content it must lead to."""
    op = operation()
    if kind == "upsert":
        changes = model.ages(model.some(30))
        return stage_upsert(storage, table, people(changes), op), model.content | changes
    if kind == "mixed":
        changes, gone = model.ages(model.some(20)), model.some(15)
        going = [name for name in gone if name not in changes]
        left = {name: age for name, age in model.content.items() if name not in going}
        staged = stage_upsert(storage, table, people(changes), op, removed=ids(*going))
        _check_mixed(staged, model, changes, going)
        return staged, left | changes
    if kind == "delete" and model.random.random() < 0.5:
        gone = model.some(12)
        left = {name: age for name, age in model.content.items() if name not in gone}
        return stage_delete(storage, table, op, ids=ids(*gone)), left
    if kind == "delete":
        low = model.random.randint(0, 95)
        left = {n: a for n, a in model.content.items() if a is None or not low <= a < low + 5}
        return stage_delete(storage, table, op, where=f"age >= {low} AND age < {low + 5}"), left
    if kind == "overwrite":
        changes = model.ages(model.some(60))
        return stage_overwrite(storage, table, people(changes), op), changes
    new = model.ages([name for name in model.some(15) if name not in model.content])
    return stage_append(storage, table, people(new), op), model.content | new


def _check_mixed(staged: StagedWrite, model: Model, changes: People, going: list[str]) -> None:
    """What a write says it does, and that it marks rows without writing any only by a Delete."""
    known = model.content.keys()
    updated, deleted = len(changes.keys() & known), len(known & set(going))
    counts = (len(changes) - updated, updated, deleted)
    assert (staged.rows_inserted, staged.rows_updated, staged.rows_deleted) == counts
    expected = StageKind.DELETE if going and not changes else StageKind.UPSERT
    assert staged.kind is expected


def check(table: Table, model: Model, expected: People, *, renewed: bool) -> None:
    rows = table.read(with_row_id=True).to_pylist()
    assert len(rows) == len(expected) == table.count_rows()
    assert {row["id"]: row["age"] for row in rows} == expected
    found = {row["id"]: row["_rowid"] for row in rows}
    assert len(set(found.values())) == len(found)
    survivors = {} if renewed else {n: r for n, r in model.row_ids.items() if n in expected}
    assert {name: found[name] for name in survivors} == survivors
    fresh = {row_id for name, row_id in found.items() if name not in survivors}
    assert not fresh & model.used_row_ids
    model.content, model.row_ids = expected, found
    model.used_row_ids |= fresh


@pytest.mark.parametrize("lineage", [MAIN, BRANCH])
@pytest.mark.parametrize("seed", [20261116])
def test_random_writes_agree_with_a_dictionary(
    seed: int, lineage: str, tables: Tables, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragments, "ROWS_PER_FRAGMENT", 25)
    model = Model(random.Random(f"{seed} {lineage}"))
    start = model.ages(NAMES[:50])
    table = create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people(start))
    if lineage == BRANCH:
        table = create_fork(tables, PERSON, "dev", table.version, unguarded)
    check(table, model, start, renewed=True)
    done: list[str] = []
    try:
        for number in range(STEPS if storage.location.is_local else STEPS // 4):
            monkeypatch.setattr(keys, "KEYS_IN_FILTER_MAX", model.random.choice([0, 5, 1000]))
            (kind,) = model.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
            done.append(kind)
            table = _advance(tables, table, model, kind)
            if number % 25 == 0:
                table.lance.validate()
            if tail := tail_to_rewrite(table.fragment_rows()):
                staged = stage_control_rewrite(storage, table, tail, operation())
                table = _land(tables, table, staged)
                check(table, model, model.content, renewed=False)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {lineage}, after {done[-10:]} ({len(done)} steps)") from error
    table.lance.validate()
    assert set(done) == set(WEIGHTS)


def _advance(tables: Tables, table: Table, model: Model, kind: str) -> Table:
    storage = tables.storage
    if kind == "discard":
        staged, _ = step(storage, table, model, "upsert")
        discard_files(storage, [staged])
        check(tables.open(table.ref), model, model.content, renewed=False)
        return table
    if kind == "restore":
        staged, _ = step(storage, table, model, "delete")
        moved = _land(tables, table, staged)
        table = _land(tables, moved, stage_restore(moved, table.version, operation(), undoes="it"))
        check(table, model, model.content, renewed=False)
        return table
    staged, expected = step(storage, table, model, kind)
    table = _land(tables, table, staged)
    check(table, model, expected, renewed=kind == "overwrite")
    return table


def _land(tables: Tables, table: Table, staged: StagedWrite) -> Table:
    verify_files(tables.storage, staged)
    landed = commit(tables, staged)
    assert landed.version == table.version + 1
    return landed


INDEXED_STEPS = 120
KEYS = [IndexSpec("id", IndexKind.BTREE)]


@pytest.mark.parametrize("lineage", [MAIN, BRANCH])
def test_keys_are_found_by_index_whatever_one_transaction_did(
    lineage: str, tables: Tables, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows written and rows removed together, with an index over some of the fragments or all of them."""
    monkeypatch.setattr(fragments, "ROWS_PER_FRAGMENT", 25)
    model = Model(random.Random(lineage))
    start = model.ages(NAMES[:50])
    table = create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people(start))
    if lineage == BRANCH:
        table = create_fork(tables, PERSON, "dev", table.version, unguarded)
    check(table, model, start, renewed=True)
    table = _land(tables, table, stage_indexes(storage, table, operation(), build=KEYS))
    for number in range(INDEXED_STEPS if storage.location.is_local else INDEXED_STEPS // 4):
        table = _advance(tables, table, model, model.random.choice(["mixed", "mixed", "append", "delete"]))
        if number % 10 == 9:
            table = _land(tables, table, stage_indexes(storage, table, operation(), extend=KEYS))
        found = find_keys(table, ids(*model.random.sample(NAMES, 40), *model.content))
        assert dict(zip(*found.select(["id", "_rowid"]).to_pydict().values(), strict=True)) == model.row_ids
        if number % 20 == 0:
            table.lance.validate()
    table.lance.validate()
