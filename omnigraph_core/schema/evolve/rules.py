"""Constraints of one type, before and after: what goes, what comes, and what the rows must be asked.

A rule that already follows from an old one costs no question: widening a range or dropping a
bound is free whatever the size of the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph_core.schema.evolve.images import TableImage
from omnigraph_core.schema.evolve.names import Matching
from omnigraph_core.schema.evolve.questions import Distinct, Fits, Matches, Question, Within
from omnigraph_core.schema.evolve.steps import AddConstraint, DropConstraint, Step, Unsupported
from omnigraph_core.schema.evolve.terms import Owner
from omnigraph_core.schema.model import Cardinality, Check, Constraint, Index, Key, Range, Unique


def constraint_steps(
    owner: Owner,
    image: TableImage,
    old: Sequence[Constraint],
    new: Sequence[Constraint],
    names: Matching,
) -> list[Step]:
    """Drops, then adds, each by kind and columns; a changed bound is one of both."""
    before = {renamed(constraint, names): constraint for constraint in old}
    gone = sorted((c for c in before if c not in new), key=_order)
    come = sorted((c for c in new if c not in before), key=_order)
    steps: list[Step] = []
    key_refused = False
    for constraint in gone:
        if isinstance(constraint, Key):
            steps.append(_key_refusal(owner, constraint, _key(come)))
            key_refused = True
        else:
            steps.append(DropConstraint(owner, constraint))
    for constraint in come:
        if not isinstance(constraint, Key):
            steps.append(AddConstraint(owner, constraint, _questions(image, constraint, tuple(before))))
        elif not key_refused:
            steps.append(_key_refusal(owner, None, constraint))
    return steps


def renamed(constraint: Constraint, names: Matching) -> Constraint:
    """The constraint in the new names of its columns. Only a key has an order of its own."""
    match constraint:
        case Key(columns):
            return Key(tuple(map(names.now, columns)))
        case Unique(columns):
            return Unique(tuple(sorted(map(names.now, columns))))
        case Index(columns):
            return Index(tuple(sorted(map(names.now, columns))))
        case Range(column, minimum, maximum):
            return Range(names.now(column), minimum, maximum)
        case Check(column, pattern):
            return Check(names.now(column), pattern)


def cardinality_questions(table: str, old: Cardinality, new: Cardinality) -> tuple[Question, ...]:
    """A source that has an edge has one at least, so a minimum of one asks nothing."""
    fewer = new.minimum > max(old.minimum, 1)
    more = new.maximum is not None and (old.maximum is None or old.maximum > new.maximum)
    return (Fits(table, new),) if fewer or more else ()


def _order(constraint: Constraint) -> tuple[str, str]:
    match constraint:
        case Key(columns) | Unique(columns) | Index(columns):
            return type(constraint).__name__, ",".join(columns)
        case Range() | Check():
            return type(constraint).__name__, str(constraint)


def _key(constraints: Sequence[Constraint]) -> Key | None:
    return next((constraint for constraint in constraints if isinstance(constraint, Key)), None)


def _key_refusal(owner: Owner, old: Key | None, new: Key | None) -> Unsupported:
    what = f"{old or 'no @key'} cannot become {new or 'no @key'}"
    why = "ids are made of the key, and edges hold them; export, change the data, and load it anew"
    return Unsupported(owner, None, f"{what}: {why}", rule=new or old)


def _questions(image: TableImage, constraint: Constraint, old: Sequence[Constraint]) -> tuple[Question, ...]:
    table = image.entity.table_key
    match constraint:
        case Unique(columns):
            if _answerable(image, columns) and not any(_tells_apart(each, columns) for each in old):
                return (Distinct(table, constraint),)
        case Range(column):
            if _has_values(image, column) and not any(_narrower(each, constraint) for each in old):
                return (Within(table, constraint),)
        case Check(column):
            if _has_values(image, column):
                return (Matches(table, constraint),)
        case Key() | Index():
            pass
    return ()


def _answerable(image: TableImage, columns: Sequence[str]) -> bool:
    """Can rows break a uniqueness? Not if one member is null everywhere; `src`, `dst` never are."""
    members = [column for column in map(image.column, columns) if column is not None]
    return all(column.known and not column.is_null for column in members)


def _has_values(image: TableImage, name: str) -> bool:
    """Are there old values to look at? A default is checked with the schema itself."""
    column = image.column(name)
    return column is not None and column.known and column.origin is not None


def _tells_apart(constraint: Constraint, columns: Sequence[str]) -> bool:
    return isinstance(constraint, Key | Unique) and set(constraint.columns) <= set(columns)


def _narrower(constraint: Constraint, new: Range) -> bool:
    """Does an old range on the same property already keep every value inside the new one?"""
    if not isinstance(constraint, Range) or constraint.property != new.property:
        return False
    low, high = constraint.minimum, constraint.maximum
    above = new.minimum is None or (low is not None and low >= new.minimum)
    below = new.maximum is None or (high is not None and high <= new.maximum)
    return above and below
