"""The steps of a migration: what each changes, what it costs, and its JSON form.

A step names things as they are called afterwards; only renames and type changes carry the old
name or type. The JSON form is an interface: its fields are fixed, and a step adds none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Self

from omnigraph_core.records import dataclass
from omnigraph_core.schema.compiled import constraint_json, type_json
from omnigraph_core.schema.defaults import default_of
from omnigraph_core.schema.evolve.questions import Question
from omnigraph_core.schema.evolve.terms import Code, Cost, Mode, Owner, Tier
from omnigraph_core.schema.model import (
    Annotation,
    Cardinality,
    Constraint,
    EntityType,
    InterfaceType,
    Property,
    PropertyType,
)


@dataclass(frozen=True, slots=True)
class _Step:
    """What most steps are: about a type, safe, and free."""

    kind: ClassVar[str]
    owner: Owner

    @property
    def cost(self) -> Cost:
        return Cost.NOTHING

    @property
    def code(self) -> Code | None:
        return None

    @property
    def tier(self) -> Tier:
        if self.questions:
            return Tier.VALIDATED
        return Tier.SAFE if self.code is None else self.code.tier

    @property
    def questions(self) -> tuple[Question, ...]:
        """What the data must not contradict; the step is as good as refused while one is open."""
        return ()

    def settled(self) -> Self:
        """The same step after the data has agreed."""
        return self

    def _json(self, facts: Mapping[str, object]) -> dict[str, object]:
        return {"kind": self.kind, "type_kind": self.owner.kind, **facts}

    def _metadata_cost(self) -> Cost:
        return Cost.METADATA if self.owner.stored else Cost.NOTHING


@dataclass(frozen=True, slots=True)
class AddType(_Step):
    kind: ClassVar[str] = "add_type"
    type: InterfaceType | EntityType

    @property
    def cost(self) -> Cost:
        return self._metadata_cost()

    def to_json(self) -> dict[str, object]:
        return self._json({"name": self.owner.name})


@dataclass(frozen=True, slots=True)
class RenameType(_Step):
    """The table stays where it is; only its name changes."""

    kind: ClassVar[str] = "rename_type"
    old: str

    @property
    def cost(self) -> Cost:
        return Cost.METADATA

    def to_json(self) -> dict[str, object]:
        return self._json({"from": self.old, "to": self.owner.name})


@dataclass(frozen=True, slots=True)
class DropType(_Step):
    kind: ClassVar[str] = "drop_type"
    mode: Mode

    @property
    def cost(self) -> Cost:
        return self._metadata_cost()

    @property
    def code(self) -> Code | None:
        return {"node": Code.DROP_NODE, "edge": Code.DROP_EDGE}.get(self.owner.kind)

    def to_json(self) -> dict[str, object]:
        return self._json({"name": self.owner.name, "mode": self.mode.value})


@dataclass(frozen=True, slots=True)
class UpdateTypeMetadata(_Step):
    """`annotations` are all the type has afterwards."""

    kind: ClassVar[str] = "update_type_metadata"
    annotations: tuple[Annotation, ...]

    def to_json(self) -> dict[str, object]:
        return self._json(
            {"name": self.owner.name, "annotations": list(map(annotation_json, self.annotations))}
        )


@dataclass(frozen=True, slots=True)
class ChangeImplements(_Step):
    """The columns this brings or takes are steps of their own."""

    kind: ClassVar[str] = "change_implements"
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return self._json(
            {"type_name": self.owner.name, "added": list(self.added), "removed": list(self.removed)}
        )


@dataclass(frozen=True, slots=True)
class ChangeCardinality(_Step):
    kind: ClassVar[str] = "change_cardinality"
    old: Cardinality
    new: Cardinality
    asked: tuple[Question, ...] = ()

    @property
    def questions(self) -> tuple[Question, ...]:
        return self.asked

    def settled(self) -> Self:
        return replace(self, asked=())

    def to_json(self) -> dict[str, object]:
        old, new = cardinality_json(self.old), cardinality_json(self.new)
        return self._json({"type_name": self.owner.name, "from": old, "to": new})


@dataclass(frozen=True, slots=True)
class AddProperty(_Step):
    """Existing rows get the default, else null."""

    kind: ClassVar[str] = "add_property"
    prop: Property
    asked: tuple[Question, ...] = ()

    @property
    def questions(self) -> tuple[Question, ...]:
        return self.asked

    def settled(self) -> Self:
        return replace(self, asked=())

    @property
    def cost(self) -> Cost:
        if self.owner.stored and default_of(self.prop) is not None:
            return Cost.COLUMN
        return self._metadata_cost()

    def to_json(self) -> dict[str, object]:
        facts: dict[str, object] = {
            "type_name": self.owner.name,
            "property_name": self.prop.name,
            "property_type": type_json(self.prop.type),
        }
        default = default_of(self.prop)
        return self._json(facts if default is None else {**facts, "default": default})


@dataclass(frozen=True, slots=True)
class RenameProperty(_Step):
    kind: ClassVar[str] = "rename_property"
    old: str
    new: str

    @property
    def cost(self) -> Cost:
        return self._metadata_cost()

    def to_json(self) -> dict[str, object]:
        return self._json({"type_name": self.owner.name, "from": self.old, "to": self.new})


@dataclass(frozen=True, slots=True)
class ChangePropertyType(_Step):
    """A wider type, another nullability, or another set of values, alone or together."""

    kind: ClassVar[str] = "change_property_type"
    property_name: str
    old: PropertyType
    new: PropertyType
    asked: tuple[Question, ...] = ()

    @property
    def questions(self) -> tuple[Question, ...]:
        return self.asked

    def settled(self) -> Self:
        return replace(self, asked=())

    @property
    def cost(self) -> Cost:
        if self.owner.stored and self.old.scalar is not self.new.scalar:
            return Cost.COLUMN
        return Cost.NOTHING if self.old.nullable == self.new.nullable else self._metadata_cost()

    def to_json(self) -> dict[str, object]:
        named = {"type_name": self.owner.name, "property_name": self.property_name}
        return self._json({**named, "from": type_json(self.old), "to": type_json(self.new)})


@dataclass(frozen=True, slots=True)
class ExtendEnum(_Step):
    """Values are added and nothing else changes."""

    kind: ClassVar[str] = "extend_enum"
    property_name: str
    old: PropertyType
    new: PropertyType

    @property
    def added_values(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.new.enum_values or ()) - set(self.old.enum_values or ())))

    def to_json(self) -> dict[str, object]:
        named = {"type_name": self.owner.name, "property_name": self.property_name}
        return self._json({**named, "added_values": list(self.added_values)})


@dataclass(frozen=True, slots=True)
class UpdatePropertyMetadata(_Step):
    """`annotations` are all the property has afterwards. A changed `@default` touches no row."""

    kind: ClassVar[str] = "update_property_metadata"
    property_name: str
    annotations: tuple[Annotation, ...]

    def to_json(self) -> dict[str, object]:
        named = {"type_name": self.owner.name, "property_name": self.property_name}
        return self._json({**named, "annotations": [annotation_json(each) for each in self.annotations]})


@dataclass(frozen=True, slots=True)
class DropProperty(_Step):
    kind: ClassVar[str] = "drop_property"
    prop: Property
    mode: Mode

    @property
    def cost(self) -> Cost:
        hard = self.owner.stored and self.mode is Mode.HARD
        return Cost.TABLE if hard else self._metadata_cost()

    @property
    def code(self) -> Code | None:
        return Code.DROP_PROPERTY if self.owner.stored else None

    def to_json(self) -> dict[str, object]:
        named = {"type_name": self.owner.name, "property_name": self.prop.name}
        return self._json({**named, "mode": self.mode.value})


@dataclass(frozen=True, slots=True)
class AddConstraint(_Step):
    kind: ClassVar[str] = "add_constraint"
    constraint: Constraint
    asked: tuple[Question, ...] = ()

    @property
    def questions(self) -> tuple[Question, ...]:
        return self.asked

    def settled(self) -> Self:
        return replace(self, asked=())

    def to_json(self) -> dict[str, object]:
        return self._json({"type_name": self.owner.name, "constraint": constraint_json(self.constraint)})


@dataclass(frozen=True, slots=True)
class DropConstraint(_Step):
    """The constraint as it reads after renames; a dropped property keeps its old name in it."""

    kind: ClassVar[str] = "drop_constraint"
    constraint: Constraint

    def to_json(self) -> dict[str, object]:
        return self._json({"type_name": self.owner.name, "constraint": constraint_json(self.constraint)})


@dataclass(frozen=True, slots=True)
class Unsupported(_Step):
    """What will not be done, and why; one is enough to refuse the whole plan.

    `rows` and `samples` (their ids) are there if it is the data that refuses, `rule` if it does so
    for a constraint or a cardinality.
    """

    kind: ClassVar[str] = "unsupported_change"
    property_name: str | None
    reason: str
    refusal: Code | None = None
    rows: int | None = None
    samples: tuple[str, ...] = ()
    rule: Constraint | Cardinality | None = None

    @property
    def entity(self) -> str:
        return self.owner.entity(self.property_name)

    @property
    def code(self) -> Code | None:
        return self.refusal

    @property
    def tier(self) -> Tier:
        if self.refusal is not None:
            return self.refusal.tier
        return Tier.DESTRUCTIVE if self.rows is None else Tier.VALIDATED

    def to_json(self) -> dict[str, object]:
        """`code` and `rows` only where there are any: programs compare the whole object."""
        facts: dict[str, object] = {"kind": self.kind, "entity": self.entity, "reason": self.reason}
        if self.refusal is not None:
            facts["code"] = self.refusal.value
        if self.rows is not None:
            facts["rows"] = self.rows
        return facts


Step = (
    AddType
    | RenameType
    | DropType
    | UpdateTypeMetadata
    | ChangeImplements
    | ChangeCardinality
    | AddProperty
    | RenameProperty
    | ChangePropertyType
    | ExtendEnum
    | UpdatePropertyMetadata
    | DropProperty
    | AddConstraint
    | DropConstraint
    | Unsupported
)


def cardinality_json(cardinality: Cardinality) -> dict[str, object]:
    return {"min": cardinality.minimum, "max": cardinality.maximum}


def annotation_json(annotation: Annotation) -> dict[str, object]:
    facts: dict[str, object] = {"name": annotation.name, "value": annotation.value}
    return {**facts, "arguments": dict(annotation.arguments)} if annotation.arguments else facts
