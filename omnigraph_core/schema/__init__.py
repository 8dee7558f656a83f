"""The `.pg` schema language: text to checked model, and the model's stored form.

The Arrow mapping lives in `omnigraph_core.schema.arrow`, which is not imported here:
reading a schema must not cost the start of pyarrow.
"""

from __future__ import annotations

from omnigraph_core.schema.check import check
from omnigraph_core.schema.compiled import (
    IdCollisionError,
    compact_json,
    pretty_json,
    schema_hash,
    to_compiled,
)
from omnigraph_core.schema.compiled_reader import CompiledSchemaError, from_compiled, parse_compiled
from omnigraph_core.schema.defaults import DefaultValue, default_of
from omnigraph_core.schema.model import (
    Annotation,
    Cardinality,
    Check,
    Constraint,
    EdgeType,
    Embed,
    EntityType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    PropertyType,
    Range,
    Scalar,
    Schema,
    Unique,
    UnknownTypeError,
)
from omnigraph_core.schema.parser import parse
from omnigraph_core.schema.source import SourceError, SourceText, Span

__all__ = [
    "Annotation",
    "Cardinality",
    "Check",
    "CompiledSchemaError",
    "Constraint",
    "DefaultValue",
    "EdgeType",
    "Embed",
    "EntityType",
    "IdCollisionError",
    "Index",
    "InterfaceType",
    "Key",
    "NodeType",
    "Property",
    "PropertyType",
    "Range",
    "Scalar",
    "Schema",
    "SourceError",
    "SourceText",
    "Span",
    "Unique",
    "UnknownTypeError",
    "compact_json",
    "compile_schema",
    "default_of",
    "from_compiled",
    "parse_compiled",
    "pretty_json",
    "schema_hash",
    "to_compiled",
]


def compile_schema(text: str, name: str = "schema.pg") -> Schema:
    """The checked model of a `.pg` text; raises `SourceError`, which names `name` and the place."""
    source = SourceText(name, text)
    return check(source, parse(source))
