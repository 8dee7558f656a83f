"""Staged indexes: build, extend to new fragments, drop; any number of them in one version.

An index here never changes an answer, only its cost: Lance scans the fragments that
an index does not cover. What does change answers is an index attached to fragments
it was not built from, so segments are always built anew, never re-attached.

An index is of a field, and keeps its name when the column gets another. So it is looked
up by the field and by what it is for; names tell indexes apart and mean nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from omnigraph_core.errors import StorageError
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.keys import KEY
from omnigraph_core.tables.staged import StagedFile, StagedWrite, StageKind, prepare

# What building an index may take, unless the caller has less to give. Sorting is bounded by
# building several segments, of at most so many rows: but every look-up visits each of them.
MEMORY_BYTES = 2**31
_SORTED_ROW_BYTES = 256
_SEGMENT_ROWS_MIN = 250_000
# Of the vectors of a segment, which are compared with those of the nearest partitions.
PARTITIONS_MAX = 4_096
# Of it, what Lance is told for full-text: it takes a multiple of it.
_FULL_TEXT_SHARE = 8


class IndexKind(StrEnum):
    """What an index is for; the text is part of the index's name."""

    BTREE = "btree"
    BITMAP = "bitmap"
    FULL_TEXT = "fts"
    NGRAM = "ngram"
    VECTOR = "vector"


_LANCE_TYPES = {
    IndexKind.BTREE: "BTREE",
    IndexKind.BITMAP: "BITMAP",
    IndexKind.FULL_TEXT: "INVERTED",
    IndexKind.NGRAM: "NGRAM",
    IndexKind.VECTOR: "IVF_FLAT",
}

# Tokens are lower-cased, stemmed and stripped of English stop words.
FULL_TEXT_OPTIONS: dict[str, object] = {
    "base_tokenizer": "simple",
    "language": "English",
    "lower_case": True,
    "stem": True,
    "remove_stop_words": True,
    "ascii_folding": True,
    "with_position": False,
}


_KINDS = {lance_type: kind for kind, lance_type in _LANCE_TYPES.items()}


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index that a column should have. `metric` matters to vectors alone.

    The name is what a new one is called, unless another index has it.
    """

    column: str
    kind: IndexKind
    metric: str = "l2"

    @property
    def name(self) -> str:
        return f"{self.column}_{self.kind.value}"


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """An index as a version has it; `covered` are the fragments its segments were built from.

    `column` is what its column is called in this version, None if that is gone; `kind` is None
    for one that we never make.
    """

    name: str
    covered: frozenset[int]
    segments: tuple[Any, ...]
    column: str | None
    kind: IndexKind | None
    bytes: int = 0
    """Of its files, as far as the version knows."""

    def serves(self, spec: IndexSpec) -> bool:
        return (self.column, self.kind) == (spec.column, spec.kind)


def list_indexes(table: Table) -> dict[str, BuiltIndex]:
    """The indexes of this version by name."""
    with lance_failures(table.ref, "listing indexes of"):
        descriptions = table.lance.describe_indices()
    columns = {field.id(): field.name() for field in table.lance.lance_schema.fields()}
    return {description.name: _built(description, columns) for description in descriptions}


def find_index(table: Table, spec: IndexSpec) -> BuiltIndex | None:
    """The index that the column has for this, whatever it is called."""
    return serving(list_indexes(table), spec)


def serving(built: Mapping[str, BuiltIndex], spec: IndexSpec) -> BuiltIndex | None:
    """The same among indexes that are listed already."""
    return next((index for index in built.values() if index.serves(spec)), None)


def is_readable(storage: Storage, table: Table, index: BuiltIndex) -> bool:
    """Can its files be read where this version looks for them?"""
    own = [segment for segment in index.segments if segment.base_id is None]
    if not all(storage.control.list(_directory(table, segment)) for segment in own):
        return False
    try:
        with lance_failures(table.ref, f"reading index '{index.name}' of"):
            table.lance.prewarm_index(index.name)
    except StorageError:
        return False
    return True


def is_like_ours(table: Table, index: BuiltIndex) -> bool:
    """Was it built with our options? Another tokenizer, or another metric, answers otherwise."""
    with lance_failures(table.ref, "listing indexes of"):
        described = next(each for each in table.lance.describe_indices() if each.name == index.name)
    details = described.details or {}
    if index.kind is IndexKind.FULL_TEXT:
        return all(details.get(key) == value for key, value in FULL_TEXT_OPTIONS.items())
    if index.kind is IndexKind.VECTOR:
        return str(details.get("metric_type", "L2")).lower() == "l2"
    return True


def uncovered_fragments(table: Table, built: BuiltIndex | None) -> list[int]:
    """The fragments a scan would have to read in spite of the index."""
    covered = built.covered if built else frozenset()
    return [fragment_id for fragment_id in table.fragment_rows() if fragment_id not in covered]


def stage_indexes(
    storage: Storage,
    table: Table,
    operation_id: str,
    *,
    build: Sequence[IndexSpec] = (),
    extend: Sequence[IndexSpec] = (),
    drop: Sequence[str] = (),
    memory_bytes: int = MEMORY_BYTES,
    read_version: int | None = None,
) -> StagedWrite:
    """Stage one version with the given indexes built over everything (in place of the one the
    column has), extended to fragments they do not cover yet, or dropped by name.

    An index that cannot be extended is built anew: see `_is_extensible`.

    It follows this version of the table, or `read_version` when this is a preview of that.
    """
    existing = list_indexes(table)
    known = {spec: serving(existing, spec) for spec in (*build, *extend)}
    missing = {spec: uncovered_fragments(table, known[spec]) for spec in extend}
    built, new = list(build), []
    for spec in extend:
        more = []
        if _is_extensible(table, spec, missing[spec]):
            index = known[spec]
            name = index.name if index else _free_name(spec, existing)
            more = _segments(storage, table, spec, name, missing[spec], memory_bytes)
        if not missing[spec] or (more and _are_of_one_kind(storage, table, known[spec], more)):
            new += more
        else:
            built.append(spec)
    new += build_segments(storage, table, built, memory_bytes)
    replaced = [index.name for spec in built if (index := known[spec]) is not None]
    gone = {*replaced, *drop}
    removed = [segment for name in sorted(gone & set(existing)) for segment in existing[name].segments]
    return index_write(table, new, removed, read_version or table.version, operation_id)


def _is_extensible(table: Table, spec: IndexSpec, fragment_ids: Sequence[int]) -> bool:
    """Are the rows to be added new to the index?

    A replaced row keeps its row id, by which segments name rows. The old segment still says
    what the row was. That goes unnoticed only while its new place is in no segment: once both are
    covered, Lance finds the row by what it was and by what it is. The key alone never changes.
    """
    if spec.column == KEY or not fragment_ids:
        return True
    versions = ["_row_created_at_version", "_row_last_updated_at_version"]
    where = f"{versions[0]} != {versions[1]}"
    return not table.read(versions, where, fragment_ids=fragment_ids).num_rows


def _are_of_one_kind(
    storage: Storage, table: Table, index: BuiltIndex | None, segments: Sequence[Any]
) -> bool:
    """May the segments go with those the index has? Lance refuses to mix those of the Rust original with
    ours, which name rows otherwise. Then they are removed: nothing refers to them yet."""
    versions = {each.index_version for each in (*(index.segments if index else ()), *segments)}
    if len(versions) == 1:
        return True
    for segment in segments:
        storage.control.delete_prefix(_directory(table, segment))
    return False


def index_write(
    table: Table, new: Sequence[Any], removed: Sequence[Any], read_version: int, operation_id: str
) -> StagedWrite:
    """The transaction that attaches and detaches segments, based on `read_version`."""
    from lance.dataset import LanceOperation

    current = [replace(segment, dataset_version=read_version) for segment in new]
    operation = LanceOperation.CreateIndex(current, list(removed))
    return prepare(table.ref, StageKind.INDEX, read_version, operation, operation_id, _files(table, new))


def build_segments(
    storage: Storage, table: Table, specs: Iterable[IndexSpec], memory_bytes: int = MEMORY_BYTES
) -> list[Any]:
    """Index segments over all fragments of `table`, attached to nothing yet."""
    existing, fragments = list_indexes(table), list(table.fragment_rows())
    segments: list[Any] = []
    for spec in specs:
        known = serving(existing, spec)
        name = known.name if known else _free_name(spec, existing)
        segments += _segments(storage, table, spec, name, fragments, memory_bytes)
    return segments


def _free_name(spec: IndexSpec, existing: Collection[str]) -> str:
    """A name for a new index. The obvious one may have stayed with a column that was renamed."""
    name, number = spec.name, 2
    while name in existing:
        name, number = f"{spec.name}_{number}", number + 1
    return name


def _segments(
    storage: Storage, table: Table, spec: IndexSpec, name: str, fragment_ids: list[int], memory_bytes: int
) -> list[Any]:
    """Segments over the given fragments; of a sorted index as many as memory asks for."""
    if not fragment_ids:
        return []
    if spec.kind is not IndexKind.BTREE:
        return [_segment(storage, table, spec, name, fragment_ids, memory_bytes)]
    groups, rows = [[fragment_ids[0]]], table.fragment_rows()
    for fragment_id in fragment_ids[1:]:
        if sum(rows[each] for each in (*groups[-1], fragment_id)) > segment_rows(memory_bytes):
            groups.append([])
        groups[-1].append(fragment_id)
    return [_segment(storage, table, spec, name, group, memory_bytes) for group in groups]


def segment_rows(memory_bytes: int) -> int:
    """How many rows a segment of a sorted index may have."""
    return max(memory_bytes // _SORTED_ROW_BYTES, _SEGMENT_ROWS_MIN)


def _segment(
    storage: Storage, table: Table, spec: IndexSpec, name: str, fragment_ids: list[int], memory_bytes: int
) -> Any:
    """One segment over the given fragments. `replace` only lets the name occur again."""
    with lance_failures(table.ref, f"building index '{name}' of"):
        segment = table.lance.create_index_uncommitted(
            spec.column,
            _LANCE_TYPES[spec.kind],
            name=name,
            replace=True,
            fragment_ids=fragment_ids,
            **_options(table, spec, fragment_ids, memory_bytes),
        )
        if spec.kind is IndexKind.FULL_TEXT:
            # Unmerged, its files stay where no query looks for them.
            segment = table.lance.merge_existing_index_segments([segment])
            storage.control.delete_prefix(f"{_directory(table, segment)}/staging")
    return segment


def _options(table: Table, spec: IndexSpec, fragment_ids: list[int], memory_bytes: int) -> dict[str, object]:
    if spec.kind is IndexKind.FULL_TEXT:
        return FULL_TEXT_OPTIONS | {"memory_limit": max(memory_bytes // _FULL_TEXT_SHARE >> 20, 1)}
    if spec.kind is IndexKind.VECTOR:
        # About the square root balances centroids to compare against vectors to compare.
        where = f"`{spec.column}` IS NOT NULL"
        rows = table.read([], where, with_row_id=True, fragment_ids=fragment_ids).num_rows
        return {"metric": spec.metric, "num_partitions": max(1, min(int(rows**0.5), PARTITIONS_MAX))}
    return {}


def _built(description: Any, columns: Mapping[int, str]) -> BuiltIndex:
    from lance.dataset import Index

    segments = tuple(
        Index(
            uuid=str(segment.uuid),
            name=description.name,
            fields=list(description.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
            base_id=segment.base_id,
        )
        for segment in description.segments
    )
    covered = frozenset(each for segment in description.segments for each in segment.fragment_ids)
    column = columns.get(description.fields[0]) if len(description.fields) == 1 else None
    kind = _KINDS.get(description.index_type.upper())
    size = description.total_size_bytes or 0
    return BuiltIndex(description.name, covered, segments, column, kind, size)


def _directory(table: Table, segment: Any) -> str:
    return f"{table.ref.directory}/_indices/{segment.uuid}"


def _files(table: Table, segments: Iterable[Any]) -> Iterable[StagedFile]:
    for segment in segments:
        for file in segment.files:
            yield StagedFile(f"{_directory(table, segment)}/{file.path}", file.size_bytes)
