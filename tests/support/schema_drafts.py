"""Schemas being written, by hands that remember for every type and property which old one it is.

And the steps of a plan, done to a schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random

from omnigraph_core.schema import Schema
from omnigraph_core.schema.evolve import Step
from omnigraph_core.schema.evolve import steps as made
from omnigraph_core.schema.evolve.names import Matching
from omnigraph_core.schema.evolve.rules import renamed
from omnigraph_core.schema.model import (
    EdgeType,
    EntityType,
    InterfaceType,
    NodeType,
    Property,
    constraint_order,
)

WIDER = {"I32": ("I64", "F64"), "U32": ("U64",), "F32": ("F64",), "Date": ("DateTime",)}
SCALARS = ("String", "I32", "U32", "F32", "Date", "Bool", "enum(a, b)", "[I32]", "Vector(2)", "Blob")
DEFAULTS = {"String": '"x"', "I32": "3", "Bool": "true", "enum(a, b)": "a"}
NAMES = ("a", "b", "c", "d", "e")
TYPES = ("A", "B", "C", "D")


@dataclass
class Prop:
    """`was` is the name in the old schema, None for a new property."""

    type: str
    nullable: bool
    was: str | None = None
    marks: str = ""


@dataclass
class Entity:
    props: dict[str, Prop] = field(default_factory=dict)
    was: str | None = None
    ends: tuple[str, str] | None = None
    card: str = ""
    note: str = ""
    implements: bool = False
    gone: set[str] = field(default_factory=set)


@dataclass
class Draft:
    """A schema being written. Ends are names, and follow renames of their nodes.

    `gone` are names whose thing was dropped. A new thing of such a name would be the old one, for
    the language; so nothing is added under it, though something may be renamed to it.
    """

    entities: dict[str, Entity] = field(default_factory=dict)
    shared: dict[str, Prop] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def nodes(self) -> list[str]:
        return [name for name, entity in self.entities.items() if entity.ends is None]

    def settle(self) -> None:
        """What is here is the old schema from now on."""
        self.gone = set()
        for name, entity in self.entities.items():
            entity.was, entity.gone = name, set()
            for prop_name, prop in entity.props.items():
                prop.was = prop_name

    def text(self) -> str:
        shared = " ".join(_declared(name, prop) for name, prop in self.shared.items())
        return "\n".join([f"interface I {{ {shared} }}", *map(self._entity, self.entities)])

    def _entity(self, name: str) -> str:
        entity = self.entities[name]
        hint = f' @rename_from("{entity.was}")' if entity.was not in (None, name) else ""
        body = " ".join(_declared(each, prop) for each, prop in entity.props.items())
        if entity.ends is not None:
            head = f"edge {name}: {entity.ends[0]} -> {entity.ends[1]} {entity.card}{hint}{entity.note}"
            return f"{head} {{ {body} }}"
        implements = " implements I" if entity.implements else ""
        return f"node {name}{hint}{entity.note}{implements} {{ k: String @key {body} }}"


def _declared(name: str, prop: Prop) -> str:
    hint = f' @rename_from("{prop.was}")' if prop.was not in (None, name) else ""
    return f"{name}: {prop.type}{'?' if prop.nullable else ''}{prop.marks}{hint}"


def first_draft(random: Random) -> Draft:
    draft = Draft(shared={"s": Prop("String", nullable=True)} if random.random() < 0.5 else {})
    for name in TYPES[: random.randint(1, 3)]:
        draft.entities[name] = Entity(implements=random.random() < 0.3)
    for name in ("X", "Y")[: random.randint(0, 2)]:
        ends = random.choice(draft.nodes()), random.choice(draft.nodes())
        draft.entities[name] = Entity(ends=ends)
    for entity in draft.entities.values():
        for name in random.sample(NAMES, random.randint(0, 4)):
            entity.props[name] = new_prop(random)
    draft.settle()
    return draft


def new_prop(random: Random) -> Prop:
    kind = random.choice(SCALARS)
    marks = f" @default({DEFAULTS[kind]})" if kind in DEFAULTS and random.random() < 0.3 else ""
    return Prop(kind, random.random() < 0.6, marks=marks)


def edit(draft: Draft, random: Random) -> None:
    """One edit that a plan can have a step for."""
    name = random.choice(list(draft.entities))
    entity = draft.entities[name]
    kind = random.randrange(10)
    if kind == 0:
        add_type(draft, random)
    elif kind == 1:
        rename_type(draft, name, random)
    elif kind == 2 and (entity.ends or len(draft.nodes()) > 1):
        drop_type(draft, name)
    elif kind == 3:
        entity.note = random.choice(("", ' @description("x")', " @team(core)"))
        entity.card = random.choice(("", "@card(0..2)", "@card(1..)")) if entity.ends else ""
        entity.implements = entity.ends is None and random.random() < 0.5
    elif kind == 4:
        draft.shared = {} if random.random() < 0.5 else {"s": Prop("String", nullable=True)}
    else:
        edit_property(entity, random)


def add_type(draft: Draft, random: Random) -> None:
    taken = draft.gone | set(draft.entities)
    free = [name for name in (*TYPES, "X", "Y", "Z") if name not in taken]
    if free:
        name = random.choice(free)
        ends = (random.choice(draft.nodes()), random.choice(draft.nodes())) if name in "XYZ" else None
        draft.entities[name] = Entity({"a": new_prop(random)}, ends=ends)


def rename_type(draft: Draft, name: str, random: Random) -> None:
    alphabet = ("X", "Y", "Z") if draft.entities[name].ends else TYPES
    taken = set(draft.entities) | (draft.gone if draft.entities[name].was is None else set())
    free = [each for each in alphabet if each not in taken]
    if not free:
        return
    new = random.choice(free)
    draft.entities = {new if each == name else each: entity for each, entity in draft.entities.items()}
    for entity in draft.entities.values():
        if entity.ends is not None:
            start, end = (new if end == name else end for end in entity.ends)
            entity.ends = start, end


def drop_type(draft: Draft, name: str) -> None:
    """With the edges at it, if it is a node."""
    ends = {each: entity.ends or () for each, entity in draft.entities.items()}
    going = {each: draft.entities[each] for each in ends if each == name or name in ends[each]}
    if any(is_new(draft.entities.get(entity.was or each), entity) for each, entity in going.items()):
        return
    for each, entity in going.items():
        draft.gone.add(entity.was or each)
        del draft.entities[each]


def is_new(heir: Prop | Entity | None, dropped: Prop | Entity) -> bool:
    """Would a new thing with the old name of the dropped one be taken for it?"""
    return heir is not None and heir is not dropped and heir.was is None


def edit_property(entity: Entity, random: Random) -> None:
    free = [name for name in NAMES if name not in entity.props]
    kind = random.randrange(6)
    if kind == 0 or not entity.props:
        free = [each for each in free if each not in entity.gone]
        if free:
            entity.props[random.choice(free)] = new_prop(random)
        return
    name = random.choice(list(entity.props))
    prop = entity.props[name]
    free = [each for each in free if prop.was is not None or each not in entity.gone]
    if kind == 1 and not is_new(entity.props.get(prop.was or name), prop):
        entity.gone.add(entity.props.pop(name).was or name)
    elif kind in (2, 5) and free and random.random() < 0.8:
        entity.props[random.choice(free)] = entity.props.pop(name)
    elif kind == 3 and len(entity.props) > 1:
        other = random.choice([each for each in entity.props if each != name])
        if not entity.gone & {name, other}:
            entity.props[name], entity.props[other] = entity.props[other], prop
    elif kind == 4:
        entity.props[name] = replace(prop, nullable=not prop.nullable)
    elif prop.type in WIDER:
        entity.props[name] = replace(prop, type=random.choice(WIDER[prop.type]))
    elif prop.type.startswith("enum("):
        entity.props[name] = replace(prop, type=random.choice(("enum(a, b, c)", "enum(a)", "String")))
    elif prop.type in ("String", "I64", "Bool"):
        entity.props[name] = replace(prop, marks=random.choice((" @unique", " @index", " @pii", "")))


def done(schema: Schema, steps: Iterable[Step]) -> Schema:
    """The schema after the steps, renames first and all at once."""
    listed = list(steps)
    gone = {(s.owner.kind, s.owner.name) for s in listed if isinstance(s, made.DropType)}
    nodes = _type_names(listed, "node")
    types: list[InterfaceType | EntityType] = []
    for old in (*schema.interfaces, *schema.nodes, *schema.edges):
        kind = "interface" if isinstance(old, InterfaceType) else old.kind
        if (kind, old.name) not in gone:
            name = _type_names(listed, kind).now(old.name)
            mine = [s for s in listed if (s.owner.kind, s.owner.name) == (kind, name)]
            types.append(_done_type(replace(old, name=name), mine, nodes))
    types += [s.type for s in listed if isinstance(s, made.AddType)]
    types.sort(key=lambda each: each.name)
    return Schema(
        tuple(t for t in types if isinstance(t, InterfaceType)),
        tuple(t for t in types if isinstance(t, NodeType)),
        tuple(t for t in types if isinstance(t, EdgeType)),
    )


def _type_names(steps: list[Step], kind: str) -> Matching:
    return _names(
        (s.owner.name, s.old) for s in steps if isinstance(s, made.RenameType) and s.owner.kind == kind
    )


def _names(renames: Iterable[tuple[str, str]]) -> Matching:
    return Matching(dict(renames), {}, ())


def _done_type(
    type_: InterfaceType | EntityType, steps: list[Step], nodes: Matching
) -> InterfaceType | EntityType:
    names = _names((s.new, s.old) for s in steps if isinstance(s, made.RenameProperty))
    gone = {s.prop.name for s in steps if isinstance(s, made.DropProperty)}
    kept = [p for p in type_.properties if p.name not in gone]
    props = {names.now(p.name): replace(p, name=names.now(p.name)) for p in kept}
    assert len(props) == len(kept)
    for step in steps:
        _do_to_properties(props, step)
    properties = tuple(props[name] for name in sorted(props))
    if isinstance(type_, InterfaceType):
        return replace(type_, properties=properties)
    constraints = {renamed(each, names) for each in type_.constraints}
    for step in steps:
        if isinstance(step, made.DropConstraint):
            constraints.remove(step.constraint)
        elif isinstance(step, made.AddConstraint):
            assert step.constraint not in constraints
            constraints.add(step.constraint)
    ordered = tuple(sorted(constraints, key=constraint_order))
    return _done_header(replace(type_, properties=properties, constraints=ordered), steps, nodes)


def _do_to_properties(props: dict[str, Property], step: Step) -> None:
    match step:
        case made.ChangePropertyType(_, name, old, new) | made.ExtendEnum(_, name, old, new):
            assert props[name].type == old
            props[name] = replace(props[name], type=new)
        case made.UpdatePropertyMetadata(_, name, annotations):
            assert props[name].annotations != annotations
            props[name] = replace(props[name], annotations=annotations)
        case made.AddProperty(_, prop):
            assert prop.name not in props
            props[prop.name] = prop


def _done_header(entity: EntityType, steps: list[Step], nodes: Matching) -> EntityType:
    if isinstance(entity, EdgeType):
        ends = nodes.now(entity.from_type), nodes.now(entity.to_type)
        entity = replace(entity, from_type=ends[0], to_type=ends[1])
    for step in steps:
        if isinstance(step, made.UpdateTypeMetadata):
            entity = replace(entity, annotations=step.annotations)
        elif isinstance(step, made.ChangeImplements):
            assert isinstance(entity, NodeType)
            implements = set(entity.implements) - set(step.removed) | set(step.added)
            entity = replace(entity, implements=tuple(sorted(implements)))
        elif isinstance(step, made.ChangeCardinality):
            assert isinstance(entity, EdgeType)
            assert entity.cardinality == step.old
            entity = replace(entity, cardinality=step.new)
    return entity
