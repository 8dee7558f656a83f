"""`.pg` text to syntax tree, by recursive descent.

The grammar does not nest, so neither do the calls: no input can exhaust the stack.
"""

from __future__ import annotations

from omnigraph_core.schema.cursor import Cursor
from omnigraph_core.schema.lexer import Kind, Token
from omnigraph_core.schema.source import SourceText, Span
from omnigraph_core.schema.syntax import (
    AnnotationDecl,
    BodyDecl,
    BoundNumber,
    CardinalityDecl,
    ConstraintArgument,
    ConstraintDecl,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    NodeDecl,
    PropertyDecl,
    RangeBounds,
    SchemaFile,
    TypeDecl,
)

BASE_TYPES = ("String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "DateTime", "Date")
_BASE_TYPES = frozenset(BASE_TYPES)
CONSTRAINT_WORDS = frozenset({"key", "unique", "index", "range", "check"})

_DECLARATION_WORDS = frozenset({"interface", "node", "edge"})
_LITERAL_KINDS = frozenset({Kind.STRING, Kind.FLOAT, Kind.INTEGER})
_NUMBER_KINDS = frozenset({Kind.FLOAT, Kind.INTEGER})
_TYPES_HINT = f"types are {', '.join(BASE_TYPES)}, Vector(n), enum(a, b) and [T]; a trailing '?' is nullable"


def parse(source: SourceText) -> SchemaFile:
    """The declarations of a schema file, in the order written."""
    cursor = Cursor(source)
    declarations: list[Declaration] = []
    while cursor.token.kind is not Kind.END:
        if cursor.accept("node"):
            declarations.append(_node(cursor))
        elif cursor.accept("edge"):
            declarations.append(_edge(cursor))
        elif cursor.accept("interface"):
            declarations.append(_interface(cursor))
        else:
            raise cursor.unexpected("'node', 'edge' or 'interface'")
    return SchemaFile(tuple(declarations))


def _type_name(cursor: Cursor, context: str) -> Token:
    token = cursor.token
    hint = "type names begin with an upper-case letter" if token.kind is Kind.IDENT else None
    return cursor.expect_kind(Kind.TYPE_NAME, f"a type name {context}", hint=hint)


def _interface(cursor: Cursor) -> InterfaceDecl:
    name = _type_name(cursor, "after 'interface'")
    hint = "interfaces take no annotations" if cursor.at("@") else None
    cursor.expect("{", "after interface name", hint=hint)
    properties: list[PropertyDecl] = []
    while not cursor.accept("}"):
        if cursor.at("@"):
            raise cursor.unexpected(
                "a property or '}'",
                hint="interfaces have no body constraints; write @key, @unique or @index after a property",
            )
        properties.append(_property(cursor, "a property or '}'"))
    return InterfaceDecl(name, BodyDecl(tuple(properties)))


def _node(cursor: Cursor) -> NodeDecl:
    name = _type_name(cursor, "after 'node'")
    annotations = _annotations(cursor)
    implements: list[Token] = []
    if cursor.accept("implements"):
        implements.append(_type_name(cursor, "after 'implements'"))
        while cursor.accept(","):
            implements.append(_type_name(cursor, "after ','"))
    if cursor.at("@"):
        if implements:
            raise cursor.unexpected("'{'", hint="annotations come before 'implements'")
        raise cursor.unexpected("'{'", hint="constraints with arguments go into the body")
    cursor.expect("{", "to open the node body")
    return NodeDecl(name, annotations, tuple(implements), _body(cursor))


def _edge(cursor: Cursor) -> EdgeDecl:
    name = _type_name(cursor, "after 'edge'")
    cursor.expect(":", "after edge name")
    from_type = _type_name(cursor, "as the source of the edge")
    cursor.expect("->", "after the source type")
    to_type = _type_name(cursor, "as the target of the edge")
    cardinality = _cardinality(cursor) if cursor.at("@") and cursor.peek().text == "card" else None
    annotations = _annotations(cursor)
    for annotation in annotations:
        # Taken as metadata it would silently constrain nothing.
        if annotation.name.text == "card":
            raise cursor.error(annotation.span, "@card must directly follow the endpoint types, once")
    if cursor.at("@"):
        raise cursor.unexpected("'{' or the next declaration", hint="constraints go into the edge body")
    body = _body(cursor) if cursor.accept("{") else BodyDecl()
    return EdgeDecl(name, from_type, to_type, cardinality, annotations, body)


def _cardinality(cursor: Cursor) -> CardinalityDecl:
    at = cursor.advance()
    cursor.advance()
    cursor.expect("(", "after @card", hint="write @card(min..max) or @card(min..)")
    minimum = cursor.expect_kind(
        Kind.INTEGER, "the minimum number of edges", hint="the minimum is mandatory: @card(0..1)"
    )
    cursor.expect("..", "after the minimum", hint="write @card(min..max) or @card(min..)")
    maximum = cursor.advance() if cursor.token.kind is Kind.INTEGER else None
    close = cursor.expect(")", "to close @card")
    return CardinalityDecl(minimum, maximum, Span(at.start, close.end))


def _body(cursor: Cursor) -> BodyDecl:
    """The rest of a node or edge body, its `{` already taken."""
    properties: list[PropertyDecl] = []
    constraints: list[ConstraintDecl] = []
    while not cursor.accept("}"):
        if cursor.at("@"):
            constraints.append(_constraint(cursor))
        else:
            properties.append(_property(cursor, "a property, a constraint or '}'"))
    return BodyDecl(tuple(properties), tuple(constraints))


def _property(cursor: Cursor, expected: str) -> PropertyDecl:
    token = cursor.token
    if token.kind is not Kind.IDENT:
        raise cursor.unexpected(expected, hint=_property_hint(token))
    name = cursor.advance()
    hint = None
    if name.text in _DECLARATION_WORDS and cursor.token.kind is Kind.TYPE_NAME:
        hint = "is a '}' missing before this declaration?"
    cursor.expect(":", "after property name", hint=hint)
    return PropertyDecl(name, _type(cursor), _annotations(cursor))


def _property_hint(token: Token) -> str | None:
    if token.text == ",":
        return "properties are not separated by commas"
    if token.kind is Kind.TYPE_NAME:
        return "property names begin with a lower-case letter or '_'"
    return None


def _type(cursor: Cursor) -> TypeDecl:
    start = cursor.token.start
    is_list = cursor.accept("[") is not None
    if is_list and cursor.token.text not in _BASE_TYPES:
        raise cursor.unexpected(
            "a base type in the list",
            hint=f"lists hold only {', '.join(BASE_TYPES)}; write [T]? to be nullable",
        )
    if cursor.token.text not in _BASE_TYPES and not (cursor.at("enum") or cursor.at("Vector")):
        raise cursor.unexpected("a type after ':'", hint=_TYPES_HINT)
    base = cursor.advance()
    values: tuple[Token, ...] = ()
    dimension = None
    end = base.end
    if is_list:
        hint = "list items are always nullable; write [T]? for the list" if cursor.at("?") else None
        end = cursor.expect("]", "to close the list type", hint=hint).end
    elif base.text == "enum":
        cursor.expect("(", "after 'enum'")
        values = _enum_values(cursor)
        end = cursor.expect(")", "or ',' after enum value").end
    elif base.text == "Vector":
        cursor.expect("(", "after 'Vector'")
        dimension = cursor.expect_kind(Kind.INTEGER, "the vector dimension")
        end = cursor.expect(")", "after the vector dimension").end
    question = cursor.accept("?")
    end = end if question is None else question.end
    return TypeDecl(base, question is not None, is_list, values, dimension, Span(start, end))


def _enum_values(cursor: Cursor) -> tuple[Token, ...]:
    values = [cursor.expect_enum_value()]
    while cursor.accept(","):
        values.append(cursor.expect_enum_value())
    return tuple(values)


def _annotations(cursor: Cursor) -> tuple[AnnotationDecl, ...]:
    """Annotations up to the first body constraint, which looks like one but has its own place."""
    annotations: list[AnnotationDecl] = []
    while cursor.at("@"):
        if cursor.peek().text in CONSTRAINT_WORDS and cursor.peek(2).text == "(":
            break
        at = cursor.advance()
        name = cursor.expect_kind(Kind.IDENT, "an annotation name after '@'")
        value, arguments = _annotation_arguments(cursor) if cursor.accept("(") else (None, ())
        annotations.append(AnnotationDecl(at, name, value, arguments))
    return tuple(annotations)


def _annotation_arguments(cursor: Cursor) -> tuple[Token, tuple[tuple[Token, Token], ...]]:
    value = _annotation_value(cursor)
    arguments: list[tuple[Token, Token]] = []
    seen: set[str] = set()
    while cursor.accept(","):
        name = cursor.expect_kind(Kind.IDENT, "an argument name after ','")
        if name.text in seen:
            raise cursor.error(name.span, f"argument '{name.text}=' is given twice")
        seen.add(name.text)
        cursor.expect("=", "after argument name")
        if cursor.token.kind not in _LITERAL_KINDS and cursor.token.text not in ("true", "false"):
            raise cursor.unexpected("a string, number, true or false after '='")
        arguments.append((name, cursor.advance()))
    cursor.expect(")", "or ',' after annotation value")
    return value, tuple(arguments)


def _annotation_value(cursor: Cursor) -> Token:
    """A literal or a word; a number may be negative, and its sign becomes part of the token."""
    if cursor.at("-"):
        number = _bound_number(cursor)
        return Token(number.digits.kind, "-" + number.digits.text, number.span.start, number.span.end)
    hint = "write type names as strings, in double quotes" if cursor.token.kind is Kind.TYPE_NAME else None
    if cursor.token.kind not in _LITERAL_KINDS and cursor.token.kind is not Kind.IDENT:
        raise cursor.unexpected("an annotation value", hint=hint)
    return cursor.advance()


def _constraint(cursor: Cursor) -> ConstraintDecl:
    at = cursor.advance()
    if cursor.token.text not in CONSTRAINT_WORDS:
        raise cursor.unexpected("key, unique, index, range or check after '@'")
    word = cursor.advance()
    cursor.expect("(", f"after @{word.text}")
    arguments = [_constraint_argument(cursor)]
    while cursor.accept(","):
        arguments.append(_constraint_argument(cursor))
    cursor.expect(")", "or ',' after constraint argument")
    return ConstraintDecl(at, word, tuple(arguments))


def _constraint_argument(cursor: Cursor) -> ConstraintArgument:
    token = cursor.token
    if (
        token.text == ".."
        or token.text == "-"
        or (token.kind in _NUMBER_KINDS and cursor.peek().text == "..")
    ):
        return _range_bounds(cursor)
    if token.kind in _LITERAL_KINDS or token.kind is Kind.IDENT:
        return cursor.advance()
    raise cursor.unexpected("a property name, a string, a number or a range")


def _range_bounds(cursor: Cursor) -> RangeBounds:
    start = cursor.token.start
    low = None if cursor.at("..") else _bound_number(cursor)
    dots = cursor.expect("..", "after the lower bound")
    high = None
    if low is None or cursor.at("-") or cursor.token.kind in _NUMBER_KINDS:
        high = _bound_number(cursor)
    return RangeBounds(low, high, Span(start, dots.end if high is None else high.span.end))


def _bound_number(cursor: Cursor) -> BoundNumber:
    start = cursor.token.start
    negative = cursor.accept("-") is not None
    if cursor.token.kind not in _NUMBER_KINDS:
        raise cursor.unexpected("a number")
    digits = cursor.advance()
    return BoundNumber(negative, digits, Span(start, digits.end))
