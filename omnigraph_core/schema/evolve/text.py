"""A plan for people: a line for each step with its cost, and a Markdown table for a review."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph_core.schema.compiled import constraint_json
from omnigraph_core.schema.defaults import default_of
from omnigraph_core.schema.evolve.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCardinality,
    ChangeImplements,
    ChangePropertyType,
    DropConstraint,
    DropProperty,
    DropType,
    ExtendEnum,
    RenameProperty,
    RenameType,
    Step,
    Unsupported,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    cardinality_json,
)
from omnigraph_core.schema.evolve.terms import Mode
from omnigraph_core.schema.lexer import string_literal
from omnigraph_core.schema.model import Annotation, Cardinality
from omnigraph_core.schema.render import annotation_text

NO_CHANGE = "no change"


def described(step: Step) -> str:
    """What a step does, in one line without its cost."""
    owner = step.owner
    match step:
        case AddType():
            return f"add {owner.kind} {owner.name}"
        case RenameType(old=old):
            return f"rename {owner.kind} {old} to {owner.name}"
        case DropType(mode=mode):
            return f"drop {owner.kind} {owner.name}{_dropped(mode)}"
        case UpdateTypeMetadata(annotations=annotations):
            return f"annotate {owner.kind} {owner.name}: {_annotations(annotations)}"
        case ChangeImplements(added=added, removed=removed):
            changed = [*(f"+{name}" for name in added), *(f"-{name}" for name in removed)]
            return f"change implements of {owner.kind} {owner.name}: {', '.join(changed)}"
        case ChangeCardinality(old=before, new=after):
            return f"change cardinality of {owner.kind} {owner.name} from {before} to {after}"
        case AddConstraint(constraint=constraint):
            return f"add {constraint} to {owner.kind} {owner.name}"
        case DropConstraint(constraint=constraint):
            return f"drop {constraint} from {owner.kind} {owner.name}"
        case Unsupported():
            return _unsupported(step)
        case _:
            return _property_step(step)


def _property_step(
    step: AddProperty
    | RenameProperty
    | ChangePropertyType
    | ExtendEnum
    | UpdatePropertyMetadata
    | DropProperty,
) -> str:
    owner = step.owner.name
    match step:
        case AddProperty(prop=prop):
            return f"add property {owner}.{prop.name}: {prop.type}{_filled(step)}"
        case RenameProperty(old=old, new=new):
            return f"rename property {owner}.{old} to {new}"
        case ChangePropertyType(property_name=name, old=before, new=after):
            return f"change type of {owner}.{name} from {before} to {after}"
        case ExtendEnum(property_name=name):
            return f"extend enum {owner}.{name} by {', '.join(step.added_values)}"
        case UpdatePropertyMetadata(property_name=name, annotations=annotations):
            return f"annotate {owner}.{name}: {_annotations(annotations)}"
        case DropProperty(prop=prop, mode=mode):
            return f"drop property {owner}.{prop.name}{_dropped(mode)}"


def line(step: Step) -> str:
    """What a step does and what it costs; a refusal costs nothing because nothing is done."""
    if isinstance(step, Unsupported):
        return described(step)
    return f"{described(step)} ({step.cost.value})"


def lines(steps: Sequence[Step]) -> tuple[str, ...]:
    return tuple(map(line, steps)) if steps else (NO_CHANGE,)


def markdown(steps: Sequence[Step]) -> str:
    """A table for a review comment; a refusal stands out."""
    if not steps:
        return f"_{NO_CHANGE}_\n"
    rows = ["| change | cost | tier |", "|---|---|---|"]
    for step in steps:
        refused = isinstance(step, Unsupported)
        cost = "refused" if refused else step.cost.value
        text = _cell(described(step))
        rows.append(f"| {f'**{text}**' if refused else text} | {cost} | {step.tier.value} |")
    return "\n".join(rows) + "\n"


def detail(step: Step) -> dict[str, object]:
    """What the fixed JSON form of a step has no place for. A key without a value is left out."""
    facts: dict[str, object] = {"change": described(step), "tier": step.tier.value}
    if step.code is not None:
        facts["code"] = step.code.value
    if not isinstance(step, Unsupported):
        return {**facts, "cost": step.cost.value}
    if isinstance(step.rule, Cardinality):
        facts["cardinality"] = cardinality_json(step.rule)
    elif step.rule is not None:
        facts["constraint"] = constraint_json(step.rule)
    return {**facts, "samples": list(step.samples)} if step.samples else facts


def _unsupported(step: Unsupported) -> str:
    code = "" if step.code is None else f" [{step.code.value}, {step.code.tier.value}]"
    return f"unsupported change on {step.entity}{code}: {step.reason}{_sampled(step)}"


def _sampled(step: Unsupported) -> str:
    """Ids are data: quoted, so that a strange one cannot be taken for the message."""
    if not step.samples:
        return ""
    more = ", …" if step.rows is not None and step.rows > len(step.samples) else ""
    return f" (ids {', '.join(map(string_literal, step.samples))}{more})"


def _filled(step: AddProperty) -> str:
    default = default_of(step.prop)
    if default is None:
        return ""
    shown = string_literal(default) if isinstance(default, str) else str(default).lower()
    return f", existing rows get {shown}" if step.owner.stored else f", default {shown}"


def _dropped(mode: Mode) -> str:
    return ", its data too" if mode is Mode.HARD else ""


def _annotations(annotations: Sequence[Annotation]) -> str:
    return " ".join(map(annotation_text, annotations)) or "none"


def _cell(text: str) -> str:
    """Text inside a Markdown table: nothing may end the cell, the row, or become markup."""
    for character in "\\`*_<>[]|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
