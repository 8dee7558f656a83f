"""Two schemas to the steps between them, and the image of every table.

Interfaces come first, then nodes, then edges. Inside a type: its name and header, its metadata,
its properties by their new names, then dropped ones, then constraints. Dropped types follow the
others of their kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from omnigraph_core.schema.defaults import default_of
from omnigraph_core.schema.evolve.identity import Identity
from omnigraph_core.schema.evolve.images import Column, TableImage, new_table
from omnigraph_core.schema.evolve.names import Matching, match
from omnigraph_core.schema.evolve.questions import NoRows
from omnigraph_core.schema.evolve.rules import cardinality_questions, constraint_steps
from omnigraph_core.schema.evolve.steps import (
    AddProperty,
    AddType,
    ChangeCardinality,
    ChangeImplements,
    ChangePropertyType,
    DropProperty,
    DropType,
    ExtendEnum,
    RenameProperty,
    RenameType,
    Step,
    Unsupported,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)
from omnigraph_core.schema.evolve.terms import Code, Mode, Owner
from omnigraph_core.schema.evolve.types import is_extension, type_questions, type_refusal
from omnigraph_core.schema.model import (
    EdgeType,
    EntityType,
    InterfaceType,
    NodeType,
    Property,
    PropertyType,
    Schema,
)

_Entity = TypeVar("_Entity", NodeType, EdgeType)


class Comparison:
    """The steps and images of one comparison, in the order in which they are found.

    `dropped` are the old types that have no new one.
    """

    def __init__(self, old: Schema, new: Schema, mode: Mode, identity: Identity | None = None) -> None:
        self.steps: list[Step] = []
        self.images: list[TableImage] = []
        self.dropped: list[EntityType] = []
        self._mode = mode
        self._identity = identity
        self._interfaces(old, new)
        nodes = self._nodes(old, new)
        self._edges(old, new, nodes)

    def _interfaces(self, old: Schema, new: Schema) -> None:
        """An interface has no table: whatever happens to it happens to the nodes' own properties."""
        before = {interface.name: interface for interface in old.interfaces}
        for interface in new.interfaces:
            owner = Owner("interface", interface.name)
            existing = before.pop(interface.name, None)
            if existing is None:
                self.steps.append(AddType(owner, interface))
            else:
                self._properties(owner, existing, interface)
        self.steps += [DropType(Owner("interface", name), self._mode) for name in before]

    def _nodes(self, old: Schema, new: Schema) -> Matching:
        names = self._match_types(old.nodes, new.nodes, "node type")
        before = {node.name: node for node in old.nodes}
        for node in new.nodes:
            existing = self._existing(before, node, names)
            if existing is None:
                continue
            owner = Owner("node", node.name)
            if existing.implements != node.implements:
                added = tuple(sorted(set(node.implements) - set(existing.implements)))
                removed = tuple(sorted(set(existing.implements) - set(node.implements)))
                self.steps.append(ChangeImplements(owner, added, removed))
            self._body(owner, existing, node)
        self._drop([before[name] for name in names.dropped])
        return names

    def _edges(self, old: Schema, new: Schema, nodes: Matching) -> None:
        names = self._match_types(old.edges, new.edges, "edge type")
        before = {edge.name: edge for edge in old.edges}
        for edge in new.edges:
            existing = self._existing(before, edge, names)
            if existing is None:
                continue
            owner = Owner("edge", edge.name)
            self._ends(owner, existing, edge, nodes)
            if existing.cardinality != edge.cardinality:
                asked = cardinality_questions(edge.table_key, existing.cardinality, edge.cardinality)
                change = ChangeCardinality(owner, existing.cardinality, edge.cardinality, asked)
                self.steps.append(change)
            self._body(owner, existing, edge)
        self._drop([before[name] for name in names.dropped])

    def _match_types(self, old: Sequence[EntityType], new: Sequence[EntityType], noun: str) -> Matching:
        if self._identity is not None:
            return self._identity.match_types(old, new)
        return match([each.name for each in old], {each.name: each.renamed_from for each in new}, noun)

    def _existing(self, old: Mapping[str, _Entity], new: _Entity, names: Matching) -> _Entity | None:
        """The old type of a new one; a type that has none is added or refused here."""
        owner = Owner(new.kind, new.name)
        if new.name in names.refused:
            self.steps.append(Unsupported(owner, None, names.refused[new.name]))
            return None
        origin = names.origins[new.name]
        if origin is None:
            self.steps.append(AddType(owner, new))
            self.images.append(new_table(new))
            return None
        if origin != new.name:
            self.steps.append(RenameType(owner, origin))
        return old[origin]

    def _drop(self, gone: Sequence[EntityType]) -> None:
        self.steps += [DropType(Owner(each.kind, each.name), self._mode) for each in gone]
        self.dropped += gone

    def _ends(self, owner: Owner, old: EdgeType, new: EdgeType, nodes: Matching) -> None:
        before = nodes.now(old.from_type), nodes.now(old.to_type)
        if before != (new.from_type, new.to_type):
            reason = (
                f"the ends of an edge type cannot change from {before[0]} -> {before[1]} "
                f"to {new.from_type} -> {new.to_type}; drop it and add another"
            )
            self.steps.append(Unsupported(owner, None, reason))

    def _body(self, owner: Owner, old: EntityType, new: EntityType) -> None:
        """Metadata, properties and constraints of a table that exists."""
        if old.annotations != new.annotations:
            self.steps.append(UpdateTypeMetadata(owner, new.annotations))
        names = self._properties(owner, old, new)
        image = self._image(old, new, names)
        self.images.append(image)
        self.steps += constraint_steps(owner, image, old.constraints, new.constraints, names)

    def _properties(
        self, owner: Owner, old: InterfaceType | EntityType, new: InterfaceType | EntityType
    ) -> Matching:
        before = {prop.name: prop for prop in old.properties}
        names = self._match_properties(old, new)
        in_key = _key_columns(old, names) | _key_columns(new, None)
        for prop in new.properties:
            if prop.name in names.refused:
                self.steps.append(Unsupported(owner, prop.name, names.refused[prop.name]))
                continue
            origin = names.origins[prop.name]
            if origin is None:
                self._add(owner, prop)
            else:
                self._change(owner, before[origin], prop, in_key=prop.name in in_key)
        self.steps += [DropProperty(owner, before[name], self._mode) for name in names.dropped]
        return names

    def _match_properties(self, old: InterfaceType | EntityType, new: InterfaceType | EntityType) -> Matching:
        if self._identity is None:
            hints = {prop.name: prop.renamed_from for prop in new.properties}
            return match([prop.name for prop in old.properties], hints, "property")
        if isinstance(old, InterfaceType) or isinstance(new, InterfaceType):
            return match(
                [prop.name for prop in old.properties], {p.name: None for p in new.properties}, "property"
            )
        return self._identity.match_properties(old, new)

    def _add(self, owner: Owner, prop: Property) -> None:
        needs_value = owner.stored and not prop.type.nullable and default_of(prop) is None
        asked = (NoRows(f"{owner.kind}:{owner.name}", prop.name),) if needs_value else ()
        self.steps.append(AddProperty(owner, prop, asked))

    def _change(self, owner: Owner, old: Property, new: Property, *, in_key: bool) -> None:
        if old.name != new.name:
            self.steps.append(RenameProperty(owner, old.name, new.name))
        if old.type != new.type:
            self.steps.append(_type_step(owner, new.name, old.type, new.type, in_key=in_key))
        if old.annotations != new.annotations:
            self.steps.append(UpdatePropertyMetadata(owner, new.name, new.annotations))

    def _image(self, old: EntityType, new: EntityType, names: Matching) -> TableImage:
        in_key = _key_columns(old, names) | _key_columns(new, None)
        before = {prop.name: prop for prop in old.properties}
        columns: list[Column] = []
        for prop in new.properties:
            name = names.origins.get(prop.name)
            origin = None if name is None else before[name]
            known = prop.name not in names.refused and (
                origin is None or type_refusal(origin.type, prop.type, in_key=prop.name in in_key) is None
            )
            columns.append(Column(prop, origin, known))
        dropped = tuple(before[name] for name in names.dropped)
        return TableImage(new, old, tuple(columns), dropped)


def _type_step(owner: Owner, name: str, old: PropertyType, new: PropertyType, *, in_key: bool) -> Step:
    if is_extension(old, new):
        return ExtendEnum(owner, name, old, new)
    if not owner.stored:
        return ChangePropertyType(owner, name, old, new)
    refusal = type_refusal(old, new, in_key=in_key)
    if refusal is not None:
        return Unsupported(owner, name, refusal, Code.CHANGE_TYPE)
    asked = type_questions(f"{owner.kind}:{owner.name}", name, old, new)
    return ChangePropertyType(owner, name, old, new, asked)


def _key_columns(type_: InterfaceType | EntityType, names: Matching | None) -> frozenset[str]:
    """The key's members, under their new names if there is a matching."""
    if not isinstance(type_, NodeType) or type_.key is None:
        return frozenset()
    columns = type_.key.columns
    return frozenset(columns if names is None else map(names.now, columns))
