"""Staged indexes and compaction: every answer stays the answer of a full scan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.dataset import LanceOperation, Transaction
from lance.query import MatchQuery

from omnigraph_core.storage import Storage
from omnigraph_core.tables import fragments
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.compaction import IndexWork, compactable, stage_compaction
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.fold import stage_fold
from omnigraph_core.tables.indexes import (
    IndexKind,
    IndexSpec,
    find_index,
    list_indexes,
    stage_indexes,
    uncovered_fragments,
)
from omnigraph_core.tables.limits import FOLD_FRAGMENTS
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.search import has_vector_index, search_indexed, text_coverage
from omnigraph_core.tables.stage import stage_append, stage_delete, stage_overwrite, stage_upsert
from omnigraph_core.tables.staged import StagedWrite, discard_files, verify_files
from omnigraph_core.tables.words import Words
from tests.support.graphs import BRANCH, BRANCH_OF_BRANCH, LINEAGES, MAIN, commit, ids, operation

DOC = TableRef("node:Doc", "nodes/d0c")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("number", pa.int64()),
        pa.field("color", pa.string()),
        pa.field("body", pa.string()),
        pa.field("vector", pa.list_(pa.float32(), 4)),
    ]
)
SPECS = [
    IndexSpec("id", IndexKind.BTREE),
    IndexSpec("number", IndexKind.BTREE),
    IndexSpec("color", IndexKind.BITMAP),
    IndexSpec("body", IndexKind.FULL_TEXT),
    IndexSpec("body", IndexKind.NGRAM),
    IndexSpec("vector", IndexKind.VECTOR),
]
COLORS = ("red", "green", "blue")


def docs(numbers: Iterable[int], salt: int = 0) -> pa.Table:
    numbers = list(numbers)
    random = np.random.default_rng([salt, numbers[0]])
    flat = pa.array(random.random(len(numbers) * 4, dtype=np.float32))
    return pa.table(
        {
            "id": [f"doc-{number:04d}" for number in numbers],
            "number": numbers,
            "color": [COLORS[(number + salt) % 3] for number in numbers],
            "body": [
                f"word{number} {'rare' if number % 50 == 0 else 'usual'} salt{salt}" for number in numbers
            ],
            "vector": pa.FixedSizeListArray.from_arrays(flat, 4),
        },
        schema=SCHEMA,
    )


def answers(table: Table) -> dict[str, object]:
    """One query for every kind of index, through whatever index there is."""
    dataset = table.lance
    text = dataset.scanner(columns=["id"], full_text_query=MatchQuery("rare", "body"), prefilter=True)
    near = dataset.scanner(
        columns=["id"],
        nearest={"column": "vector", "q": np.zeros(4, np.float32), "k": 5, "nprobes": 4096},
        prefilter=True,
    )
    return {
        "key": sorted(_column(table.read(["id"], "id IN ('doc-0007', 'doc-0120', 'doc-0333', 'doc-9999')"))),
        "range": sorted(_column(table.read(["id"], "id >= 'doc-0095' AND id < 'doc-0125'"))),
        "number": sorted(_column(table.read(["id"], "number BETWEEN 40 AND 60 OR number > 395"))),
        "color": sorted(_column(table.read(["id"], "color = 'green'"))),
        "text": sorted(_column(text.to_table())),
        "part": sorted(_column(table.read(["id"], "contains(body, 'ord12')"))),
        "near": _column(near.to_table()),
    }


def expected(table: Table) -> dict[str, object]:
    """The same answers worked out from all rows."""
    rows = table.read().to_pylist()
    near = sorted(rows, key=lambda row: float(np.square(row["vector"]).sum()))[:5]

    def named(chosen: Iterable[dict[str, object]]) -> list[object]:
        return sorted(row["id"] for row in chosen)  # type: ignore[type-var]

    return {
        "key": named(row for row in rows if row["id"] in ("doc-0007", "doc-0120", "doc-0333", "doc-9999")),
        "range": named(row for row in rows if "doc-0095" <= row["id"] < "doc-0125"),
        "number": named(row for row in rows if 40 <= row["number"] <= 60 or row["number"] > 395),
        "color": named(row for row in rows if row["color"] == "green"),
        "text": named(row for row in rows if "rare" in row["body"]),
        "part": named(row for row in rows if "ord12" in row["body"]),
        "near": [row["id"] for row in near],
    }


def check(tables: Tables, table: Table) -> None:
    fresh = Tables(tables.storage).open(table.ref)
    assert fresh.version == table.version
    fresh.lance.validate()
    assert answers(fresh) == expected(fresh)


def _column(rows: pa.Table) -> list[str]:
    names: list[str] = rows.column("id").to_pylist()
    return names


@pytest.fixture(params=LINEAGES)
def table(request: pytest.FixtureRequest, tables: Tables) -> Table:
    """Some fragments, on main or on a fork that inherits them together with a BTREE."""
    storage = tables.storage
    table = create_table(tables, DOC, SCHEMA, operation(), docs(range(100)))
    table = commit(tables, stage_append(storage, table, docs(range(100, 200)), operation()))
    if request.param in (BRANCH, BRANCH_OF_BRANCH):
        table = commit(tables, stage_indexes(storage, table, operation(), build=SPECS))
        table = create_fork(tables, DOC, "dev", table.version, unguarded)
    if request.param == BRANCH_OF_BRANCH:
        table = commit(tables, stage_append(storage, table, docs(range(300, 320)), operation()))
        table = create_fork(tables, DOC.on("dev"), "dev-two", table.version, unguarded)
    assert request.param in (MAIN, BRANCH, BRANCH_OF_BRANCH)
    return table


def test_building_moves_nothing_and_commits_once(table: Table, tables: Tables, storage: Storage) -> None:
    staged = stage_indexes(storage, table, operation(), build=SPECS)
    assert table.latest_version() == table.version
    verify_files(storage, staged)
    assert {file.path.split("/_indices/")[0] for file in staged.files} == {table.ref.directory}
    built = commit(tables, staged)
    assert built.version == table.version + 1
    assert set(list_indexes(built)) == {spec.name for spec in SPECS}
    assert all(uncovered_fragments(built, index) == [] for index in list_indexes(built).values())
    assert all(len(index.segments) == 1 for index in list_indexes(built).values())
    check(tables, built)


def test_key_look_ups_use_the_index(table: Table, tables: Tables, storage: Storage) -> None:
    built = commit(tables, stage_indexes(storage, table, operation(), build=SPECS))
    for predicate, name in (("id = 'doc-0007'", "id_btree"), ("color = 'red'", "color_bitmap")):
        assert name in built.lance.scanner(filter=predicate).explain_plan()


def test_answers_through_a_stale_index(table: Table, tables: Tables, storage: Storage) -> None:
    table = commit(tables, stage_indexes(storage, table, operation(), build=SPECS))
    table = commit(tables, stage_append(storage, table, docs(range(320, 400), salt=1), operation()))
    check(tables, table)
    table = commit(tables, stage_upsert(storage, table, docs(range(90, 130), salt=2), operation()))
    check(tables, table)
    gone = ids(*(f"doc-{number:04d}" for number in range(0, 200, 3)))
    table = commit(tables, stage_delete(storage, table, operation(), ids=gone))
    check(tables, table)


def test_extending_covers_new_fragments_only(table: Table, tables: Tables, storage: Storage) -> None:
    table = commit(tables, stage_indexes(storage, table, operation(), build=SPECS))
    before = list_indexes(table)
    table = commit(tables, stage_append(storage, table, docs(range(320, 400), salt=1), operation()))
    staged = stage_indexes(storage, table, operation(), extend=SPECS)
    extended = commit(tables, staged)
    for name, index in list_indexes(extended).items():
        assert len(index.segments) == 2
        assert {segment.uuid for segment in before[name].segments} < {
            segment.uuid for segment in index.segments
        }
        assert uncovered_fragments(extended, index) == []
    check(tables, extended)


def test_an_index_extended_to_replaced_rows_answers_by_what_they_are_now(
    table: Table, tables: Tables, storage: Storage
) -> None:
    """They keep their row ids, under which the old segments still have what they were."""
    table = commit(tables, stage_indexes(storage, table, operation(), build=SPECS))
    table = commit(tables, stage_upsert(storage, table, docs(range(90, 130), salt=2), operation()))
    table = commit(tables, stage_append(storage, table, docs(range(320, 330), salt=1), operation()))
    extended = commit(tables, stage_indexes(storage, table, operation(), extend=SPECS))
    check(tables, extended)
    assert all(uncovered_fragments(extended, built) == [] for built in list_indexes(extended).values())
    assert {name: len(built.segments) for name, built in list_indexes(extended).items()}["id_btree"] == 2


def test_rebuilding_replaces_all_segments(table: Table, tables: Tables, storage: Storage) -> None:
    table = commit(tables, stage_indexes(storage, table, operation(), build=SPECS))
    table = commit(tables, stage_append(storage, table, docs(range(320, 400), salt=1), operation()))
    table = commit(tables, stage_indexes(storage, table, operation(), extend=SPECS))
    rebuilt = commit(tables, stage_indexes(storage, table, operation(), build=SPECS))
    assert all(len(index.segments) == 1 for index in list_indexes(rebuilt).values())
    check(tables, rebuilt)


def test_dropping(table: Table, tables: Tables, storage: Storage) -> None:
    table = commit(tables, stage_indexes(storage, table, operation(), build=SPECS))
    dropped = commit(
        tables, stage_indexes(storage, table, operation(), drop=["id_btree", "body_fts", "no_such"])
    )
    assert set(list_indexes(dropped)) == {"number_btree", "color_bitmap", "body_ngram", "vector_vector"}
    check(tables, dropped)


def test_an_abandoned_index_leaves_no_files(table: Table, storage: Storage) -> None:
    staged = stage_indexes(storage, table, operation(), build=SPECS)
    discard_files(storage, [staged])
    assert all(storage.control.size(file.path) is None for file in staged.files)


def rows_with_history(table: Table) -> pa.Table:
    columns = ["id", "number", "color", "body", "_row_created_at_version", "_row_last_updated_at_version"]
    return table.read(columns, with_row_id=True).sort_by("id")


def compaction(
    storage: Storage, table: Table, specs: Sequence[IndexSpec], name: str, *, drops_indexes: bool = True
) -> list[StagedWrite]:
    """Compact, and give the result all of the indexes."""

    def choose(shown: Table) -> IndexWork:
        built = list_indexes(shown)
        return IndexWork(
            [spec for spec in specs if spec.name not in built],
            [spec for spec in specs if spec.name in built and uncovered_fragments(shown, built[spec.name])],
        )

    return stage_compaction(storage, table, choose, name, drops_indexes=drops_indexes)


def test_a_compaction_that_keeps_indexes_joins_the_tail_and_extends_them(
    table: Table, tables: Tables, storage: Storage
) -> None:
    table = commit(tables, stage_indexes(storage, table, operation(), build=SPECS))
    bulk = set(table.fragment_rows())
    for start in range(400, 480, 10):
        table = commit(tables, stage_append(storage, table, docs(range(start, start + 10)), operation()))
    table = commit(tables, stage_upsert(storage, table, docs(range(90, 130), salt=2), operation()))
    before, segments = rows_with_history(table), {n: b.segments for n, b in list_indexes(table).items()}
    assert compactable(table, bulk).rewritten == 9
    staged = compaction(storage, table, SPECS, operation(), drops_indexes=False)
    assert len(staged) == 2
    for write in staged:
        verify_files(storage, write)
        table = commit(tables, write)
    assert rows_with_history(table) == before
    assert len(table.fragment_rows()) == len(bulk) + 1
    for name, built in list_indexes(table).items():
        assert uncovered_fragments(table, built) == []
        kept = {each.uuid for each in segments[name]} < {each.uuid for each in built.segments}
        assert kept == (name == "id_btree")  # The others had to be built anew: rows were replaced.
    check(tables, table)
    assert compaction(storage, table, SPECS, operation(), drops_indexes=False) == []


@pytest.mark.parametrize("indexed", [True, False])
def test_compaction_keeps_rows_ids_versions_and_answers(
    indexed: bool, table: Table, tables: Tables, storage: Storage
) -> None:
    specs = SPECS if indexed else []
    if indexed:
        table = commit(tables, stage_indexes(storage, table, operation(), build=SPECS))
    for start in range(400, 480, 10):
        table = commit(tables, stage_append(storage, table, docs(range(start, start + 10)), operation()))
    table = commit(tables, stage_upsert(storage, table, docs(range(90, 130), salt=2), operation()))
    gone = ids(*(f"doc-{number:04d}" for number in range(0, 200, 3)))
    table = commit(tables, stage_delete(storage, table, operation(), ids=gone))
    before, name = rows_with_history(table), operation("compact")
    staged = compaction(storage, table, specs, name)
    assert table.latest_version() == table.version
    assert len(staged) == 1 + bool(list_indexes(table)) + bool(specs)
    compacted = table
    for write in staged:
        verify_files(storage, write)
        compacted = commit(tables, write)
    assert compacted.version == table.version + len(staged)
    assert rows_with_history(compacted) == before
    assert len(compacted.fragment_rows()) == 1
    assert set(list_indexes(compacted)) == {spec.name for spec in specs}
    assert all(uncovered_fragments(compacted, index) == [] for index in list_indexes(compacted).values())
    check(tables, compacted)
    names = storage.control.list(f"{table.ref.directory}/_versions")
    assert not [each for each in names if each.startswith("d")]


def test_compacting_twice_finds_nothing(table: Table, tables: Tables, storage: Storage) -> None:
    for write in compaction(storage, table, SPECS, operation()):
        table = commit(tables, write)
    assert compaction(storage, table, SPECS, operation()) == []


def test_compaction_fills_fragments_up_to_the_target(
    tables: Tables, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragments, "ROWS_PER_FRAGMENT", 60)
    monkeypatch.setattr("omnigraph_core.tables.compaction.ROWS_PER_FRAGMENT", 60)
    table = create_table(tables, DOC, SCHEMA, operation(), docs(range(10)))
    for start in range(10, 200, 10):
        table = commit(tables, stage_append(storage, table, docs(range(start, start + 10)), operation()))
    for write in compaction(storage, table, SPECS, operation()):
        table = commit(tables, write)
    assert len(table.fragment_rows()) <= 5
    check(tables, table)


def test_a_write_in_between_refuses_the_compaction(table: Table, tables: Tables, storage: Storage) -> None:
    from omnigraph_core.tables.failures import HeadMoved

    staged = compaction(storage, table, SPECS, operation())
    commit(tables, stage_append(storage, table, docs([999]), operation()))
    with pytest.raises(HeadMoved):
        commit(tables, staged[0])


def test_main_still_answers_after_its_branch_was_compacted(tables: Tables, storage: Storage) -> None:
    main = create_table(tables, DOC, SCHEMA, operation(), docs(range(100)))
    main = commit(tables, stage_append(storage, main, docs(range(100, 200)), operation()))
    main = commit(tables, stage_indexes(storage, main, operation(), build=SPECS))
    branch = create_fork(tables, DOC, "dev", main.version, unguarded)
    for write in compaction(storage, branch, SPECS, operation()):
        branch = commit(tables, write)
    check(tables, branch)
    check(tables, main)
    for write in compaction(storage, main, SPECS, operation()):
        main = commit(tables, write)
    check(tables, main)
    check(tables, branch)


# ---- folding ----


@pytest.fixture
def ripe(table: Table, tables: Tables, storage: Storage) -> Table:
    """An indexed table with more small fragments than a write leaves alone."""
    table = commit(tables, stage_indexes(storage, table, operation(), build=SPECS))
    for number in range(400, 400 + FOLD_FRAGMENTS + 3):
        table = commit(tables, stage_append(storage, table, docs([number]), operation()))
    return table


@pytest.mark.once_remotely
@pytest.mark.parametrize("verb", ["append", "upsert", "delete"])
def test_a_write_folds_the_small_fragments_of_others(
    verb: str, ripe: Table, tables: Tables, storage: Storage
) -> None:
    """Old rows and rows of the tail change; no other row does, not even its history."""
    name = operation("fold")
    changed = [5, 403, 404]
    if verb == "append":
        write = stage_append(storage, ripe, docs([900]), name)
    elif verb == "upsert":
        write = stage_upsert(storage, ripe, docs([*changed, 900], salt=3), name)
    else:
        write = stage_delete(storage, ripe, name, ids=ids(*(f"doc-{number:04d}" for number in changed)))
    fold = stage_fold(storage, ripe, write)
    assert fold is not None
    assert ripe.latest_version() == ripe.version
    written = commit(tables, write)
    folded = commit(tables, fold)
    assert folded.version == ripe.version + 2
    assert rows_with_history(folded) == rows_with_history(written)
    assert len(folded.fragment_rows()) <= len(written.fragment_rows()) - FOLD_FRAGMENTS + 3
    check(tables, folded)


def test_few_small_fragments_are_left_alone(table: Table, tables: Tables, storage: Storage) -> None:
    table = commit(tables, stage_append(storage, table, docs([900]), operation()))
    assert stage_fold(storage, table, stage_append(storage, table, docs([901]), operation())) is None


def test_an_overwrite_leaves_nothing_to_fold(ripe: Table, storage: Storage) -> None:
    assert stage_fold(storage, ripe, stage_overwrite(storage, ripe, docs([1]), operation())) is None


# ---- names that are handed on ----

NOTE = TableRef("node:Note", "nodes/n07e")
NOTES = pa.schema(
    [pa.field("id", pa.string(), nullable=False), pa.field("body", pa.string()), pa.field("txt", pa.string())]
)
BODY, X = IndexSpec("body", IndexKind.FULL_TEXT), IndexSpec("x", IndexKind.FULL_TEXT)


def notes(numbers: Iterable[int], first: str = "body", second: str = "txt") -> pa.Table:
    """Every first text has `alpha` in it; of the second ones every other has `omega`."""
    return pa.table(
        {
            "id": [f"n{number:03d}" for number in numbers],
            first: [f"alpha {number}" for number in numbers],
            second: ["omega" if number % 2 else "other" for number in numbers],
        }
    )


def renamed(table: Table, names: Mapping[str, str]) -> Table:
    """The table with its columns renamed one after the other, as one staged transaction."""
    twin = LanceDataset.commit(
        f"memory://{operation()}", LanceOperation.Overwrite(table.lance.lance_schema, [])
    )
    for old, new in names.items():
        twin.alter_columns({"path": old, "name": new})
    fragments = [fragment.metadata for fragment in table.lance.get_fragments()]
    handed_on = set(names.values()) & set(table.schema.names)
    change: Any = LanceOperation.Project(twin.lance_schema)
    if not handed_on:  # Merge refuses to give a column the name of another
        change = LanceOperation.Merge(fragments, twin.lance_schema)
    staged = Transaction(table.version, change)
    return Table(table.ref, LanceDataset.commit(table.lance, staged, max_retries=0))


def found(table: Table, column: str, word: str) -> int:
    """How many rows a search finds, in the way every query searches."""
    is_indexed, uncovered = text_coverage(table, column)
    number = len(search_indexed(table, column, word, None)) if is_indexed else 0
    for batch in table.scan([column], fragment_ids=uncovered) if uncovered else ():
        number += len(Words(batch.column(0)).having_any([word]))
    return number


def test_an_index_follows_its_column_when_names_are_handed_on(tables: Tables) -> None:
    """body becomes x and txt becomes body: the index of the old body is the one of x, and body has none."""
    storage = tables.storage
    table = create_table(tables, NOTE, NOTES, operation(), notes(range(100)))
    table = commit(tables, stage_indexes(storage, table, operation(), build=[BODY]))
    assert (found(table, "body", "alpha"), found(table, "txt", "omega")) == (100, 50)
    table = renamed(table, {"body": "x", "txt": "body"})
    assert (find_index(table, BODY), find_index(table, X)) == (None, list_indexes(table)["body_fts"])
    assert (found(table, "x", "alpha"), found(table, "body", "omega"), found(table, "body", "alpha")) == (
        100,
        50,
        0,
    )
    more = notes(range(100, 200), "x", "body").select(table.schema.names)
    table = commit(tables, stage_append(storage, table, more, operation()))
    assert (found(table, "x", "alpha"), found(table, "body", "omega")) == (200, 100)
    table = commit(tables, stage_indexes(storage, table, operation(), build=[BODY], extend=[X]))
    built = list_indexes(table)
    assert {name: (index.column, len(index.segments)) for name, index in built.items()} == {
        "body_fts": ("x", 2),
        "body_fts_2": ("body", 1),
    }
    assert all(uncovered_fragments(table, index) == [] for index in built.values())
    assert (found(table, "x", "alpha"), found(table, "body", "omega")) == (200, 100)
    table = commit(tables, stage_indexes(storage, table, operation(), build=[X]))
    assert {name: len(index.segments) for name, index in list_indexes(table).items()} == {
        "body_fts": 1,
        "body_fts_2": 1,
    }
    assert (found(table, "x", "alpha"), found(table, "body", "omega")) == (200, 100)


def test_every_kind_of_index_follows_a_rename(tables: Tables) -> None:
    table = create_table(tables, DOC, SCHEMA, operation(), docs(range(100)))
    table = commit(tables, stage_indexes(tables.storage, table, operation(), build=SPECS))
    names = {name: f"{name}_now" for name in ("number", "color", "body", "vector")}
    table = renamed(table, names)
    for spec in SPECS:
        index = find_index(table, replace(spec, column=names.get(spec.column, spec.column)))
        assert index is not None
        assert index.name == spec.name
        assert uncovered_fragments(table, index) == []
        assert spec.column == "id" or find_index(table, spec) is None
    assert has_vector_index(table, "vector_now")
    assert not has_vector_index(table, "vector")
