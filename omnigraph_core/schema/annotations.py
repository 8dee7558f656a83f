"""Which annotation may stand where, and what it turns into.

Unknown names are metadata and never fail; the known ones are checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from omnigraph_core.records import dataclass
from omnigraph_core.schema.defaults import DEFAULT, DefaultFault, read_default, unsupported_default
from omnigraph_core.schema.lexer import Kind, Token, string_value
from omnigraph_core.schema.model import Annotation, Property, PropertyType, Scalar, find_annotation
from omnigraph_core.schema.source import SourceText, parse_error
from omnigraph_core.schema.syntax import AnnotationDecl

TypeKind = Literal["interface", "node", "edge"]

# Bare on a property these become constraints of the type.
CONSTRAINT_ANNOTATIONS = frozenset({"key", "unique", "index"})

_ON_PROPERTIES_ONLY = CONSTRAINT_ANNOTATIONS | {"embed"}
_ONCE = _ON_PROPERTIES_ONLY | {"description", "instruction", "rename_from", DEFAULT}
# One value and nothing else.
_POSITIONAL_ONLY = frozenset({"rename_from", DEFAULT})
_NON_EMPTY = frozenset({"description", "instruction"})
_NOT_ON_EDGE_PROPERTIES = frozenset({"key", "embed"})
# Without arguments they would be metadata that looks like a rule and enforces nothing.
_NEEDS_ARGUMENTS = {
    "range": "@range requires property name and bounds",
    "check": "@check requires property name and pattern",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Who carries the annotation, as messages name it."""

    kind: TypeKind
    type_name: str
    property_name: str | None = None

    @property
    def path(self) -> str:
        return self.type_name if self.property_name is None else f"{self.type_name}.{self.property_name}"

    def __str__(self) -> str:
        return f"{self.kind if self.property_name is None else 'property'} {self.path}"


def literal_text(source: SourceText, token: Token) -> str:
    """An annotation value as stored: strings decoded, everything else as spelled."""
    return string_value(source, token) if token.kind is Kind.STRING else token.text


def lower_annotations(
    source: SourceText, declared: Sequence[AnnotationDecl], place: Place
) -> tuple[Annotation, ...]:
    """The annotations of one place, in canonical order, after the rules that hold everywhere."""
    if not declared:
        return ()
    seen: set[str] = set()
    lowered: list[Annotation] = []
    for decl in declared:
        name = decl.name.text
        if name in _NEEDS_ARGUMENTS:
            raise parse_error(source, decl.span, _NEEDS_ARGUMENTS[name])
        if name in _ONCE and name in seen:
            raise parse_error(source, decl.span, f"{place} declares @{name} multiple times")
        seen.add(name)
        lowered.append(_lower_one(source, decl, place))
    lowered.sort(key=lambda annotation: annotation.order)
    return tuple(lowered)


def _lower_one(source: SourceText, decl: AnnotationDecl, place: Place) -> Annotation:
    name = decl.name.text
    value = None if decl.value is None else literal_text(source, decl.value)
    blank = value is None or not value.strip()
    if name in _NON_EMPTY and blank:
        raise parse_error(source, decl.span, f"@{name} on {place} requires a non-empty value")
    if name in _POSITIONAL_ONLY and decl.arguments:
        at = decl.arguments[0][0].span
        raise parse_error(source, at, f"@{name} on {place} does not accept keyword arguments")
    if name == "rename_from" and blank:
        reason = f"@rename_from on {place} requires exactly one non-empty positional value"
        raise parse_error(source, decl.span, reason)
    arguments = [(argument.text, literal_text(source, given)) for argument, given in decl.arguments]
    return Annotation(name, value, tuple(sorted(arguments)))


def split_rename(annotations: tuple[Annotation, ...]) -> tuple[tuple[Annotation, ...], str | None]:
    """Take the rename hint out of the annotations: it is no part of what a schema is."""
    found = find_annotation(annotations, "rename_from")
    if found is None:
        return annotations, None
    return tuple(a for a in annotations if a.name != "rename_from"), found.value


def check_header(source: SourceText, declared: Sequence[AnnotationDecl], place: Place) -> None:
    """Annotations that belong on properties are refused on a node or edge as a whole."""
    for decl in declared:
        name = decl.name.text
        if name == DEFAULT:
            raise parse_error(source, decl.span, f"@{name} is only supported on properties ({place})")
        if name not in _ON_PROPERTIES_ONLY:
            continue
        if place.kind == "edge":
            raise parse_error(source, decl.span, f"@{name} is not supported on edges ({place})")
        reason = f"@{name} is only supported on node properties or as body constraint ({place})"
        raise parse_error(source, decl.span, reason)


def check_property(
    source: SourceText, declared: Sequence[AnnotationDecl], place: Place, type_: PropertyType
) -> None:
    """Annotations of one property that its type or its owner rules out."""
    for decl in declared:
        name = decl.name.text
        if name == "instruction":
            reason = f"@instruction is only supported on node and edge types ({place})"
            raise parse_error(source, decl.span, reason)
        if place.kind == "edge" and name in _NOT_ON_EDGE_PROPERTIES:
            reason = f"@{name} is not supported on edge properties (edge {place.path})"
            raise parse_error(source, decl.span, reason)
        if name in _ON_PROPERTIES_ONLY:
            refusal = unsupported_type(name, type_)
            if refusal is not None:
                reason = f"@{name} is not supported on {refusal} property {place.path}"
                raise parse_error(source, decl.span, reason)
        if name == "embed":
            _check_embed(source, decl, place, type_)
        if name == DEFAULT:
            _check_default(source, decl, place, type_)


def unsupported_type(word: str, type_: PropertyType) -> str | None:
    """What kind of property `@key`, `@unique`, `@index` or `@embed` cannot stand on, if this is one."""
    if type_.is_list:
        return "list"
    if type_.scalar is Scalar.BLOB:
        return "blob"
    if type_.scalar is Scalar.VECTOR and word in ("key", "unique"):
        return "vector"
    return None


def _check_embed(source: SourceText, decl: AnnotationDecl, place: Place, type_: PropertyType) -> None:
    if type_.scalar is not Scalar.VECTOR:
        reason = f"@embed is only supported on vector properties ({place.path})"
        raise parse_error(source, decl.span, reason)
    if decl.value is None:
        reason = f"@embed on {place.path} requires a source property name"
        raise parse_error(source, decl.span, reason)
    if not literal_text(source, decl.value).strip():
        reason = f"@embed on {place.path} requires a non-empty source property name"
        raise parse_error(source, decl.value.span, reason)
    for argument, _ in decl.arguments:
        if argument.text != "model":
            reason = (
                f"@embed on {place.path} has unknown argument '{argument.text}=' (only 'model' is supported)"
            )
            raise parse_error(source, argument.span, reason)


def _check_default(source: SourceText, decl: AnnotationDecl, place: Place, type_: PropertyType) -> None:
    refusal = unsupported_default(type_)
    if refusal is not None:
        raise parse_error(source, decl.span, f"@default is not supported on {refusal} property {place.path}")
    if decl.value is None:
        raise parse_error(source, decl.span, f"@default on {place.path} requires a value")
    if decl.value.kind is Kind.IDENT and decl.value.text == "null":
        reason = f"@default on {place.path} cannot be null; a nullable property without @default is null"
        raise parse_error(source, decl.value.span, reason)
    try:
        read_default(literal_text(source, decl.value), type_)
    except DefaultFault as fault:
        raise parse_error(source, decl.value.span, f"@default on {place.path} {fault}") from None


def embed_source_fault(owner: str, prop: Property, properties: dict[str, Property]) -> str | None:
    """What is wrong with the source of an `@embed`, once all properties of the node are known."""
    embed = prop.embed
    if embed is None:
        return None
    source = properties.get(embed.source)
    if source is None:
        return f"@embed on {owner}.{prop.name} references unknown source property {embed.source}"
    if source.type.scalar is not Scalar.STRING or source.type.is_list:
        return f"@embed source property {owner}.{embed.source} must be String"
    return None
