"""What a DataFrame reads: options turned into tables at fixed versions, once, where it is declared.

Everything after that (planning, every task, every action on the DataFrame) reads those versions.
So all partitions see one state of the graph, whatever is written meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph_core.errors import NotFoundError, UsageError
from omnigraph_core.export.parquet import parquet_schema
from omnigraph_core.graph import Graph
from omnigraph_core.layout import MAIN_BRANCH
from omnigraph_core.load.inputs import named_type
from omnigraph_core.read.answer.result import QueryResult
from omnigraph_core.read.answer.shown import shown_column
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, PropertyType, Scalar
from omnigraph_core.schema.files import file_columns
from omnigraph_core.settings import Settings
from omnigraph_core.spark.spec import TableAt
from omnigraph_core.spark.worker import fragment_groups, tables_at
from omnigraph_core.storage import parse_location
from omnigraph_core.tables.dataset import Table
from omnigraph_core.values.shown import clipped
from omnigraph_core.view import View

_OPTIONS = ("path", "type", "query", "name", "params", "branch", "ref", "snapshot", "columns", "pushdown")
_STRING = PropertyType(Scalar.STRING)

# Small beside a fragment, large beside the cost of handing a batch to the JVM.
_BATCH_ROWS = 1 << 15
# One blob may be as large as memory allows.
_BLOB_BATCH_ROWS = 64


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `spark.read.format("omnigraph")`."""

    graph: str
    type_name: str | None
    query: str | None
    query_name: str | None
    params: Mapping[str, Any] | None
    branch: str | None
    ref: str | None
    columns: tuple[str, ...] | None
    pushes: bool
    """Does the caller vouch that the DataFrame has one filter? See `PushingReader`."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Asked:
        """Raises UsageError for what can never be read."""
        given = {name.lower(): value for name, value in options.items()}
        unknown = sorted(set(given) - set(_OPTIONS))
        if unknown:
            raise UsageError(f"unknown option '{unknown[0]}'", hint=f"options are: {', '.join(_OPTIONS)}")
        if "path" not in given:
            raise UsageError("no graph is named", hint='write .load("path or s3://…")')
        if ("type" in given) == ("query" in given):
            raise UsageError("give either the option 'type' or the option 'query'")
        places = [name for name in ("branch", "ref", "snapshot") if name in given]
        if len(places) > 1:
            raise UsageError(f"both '{places[0]}' and '{places[1]}' were given", hint="use one of them")
        if "type" in given and (extra := {"name", "params"} & set(given)):
            raise UsageError(f"the option '{min(extra)}' needs the option 'query'")
        if "query" in given and "columns" in given:
            raise UsageError("a query says itself what it returns", hint="leave out the option 'columns'")
        pushes = given.get("pushdown", "false").lower()
        if pushes not in ("true", "false"):
            raise UsageError(f"the option 'pushdown' is true or false, not '{clipped(pushes)}'")
        columns = given.get("columns")
        return cls(
            given["path"],
            given.get("type"),
            given.get("query"),
            given.get("name"),
            _params(given.get("params")),
            given.get("branch"),
            given.get("ref") or given.get("snapshot"),
            None if columns is None else tuple(name.strip() for name in columns.split(",")),
            pushes == "true",
        )

    def view(self, settings: Settings) -> View:
        graph = Graph.open(self.graph, settings)
        return graph.at(self.ref, branch=self.branch or MAIN_BRANCH)


def _params(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the option 'params' is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError("the option 'params' is not a JSON object")
    return found


@dataclass(frozen=True, slots=True)
class PinnedType:
    """The rows of one type, at one version of its table."""

    graph: str
    settings: Settings
    entity: EntityType
    table: TableAt
    columns: tuple[str, ...]
    """As files call them."""
    pushes: bool

    @property
    def schema(self) -> pa.Schema:
        known = parquet_schema(self.entity)
        return pa.schema([known.field(name) for name in self.columns])

    def choosing(self, names: list[str]) -> PinnedType:
        """Only these columns, in this order."""
        known = list(file_columns(self.entity))
        for name in names:
            if name not in known:
                listed = ", ".join(known)
                raise NotFoundError(
                    f"{self.entity.name} has no column '{clipped(name)}'", hint=f"columns are: {listed}"
                )
        return replace(self, columns=tuple(names))

    def groups(self) -> list[tuple[int, ...]]:
        """Fragments that one task reads."""
        return fragment_groups(self._opened())

    def batches(self, fragments: tuple[int, ...], where: str | None) -> Iterator[pa.RecordBatch]:
        """The rows of some fragments that pass the filter."""
        names = [file_columns(self.entity)[name] for name in self.columns]
        types = [self._type(name) for name in names]
        blobs = any(each.scalar is Scalar.BLOB for each in types)
        rows = self._opened().scan(
            # Without a column Lance would read nothing; the number of rows is what is wanted then.
            names or ["id"],
            where,
            fragment_ids=fragments,
            blobs=blobs,
            batch_rows=_BLOB_BATCH_ROWS if blobs else _BATCH_ROWS,
            use_index=False,
        )
        for batch in rows:
            arrays = [shown_column(batch.column(at), each) for at, each in enumerate(types)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def _type(self, column: str) -> PropertyType:
        prop = self.entity.find_property(column)
        return _STRING if prop is None else prop.type

    def _opened(self) -> Table:
        return tables_at(self.graph, self.settings).open(self.table.ref, self.table.version)


@dataclass(frozen=True, slots=True)
class PinnedQuery:
    """The answer of a query on one commit."""

    asked: Asked
    settings: Settings
    commit_id: str
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        view = replace(self.asked, ref=self.commit_id, branch=None).view(self.settings)
        yield from run_query(view, self.asked).to_batches()


def run_query(view: View, asked: Asked, *, explain_only: bool = False) -> QueryResult:
    assert asked.query is not None
    return view.query(asked.query, name=asked.query_name, params=asked.params, explain_only=explain_only)


Pinned = PinnedType | PinnedQuery


def pin(options: Mapping[str, str], settings: Settings) -> Pinned:
    """What the options name, as it is now; raises for a graph, ref, type or column that is not there."""
    asked = Asked.of(options)
    view = asked.view(settings)
    if asked.query is not None:
        head = view.snapshot.head
        if head is None:
            raise NotFoundError(f"branch '{view.snapshot.shown_branch}' has no commit to read")
        answer = run_query(view, asked, explain_only=True)
        return PinnedQuery(asked, settings, head.commit_id, answer.schema)
    assert asked.type_name is not None
    entity = named_type(view.schema, asked.type_name)
    entry = view.snapshot.entry(entity.table_key)
    place = parse_location(asked.graph, settings.working_directory).uri
    columns = tuple(file_columns(entity))
    found = PinnedType(
        place, settings, entity, TableAt(entry.ref, entry.table_version), columns, asked.pushes
    )
    return found if asked.columns is None else found.choosing(list(asked.columns))
