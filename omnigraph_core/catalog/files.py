"""The schema files of a graph, and the check that they still say the same thing.

`_schema.pg` is the source as the user gave it, `_schema.ir.json` its compiled form,
`__schema_state.json` the hash of that form: what the graph has accepted. Editing the
source by hand is allowed as far as it compiles to the same hash (comments, order).
`__schema/<hash>.json` keeps every compiled form there ever was, for old snapshots and for branches
with a schema of their own; `__schema/<hash>.pg` the text it was written as.

The files in the root are a projection of main's head row, whose hash decides. Between the publish
of another schema and their promotion they tell of the one before; then the head row is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from omnigraph_core import faults, layout
from omnigraph_core.errors import StorageError
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
from omnigraph_core.schema.render import render
from omnigraph_core.storage import ControlStore

Guard = Callable[[], None]

_STATE_FORMAT = 1
_IDENTITY_VERSION = 1


@dataclass(frozen=True, slots=True)
class Catalog:
    """The accepted schema: model, hash, and the text it was written as."""

    schema: Schema
    schema_hash: str
    source: str


_BACKUP = "restore it from a backup"
_APPLY = f"apply the accepted schema with `omnigraph schema apply`: its text is in {layout.SCHEMA_DIR}"


class SchemaFilesDisagree(StorageError):
    """The files do not describe one schema: one of them was edited or lost."""


def write_schema_files(control: ControlStore, source: str, schema: Schema, guard: Guard) -> str:
    """Write all files of a new graph; returns the hash. Under the refs lock, which `guard` asks for."""
    catalog = Catalog(schema, keep_schema(control, source, schema), source)
    project_schema(control, catalog, guard)
    return catalog.schema_hash


def _projection(catalog: Catalog) -> list[tuple[str, bytes]]:
    """The files in the root and what they say; the state goes last, because it names the others."""
    state = {
        "format_version": _STATE_FORMAT,
        "schema_ir_hash": catalog.schema_hash,
        "schema_identity_version": _IDENTITY_VERSION,
    }
    return [
        (layout.SCHEMA_SOURCE, catalog.source.encode()),
        (layout.SCHEMA_COMPILED, pretty_json(catalog.schema).encode()),
        (layout.SCHEMA_STATE, (json.dumps(state, indent=2) + "\n").encode()),
    ]


def keep_schema(control: ControlStore, source: str, schema: Schema) -> str:
    """Keep a schema and its text under its hash, before any head row can name it; returns the hash.

    The schema first: it is complete without its text, and so is what a dead apply leaves behind.
    """
    accepted = schema_hash(schema)
    control.put(layout.schema_by_hash(accepted), pretty_json(schema).encode())
    control.put(layout.schema_source_by_hash(accepted), source.encode())
    return accepted


def project_schema(control: ControlStore, catalog: Catalog, guard: Guard) -> None:
    """Make the files in the root say this; each is replaced as it was read, after asking the guard."""
    for path, data in _projection(catalog):
        found = control.get(path)
        if found is not None and found.data == data:
            continue
        if found is None:
            control.create(path, data, guard)
        else:
            guard()
            control.replace(path, data, found.e_tag)
        faults.hit(f"schema.promoted.{path}")


def is_outstanding(control: ControlStore, published: str) -> bool:
    """Is there a state file, and does it name another schema than the published one?"""
    state = _read_text(control, layout.SCHEMA_STATE)
    return state is not None and _accepted_hash(state) != published


def published_catalog(control: ControlStore, published: str) -> Catalog:
    """The schema of a head row, with its text if that was kept."""
    schema = schema_at(control, published)
    return Catalog(schema, published, source_at(control, published) or render(schema))


def load_catalog(
    control: ControlStore, *, has_other_branches: Callable[[], bool], published_hash: str | None
) -> Catalog:
    """Read the schema files and check them against each other; writes nothing.

    With both JSON files lost the source decides, if it is the schema of the head commit (`published_hash`)
    and no other branch exists, which is asked only then; `restore_schema_files` rewrites them. A state of
    another schema than the published one is a promotion that is still to come: no edit is found in its
    files.
    """
    if published_hash is not None and is_outstanding(control, published_hash):
        return published_catalog(control, published_hash)
    source = _read_text(control, layout.SCHEMA_SOURCE)
    if source is None:
        raise SchemaFilesDisagree(f"{layout.SCHEMA_SOURCE} is missing", hint=_APPLY)
    schema = _compile_source(source)
    compiled = _read_text(control, layout.SCHEMA_COMPILED)
    state = _read_text(control, layout.SCHEMA_STATE)
    if compiled is None and state is None and not has_other_branches():
        if published_hash not in (None, schema_hash(schema)):
            raise _edited(published_hash)
        return Catalog(schema, schema_hash(schema), source)
    if compiled is None or state is None:
        missing = layout.SCHEMA_COMPILED if compiled is None else layout.SCHEMA_STATE
        raise SchemaFilesDisagree(f"{missing} is missing", hint=_APPLY)
    accepted = _accepted_hash(state)
    if _stored_hash(compiled) != accepted:
        raise SchemaFilesDisagree(
            f"{layout.SCHEMA_COMPILED} is not the schema recorded in {layout.SCHEMA_STATE}",
            hint=_APPLY,
        )
    if schema_hash(schema) != accepted:
        raise _edited(accepted)
    return Catalog(schema, accepted, source)


def put_back_schema_files(control: ControlStore, published: str, guard: Guard) -> bool:
    """Let the files in the root say what is published, if somebody edited or lost them; did somebody?

    Under the lock of main. An edit that does not change the schema stays.
    """
    try:
        load_catalog(control, has_other_branches=lambda: True, published_hash=published)
    except SchemaFilesDisagree:
        project_schema(control, published_catalog(control, published), guard)
        return True
    return False


def has_schema_files(control: ControlStore) -> bool:
    """Is at least one of the JSON files there?"""
    return control.exists(layout.SCHEMA_COMPILED) or control.exists(layout.SCHEMA_STATE)


def restore_schema_files(control: ControlStore, catalog: Catalog, guard: Guard) -> None:
    """Write the JSON files anew if both are lost; under the refs lock, which `guard` asks for."""
    if not has_schema_files(control):
        write_schema_files(control, catalog.source, catalog.schema, guard)


def edited_source(control: ControlStore, published: str) -> str | None:
    """The source in the root, if somebody made it say something else than what was accepted."""
    source = _read_text(control, layout.SCHEMA_SOURCE)
    if source is None or is_outstanding(control, published):
        return None
    try:
        same = schema_hash(compile_schema(source, layout.SCHEMA_SOURCE)) == published
    except SourceError:
        return source
    return None if same else source


def schema_at(control: ControlStore, accepted: str) -> Schema:
    """The schema with this hash, as some commit of the past had it."""
    path = layout.schema_by_hash(accepted)
    text = _read_text(control, path)
    if text is None:
        raise SchemaFilesDisagree(f"{path} is missing; commits have this schema", hint=_BACKUP)
    schema = _parsed(text, path)
    if schema_hash(schema) != accepted:
        raise SchemaFilesDisagree(f"{path} does not have the hash in its name", hint=_BACKUP)
    return schema


def source_at(control: ControlStore, accepted: str) -> str | None:
    """The text a schema was written as; None where only its compiled form was kept."""
    path = layout.schema_source_by_hash(accepted)
    text = _read_text(control, path)
    if text is not None and schema_hash(_compile_source(text, path)) != accepted:
        raise SchemaFilesDisagree(f"{path} does not have the hash in its name")
    return text


def _read_text(control: ControlStore, path: str) -> str | None:
    found = control.get(path)
    if found is None:
        return None
    try:
        return found.data.decode()
    except UnicodeDecodeError as error:
        raise SchemaFilesDisagree(f"{path} is not UTF-8 text") from error


def _compile_source(source: str, path: str = layout.SCHEMA_SOURCE) -> Schema:
    try:
        return compile_schema(source, path)
    except SourceError as error:
        raise SchemaFilesDisagree(
            f"{path} of the graph no longer compiles: {error}", hint=f"undo the edit of {path}"
        ) from error


def _edited(accepted: str | None) -> SchemaFilesDisagree:
    kept = layout.schema_source_by_hash(accepted or "")
    return SchemaFilesDisagree(
        f"current {layout.SCHEMA_SOURCE} no longer matches the accepted compiled schema",
        hint=f"apply the edit with `omnigraph schema apply`, or undo it: the accepted text is {kept}",
    )


def _stored_hash(compiled: str) -> str:
    return schema_hash(_parsed(compiled, layout.SCHEMA_COMPILED))


def _parsed(compiled: str, path: str) -> Schema:
    try:
        return parse_compiled(compiled)
    except CompiledSchemaError as error:
        raise SchemaFilesDisagree(f"{path}: {error}", hint=_BACKUP) from error


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
        raise SchemaFilesDisagree(f"{layout.SCHEMA_STATE} is not a schema state file", hint=_APPLY) from error
