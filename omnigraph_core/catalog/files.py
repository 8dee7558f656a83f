"""The schema files of a graph, and the check that they still say the same thing.

`_schema.pg` is the source as the user gave it, `_schema.ir.json` its compiled form,
`__schema_state.json` the hash of that form: what the graph has accepted. Editing the
source by hand is allowed as far as it compiles to the same hash (comments, order).
`__schema/<hash>.json` keeps every compiled form there ever was, for old snapshots.
"""

from __future__ import annotations

import json

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, StorageError
from omnigraph_core.jsontext import parse_json
from omnigraph_core.records import dataclass
from omnigraph_core.schema import (
    CompiledSchemaError,
    Schema,
    SourceError,
    compile_schema,
    parse_compiled,
    pretty_json,
    schema_hash,
)
from omnigraph_core.storage import ControlStore

_STATE_FORMAT = 1
_IDENTITY_VERSION = 1


@dataclass(frozen=True, slots=True)
class Catalog:
    """The accepted schema: model, hash, and the text it was written as."""

    schema: Schema
    schema_hash: str
    source: str


class SchemaFilesDisagree(StorageError):
    """The files do not describe one schema; somebody edited or lost one of them."""


def write_schema_files(control: ControlStore, source: str, schema: Schema) -> str:
    """Write all four files of a new graph; returns the hash."""
    accepted = schema_hash(schema)
    state = {
        "format_version": _STATE_FORMAT,
        "schema_ir_hash": accepted,
        "schema_identity_version": _IDENTITY_VERSION,
    }
    compiled = pretty_json(schema)
    control.put(layout.schema_by_hash(accepted), compiled.encode())
    control.put(layout.SCHEMA_SOURCE, source.encode())
    control.put(layout.SCHEMA_COMPILED, compiled.encode())
    control.put(layout.SCHEMA_STATE, (json.dumps(state, indent=2) + "\n").encode())
    return accepted


def load_catalog(control: ControlStore, *, has_other_branches: bool, published_hash: str | None) -> Catalog:
    """Read the schema files and check them against each other; writes nothing.

    With both JSON files lost the source decides, if it is the schema of the head commit
    (`published_hash`) and no other branch exists; `restore_schema_files` rewrites them.
    """
    source = _read_text(control, layout.SCHEMA_SOURCE)
    if source is None:
        raise SchemaFilesDisagree(f"{layout.SCHEMA_SOURCE} is missing", hint="restore it from a backup")
    schema = _compile_source(source)
    compiled = _read_text(control, layout.SCHEMA_COMPILED)
    state = _read_text(control, layout.SCHEMA_STATE)
    if compiled is None and state is None and not has_other_branches:
        if published_hash not in (None, schema_hash(schema)):
            raise _edited()
        return Catalog(schema, schema_hash(schema), source)
    if compiled is None or state is None:
        missing = layout.SCHEMA_COMPILED if compiled is None else layout.SCHEMA_STATE
        raise SchemaFilesDisagree(f"{missing} is missing", hint="restore it from a backup")
    accepted = _accepted_hash(state)
    if _stored_hash(compiled) != accepted:
        raise SchemaFilesDisagree(
            f"{layout.SCHEMA_COMPILED} is not the schema recorded in {layout.SCHEMA_STATE}",
            hint="restore both from a backup",
        )
    if schema_hash(schema) != accepted:
        raise _edited()
    return Catalog(schema, accepted, source)


def has_schema_files(control: ControlStore) -> bool:
    """Is at least one of the JSON files there?"""
    return control.exists(layout.SCHEMA_COMPILED) or control.exists(layout.SCHEMA_STATE)


def restore_schema_files(control: ControlStore, catalog: Catalog) -> None:
    """Write the JSON files anew if both are lost; under the refs lock."""
    if not has_schema_files(control):
        write_schema_files(control, catalog.source, catalog.schema)


def schema_at(control: ControlStore, accepted: str) -> Schema:
    """The schema with this hash, as some commit of the past had it."""
    text = _read_text(control, layout.schema_by_hash(accepted))
    if text is None:
        raise NotFoundError(f"the schema {accepted} is not kept in this graph")
    schema = parse_compiled(text)
    if schema_hash(schema) != accepted:
        raise SchemaFilesDisagree(f"{layout.schema_by_hash(accepted)} does not have the hash in its name")
    return schema


def _read_text(control: ControlStore, path: str) -> str | None:
    found = control.get(path)
    if found is None:
        return None
    try:
        return found.data.decode()
    except UnicodeDecodeError as error:
        raise SchemaFilesDisagree(f"{path} is not UTF-8 text") from error


def _compile_source(source: str) -> Schema:
    try:
        return compile_schema(source, layout.SCHEMA_SOURCE)
    except SourceError as error:
        raise SchemaFilesDisagree(
            f"{layout.SCHEMA_SOURCE} of the graph does not compile any more: {error}",
            hint=f"undo the edit of {layout.SCHEMA_SOURCE}; change a schema with `omnigraph schema apply`",
        ) from error


def _edited() -> SchemaFilesDisagree:
    return SchemaFilesDisagree(
        f"current {layout.SCHEMA_SOURCE} no longer matches the accepted compiled schema",
        hint=f"undo the edit of {layout.SCHEMA_SOURCE}; change a schema with `omnigraph schema apply`",
    )


def _stored_hash(compiled: str) -> str:
    try:
        return schema_hash(parse_compiled(compiled))
    except CompiledSchemaError as error:
        raise SchemaFilesDisagree(
            f"{layout.SCHEMA_COMPILED}: {error}", hint="restore it from a backup"
        ) from error


def _accepted_hash(state: str) -> str:
    try:
        content = parse_json(state)
        if content["format_version"] != _STATE_FORMAT:
            raise SchemaFilesDisagree(
                f"{layout.SCHEMA_STATE} has format {content['format_version']}, this OmniGraph knows "
                f"{_STATE_FORMAT}",
                hint="upgrade omnigraph first",
            )
        return str(content["schema_ir_hash"])
    except (ValueError, KeyError, TypeError) as error:
        raise SchemaFilesDisagree(
            f"{layout.SCHEMA_STATE} is not a schema state file", hint="restore it from a backup"
        ) from error
