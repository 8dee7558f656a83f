"""Which changes of a property's type are possible, and what they ask of the data."""

from __future__ import annotations

from omnigraph_core.schema.evolve.questions import NoNulls, OneOf, Question
from omnigraph_core.schema.model import PropertyType, Scalar

# Every value has exactly one image, and no two share one.
_WIDER = frozenset(
    {
        (Scalar.I32, Scalar.I64),
        (Scalar.U32, Scalar.U64),
        (Scalar.F32, Scalar.F64),
        (Scalar.I32, Scalar.F64),
        (Scalar.DATE, Scalar.DATE_TIME),
    }
)


def type_refusal(old: PropertyType, new: PropertyType, *, in_key: bool) -> str | None:
    """Why the type cannot change so, whatever the data; None if it can.

    Ids are made of the texts of key values: a key changes its type only if they stay the same.
    """
    if old.is_list != new.is_list or old.dimension != new.dimension:
        return f"{_bare(old)} cannot become {_bare(new)}"
    if old.scalar is new.scalar:
        return None
    if (old.scalar, new.scalar) not in _WIDER:
        return f"{_bare(old)} cannot become {_bare(new)} without losing values"
    if in_key and not (old.scalar.is_integer and new.scalar.is_integer):
        return f"{_bare(old)} cannot become {_bare(new)} in a @key: the ids would change"
    return None


def is_extension(old: PropertyType, new: PropertyType) -> bool:
    """Are enum values added, and is that all?"""
    if old.enum_values is None or new.enum_values is None or old.nullable != new.nullable:
        return False
    return set(old.enum_values) < set(new.enum_values)


def type_questions(table: str, name: str, old: PropertyType, new: PropertyType) -> tuple[Question, ...]:
    """What rows must not contradict in a possible change of type."""
    asked: list[Question] = []
    if new.enum_values is not None and not _covers(new.enum_values, old.enum_values):
        asked.append(OneOf(table, name, new.enum_values))
    if old.nullable and not new.nullable:
        asked.append(NoNulls(table, name))
    return tuple(asked)


def _bare(type_: PropertyType) -> str:
    return str(type_).removesuffix("?")


def _covers(values: tuple[str, ...], old: tuple[str, ...] | None) -> bool:
    return old is not None and set(old) <= set(values)
