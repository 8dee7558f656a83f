"""Two schemas that came of one, made into one: what either side changed, of the base they share.

A schema is taken apart into facts: the name of a type, whether a property may be null, a
constraint. What one side changed and the other left alone is taken from the side that changed it;
what both changed to the same is that. A fact that both changed differently is a clash, and so is a
type or a property that one side dropped and the other changed, or that both added and not alike.

Facts are about things, not about names: a property that one side renamed and the other widened is
renamed and wide. Which things are the same the caller knows (`Identity`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omnigraph_core.records import dataclass
from omnigraph_core.schema import compile_schema
from omnigraph_core.schema.evolve.identity import Identity
from omnigraph_core.schema.evolve.rebuild import Named, rebuilt
from omnigraph_core.schema.evolve.take_apart import PROPERTY, VALUES, Facts, Part, Tokens, take_apart
from omnigraph_core.schema.model import Schema
from omnigraph_core.schema.render import render
from omnigraph_core.schema.source import SourceError


@dataclass(frozen=True, slots=True)
class Side:
    """What one side made of the base, and which of its things are the base's."""

    schema: Schema
    since_base: Identity


@dataclass(frozen=True, slots=True)
class Combined:
    """The schema of both, and which of its things are the base's, ours and theirs."""

    schema: Schema
    since_base: Identity
    since_ours: Identity
    since_theirs: Identity


class SchemasClash(Exception):
    """The sides cannot be made into one; `reasons` says why, each in a line."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


def three_way(base: Schema, ours: Side, theirs: Side) -> Combined:
    """Combine, or raise `SchemasClash` with everything that clashes."""
    mine, yours = Tokens.of(ours.since_base), Tokens.of(theirs.since_base)
    found = _Merge(
        take_apart(base, Tokens.base(base)),
        take_apart(ours.schema, mine),
        take_apart(theirs.schema, yours),
    )
    facts = found.merged()
    reasons = [*found.clashes()]
    if reasons:
        raise SchemasClash(reasons)
    named = rebuilt(facts)
    if named.faults:
        raise SchemasClash(named.faults)
    schema = _checked(named.schema)
    return Combined(
        schema,
        _identity(named, schema, base, Tokens.base(base)),
        _identity(named, schema, ours.schema, mine),
        _identity(named, schema, theirs.schema, yours),
    )


def _checked(schema: Schema) -> Schema:
    """What the language makes of it: a node gets what an interface of the other side brings."""
    try:
        return compile_schema(render(schema), "the merged schema")
    except SourceError as error:
        raise SchemasClash([f"together they are no valid schema: {error}"]) from error


def _identity(named: Named, combined: Schema, side: Schema, tokens: Tokens) -> Identity:
    """The things of the result that a side has, by the names of both."""
    types, properties = {}, {}
    by_token = {tokens.type(each.table_key): each for each in side.types()}
    for each in combined.types():
        mine = by_token.get(named.types.get(each.table_key, ""))
        if mine is None:
            continue
        types[each.table_key] = mine.table_key
        names = {tokens.property(mine.table_key, prop.name): prop.name for prop in mine.properties}
        known = named.properties[each.table_key]
        properties[each.table_key] = {
            prop.name: names[known[prop.name]]
            for prop in each.properties
            if prop.name in known and known[prop.name] in names
        }
    return Identity(types, properties)


class _Merge:
    """The facts of all three, and what became of them."""

    def __init__(self, base: Facts, ours: Facts, theirs: Facts) -> None:
        self._base, self._ours, self._theirs = base, ours, theirs

    def merged(self) -> Facts:
        """Every fact that is left; where sides clash, ours."""
        parts = {**self._base, **self._ours, **self._theirs}
        found = {part: self._merged(part) for part in parts}
        return {part: value for part, value in found.items() if value is not None}

    def _merged(self, part: Part) -> Any:
        base, ours, theirs = (facts.get(part) for facts in (self._base, self._ours, self._theirs))
        if ours == theirs or theirs == base:
            return ours
        if ours == base:
            return theirs
        return _united(part, base, ours, theirs)

    def clashes(self) -> Iterator[str]:
        """Dropped against changed, added twice and not alike, changed twice and not alike."""
        explained: list[Part] = []
        for thing in sorted(_things(self._base) | _things(self._ours) | _things(self._theirs), key=_depth):
            if any(thing[: len(each)] == each for each in explained):
                continue
            reason = self._clash_of(thing)
            if reason is not None:
                explained.append(thing)
                yield f"{_said(thing)} {reason}"
        for part in sorted(self._changed_by_both(), key=str):
            if not any(part[: len(each)] == each for each in explained):
                yield f"{_said(part)} was changed by both sides, and not alike"

    def _clash_of(self, thing: Part) -> str | None:
        base, ours, theirs = (_below(facts, thing) for facts in (self._base, self._ours, self._theirs))
        if not base:
            return "was added by both sides, and not alike" if ours and theirs and ours != theirs else None
        for dropped, other in ((ours, theirs), (theirs, ours)):
            if not dropped and other and other != base:
                return "was dropped by one side and changed by the other"
        return None

    def _changed_by_both(self) -> Iterator[Part]:
        for part in {**self._base, **self._ours, **self._theirs}:
            base, ours, theirs = (facts.get(part) for facts in (self._base, self._ours, self._theirs))
            if ours not in (theirs, base) and theirs != base and not _are_united(part, base, ours, theirs):
                yield part


def _united(part: Part, base: Any, ours: Any, theirs: Any) -> Any:
    """Sets of enum values are merged value by value; of anything else, ours."""
    if _are_united(part, base, ours, theirs):
        return (ours & theirs) | (ours - base) | (theirs - base)
    return ours


def _are_united(part: Part, *values: Any) -> bool:
    return part[-1] == VALUES and all(isinstance(value, frozenset) for value in values)


def _things(facts: Mapping[Part, Any]) -> set[Part]:
    """The types and properties that the facts are about."""
    return {part[:1] for part in facts} | {part[:3] for part in facts if part[1] == PROPERTY}


def _below(facts: Facts, thing: Part) -> Facts:
    return {part: value for part, value in facts.items() if part[: len(thing)] == thing}


def _depth(thing: Part) -> tuple[int, Part]:
    return len(thing), thing


def _said(part: Part) -> str:
    kind, _, name = part[0].removeprefix("+").partition(":")
    if len(part) == 1:
        return f"{kind} type {name}"
    if part[1] != PROPERTY:
        return f"{part[1]} of {kind} type {name}"
    prop = f"{name}.{part[2].removeprefix('+')}"
    return f"property {prop}" if len(part) == 3 else f"{part[3]} of property {prop}"
