"""A schema as a picture: Mermaid for documents that draw it themselves, DOT for Graphviz.

Names of a schema are letters, digits, `_` and `-`, so no label needs escapes; but a type may be
called like a word of the drawing language, so names are quoted. An interface may share its name
with a node, so it says what it is. What an edge type has of its own goes into its arrow's label.
"""

from __future__ import annotations

from omnigraph_core.schema.model import (
    Cardinality,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
    PropertyType,
    Schema,
    Unique,
)


def mermaid(schema: Schema) -> str:
    """An entity-relationship diagram. Either end of a line says how many there may be."""
    lines = ["erDiagram"]
    for interface in schema.interfaces:
        lines += _mermaid_entity(interface)
    for node in schema.nodes:
        lines += _mermaid_entity(node)
        lines += [f'  "{node.name}" }}o..|| "interface {name}" : "implements"' for name in node.implements]
    for edge in schema.edges:
        ends = f'"{edge.from_type}" }}o--{_mermaid_end(edge.cardinality)} "{edge.to_type}"'
        lines.append(f'  {ends} : "{edge_label(edge)}"')
    return "\n".join(lines) + "\n"


def _mermaid_entity(type_: InterfaceType | NodeType) -> list[str]:
    attributes = [f"    {_mermaid_attribute(type_, prop)}" for prop in type_.properties]
    return [f'  "{title(type_)}" {{', *attributes, "  }"]


def _mermaid_attribute(type_: InterfaceType | NodeType, prop: Property) -> str:
    """`type name keys "remarks"`; a type there is one word, so the rest of it is a remark."""
    remarks = []
    if prop.type.enum_values is not None:
        remarks.append(f"one of {', '.join(prop.type.enum_values)}")
    if prop.type.nullable:
        remarks.append("may be null")
    keys = _marks(type_, prop, key="PK", unique="UK")
    parts = [_mermaid_type(prop.type), prop.name, ", ".join(keys)]
    parts.append(f'"{", ".join(remarks)}"' if remarks else "")
    return " ".join(part for part in parts if part)


def _mermaid_type(type_: PropertyType) -> str:
    if type_.enum_values is not None:
        return "enum"
    bare = str(type_).removesuffix("?")
    return f"{type_.scalar.value}[]" if type_.is_list else bare


def _mermaid_end(cardinality: Cardinality) -> str:
    """How many targets a source has; a source without any edge is left alone by every minimum."""
    return "o|" if cardinality.maximum == 1 else "o{"


def dot(schema: Schema) -> str:
    """A directed graph: a box for each type with its properties, an arrow for each edge type."""
    lines = ["digraph schema {", "  node [shape=plain];"]
    for interface in schema.interfaces:
        lines.append(f"  {_dot_box(interface, 'dashed')}")
    for node in schema.nodes:
        lines.append(f"  {_dot_box(node, 'solid')}")
        lines += [
            f'  "{node.name}" -> "interface {name}" [style=dashed, arrowhead=empty];'
            for name in node.implements
        ]
    for edge in schema.edges:
        lines.append(f'  "{edge.from_type}" -> "{edge.to_type}" [label="{edge_label(edge)}"];')
    return "\n".join([*lines, "}"]) + "\n"


def _dot_box(type_: InterfaceType | NodeType, style: str) -> str:
    rows = [f"<tr><td><b>{title(type_)}</b></td></tr>"]
    rows += [f'<tr><td align="left">{text}</td></tr>' for text in box_lines(type_)]
    table = f'<table border="0" cellborder="1" cellspacing="0" style="{style}">{"".join(rows)}</table>'
    return f'"{title(type_)}" [label=<{table}>];'


def box_lines(type_: InterfaceType | NodeType) -> list[str]:
    """A line for each property: `name: String @key`."""
    return [
        " ".join([f"{prop.name}: {prop.type}", *_marks(type_, prop, key="@key", unique="@unique")])
        for prop in type_.properties
    ]


def title(type_: InterfaceType | NodeType) -> str:
    return f"interface {type_.name}" if isinstance(type_, InterfaceType) else type_.name


def _marks(type_: InterfaceType | NodeType, prop: Property, *, key: str, unique: str) -> list[str]:
    """The words for a key member and for a property that is unique by itself."""
    if isinstance(type_, InterfaceType):
        stated = {annotation.name for annotation in prop.annotations}
        return [word for name, word in (("key", key), ("unique", unique)) if name in stated]
    marks = [key] if type_.key is not None and prop.name in type_.key.columns else []
    return [*marks, unique] if Unique((prop.name,)) in type_.uniques else marks


def edge_label(edge: EdgeType) -> str:
    """`Knows 0..5 (since: Date?)`."""
    bounds = "" if edge.cardinality.is_unbounded else f" {str(edge.cardinality)[len('@card(') : -1]}"
    properties = ", ".join(f"{prop.name}: {prop.type}" for prop in edge.properties)
    return f"{edge.name}{bounds}" + (f" ({properties})" if properties else "")
