"""An export with Spark: the rows of one snapshot as files that executors write, all of them or none.

A directory is written beside its place under another name, and gets its own in one step when it is
complete. On S3 there is no such step: files are there as they are written, `_manifest.json` says
which of them count, and `_SUCCESS` is written last.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from omnigraph_core import outputs
from omnigraph_core.errors import InternalError, OmnigraphError, StorageError, UsageError
from omnigraph_core.export.jsonl import chosen_types
from omnigraph_core.graph import Graph
from omnigraph_core.ids import new_ulid
from omnigraph_core.progress import Progress, silent
from omnigraph_core.records import dataclass
from omnigraph_core.schema.files import Format
from omnigraph_core.spark.exported import WORK_FOLDER, ExportPart, ExportSpec
from omnigraph_core.spark.options import SparkOptions, refuse_out_of_reach
from omnigraph_core.spark.outcome import Json, read_result
from omnigraph_core.spark.spec import TableAt
from omnigraph_core.spark.submit import Submission
from omnigraph_core.spark.worker import fragment_groups, tables_at
from omnigraph_core.storage import Location, Storage, open_storage, parse_location
from omnigraph_core.view import View

MANIFEST, SUCCESS = "_manifest.json", "_SUCCESS"


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    counts: dict[str, int]
    """Rows by table key."""
    files: int
    bytes: int


def export_with_spark(
    graph: Graph,
    view: View,
    out: str,
    format_: Format,
    options: SparkOptions,
    *,
    types: Sequence[str] = (),
    progress: Progress = silent,
) -> Exported:
    """Write a directory or an s3:// prefix, which must not be there or be empty: a folder per type."""
    settings = graph.settings
    place = parse_location(out, settings.working_directory)
    if place.is_local and graph.location.is_local:
        outputs.refuse_graph(place.path, graph.location.path, "out")
    refuse_out_of_reach(options, graph.location, (), out)
    _refuse_content(place, open_storage(place, settings))
    with _unfinished(place) as root:
        storage = open_storage(root, settings)
        spec = _spec(graph, view, root.uri, format_, types, options)
        try:
            spec.write(storage)
            Submission(storage, settings, options, progress).run(spec)
            result = read_result(storage, spec.folder)
            if result is None:
                raise InternalError("the Spark job left no result")
            return _finish(view, spec, storage, result["outcomes"])
        except BaseException:
            if not root.is_local:
                _clear(storage, spec)
            raise


def _refuse_content(place: Location, storage: Storage) -> None:
    if place.is_local and os.path.lexists(place.path) and not place.path.is_dir():
        raise UsageError(f"{place.path} is a file, and an export with Spark needs a directory", field="out")
    if (not place.is_local or place.path.is_dir()) and not storage.control.is_empty():
        raise UsageError(f"{place.uri} is not empty; nothing in it was changed", field="out")


@contextmanager
def _unfinished(place: Location) -> Iterator[Location]:
    """Where to write; on a disk a directory that takes its place at the end of the block."""
    if not place.is_local:
        yield place
        return
    target = Path(place.path)
    beside = target.with_name(f".{target.name}.{new_ulid().lower()}.tmp")
    try:
        beside.mkdir(parents=True)
        yield parse_location(str(beside), target.parent)
        with suppress(FileNotFoundError):
            target.rmdir()
        beside.rename(target)
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror or error}", field="out") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _spec(
    graph: Graph, view: View, place: str, format_: Format, types: Sequence[str], options: SparkOptions
) -> ExportSpec:
    chosen = chosen_types(list(view.schema.types()), types)
    entries = {each.table_key: view.snapshot.entry(each.table_key) for each in chosen}
    tables = {key: TableAt(entry.ref, entry.table_version) for key, entry in entries.items()}
    names = [each.name.lower() for each in chosen]
    parts: list[ExportPart] = []
    for entity in chosen:
        # A node and an edge may have the same name, also in another case.
        is_alone = names.count(entity.name.lower()) == 1
        folder = entity.name if is_alone else entity.table_key.replace(":", "-")
        at = tables[entity.table_key]
        table = tables_at(graph.location.uri, graph.settings).open(at.ref, at.version)
        for group in fragment_groups(table) or [()]:
            parts.append(ExportPart(len(parts), entity.table_key, folder, group))
    pid = None if options.in_cluster else os.getpid()
    operation_id, uri = new_ulid(), graph.location.uri
    return ExportSpec(operation_id, place, uri, view.schema, format_, tables, tuple(parts), pid)


def _finish(view: View, spec: ExportSpec, storage: Storage, outcomes: Sequence[Json]) -> Exported:
    """Count, drop the files of repeated attempts, and say that this is all."""
    found = sorted(outcomes, key=lambda each: int(each["number"]))
    files = [{**file, "table_key": each["table_key"]} for each in found for file in each["files"]]
    counts = dict.fromkeys(spec.tables, 0)
    for file in files:
        counts[file["table_key"]] += int(file["rows"])
    for key, count in counts.items():
        expected = view.snapshot.entry(key).row_count
        if count != expected:
            raise InternalError(f"{key} has {expected} rows, and {count} were exported")
    _drop_others(spec, storage, {file["path"] for file in files})
    head = view.snapshot.head
    manifest = {
        "graph": spec.graph,
        "commit": None if head is None else head.commit_id,
        "format": spec.format.value,
        "types": [{"table_key": key, "rows": count} for key, count in counts.items()],
        "files": files,
    }
    storage.control.put(MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1).encode())
    storage.control.delete_prefix(WORK_FOLDER)
    storage.control.put(SUCCESS, b"")
    return Exported(counts, len(files), sum(int(file["bytes"]) for file in files))


def _drop_others(spec: ExportSpec, storage: Storage, kept: set[str]) -> None:
    for folder in dict.fromkeys(part.folder for part in spec.parts):
        for name in storage.control.list(folder):
            path = f"{folder}/{name}"
            if spec.operation_id.lower() in name and path not in kept:
                storage.control.delete(path)


def _clear(storage: Storage, spec: ExportSpec) -> None:
    """Nothing that this export wrote stays; the caller hears why it failed, not this."""
    with suppress(OmnigraphError):
        _drop_others(spec, storage, set())
        storage.control.delete_prefix(WORK_FOLDER)
