"""A schema as `.pg` text in canonical order: how an old schema is shown, whose source is not kept.

Compiling the text gives the schema back: interface properties are written out on the
nodes that have them, and an annotation value is always quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from omnigraph_core.patterns import pattern
from omnigraph_core.schema.defaults import DEFAULT
from omnigraph_core.schema.lexer import string_literal
from omnigraph_core.schema.model import (
    Annotation,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
    Scalar,
    Schema,
)

# What the grammar takes without quotes and keeps as it stands.
_PLAIN = pattern(r"-?\d+(\.\d+)?|true|false", re.ASCII)


def render(schema: Schema) -> str:
    """The whole schema; interfaces, then nodes, then edges."""
    blocks = [_interface(interface) for interface in schema.interfaces]
    blocks += [_node(node) for node in schema.nodes]
    blocks += [_edge(edge) for edge in schema.edges]
    return "\n\n".join(blocks) + "\n" if blocks else ""


def _interface(interface: InterfaceType) -> str:
    return _block(f"interface {interface.name}", map(_property, interface.properties))


def _node(node: NodeType) -> str:
    implements = [f"implements {', '.join(node.implements)}"] if node.implements else []
    header = " ".join(["node", node.name, *map(annotation_text, node.annotations), *implements])
    return _block(header, [*map(_property, node.properties), *map(str, node.constraints)])


def _edge(edge: EdgeType) -> str:
    cardinality = [] if edge.cardinality.is_unbounded else [str(edge.cardinality)]
    ends = f"{edge.from_type} -> {edge.to_type}"
    header = " ".join([f"edge {edge.name}: {ends}", *cardinality, *map(annotation_text, edge.annotations)])
    body = [*map(_property, edge.properties), *map(str, edge.constraints)]
    return _block(header, body) if body else header


def _block(header: str, lines: Iterable[str]) -> str:
    return "\n".join([f"{header} {{", *(f"  {line}" for line in lines), "}"])


def _property(prop: Property) -> str:
    annotations = (_default(prop, each) or annotation_text(each) for each in prop.annotations)
    return " ".join([f"{prop.name}: {prop.type}", *annotations])


def _default(prop: Property, annotation: Annotation) -> str | None:
    """`@default(3)` as people write it; None where only a string can say it."""
    plain = prop.type.scalar.is_numeric or prop.type.scalar is Scalar.BOOL
    if annotation.name != DEFAULT or not plain or not _PLAIN.fullmatch(annotation.value or ""):
        return None
    return f"@{DEFAULT}({annotation.value})"


def annotation_text(annotation: Annotation) -> str:
    """An annotation as a `.pg` file says it."""
    if annotation.value is None:
        return f"@{annotation.name}"
    keywords = [f"{name}={string_literal(text)}" for name, text in annotation.arguments]
    arguments = [string_literal(annotation.value), *keywords]
    return f"@{annotation.name}({', '.join(arguments)})"
