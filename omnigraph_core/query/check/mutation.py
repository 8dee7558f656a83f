"""Inserts, updates and deletes against the schema."""

from __future__ import annotations

from omnigraph_core.query.check.setting import Setting
from omnigraph_core.query.check.values import check_assignment, check_condition, known_value
from omnigraph_core.query.checked import (
    Assigned,
    CheckedMutation,
    Condition,
    DeleteEntity,
    InsertEdge,
    InsertNode,
    Statement,
    UpdateNode,
    ValueExpression,
)
from omnigraph_core.query.errors import QueryTypeError, RefusedMutationError
from omnigraph_core.query.syntax import (
    Assignment,
    Delete,
    Insert,
    Mutation,
    MutationBody,
    Predicate,
    Query,
    Update,
    Value,
)
from omnigraph_core.schema import (
    EdgeType,
    EntityType,
    NodeType,
    Property,
    PropertyType,
    Scalar,
    default_of,
)
from omnigraph_core.schema.lexer import Token
from omnigraph_core.schema.model import DST_COLUMN, SRC_COLUMN
from omnigraph_core.schema.source import SourceText

FROM_FIELD = "from"
TO_FIELD = "to"

_ENDPOINTS = {
    FROM_FIELD: Property(FROM_FIELD, PropertyType(Scalar.STRING)),
    TO_FIELD: Property(TO_FIELD, PropertyType(Scalar.STRING)),
}
_ENDPOINT_COLUMNS = {FROM_FIELD: SRC_COLUMN, TO_FIELD: DST_COLUMN}


def typed_mutation(setting: Setting, query: Query, body: MutationBody) -> CheckedMutation:
    """The statements with every name and type resolved; rules beyond types are not applied."""
    statements = tuple(_statement(setting, statement) for statement in body.statements)
    return CheckedMutation(query.name, query.parameters, statements)


def refuse_mutation(source: SourceText, query: Query, body: MutationBody, checked: CheckedMutation) -> None:
    """The rules a well typed mutation may still break. Lint does not apply them."""
    _refuse_mixed(source, query, body)
    for statement, typed in zip(body.statements, checked.statements, strict=True):
        if isinstance(statement, Update) and isinstance(typed, UpdateNode):
            _refuse_key_update(source, statement, typed.node)


def _refuse_mixed(source: SourceText, query: Query, body: MutationBody) -> None:
    deletes = isinstance(body.statements[0], Delete)
    for statement in body.statements:
        if isinstance(statement, Delete) != deletes:
            reason = (
                f"mutation '{query.name}' on the same query mixes inserts/updates and deletes; split into "
                "separate mutations: (1) inserts and updates, then (2) deletes"
            )
            raise RefusedMutationError(source, statement.word.span, "mixed", reason)


def _refuse_key_update(source: SourceText, statement: Update, node: NodeType) -> None:
    members = () if node.key is None else node.key.columns
    for assignment in statement.assignments:
        name = assignment.name.text
        if name in members:
            reason = f"cannot update @key property '{name}' — delete and re-insert instead"
            raise RefusedMutationError(source, assignment.name.span, "key_update", reason)


def _statement(setting: Setting, statement: Mutation) -> Statement:
    entity = _entity(setting, statement.type)
    if isinstance(statement, Delete):
        return DeleteEntity(entity, _condition(setting, entity, statement.predicate))
    if isinstance(statement, Update):
        if isinstance(entity, EdgeType):
            hint = "delete the edge and insert it again"
            raise setting.error(
                statement.type.span, "T16", f"update is not supported on edge type `{entity.name}`", hint=hint
            )
        assignments = _assignments(setting, entity, statement.assignments)
        return UpdateNode(entity, assignments, _condition(setting, entity, statement.predicate))
    if isinstance(entity, EdgeType):
        return _insert_edge(setting, entity, statement)
    assignments = _assignments(setting, entity, statement.assignments)
    _check_required(setting, entity, statement)
    return InsertNode(entity, assignments)


def _entity(setting: Setting, token: Token) -> EntityType:
    """A node type, else an edge type; edges may differ in case."""
    entity = setting.schema.find_node(token.text) or setting.schema.find_edge(token.text)
    if entity is None:
        raise setting.error(token.span, "T10", f"unknown node or edge type `{token.text}`")
    return entity


def _insert_edge(setting: Setting, edge: EdgeType, statement: Insert) -> InsertEdge:
    endpoints: dict[str, ValueExpression] = {}
    others: list[Assignment] = []
    for assignment in statement.assignments:
        prop = _ENDPOINTS.get(assignment.name.text)
        if prop is None:
            others.append(assignment)
            continue
        if prop.name in endpoints:
            raise _assigned_twice(setting, assignment.name)
        value = _value(setting, assignment.value)
        check_assignment(setting, prop, value, assignment.value.span)
        endpoints[prop.name] = value
    assignments = _assignments(setting, edge, others)
    for field in _ENDPOINTS:
        if field not in endpoints:
            reason = f"insert into edge type `{edge.name}` lacks endpoint `{field}`"
            raise setting.error(statement.type.span, "T12", reason)
    _check_required(setting, edge, statement)
    return InsertEdge(edge, endpoints[FROM_FIELD], endpoints[TO_FIELD], assignments)


def _assignments(
    setting: Setting, entity: EntityType, written: tuple[Assignment, ...] | list[Assignment]
) -> tuple[Assigned, ...]:
    assigned: dict[str, Assigned] = {}
    for assignment in written:
        token = assignment.name
        if token.text in assigned:
            raise _assigned_twice(setting, token)
        prop = _property(setting, entity, token)
        value = _value(setting, assignment.value)
        check_assignment(setting, prop, value, assignment.value.span)
        assigned[prop.name] = Assigned(prop.name, prop.type, value)
    return tuple(assigned.values())


def _check_required(setting: Setting, entity: EntityType, statement: Insert) -> None:
    """A property with a default may be left out; a vector computed from another where that one is given."""
    given = {assignment.name.text for assignment in statement.assignments}
    for prop in entity.properties:
        if prop.type.nullable or prop.name in given or default_of(prop) is not None:
            continue
        if prop.embed is not None and prop.embed.source in given:
            continue
        reason = f"insert into `{entity.name}` lacks required property `{prop.name}`"
        raise setting.error(statement.type.span, "T12", reason)


def _condition(setting: Setting, entity: EntityType, predicate: Predicate) -> Condition:
    token = predicate.name
    endpoint = _ENDPOINTS.get(token.text) if isinstance(entity, EdgeType) else None
    prop = _property(setting, entity, token) if endpoint is None else endpoint
    column = prop.name if endpoint is None else _ENDPOINT_COLUMNS[prop.name]
    value = _value(setting, predicate.value)
    blob = prop.type.scalar is Scalar.BLOB
    span = token.span if blob else predicate.value.span
    check_condition(setting, prop, predicate.operator, value, span)
    return Condition(column, prop.type, predicate.operator, value)


def _property(setting: Setting, entity: EntityType, token: Token) -> Property:
    found = entity.find_property(token.text)
    if found is None:
        names = ", ".join(prop.name for prop in entity.properties) or "none"
        if isinstance(entity, EdgeType):
            names = f"from, to, {names}"
        reason = f"a mutation names properties of its type: `{entity.name}` has no property `{token.text}`"
        raise setting.error(token.span, "T11", reason, hint=f"properties are: {names}")
    return found


def _value(setting: Setting, value: Value) -> ValueExpression:
    known = known_value(setting, value)
    if known is None:
        names = ", ".join(f"${name}" for name in setting.parameters) or "none"
        reason = f"mutation uses undeclared parameter `{value}`"
        raise setting.error(value.span, "T14", reason, hint=f"parameters are: {names}")
    return known


def _assigned_twice(setting: Setting, token: Token) -> QueryTypeError:
    return setting.error(token.span, "T13", f"property `{token.text}` is assigned twice")
