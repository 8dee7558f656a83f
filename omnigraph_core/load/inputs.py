"""Which reader reads what: from paths, a format and a type to typed rows.

The format is the one asked for, else the one the name ends in. JSON lines name the type
of every record; a CSV or Parquet file is about one type, the one asked for, else the
one the file is named after (`Person.parquet`, `knows.csv.gz`). A directory stands for
the files in it.

What cannot work is a UsageError. A type that was asked for and does not exist is
NoSuchTypeError, as everywhere (not found); a file that is not named after a type is bad
usage: the caller only has to name the type.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from omnigraph_core.errors import UsageError
from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.formats.arrow_stream import ArrowSource
from omnigraph_core.load.formats.compressed import CODECS
from omnigraph_core.load.formats.csv import read_csv
from omnigraph_core.load.formats.jsonl import read_jsonl
from omnigraph_core.load.formats.limits import PARQUET_BATCH_BYTES
from omnigraph_core.load.formats.parquet import ParquetSource, read_typed
from omnigraph_core.load.formats.remote import is_remote, list_folder, place_of
from omnigraph_core.load.formats.source import STDIN, Place, Source
from omnigraph_core.load.formats.typed_rows import TypedRows, no_rows
from omnigraph_core.progress import Progress, ProgressEvent, silent
from omnigraph_core.records import dataclass
from omnigraph_core.rules.violations import Violations
from omnigraph_core.schema import EntityType, Schema, UnknownTypeError
from omnigraph_core.schema.files import Format
from omnigraph_core.schema.model import NoSuchTypeError
from omnigraph_core.settings import S3Settings

_SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}
_TABLE_KEY_SEPARATOR = ":"


@dataclass(frozen=True, slots=True)
class Input:
    """One file, or rows in memory, and its reader.

    `entity` is the type it holds; None if its records name theirs.
    """

    source: Source | ParquetSource | ArrowSource
    format: Format
    entity: EntityType | None = None

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def place(self) -> Place:
        """Where the file is; rows in memory are nowhere."""
        assert not isinstance(self.source, ArrowSource)
        return self.source.place

    @property
    def sha256(self) -> str:
        """The digest of the file as stored, compressed or not; complete once it has been read."""
        return self.source.sha256

    @property
    def bytes_read(self) -> int:
        return self.source.bytes_read

    @property
    def size(self) -> int | None:
        return self.source.size


def resolve_inputs(
    paths: Sequence[str],
    schema: Schema,
    format_: Format | None = None,
    type_name: str | None = None,
    s3: S3Settings | None = None,
    budget: MemoryBudget | None = None,
) -> list[Input]:
    """The inputs that a load names, in order; each exists, and none has been read yet.

    With `s3`, inputs may be objects on S3; names that end in a slash are folders of them. The
    budget says how much of them is read at a time.
    """
    if paths.count(STDIN) > 1:
        raise UsageError("standard input was given twice", hint="it can be read only once")
    entity = None if type_name is None else named_type(schema, type_name)
    files = [file for path in paths for file in _files(path, s3)]
    places = [None if s3 is None else place_of(file, s3) for file in files]
    return [
        _resolved(file, place, schema, format_, entity, budget)
        for file, place in zip(files, places, strict=True)
    ]


def _files(path: str, s3: S3Settings | None) -> list[str]:
    """The path itself or, for a directory, its files by name without hidden ones."""
    if s3 is not None and is_remote(path):
        return _objects(path, s3) if path.endswith("/") else [path]
    if path == STDIN or not os.path.isdir(path):
        return [path]
    found = sorted(each for each in Path(path).iterdir() if not _is_marker(each.name))
    for each in found:
        if each.is_dir():
            raise UsageError(f"'{each}' is a directory inside the directory of inputs '{path}'")
        if not each.is_file():
            raise UsageError(
                f"'{each}' in the directory of inputs '{path}' is not a file",
                hint="a FIFO or a device is read only when it is named itself",
            )
        if _format_of(each.name) is None:
            raise UsageError(f"'{each}': cannot tell the format of this file", hint=_known_suffixes())
    if not found:
        raise UsageError(f"the directory '{path}' has no files in it")
    return [str(each) for each in found]


def _objects(folder: str, s3: S3Settings) -> list[str]:
    """The objects directly in a folder on S3, by name."""
    found = [name for name in list_folder(folder, s3) if not _is_marker(name)]
    if not found:
        raise UsageError(f"there are no objects in '{folder}'")
    return [folder + name for name in found]


def _is_marker(name: str) -> bool:
    """Hidden files, and what Spark and its like leave beside data: `_SUCCESS`, `._x.crc`."""
    return name.startswith(".") or (name.startswith("_") and _format_of(name) is None)


def _resolved(
    path: str,
    place: Place | None,
    schema: Schema,
    format_: Format | None,
    asked: EntityType | None,
    budget: MemoryBudget | None,
) -> Input:
    chosen = _chosen_format(path, format_)
    if chosen is Format.JSONL:
        if asked is not None:
            raise UsageError(f"'{path}' is JSON lines, where each record names its own type", field="type")
        return Input(_text(path, place, budget), chosen)
    if chosen is Format.PARQUET:
        source = _parquet(path, place, budget)
        return Input(source, chosen, asked or _type_of_file(path, schema))
    return Input(_text(path, place, budget), chosen, asked or _type_of_file(path, schema))


def _text(path: str, place: Place | None, budget: MemoryBudget | None) -> Source:
    if budget is None:
        return Source(path, place)
    return Source(path, place, block_bytes=budget.block_bytes, line_bytes_max=budget.line_bytes_max)


def _chosen_format(path: str, format_: Format | None) -> Format:
    """A name without a suffix is usually a pipe, and is read as JSON lines."""
    by_name = None if path == STDIN else _format_of(path)
    if format_ is not None:
        if by_name not in (None, format_):
            raise UsageError(f"'{path}' is {by_name} by its name, not {format_}", field="format")
        return format_
    if by_name is not None:
        return by_name
    if path != STDIN and Path(_uncompressed(path)).suffix:
        raise UsageError(
            f"'{path}': cannot tell the format of this file",
            hint=f"{_known_suffixes()}; or name the format",
            field="format",
        )
    return Format.JSONL


def _parquet(path: str, place: Place | None, budget: MemoryBudget | None) -> ParquetSource:
    if path == STDIN:
        raise UsageError(
            "Parquet cannot be read from standard input", hint="use a file: its index is at the end"
        )
    if _uncompressed(path) != path:
        raise UsageError(
            f"'{path}': Parquet is compressed inside, not as a whole", hint="decompress the file"
        )
    bytes_ = PARQUET_BATCH_BYTES if budget is None else budget.batch_bytes
    source = ParquetSource(path, place, batch_bytes=bytes_)
    if source.size is None:
        raise UsageError(f"Parquet input must be a regular file: '{path}'")
    return source


def _type_of_file(path: str, schema: Schema) -> EntityType:
    if path == STDIN:
        raise UsageError(
            "CSV from standard input needs a type", hint="name the type of its rows", field="type"
        )
    stem = Path(_uncompressed(path)).stem
    try:
        return named_type(schema, stem)
    except (NoSuchTypeError, UnknownTypeError):
        raise UsageError(
            f"'{path}' is not named after a type of the schema",
            hint="name the type of its rows",
            field="type",
        ) from None


def named_type(schema: Schema, name: str) -> EntityType:
    """The type of this name: a node's exactly, an edge's also in another case.

    A node and an edge may have the same name; then it takes `node:NAME` or `edge:NAME`,
    which are always understood.
    """
    kind, separator, rest = name.partition(_TABLE_KEY_SEPARATOR)
    if separator and kind in ("node", "edge"):
        return schema.node(rest) if kind == "node" else schema.edge(rest)
    found: list[EntityType] = [entity for entity in schema.types() if entity.name == name]
    if len(found) > 1:
        raise UsageError(
            f"'{name}' is both a node type and an edge type",
            hint=f"write node:{name} or edge:{name}",
            field="type",
        )
    return found[0] if found else _edge_in_any_case(schema, name)


def _edge_in_any_case(schema: Schema, name: str) -> EntityType:
    edge = schema.find_edge(name)
    if edge is None:
        raise NoSuchTypeError(name, (entity.table_key for entity in schema.types()))
    return edge


def _format_of(path: str) -> Format | None:
    return _SUFFIXES.get(Path(_uncompressed(path)).suffix.lower())


def _uncompressed(path: str) -> str:
    """The name without a compression suffix."""
    suffix = Path(path).suffix
    return path.removesuffix(suffix) if suffix.lower() in CODECS else path


def _known_suffixes() -> str:
    return f"known endings are {', '.join(_SUFFIXES)}, and {' or '.join(CODECS)} after those of text"


def read_inputs(
    inputs: Sequence[Input], schema: Schema, violations: Violations, progress: Progress = silent
) -> Iterator[TypedRows]:
    """Every good record of the inputs; what is wrong with the others goes to `violations`.

    The rows of one type come in the order of the inputs, with ascending lines in each.
    """
    sizes = [each.size for each in inputs]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    before = 0
    for each in inputs:
        yield from _read(each, schema, violations, _shifted(progress, before, total))
        before += each.bytes_read


def _read(given: Input, schema: Schema, violations: Violations, progress: Progress) -> Iterator[TypedRows]:
    if not isinstance(given.source, Source):
        assert given.entity is not None
        return read_typed(given.source, given.entity, violations, progress)
    if given.format is Format.CSV:
        assert given.entity is not None
        return read_csv(given.source, given.entity, violations, progress)
    found = read_jsonl([given.source], schema, violations, progress)
    return found if given.entity is None else _at_least_none(found, given)


def _at_least_none(found: Iterator[TypedRows], given: Input) -> Iterator[TypedRows]:
    """Records of one type. Where there are none, that type is still what the input is about."""
    assert given.entity is not None
    first = next(found, None)
    yield no_rows(given.entity, given.name) if first is None else first
    yield from found


def _shifted(progress: Progress, before: int, total: int | None) -> Progress:
    """Turns the progress of one input into progress of all inputs."""

    def report(event: ProgressEvent) -> None:
        progress(ProgressEvent(event.phase, before + event.done, total, event.unit))

    return report
