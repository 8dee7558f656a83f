"""What rows a table takes, and that keys, row ids and values of every type survive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph_core.errors import BadDataError, InternalError
from omnigraph_core.schema.arrow import BLOB_METADATA, BLOB_STORAGE
from omnigraph_core.settings import Settings
from omnigraph_core.storage import Storage, open_storage, parse_location
from omnigraph_core.tables import durability, fragments, keys
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.keys import DuplicateKey, find_keys
from omnigraph_core.tables.limits import KEYS_IN_FILTER_MAX
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.stage import (
    stage_append,
    stage_delete,
    stage_overwrite,
    stage_upsert,
)
from omnigraph_core.tables.staged import StagedFileMissing, StagedWrite, discard_files, verify_files
from tests.support.graphs import (
    BRANCH,
    LINEAGES,
    MAIN,
    PEOPLE_SCHEMA,
    PERSON,
    ages,
    commit,
    file_tree,
    ids,
    only_local,
    operation,
    people,
    people_table,
    row_ids,
)

StageRows = Callable[[Storage, Table, pa.Table, str], StagedWrite]
TAKING_ROWS: Sequence[StageRows] = (stage_append, stage_upsert, stage_overwrite)

every_stage = pytest.mark.parametrize("stage", TAKING_ROWS, ids=lambda stage: stage.__name__)

WEIRD_KEYS = (
    "", " ", "'", "''", "O'Hara", '"', '""', "\\", "\\'", "a\\nb", "a\nb", "\t", "%", "100%", "_", "a%b_c",
    "ключ", "na\u00efve", "nai\u0308ve", "🙂", "👩‍👩‍👧", "\u0000x", "\u202e", "ﬁ", "x" * 70_000,
    "');--", "{}", "$1", "?", ":a", "null", "NULL", "true", "1", "é" * 999,
)  # fmt: skip


# ---- what is refused ----


def test_an_id_that_is_written_and_removed_at_once_is_refused(tables: Tables, storage: Storage) -> None:
    table = people_table(tables)
    before = file_tree(storage)
    with pytest.raises(DuplicateKey) as caught:
        stage_upsert(storage, table, people({"new": 1, "ann": 2}), operation(), removed=ids("bob", "ann"))
    assert caught.value.details() == {"table_key": "node:Person", "id": "ann"}
    assert file_tree(storage) == before


def test_a_deleted_id_can_be_inserted_again_and_is_a_new_row(tables: Tables, storage: Storage) -> None:
    table = people_table(tables)
    known = row_ids(table)
    gone = commit(tables, stage_delete(storage, table, operation(), ids=ids("ann")))
    back = commit(tables, stage_append(storage, gone, people({"ann": 2}), operation()))
    assert ages(back)["ann"] == 2
    assert row_ids(back)["ann"] not in known.values()


@pytest.mark.once_remotely
@pytest.mark.parametrize("stage", [stage_upsert, stage_overwrite])
def test_an_id_twice_in_one_batch_is_refused(stage: StageRows, tables: Tables, storage: Storage) -> None:
    table = people_table(tables)
    before = file_tree(storage)
    twice = pa.concat_tables([people({"new": 1, "it's": 2}), people({"other": 3, "it's": 4})])
    with pytest.raises(DuplicateKey) as caught:
        stage(storage, table, twice, operation())
    assert caught.value.details() == {"table_key": "node:Person", "id": "it's"}
    assert file_tree(storage) == before


@pytest.mark.once_remotely
@every_stage
@pytest.mark.parametrize("nullable", [True, False], ids=["nullable column", "required column"])
def test_a_missing_id_is_refused(stage: StageRows, nullable: bool, tables: Tables, storage: Storage) -> None:
    """pyarrow and Lance both store a null in a required column without a word."""
    table = people_table(tables)
    before = file_tree(storage)
    schema = pa.schema([pa.field("id", pa.string(), nullable=nullable), PEOPLE_SCHEMA.field("age")])
    rows = pa.Table.from_arrays([pa.array(["new", None]), pa.array([1, 2])], schema=schema)
    with pytest.raises(BadDataError, match=r"node:Person\.id"):
        stage(storage, table, rows, operation())
    assert file_tree(storage) == before


@pytest.mark.once_remotely
@every_stage
def test_a_null_in_a_required_column_is_refused(stage: StageRows, tables: Tables, storage: Storage) -> None:
    schema = pa.schema([PEOPLE_SCHEMA.field("id"), pa.field("age", pa.int64(), nullable=False)])
    table = create_table(tables, PERSON, schema, operation())
    rows = pa.Table.from_arrays([pa.array(["a", "b"]), pa.array([1, None])], schema=schema)
    with pytest.raises(BadDataError, match=r"node:Person\.age"):
        stage(storage, table, rows, operation())
    assert table.latest_version() == table.version


@pytest.mark.once_remotely
@pytest.mark.parametrize("stage", [stage_append, stage_upsert], ids=lambda s: s.__name__)
def test_rows_with_other_columns_are_refused(stage: StageRows, tables: Tables, storage: Storage) -> None:
    table = people_table(tables)
    with pytest.raises(InternalError):
        stage(storage, table, people({"new": 1}).append_column("extra", pa.array([1])), operation())
    with pytest.raises(InternalError):
        stage(storage, table, people({"new": 1}).select(["id"]), operation())


@pytest.mark.once_remotely
@pytest.mark.parametrize("stage", [stage_append, stage_upsert], ids=lambda s: s.__name__)
def test_the_order_of_columns_does_not_matter(stage: StageRows, tables: Tables, storage: Storage) -> None:
    table = people_table(tables)
    landed = commit(tables, stage(storage, table, people({"new": 1}).select(["age", "id"]), operation()))
    assert ages(landed) == {**ages(table), "new": 1}
    assert landed.schema.names == ["id", "age"]


def test_a_value_that_does_not_fit_its_column_is_refused(tables: Tables, storage: Storage) -> None:
    schema = pa.schema([PEOPLE_SCHEMA.field("id"), pa.field("age", pa.int32())])
    table = create_table(tables, PERSON, schema, operation())
    with pytest.raises(BadDataError, match="node:Person"):
        stage_append(storage, table, people({"ann": 2**40}), operation())
    landed = commit(tables, stage_append(storage, table, people({"ann": 7}), operation()))
    assert (ages(landed), landed.schema) == ({"ann": 7}, schema)


def test_an_overwrite_may_change_the_columns(tables: Tables, storage: Storage) -> None:
    table = people_table(tables)
    landed = commit(
        tables, stage_overwrite(storage, table, pa.table({"id": ["a"], "name": ["Ann"]}), operation())
    )
    assert landed.read().to_pylist() == [{"id": "a", "name": "Ann"}]
    assert landed.version == table.version + 1
    assert landed.lance.has_stable_row_ids
    assert ages(tables.open(table.ref, table.version))["ann"] == 1


def test_delete_takes_a_predicate_or_ids_but_not_both(tables: Tables, storage: Storage) -> None:
    table = people_table(tables)
    with pytest.raises(TypeError):
        stage_delete(storage, table, operation())
    with pytest.raises(TypeError):
        stage_delete(storage, table, operation(), where="true", ids=ids("ann"))


# ---- keys ----


@pytest.fixture(params=["filter", "scan"])
def lookup(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways `find_keys` has of finding rows; the scan also in several batches."""
    if request.param == "scan":
        monkeypatch.setattr(keys, "KEYS_IN_FILTER_MAX", 0)
        monkeypatch.setattr(keys, "ROWS_PER_KEY_FOR_FILTER", 10**9)
        monkeypatch.setattr(keys, "_SCAN_BATCH_ROWS", 7)
    path: str = request.param
    return path


@pytest.mark.parametrize("indexed", [False, True], ids=["no index", "BTREE"])
def test_weird_keys_are_found_as_they_were_written(
    indexed: bool, lookup: str, tables: Tables, storage: Storage
) -> None:
    table = create_table(tables, PERSON, PEOPLE_SCHEMA, operation())
    content = {key: number for number, key in enumerate(WEIRD_KEYS)}
    assert len(content) == len(WEIRD_KEYS)
    table = commit(tables, stage_append(storage, table, people(content), operation()))
    if indexed:
        table.lance.create_scalar_index("id", "BTREE")
        table = tables.open(PERSON)
    known = row_ids(table)
    for key in WEIRD_KEYS:
        found = find_keys(table, ids(key, key + "-"))
        assert found.select(["id", "_rowid"]).to_pylist() == [{"id": key, "_rowid": known[key]}]
    everything = find_keys(table, ids(*reversed(WEIRD_KEYS)))
    assert dict(zip(*everything.select(["id", "_rowid"]).to_pydict().values(), strict=True)) == known
    table = commit(tables, stage_upsert(storage, table, people(dict.fromkeys(WEIRD_KEYS, -1)), operation()))
    assert ages(table) == dict.fromkeys(WEIRD_KEYS, -1)
    assert row_ids(table) == known
    for key in WEIRD_KEYS:
        table = commit(tables, stage_delete(storage, table, operation(), ids=ids(key)))
        assert table.count_rows() == table.read(["id"]).num_rows
        assert key not in ages(table)
    assert ages(table) == {}


def test_keys_given_in_many_chunks_are_found(lookup: str, tables: Tables) -> None:
    table = people_table(tables)
    chunks = pa.chunked_array([["nobody"], [], ["ann", "bob"], ["dan"], ["eva"]], pa.string())
    assert sorted(find_keys(table, chunks).column("id").to_pylist()) == ["ann", "bob", "eva"]
    assert find_keys(table, pa.chunked_array([], pa.string())).num_rows == 0


def test_rows_are_taken_by_their_places_among_those_that_are_left(
    tables: Tables, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every fragment, and behind rows that were deleted."""
    monkeypatch.setattr(fragments, "ROWS_PER_FRAGMENT", 10)
    table = create_table(tables, PERSON, PEOPLE_SCHEMA, operation())
    table = commit(tables, stage_append(storage, table, people({f"p{n}": n for n in range(30)}), operation()))
    table = commit(tables, stage_delete(storage, table, operation(), ids=ids("p0", "p4", "p19", "p20")))
    read = table.read(["id"]).column("id").to_pylist()
    places = [0, 3, 4, 9, 10, 17, 18, len(read) - 1]
    assert table.take(["id"], places).column("id").to_pylist() == [read[place] for place in places]
    assert set(table.sample(["id"], 16).column("id").to_pylist()) <= set(read)


def test_no_key_is_found_in_an_empty_table(lookup: str, tables: Tables) -> None:
    table = create_table(tables, PERSON, PEOPLE_SCHEMA, operation())
    found = find_keys(table, ids("ann"))
    assert (found.num_rows, found.column_names) == (0, ["id", "_rowid", "_rowaddr"])


@pytest.mark.parametrize("lineage", LINEAGES)
def test_an_upsert_across_many_fragments_keeps_row_ids(
    lineage: str, lookup: str, tables: Tables, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragments, "ROWS_PER_FRAGMENT", 40)
    table = people_table(tables, lineage)
    table = commit(
        tables, stage_append(storage, table, people({f"p{n}": n for n in range(250)}), operation())
    )
    assert len(table.fragment_rows()) >= 9
    content, known = ages(table), row_ids(table)
    changes = {f"p{n}": -n for n in range(0, 250, 2)} | {"ann": -1} | {f"q{n}": n for n in range(95)}
    staged = stage_upsert(storage, table, people(changes), operation())
    assert (staged.rows_inserted, staged.rows_updated) == (95, 126)
    landed = commit(tables, staged)
    assert ages(landed) == content | changes
    found = row_ids(landed)
    assert {name: found[name] for name in known} == known
    assert len(set(found.values())) == len(found)
    landed.lance.validate()
    new_fragments = [rows for id_, rows in landed.fragment_rows().items() if id_ not in table.fragment_rows()]
    assert new_fragments == [40, 40, 40, 40, 40, 21]


def test_a_large_batch_of_keys_goes_by_scan_and_a_small_one_by_filter(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    filters: list[str | None] = []
    real = Table.scan

    def spying(self: Table, columns: object = None, where: str | None = None, **more: object) -> object:
        filters.append(where)
        return real(self, columns, where, **more)  # type: ignore[arg-type]

    table = people_table(tables)
    monkeypatch.setattr(Table, "scan", spying)
    find_keys(table, ids("ann"))
    find_keys(table, ids(*(f"k{n}" for n in range(KEYS_IN_FILTER_MAX + 1))))
    assert filters == ["id IN ('ann')", None]


# ---- indexes ----


@pytest.mark.parametrize("lineage", LINEAGES)
def test_an_indexed_table_is_read_right_after_staged_writes(
    lineage: str, tables: Tables, storage: Storage
) -> None:
    """Stale index entries of replaced and deleted rows must not show, new rows must."""
    table = people_table(tables, lineage)
    table.lance.create_scalar_index("id", "BTREE")
    table = tables.open(table.ref)
    content = ages(table)
    steps: list[Callable[[Table], StagedWrite]] = [
        lambda t: stage_upsert(storage, t, people({"ann": 100, "new": 1}), operation()),
        lambda t: stage_delete(storage, t, operation(), ids=ids("bob", "new")),
        lambda t: stage_upsert(storage, t, people({"ann": 101, "bob": 102}), operation()),
        lambda t: stage_delete(storage, t, operation(), where="id = 'ann' OR id LIKE 'f%'"),
        lambda t: stage_append(storage, t, people({"ann": 103}), operation()),
        lambda t: stage_overwrite(storage, t, people({"ann": 104, "zoe": 1}), operation()),
        lambda t: stage_upsert(storage, t, people({"zoe": 2, "yan": 3}), operation()),
    ]
    expected = [
        content | {"ann": 100, "new": 1},
        {k: v for k, v in (content | {"ann": 100}).items() if k != "bob"},
        content | {"ann": 101, "bob": 102},
        {k: v for k, v in (content | {"bob": 102}).items() if k not in ("ann", "fay")},
        {k: v for k, v in (content | {"bob": 102, "ann": 103}).items() if k != "fay"},
        {"ann": 104, "zoe": 1},
        {"ann": 104, "zoe": 2, "yan": 3},
    ]
    names = sorted({*content, "new", "zoe", "yan"})
    for step, wanted in zip(steps, expected, strict=True):
        table = commit(tables, step(table))
        assert ages(table) == wanted
        assert table.lance.describe_indices() or "zoe" in wanted
        by_key = {name: table.read(["id", "age"], f"id = '{name}'").to_pylist() for name in names}
        assert by_key == {n: [{"id": n, "age": wanted[n]}] if n in wanted else [] for n in names}
        assert sorted(find_keys(table, ids(*names)).column("id").to_pylist()) == sorted(wanted)
        table.lance.validate()


@pytest.mark.parametrize("lineage", LINEAGES)
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_an_index_on_a_changed_value_is_not_believed(
    kind: str, lineage: str, tables: Tables, storage: Storage
) -> None:
    """A fragment of nothing but replaced rows keeps its row ids; Lance must not call it indexed."""
    table = people_table(tables, lineage)
    table.lance.create_scalar_index("age", kind)
    table = tables.open(table.ref)
    for age in (500, 501):
        table = commit(tables, stage_upsert(storage, table, people({"ann": age, "cid": age}), operation()))
        found = table.read(["id"], f"age = {age}").column("id").to_pylist()
        assert sorted(found) == ["ann", "cid"]
        assert table.read(["id"], "age = 1 OR age = 3 OR age = 499").num_rows == 0
        assert table.count_rows(f"age < {age}") == len(ages(table)) - 2


# ---- values of every type ----

TYPES = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("vector", pa.list_(pa.field("item", pa.float32()), 3)),
        pa.field("words", pa.list_(pa.field("item", pa.string()))),
        pa.field("day", pa.date32()),
        pa.field("moment", pa.date64()),
        pa.field("flag", pa.bool_()),
        pa.field("small", pa.int32()),
        pa.field("big", pa.uint64()),
        pa.field("real", pa.float64()),
    ]
)


def typed(key: str, **values: object) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(TYPES.names) | {"id": key}
    return row | values


FULL = typed(
    "full",
    vector=[1.5, -2.0, 0.25],
    words=["a", None, "", "ü🙂"],
    day=date(1969, 12, 31),
    moment=1_794_817_800_123,
    flag=False,
    small=-(2**31),
    big=2**64 - 1,
    real=-1e300,
)


@pytest.mark.parametrize("lineage", [MAIN, BRANCH])
def test_values_of_every_type_survive_upserts(lineage: str, tables: Tables, storage: Storage) -> None:
    table = create_table(tables, PERSON, TYPES, operation())
    if lineage == BRANCH:
        table = create_fork(tables, PERSON, "dev", table.version, unguarded)
    rows = [
        FULL,
        typed("empty"),
        typed("edge", words=[], vector=[0.0, -0.0, 2.0**127], day=date(9999, 12, 31)),
    ]
    table = commit(tables, stage_append(storage, table, typed_rows(rows), operation()))
    assert values_of(table) == {str(row["id"]): row for row in rows}
    swapped = [FULL | {"id": "empty"}, typed("full"), typed("more", flag=True)]
    table = commit(tables, stage_upsert(storage, table, typed_rows(swapped), operation()))
    assert values_of(table) == {str(row["id"]): row for row in [*swapped, rows[2]]}
    table = commit(tables, stage_delete(storage, table, operation(), where="moment IS NULL"))
    assert values_of(table) == {"empty": swapped[0]}
    assert table.schema == TYPES


def typed_rows(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """The rows as Arrow; moments are milliseconds, which pyarrow would cut to days otherwise."""
    moments = pa.array([row["moment"] for row in rows], pa.int64()).cast(pa.date64())
    dateless = pa.Table.from_pylist([{**row, "moment": None} for row in rows], TYPES)
    return dateless.set_column(TYPES.get_field_index("moment"), TYPES.field("moment"), moments)


def values_of(table: Table) -> dict[str, dict[str, object]]:
    rows = table.read()
    moments = rows.column("moment").cast(pa.int64())
    return {
        row["id"]: row
        for row in rows.set_column(TYPES.get_field_index("moment"), "moment", moments).to_pylist()
    }


# ---- blobs ----

PHOTO = TableRef("node:Photo", "nodes/photo")
PHOTOS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("image", BLOB_STORAGE, metadata=BLOB_METADATA),
        pa.field("stars", pa.int64()),
    ]
)
INLINE, PACKED, DEDICATED = b"tiny", b"p" * 100_000, b"d" * 5_000_000


def photos(images: Mapping[str, bytes | None], stars: int = 0, schema: pa.Schema = PHOTOS) -> pa.Table:
    structs = [None if data is None else {"data": data} for data in images.values()]
    columns = [pa.array(list(images)), pa.array(structs, BLOB_STORAGE), pa.array([stars] * len(images))]
    return pa.Table.from_arrays(columns, schema=schema)


def images_of(table: Table) -> dict[str, bytes | None]:
    found = table.read(["id", "image"], with_row_id=True).to_pylist()
    return {row["id"]: _image(table, row["_rowid"]) for row in found}


def _image(table: Table, row_id: int) -> bytes | None:
    blobs = table.lance.take_blobs("image", ids=[row_id])
    if not blobs or blobs[0] is None:
        return None
    with blobs[0] as blob:
        data: bytes = blob.readall()
        return data


@pytest.mark.parametrize("lineage", [MAIN, BRANCH])
def test_blobs_survive_upserts_of_others_and_of_themselves(
    lineage: str, tables: Tables, storage: Storage
) -> None:
    table = create_table(tables, PHOTO, PHOTOS, operation())
    first = {"inline": INLINE, "packed": PACKED, "dedicated": DEDICATED, "none": None, "empty": b""}
    table = commit(tables, stage_append(storage, table, photos(first), operation()))
    if lineage == BRANCH:
        table = create_fork(tables, PHOTO, "dev", table.version, unguarded)
    assert images_of(table) == first
    known = row_ids(table)
    table = commit(tables, stage_upsert(storage, table, photos({"new": b"n" * 70_000}), operation()))
    assert images_of(table) == first | {"new": b"n" * 70_000}
    changed = {"packed": DEDICATED, "dedicated": INLINE, "none": PACKED, "inline": None}
    table = commit(tables, stage_upsert(storage, table, photos(changed, stars=5), operation()))
    assert images_of(table) == first | {"new": b"n" * 70_000} | changed
    assert {name: row_ids(table)[name] for name in known} == known
    assert table.count_rows("stars = 5") == 4
    table = commit(tables, stage_delete(storage, table, operation(), ids=ids("packed", "new")))
    assert images_of(table) == {"dedicated": INLINE, "none": PACKED, "inline": None, "empty": b""}
    table.lance.validate()


@pytest.mark.parametrize("lineage", [MAIN, BRANCH])
@pytest.mark.once_remotely
@every_stage
def test_side_files_of_large_blobs_are_staged_files(
    stage: StageRows, lineage: str, tables: Tables, storage: Storage
) -> None:
    table = create_table(tables, PHOTO, PHOTOS, operation())
    if lineage == BRANCH:
        table = create_fork(tables, PHOTO, "dev", table.version, unguarded)
    before = file_tree(storage)
    staged = stage(storage, table, photos({"a": PACKED, "b": DEDICATED}), operation())
    new = file_tree(storage).keys() - before.keys()
    assert {file.path for file in staged.files} == new
    assert len(new) == 3
    for file in staged.files:
        assert file.size == storage.control.size(file.path)
    side = next(file for file in staged.files if file.path.endswith(".blob"))
    content = storage.control.get(side.path)
    storage.control.delete(side.path)
    with pytest.raises(StagedFileMissing):
        verify_files(storage, staged)
    assert content is not None
    storage.control.put(side.path, content.data)
    discard_files(storage, [staged])
    assert file_tree(storage) == before


def test_a_blob_column_is_recognised_without_its_field_metadata(tables: Tables, storage: Storage) -> None:
    """Rows that went through pandas or a join lose field metadata; the bytes must stay blobs."""
    table = create_table(tables, PHOTO, PHOTOS, operation())
    plain = pa.schema([field.remove_metadata() for field in PHOTOS])
    table = commit(
        tables, stage_append(storage, table, photos({"a": PACKED, "b": INLINE}, schema=plain), operation())
    )
    assert images_of(table) == {"a": PACKED, "b": INLINE}


@only_local
def test_syncing_a_version_covers_its_blobs(
    tables: Tables, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash recovery syncs by version, not by staged files: a blob must not be forgotten.

    Only on a disk: what S3 has confirmed is durable.
    """
    synced: list[str] = []
    monkeypatch.setattr(durability, "sync_files", lambda storage, paths: synced.extend(paths))
    base = create_table(tables, PHOTO, PHOTOS, operation())
    staged = stage_append(storage, base, photos({"a": PACKED, "b": DEDICATED}), operation())
    table = commit(tables, staged)
    expected = {file.path for file in staged.files} | {durability.manifest_path(PHOTO, table.version)}
    durability.sync_version(tables, table, base)
    assert set(synced) == expected
    synced.clear()
    durability.sync_version(tables, table, None)
    assert set(synced) == expected
    deletion = stage_delete(storage, table, operation(), ids=ids("a"))
    later = commit(tables, deletion)
    synced.clear()
    durability.sync_version(tables, later, table)
    assert set(synced) == {deletion.files[0].path, durability.manifest_path(PHOTO, later.version)}
    synced.clear()
    fork = create_fork(tables, PHOTO, "dev", later.version, unguarded)
    durability.sync_version(tables, fork, None)
    assert synced == [durability.manifest_path(fork.ref, fork.version)]


def test_the_names_of_new_directories_are_synced_with_their_files(tmp_path: Path) -> None:
    """The first append makes `data/`, the first delete `_deletions/`: a power cut must not lose them."""
    synced: list[tuple[set[Path], set[Path]]] = []
    storage = open_storage(parse_location("g", tmp_path), Settings(fsync=True))
    tables = Tables(storage)
    base = create_table(tables, PERSON, PEOPLE_SCHEMA, operation())
    staged = stage_append(storage, base, people({"ann": 1, "bob": 2}), operation())
    table = commit(tables, staged)
    storage.syncer.barrier = lambda files, dirs: synced.append(  # type: ignore[assignment, misc, method-assign]
        ({Path(file) for file in files}, {Path(folder) for folder in dirs})
    )
    durability.sync_version(tables, table, base)
    durability.sync_files(storage, [file.path for file in staged.files])
    home = tmp_path / "g" / PERSON.path
    data = {tmp_path / "g" / file.path for file in staged.files}
    manifest = tmp_path / "g" / durability.manifest_path(PERSON, table.version)
    assert synced == [
        (data | {manifest}, {home, home / "data", home / "_versions"}),
        (data, {home, home / "data"}),
    ]
