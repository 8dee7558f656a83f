"""Opening and reading Lance datasets: `Tables` (one graph's) and `Table` (one version of one)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import InternalError, StorageError
from omnigraph_core.limits import MEMORY_DEFAULT_BYTES
from omnigraph_core.storage import Storage
from omnigraph_core.storage.inside import refuse_foreign, refuse_links_below
from omnigraph_core.tables.failures import (
    LANCE_RAISES,
    GraphMoved,
    ReadsElsewhere,
    TableLost,
    TableNotFound,
    VersionNotFound,
    is_missing,
    lance_failures,
    panics_as_failures,
    storage_error,
)
from omnigraph_core.tables.limits import INDEX_CACHE_SHARE, METADATA_CACHE_SHARE
from omnigraph_core.tables.places import place_inside
from omnigraph_core.tables.refs import TableRef

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

    from omnigraph_core.tables.keys import KnownKeys
    from omnigraph_core.tables.physical import Stretch

_SAMPLE_PLACES = 8

# Of a scan whose memory is bounded: batches decoded before they are asked for, and bytes fetched.
_READ_AHEAD = 4
_IO_BUFFER_MIN = 16 << 20

# One file format for every dataset a graph ever creates; a change is a stamp migration.
FILE_FORMAT = "2.2"

# Settings of Lance's own cleanup. No dataset of ours has them; all of the original's have.
_CLEANUP_SETTINGS = "lance.auto_cleanup."

ORIGINAL_MARK = "omnigraph.original"
"""A setting of ours: the version still has what the original wrote, although its settings are gone."""


class Tables:
    """The Lance datasets of one graph, opened through one session.

    The session caches manifests and index pages by file identity, so keeping one for
    the life of the process makes reopening cheap and never stale. Every commit makes new ones, so
    they are given shares of the memory; Lance would keep 7 GiB.
    """

    def __init__(self, storage: Storage, memory_bytes: int = MEMORY_DEFAULT_BYTES) -> None:
        self.storage = storage
        self._memory_bytes = memory_bytes
        self._session: Any = None
        self._looked_at: set[str] = set()
        self._own_places: set[tuple[str, str]] = set()
        self.proven_whole: set[TableRef] = set()
        """Logs whose HEAD this process has found not to be torn by a power cut."""
        self.proven_forks: set[tuple[TableRef, str]] = set()
        """Forks, with their identities, whose first version this process has found to be whole."""

    def open(self, ref: TableRef, version: int | None = None) -> Table:
        """The table at `version`, or at HEAD."""
        import lance

        # Lance would retry an unreachable store for minutes; the probe has a deadline.
        self.storage.probe()
        if self._session is None:
            self._session = lance.Session(
                index_cache_size_bytes=self._memory_bytes // INDEX_CACHE_SHARE,
                metadata_cache_size_bytes=self._memory_bytes // METADATA_CACHE_SHARE,
            )
        uri = self.uri(ref)
        self.refuse_foreign(ref.directory)
        try:
            with panics_as_failures(ref, "opening"):
                dataset = lance.dataset(
                    uri, version=version, session=self._session, storage_options=self.storage.lance_options
                )
            if not dataset.version:
                # What Lance makes of a manifest full of zeros: an empty dataset.
                raise StorageError(f"opening table '{ref.key}' failed: its manifest holds nothing")
            self._refuse_outside(ref, dataset)
            return Table(ref, dataset)
        except LANCE_RAISES as error:
            if not is_missing(error):
                raise storage_error(ref, "opening", error) from error
        if version is not None:
            self._raise_missing(ref, version)
        raise TableNotFound(f"table '{ref.key}' does not exist at {uri}")

    def _raise_missing(self, ref: TableRef, version: int) -> None:
        """Cleanup removes versions, but never the newest, and no table that a commit can name.

        A fork goes with its branch, also while somebody reads it.
        """
        from urllib.parse import quote

        from omnigraph_core.tables.durability import version_of

        control = self.storage.control
        names = control.list(f"{ref.directory}/_versions")
        newest = max((found for name in names if (found := version_of(name)) is not None), default=0)
        fork = None if ref.branch is None else f"{ref.path}/_refs/branches/{quote(ref.branch, safe='')}.json"
        is_live = fork is None or control.exists(fork)
        if ":" in ref.key and version > newest and is_live:
            raise TableLost(ref, version, is_there=newest > 0)
        if newest:
            raise VersionNotFound(ref.key, version)

    def keep(self, table: Table) -> None:
        """This version was just committed: HEAD, for those who keep tables (`tables/held_tables.py`)."""

    def forget(self, ref: TableRef) -> None:
        """What is kept of this table, if anything, is HEAD no more."""

    def is_head(self, table: Table) -> bool:
        """Is it still the newest version? One listing, where opening HEAD would read it as well."""
        self.storage.probe()
        return table.latest_version() == table.version

    def refuse_foreign(self, directory: str) -> None:
        """Lance follows links, and waits for ever at a FIFO. Asked once in the life of a process, of what
        is there by then; forks are looked at when they are opened themselves."""
        if self.storage.location.is_local and directory not in self._looked_at:
            refuse_foreign(str(self.storage.location.path), directory, but_not_in="tree")
            self._looked_at.add(directory)

    def refuse_links_below(self, directory: str) -> None:
        """Lance follows links, and deletes what it finds."""
        if self.storage.location.is_local:
            refuse_links_below(str(self.storage.location.path), directory)

    def _refuse_outside(self, ref: TableRef, dataset: LanceDataset) -> None:
        """A fork reads its parent's files where they were when it was made; nothing else reads elsewhere."""
        for base in dataset.base_paths().values():
            if (base.path, ref.path) not in self._own_places:
                place = place_inside(self.storage, base.path)
                if place is None or not f"{place}/".startswith(f"{ref.path}/"):
                    raise GraphMoved(ref.key, base.path) if ref.branch else ReadsElsewhere(ref, base.path)
                self.refuse_foreign(place)
                self._own_places.add((base.path, ref.path))

    def uri(self, ref: TableRef) -> str:
        """The absolute place Lance is given. Always absolute: branches record it."""
        return self.storage.location.child(ref.directory)

    def exists(self, ref: TableRef) -> bool:
        """Is there at least one version? Asked of the storage, so that it needs no Lance."""
        names = self.storage.control.list(f"{ref.directory}/_versions")
        return any(name.endswith(".manifest") for name in names)


class RowStream:
    """Batches of a scan as they are read; what goes wrong on the way is a failure of the table."""

    def __init__(self, ref: TableRef, reader: pa.RecordBatchReader) -> None:
        self._ref = ref
        self._reader = reader

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with lance_failures(self._ref, "reading"):
            yield from self._reader

    def read_all(self) -> pa.Table:
        with lance_failures(self._ref, "reading"):
            return self._reader.read_all()


class _NullIfEmpty(RowStream):
    """The same, with nulls in the place of empty blobs."""

    def __init__(self, ref: TableRef, reader: pa.RecordBatchReader, names: Sequence[str]) -> None:
        super().__init__(ref, reader)
        self._names = [name for name in names if name in reader.schema.names]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return map(self._without_empty, super().__iter__())

    def read_all(self) -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_batches(list(self), self.schema)

    def _without_empty(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa
        import pyarrow.compute as pc

        for name in self._names:
            values = batch.column(name)
            is_empty = pc.equal(pc.binary_length(values), 0)
            kept = pc.if_else(is_empty, pa.scalar(None, values.type), values)
            batch = batch.set_column(batch.schema.get_field_index(name), batch.schema.field(name), kept)
        return batch


def nullable_blobs(schema: pa.Schema) -> list[str]:
    """The blob columns that may be without a value."""
    return [each.name for each in schema if each.nullable and _is_blob(each)]


def _is_blob(field: pa.Field) -> bool:
    named = getattr(field.type, "extension_name", "").encode()
    return _BLOB in (named, (field.metadata or {}).get(b"ARROW:extension:name"))


_BLOB = b"lance.blob.v2"


class Table:
    """One version of one dataset. Immutable: reading it twice gives the same answer."""

    __slots__ = ("_dataset", "known_keys", "known_properties", "known_stretches", "ref")

    def __init__(self, ref: TableRef, dataset: LanceDataset) -> None:
        self.ref = ref
        self._dataset = dataset
        self.known_keys: KnownKeys | None = None
        """What was looked up in this version so far, of few rows; kept by `tables/keys.py`."""
        self.known_properties: Mapping[str, str] | None = None
        """Those of the transaction that made this version, if this process has just committed it."""
        self.known_stretches: dict[tuple[str, ...], tuple[Stretch, ...]] = {}
        """The fragments by columns, as far as they were asked for; kept by `tables/physical.py`."""

    @property
    def lance(self) -> LanceDataset:
        """The handle itself; for this package only."""
        return self._dataset

    @property
    def version(self) -> int:
        return int(self._dataset.version)

    @property
    def cleanup_settings(self) -> dict[str, str]:
        """What this version says of Lance's own cleanup, which no dataset of ours has."""
        found: dict[str, str] = self._dataset.config()
        return {key: value for key, value in found.items() if key.startswith(_CLEANUP_SETTINGS)}

    @property
    def is_foreign(self) -> bool:
        """Is this version one of the Rust original's? See `tables/foreign.py`."""
        return bool(self.cleanup_settings) or ORIGINAL_MARK in self._dataset.config()

    @property
    def schema(self) -> pa.Schema:
        return self._dataset.schema

    @property
    def field_ids(self) -> list[int]:
        """Ids of the top-level columns, as Lance's transactions want them."""
        return [field.id() for field in self._dataset.lance_schema.fields()]

    def check_columns(self, known: Sequence[str]) -> None:
        """Raise unless it has the first so many of these columns, under the ids they were made with.

        Lance keeps no checksum of a manifest. A changed letter makes another column, and a
        changed id one without values.
        """
        with lance_failures(self.ref, "reading the columns of"):
            names = list(self.schema.names)
        ids = [id_ for field in self._dataset.lance_schema.fields() for id_ in _field_ids(field)]
        if names != list(known[: len(names)]) or ids != list(range(len(ids))):
            raise StorageError(f"table '{self.ref.key}' is damaged: its columns are {', '.join(names)}")

    def latest_version(self) -> int:
        """HEAD of this lineage now; one directory listing."""
        with lance_failures(self.ref, "looking up HEAD of"):
            return int(self._dataset.latest_version)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_rows: int | None = None,
        batch_bytes: int | None = None,
        fragment_ids: Sequence[int] | None = None,
        blobs: bool = False,
        order_by: str | None = None,
        use_index: bool = True,
        early: bool = False,
        limit: int | None = None,
    ) -> RowStream:
        """Stream rows, the first `limit` of them; the filter runs before anything else sees a row.

        Without `use_index` the filter reads the columns it is about. With `early` all columns are read
        beside it, which is cheaper where many rows pass.

        With `batch_bytes` a batch is about as large at most, and few are read ahead.

        Blob columns are descriptions of where the bytes are; with `blobs`, the bytes.
        """
        fragments = None
        if fragment_ids is not None:
            fragments = [self._fragment(fragment_id) for fragment_id in fragment_ids]
        with lance_failures(self.ref, "reading"):
            scanner = self._dataset.scanner(
                columns=None if columns is None else list(columns),
                filter=where,
                prefilter=True,
                with_row_id=with_row_id,
                with_row_address=with_row_address,
                batch_size=batch_rows,
                batch_size_bytes=batch_bytes,
                batch_readahead=None if batch_bytes is None else _READ_AHEAD,
                io_buffer_size=None if batch_bytes is None else max(_IO_BUFFER_MIN, 8 * batch_bytes),
                fragments=fragments,
                blob_handling="all_binary" if blobs else None,
                order_by=None if order_by is None else [order_by],
                # Forks of the original's look for indexes of their parents in their own folders.
                use_scalar_index=use_index and not (where and self.is_foreign),
                late_materialization=False if early else None,
                limit=limit,
            )
            reader = scanner.to_reader()
            if blobs and self.is_foreign:
                return _NullIfEmpty(self.ref, reader, nullable_blobs(self.schema))
            return RowStream(self.ref, reader)

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
        fragment_ids: Sequence[int] | None = None,
        blobs: bool = False,
    ) -> pa.Table:
        """All matching rows at once; for results known to be small."""
        reader = self.scan(
            columns,
            where,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            fragment_ids=fragment_ids,
            blobs=blobs,
        )
        return reader.read_all()

    def sample(self, columns: Sequence[str], rows: int) -> pa.Table:
        """Some rows from all over the table, the same ones every time; a few at each of a few places."""
        total = self.count_rows()
        places = range(0, total, max(1, total // _SAMPLE_PLACES))
        each = -(-rows // _SAMPLE_PLACES)
        chosen = [place + step for place in places for step in range(each) if place + step < total]
        return self.take(columns, sorted(set(chosen)))

    def take(self, columns: Sequence[str], places: Sequence[int]) -> pa.Table:
        """The rows at these places of a scan, in ascending order.

        Fragment by fragment: once a row of a table was deleted, Lance takes a millisecond and a half
        for every row that is taken of the whole.
        """
        import pyarrow as pa

        with lance_failures(self.ref, "reading"):
            parts, first = [self._dataset.take([], columns=list(columns))], 0
            for fragment in self._dataset.get_fragments():
                end = first + fragment.metadata.num_rows
                mine = places[bisect_left(places, first) : bisect_left(places, end)]
                if mine:
                    parts.append(fragment.take([place - first for place in mine], columns=list(columns)))
                first = end
            return pa.concat_tables(parts)

    def count_rows(self, where: str | None = None) -> int:
        with lance_failures(self.ref, "counting"):
            return int(self._dataset.count_rows(where))

    def count_fragments(self) -> int:
        return len(self._dataset.get_fragments())

    def fragment_ids(self) -> frozenset[int]:
        return frozenset(fragment.fragment_id for fragment in self._dataset.get_fragments())

    def fragment_rows(self) -> dict[int, int]:
        """Live rows per fragment id, in fragment order; read from the manifest alone."""
        return {f.fragment_id: f.metadata.num_rows for f in self._dataset.get_fragments()}

    def transaction(self, version: int) -> Any:
        """The Lance transaction that made `version`."""
        _let_index_rewrites_be_read()
        with lance_failures(self.ref, "reading the transaction of"):
            found = self._dataset.read_transaction(version)
        if found is None:
            raise StorageError(f"table '{self.ref.key}': the transaction of version {version} is lost")
        return found

    def _fragment(self, fragment_id: int) -> Any:
        fragment = self._dataset.get_fragment(fragment_id)
        if fragment is None:
            raise InternalError(f"fragment {fragment_id} is not part of version {self.version}")
        return fragment


def _field_ids(field: Any) -> Iterator[int]:
    """Of a column and the fields inside it, in the order they are handed out in."""
    yield field.id()
    for child in field.children():
        yield from _field_ids(child)


def _let_index_rewrites_be_read() -> None:
    """Work around pylance 14: it cannot build the Python object of a transaction that remapped
    an index (every compaction of an indexed table), and `read_transaction` dies of a TypeError.
    The three fields it forgets to pass mean nothing to us."""
    from lance.dataset import LanceOperation

    rewritten: Any = LanceOperation.RewrittenIndex.__init__
    if rewritten.__defaults__ is None:
        rewritten.__defaults__ = ("", b"", 0)
