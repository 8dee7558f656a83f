"""What a load is given: from paths, a format and a type to splits that tasks can read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omnigraph_core.errors import UsageError
from omnigraph_core.load.formats.source import STDIN
from omnigraph_core.load.inputs import Input, named_type, resolve_inputs
from omnigraph_core.load.roles import Asked
from omnigraph_core.records import dataclass
from omnigraph_core.schema import Schema
from omnigraph_core.schema.files import Format
from omnigraph_core.settings import Settings
from omnigraph_core.spark.options import SparkOptions, refuse_out_of_reach
from omnigraph_core.spark.splits import Split, cut_inputs
from omnigraph_core.storage import Location


@dataclass(frozen=True, slots=True)
class Given:
    """The input of a load."""

    splits: tuple[Split, ...]
    keys: frozenset[str] | None
    """The tables it is about; None if the records say."""
    inputs: tuple[Input, ...]
    """The files; none when Spark itself reads, from `paths`."""
    paths: tuple[str, ...] = ()


def resolve(
    asked: Asked, schema: Schema, options: SparkOptions, settings: Settings, graph: Location
) -> Given:
    """Raises UsageError for what cannot be read, RefusedError for what tasks could not reach."""
    paths, format_, type_name = asked
    if STDIN in paths:
        raise UsageError("Spark cannot read standard input", hint="use a file, or load without Spark")
    if options.reader is not None:
        return _read_by_spark(paths, type_name, schema, options, graph)
    inputs = resolve_inputs(paths, schema, format_, type_name, settings.s3)
    for each in inputs:
        if each.size is None:
            raise UsageError(f"Spark input must be a regular file: '{each.name}'")
    refuse_out_of_reach(options, graph, [each.name for each in inputs])
    named = [each.entity.table_key for each in inputs if each.entity is not None]
    keys = frozenset(named) if len(named) == len(inputs) else None
    return Given(tuple(cut_inputs(inputs)), keys, tuple(inputs))


def _read_by_spark(
    paths: Sequence[str], type_name: str | None, schema: Schema, options: SparkOptions, graph: Location
) -> Given:
    if type_name is None:
        raise UsageError(
            f"the Spark format '{options.reader}' needs a type",
            hint="name the type of its rows",
            field="type",
        )
    entity = named_type(schema, type_name)
    local = [path for path in paths if "://" not in path]
    for path in local:
        if not Path(path).exists():
            raise UsageError(f"input '{path}' does not exist")
    refuse_out_of_reach(options, graph, local)
    places = tuple(Path(path).absolute().as_uri() if path in local else path for path in paths)
    name = ", ".join(paths)
    split = Split(0, name, "", Format.PARQUET, entity.table_key, 0, 0, is_whole=False, size=0)
    return Given((split,), frozenset({entity.table_key}), (), places)
