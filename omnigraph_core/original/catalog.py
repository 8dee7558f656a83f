"""The schema files of the original, verified by its own rule.

`__schema_state.json` has the SHA-256 of `_schema.ir.json` in compact form, that is, of the file as it
stands without the white space between its tokens. `_schema.pg` is the text it was compiled from. We
compile it ourselves, and compare what comes out with what the original had compiled.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph_core import layout
from omnigraph_core.catalog.files import Catalog, SchemaFilesDisagree
from omnigraph_core.jsontext import parse_json
from omnigraph_core.schema import SourceError, compile_schema, schema_hash, to_compiled
from omnigraph_core.storage import ControlStore

_STRING_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
_RESTORE = "restore the schema files from a backup; nothing is read or written before that"


def load_original_catalog(control: ControlStore) -> Catalog:
    """The accepted schema of an original's graph, by our hash; `SchemaFilesDisagree` unless all three
    files are there and agree."""
    source = _text(control, layout.SCHEMA_SOURCE)
    compiled = _text(control, layout.SCHEMA_COMPILED)
    state = _text(control, layout.SCHEMA_STATE)
    accepted = _parsed(layout.SCHEMA_STATE, state).get("schema_ir_hash")
    if accepted != original_hash(compiled):
        raise SchemaFilesDisagree(
            f"{layout.SCHEMA_COMPILED} is not the schema recorded in {layout.SCHEMA_STATE}", hint=_RESTORE
        )
    content = _parsed(layout.SCHEMA_COMPILED, compiled)
    try:
        schema = compile_schema(source, layout.SCHEMA_SOURCE)
    except SourceError as error:
        raise SchemaFilesDisagree(
            f"{layout.SCHEMA_SOURCE} of the graph does not compile: {error}",
            hint=f"undo the edit of {layout.SCHEMA_SOURCE}",
        ) from error
    if _facts(content) != _facts(to_compiled(schema)):
        raise SchemaFilesDisagree(
            f"current {layout.SCHEMA_SOURCE} no longer matches the accepted compiled schema",
            hint=f"undo the edit of {layout.SCHEMA_SOURCE}",
        )
    return Catalog(schema, schema_hash(schema), source)


def original_hash(compiled: str) -> str:
    """What the original records of a compiled schema. Its tokens stay as they are: another spelling of
    a number would be another hash."""
    compact = _STRING_OR_SPACE.sub(lambda match: match[1] or "", compiled)
    return "sha256:" + hashlib.sha256(compact.encode()).hexdigest()


def _text(control: ControlStore, path: str) -> str:
    found = control.get(path)
    if found is None:
        raise SchemaFilesDisagree(f"{path} is missing", hint=_RESTORE)
    try:
        return found.data.decode()
    except UnicodeDecodeError as error:
        raise SchemaFilesDisagree(f"{path} is not UTF-8 text", hint=_RESTORE) from error


def _parsed(path: str, text: str) -> dict[str, Any]:
    try:
        content = parse_json(text)
    except ValueError as error:
        raise SchemaFilesDisagree(f"{path} is not JSON: {error}", hint=_RESTORE) from error
    if not isinstance(content, dict):
        raise SchemaFilesDisagree(f"{path} is not a JSON object", hint=_RESTORE)
    return content


def _facts(compiled: Mapping[str, Any]) -> dict[str, object]:
    """What a compiled schema says about tables and rows, in either program's form.

    Annotations are left out: the two programs keep different ones, and none of them says anything
    about a row.
    """
    try:
        return {
            "interfaces": {each["name"]: _properties(each) for each in compiled["interfaces"]},
            "nodes": {
                each["name"]: (
                    _properties(each),
                    sorted(each["implements"]),
                    _constraints(each["constraints"]),
                )
                for each in compiled["nodes"]
            },
            "edges": {
                each["name"]: (
                    _properties(each),
                    (each["from_type"], each["to_type"]),
                    (each["cardinality"]["min"], each["cardinality"]["max"]),
                    _constraints(each["constraints"]),
                )
                for each in compiled["edges"]
            },
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise SchemaFilesDisagree(
            f"{layout.SCHEMA_COMPILED} is not a compiled schema: {error!r}", hint=_RESTORE
        ) from error


def _properties(of: Mapping[str, Any]) -> dict[str, object]:
    return {each["name"]: _canonical(each["prop_type"]) for each in of["properties"]}


def _constraints(constraints: Iterable[object]) -> list[str]:
    return sorted({json.dumps(_canonical(each), sort_keys=True) for each in constraints})


def _canonical(value: object) -> object:
    """Numbers without their kind: the two programs differ in what they call `1.0`."""
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)) in ("Integer", "Float"):
            return float(next(iter(value.values())))
        return {key: _canonical(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(each) for each in value]
    return value
