"""Syntax tree to checked model: every rule a `.pg` file can break beyond its grammar.

The first broken rule ends the check. Interfaces come first, then nodes and edges in
the order written, then what needs all of them: endpoints and names.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from omnigraph_core.records import dataclass
from omnigraph_core.schema.annotations import (
    CONSTRAINT_ANNOTATIONS,
    Place,
    TypeKind,
    check_header,
    check_property,
    embed_source_fault,
    lower_annotations,
    split_rename,
)
from omnigraph_core.schema.constraints import Stated, from_body, from_property, resolve
from omnigraph_core.schema.defaults import DEFAULT, default_of, outside_range
from omnigraph_core.schema.lexer import Token, bounded_integer
from omnigraph_core.schema.limits import CARDINALITY_MAX, VECTOR_DIMENSION_MAX
from omnigraph_core.schema.model import (
    DST_COLUMN,
    ID_COLUMN,
    SRC_COLUMN,
    Cardinality,
    Constraint,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
    PropertyType,
    Range,
    Scalar,
    Schema,
)
from omnigraph_core.schema.source import SourceText, Span, catalog_error, parse_error
from omnigraph_core.schema.syntax import (
    BodyDecl,
    CardinalityDecl,
    EdgeDecl,
    InterfaceDecl,
    NodeDecl,
    PropertyDecl,
    SchemaFile,
    TypeDecl,
)

_SYSTEM_COLUMNS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
_PHYSICAL_COLUMNS: dict[TypeKind, frozenset[str]] = {
    "interface": frozenset({ID_COLUMN}),
    "node": frozenset({ID_COLUMN}),
    "edge": frozenset({ID_COLUMN, SRC_COLUMN, DST_COLUMN}),
}


@dataclass(frozen=True, slots=True)
class _Member:
    """A property of a type under construction, with the constraints it states itself.

    `type_span` is what to point at when the type is wrong.
    """

    property: Property
    stated: tuple[Stated, ...]
    type_span: Span

    def injected(self, span: Span) -> _Member:
        """As a node has it from an interface named at `span`."""
        return _Member(self.property, tuple(item.moved_to(span) for item in self.stated), span)


_Members = dict[str, _Member]


def check(source: SourceText, file: SchemaFile) -> Schema:
    """The model of a schema file, or the `SourceError` for the first broken rule."""
    interfaces = _check_interfaces(source, file)
    nodes: dict[str, NodeType] = {}
    edges: dict[str, EdgeType] = {}
    edge_decls: list[EdgeDecl] = []
    for decl in file.declarations:
        if isinstance(decl, NodeDecl):
            if decl.name.text in nodes:
                raise catalog_error(source, decl.name.span, f"duplicate node type: {decl.name.text}")
            nodes[decl.name.text] = _node(source, decl, interfaces)
        elif isinstance(decl, EdgeDecl):
            if decl.name.text in edges:
                raise catalog_error(source, decl.name.span, f"duplicate edge type: {decl.name.text}")
            edges[decl.name.text] = _edge(source, decl)
            edge_decls.append(decl)
    _check_edges_fit(source, edge_decls, nodes)
    return Schema(
        tuple(
            InterfaceType(name, _canonical_properties(members))
            for name, members in sorted(interfaces.items())
        ),
        tuple(node for _, node in sorted(nodes.items())),
        tuple(edge for _, edge in sorted(edges.items())),
    )


def _check_interfaces(source: SourceText, file: SchemaFile) -> dict[str, _Members]:
    interfaces: dict[str, _Members] = {}
    for decl in file.declarations:
        if not isinstance(decl, InterfaceDecl):
            continue
        name = decl.name.text
        if name in interfaces:
            raise catalog_error(source, decl.name.span, f"duplicate interface name: {name}")
        place = Place("interface", name)
        members = _members(source, decl.body, place)
        properties = {name: member.property for name, member in members.items()}
        for member in members.values():
            resolve(source, member.stated, place, properties)
        interfaces[name] = members
    return interfaces


def _node(source: SourceText, decl: NodeDecl, interfaces: dict[str, _Members]) -> NodeType:
    place = Place("node", decl.name.text)
    check_header(source, decl.annotations, place)
    lowered, renamed_from = split_rename(lower_annotations(source, decl.annotations, place))
    members = _members(source, decl.body, place)
    stated = [item for member in members.values() for item in member.stated]
    stated += [from_body(source, item, place) for item in decl.body.constraints]
    if decl.implements:
        injected = _inject(source, decl, members, interfaces)
        stated += [item for member in injected.values() for item in member.stated]
        members |= injected
    members = {name: _without_constraint_annotations(member) for name, member in members.items()}
    properties = {name: member.property for name, member in members.items()}
    resolved = resolve(source, stated, place, properties)
    _check_embed_sources(source, decl, members, properties)
    _check_defaults_in_range(source, decl, members, resolved)
    return NodeType(
        name=decl.name.text,
        properties=_canonical_properties(members),
        constraints=resolved,
        annotations=lowered,
        renamed_from=renamed_from,
        implements=tuple(sorted({token.text for token in decl.implements})),
    )


def _edge(source: SourceText, decl: EdgeDecl) -> EdgeType:
    place = Place("edge", decl.name.text)
    check_header(source, decl.annotations, place)
    lowered, renamed_from = split_rename(lower_annotations(source, decl.annotations, place))
    cardinality = _cardinality(source, decl.cardinality)
    members = _members(source, decl.body, place)
    stated = [item for member in members.values() for item in member.stated]
    stated += [from_body(source, item, place) for item in decl.body.constraints]
    members = {name: _without_constraint_annotations(member) for name, member in members.items()}
    properties = {name: member.property for name, member in members.items()}
    return EdgeType(
        name=decl.name.text,
        properties=_canonical_properties(members),
        constraints=resolve(source, stated, place, properties),
        annotations=lowered,
        renamed_from=renamed_from,
        from_type=decl.from_type.text,
        to_type=decl.to_type.text,
        cardinality=cardinality,
    )


def _inject(source: SourceText, decl: NodeDecl, own: _Members, interfaces: dict[str, _Members]) -> _Members:
    """The properties the node has from its interfaces; those it declares itself must agree in type."""
    node = decl.name.text
    injected: _Members = {}
    for token in decl.implements:
        interface = interfaces.get(token.text)
        if interface is None:
            reason = f"node {node} implements unknown interface '{token.text}'"
            raise parse_error(source, token.span, reason)
        for name, member in interface.items():
            theirs = member.property
            if name in own:
                ours = own[name].property
                if ours.type != theirs.type:
                    reason = (
                        f"node {node} property '{name}' has type {ours.type} "
                        f"but interface {token.text} declares it as {theirs.type}"
                    )
                    raise parse_error(source, own[name].type_span, reason)
            elif name not in injected or _hints_more(theirs, injected[name].property):
                injected[name] = member.injected(token.span)
            elif injected[name].property != theirs or _hints_otherwise(theirs, injected[name].property):
                reason = f"interfaces contributing '{node}.{name}' have incompatible property semantics"
                raise parse_error(source, token.span, reason)
    return injected


def _hints_more(prop: Property, other: Property) -> bool:
    """The same property, and only this one says what it was called."""
    return prop == other and prop.renamed_from is not None and other.renamed_from is None


def _hints_otherwise(prop: Property, other: Property) -> bool:
    return prop.renamed_from not in (None, other.renamed_from)


def _members(source: SourceText, body: BodyDecl, place: Place) -> _Members:
    members: _Members = {}
    for decl in body.properties:
        name = decl.name.text
        if name in members:
            reason = f"duplicate property in schema shape for '{place.path}': {name}"
            raise catalog_error(source, decl.name.span, reason)
        members[name] = _member(source, decl, place)
    return members


def _member(source: SourceText, decl: PropertyDecl, owner: Place) -> _Member:
    name = decl.name.text
    if name in _SYSTEM_COLUMNS:
        reason = f"property name '{name}' is reserved for a virtual storage system column"
        raise parse_error(source, decl.name.span, reason)
    if name in _PHYSICAL_COLUMNS[owner.kind]:
        reason = f"property name '{name}' is reserved for a physical column"
        raise parse_error(source, decl.name.span, reason)
    type_ = _property_type(source, decl.type)
    if not decl.annotations:
        return _Member(Property(name, type_), (), decl.type.span)
    place = Place(owner.kind, owner.type_name, name)
    check_property(source, decl.annotations, place, type_)
    lowered, renamed_from = split_rename(lower_annotations(source, decl.annotations, place))
    stated = from_property(decl)
    return _Member(Property(name, type_, lowered, renamed_from), stated, decl.type.span)


def _without_constraint_annotations(member: _Member) -> _Member:
    """On nodes and edges a bare `@key` and its like are constraints and nothing else."""
    if not member.stated:
        return member
    prop = member.property
    kept = tuple(a for a in prop.annotations if a.name not in CONSTRAINT_ANNOTATIONS)
    return _Member(Property(prop.name, prop.type, kept, prop.renamed_from), member.stated, member.type_span)


def _property_type(source: SourceText, decl: TypeDecl) -> PropertyType:
    base = decl.base.text
    if base == "enum":
        values = tuple(sorted({token.text for token in decl.enum_values}))
        if len(values) != len(decl.enum_values):
            reason = "enum type cannot include duplicate values"
            raise parse_error(source, _first_repeated(decl.enum_values).span, reason)
        return PropertyType(Scalar.STRING, decl.nullable, enum_values=values)
    if decl.dimension is not None:
        dimension = _dimension(source, decl.dimension)
        return PropertyType(Scalar.VECTOR, decl.nullable, dimension=dimension)
    if decl.is_list and base == "Blob":
        raise parse_error(source, decl.base.span, "list of Blob is not supported")
    return _plain_type(base, decl.nullable, decl.is_list)


@cache
def _plain_type(base: str, nullable: bool, is_list: bool) -> PropertyType:
    """One shared record per spelling: most properties of a schema have one of a few types."""
    return PropertyType(Scalar(base), nullable, is_list)


def _first_repeated(tokens: Sequence[Token]) -> Token:
    seen: set[str] = set()
    for token in tokens:
        if token.text in seen:
            return token
        seen.add(token.text)
    raise AssertionError("no token is repeated")


def _dimension(source: SourceText, token: Token) -> int:
    dimension = bounded_integer(token, VECTOR_DIMENSION_MAX)
    if dimension is None:
        reason = f"Vector dimension {token.text} exceeds maximum supported {VECTOR_DIMENSION_MAX}"
        raise parse_error(source, token.span, reason)
    if dimension == 0:
        raise parse_error(source, token.span, "Vector dimension must be greater than zero")
    return dimension


def _cardinality(source: SourceText, decl: CardinalityDecl | None) -> Cardinality:
    if decl is None:
        return Cardinality()
    minimum = _cardinality_bound(source, decl.minimum)
    maximum = None if decl.maximum is None else _cardinality_bound(source, decl.maximum)
    if maximum is not None and minimum > maximum:
        reason = f"cardinality min ({minimum}) exceeds max ({maximum})"
        raise parse_error(source, decl.span, reason)
    return Cardinality(minimum, maximum)


def _cardinality_bound(source: SourceText, token: Token) -> int:
    bound = bounded_integer(token, CARDINALITY_MAX)
    if bound is None:
        raise parse_error(
            source, token.span, f"cardinality bound exceeds maximum supported {CARDINALITY_MAX}"
        )
    return bound


def _check_embed_sources(
    source: SourceText, decl: NodeDecl, members: _Members, properties: dict[str, Property]
) -> None:
    for name, prop in properties.items():
        if not prop.annotations:
            continue
        fault = embed_source_fault(decl.name.text, prop, properties)
        if fault is not None:
            raise parse_error(source, _annotation_span(decl, "embed", members[name]), fault)


def _check_defaults_in_range(
    source: SourceText, decl: NodeDecl, members: _Members, constraints: Sequence[Constraint]
) -> None:
    for constraint in constraints:
        if not isinstance(constraint, Range):
            continue
        member = members[constraint.property]
        value = default_of(member.property)
        if value is not None and outside_range(value, member.property.type, constraint):
            reason = f"@default on {decl.name.text}.{constraint.property} is outside {constraint}"
            raise parse_error(source, _annotation_span(decl, DEFAULT, member), reason)


def _annotation_span(decl: NodeDecl, word: str, member: _Member) -> Span:
    """The annotation of a property the node declares, else the interface that brought it."""
    for prop in decl.body.properties:
        if prop.name.text == member.property.name:
            for annotation in prop.annotations:
                if annotation.name.text == word:
                    return annotation.span if annotation.value is None else annotation.value.span
    return member.type_span


def _check_edges_fit(source: SourceText, edges: Sequence[EdgeDecl], nodes: dict[str, NodeType]) -> None:
    folded: dict[str, str] = {}
    for decl in edges:
        name = decl.name.text
        for role, token in (("source", decl.from_type), ("target", decl.to_type)):
            if token.text not in nodes:
                reason = f"edge {name} references unknown {role} type: {token.text}"
                raise catalog_error(source, token.span, reason)
        earlier = folded.setdefault(name.lower(), name)
        if earlier != name:
            reason = f"edge name collision after case folding: '{name}' conflicts with '{earlier}'"
            raise catalog_error(source, decl.name.span, reason)


def _canonical_properties(members: _Members) -> tuple[Property, ...]:
    return tuple(members[name].property for name in sorted(members))
