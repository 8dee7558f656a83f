"""Which old thing each new one is, for schemas whose tables can tell.

A hint is a wish that a file carries; it is not kept with a schema. Whoever compares two accepted
schemas asks the stored columns instead, and says here what they answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph_core.records import dataclass
from omnigraph_core.schema.evolve.names import Matching
from omnigraph_core.schema.model import EntityType, Schema


@dataclass(frozen=True, slots=True)
class Identity:
    """Of the types and properties of a schema, those that an older one has too.

    `types` has the old table key for a new one; `properties`, by new table key, the old name for a
    new one. What is not listed is new.
    """

    types: Mapping[str, str]
    properties: Mapping[str, Mapping[str, str]]

    def match_types(self, old: Sequence[EntityType], new: Sequence[EntityType]) -> Matching:
        names = {each.table_key: each.name for each in old}
        origins = {each.name: names.get(self.types.get(each.table_key, "")) for each in new}
        return _matching(list(names.values()), origins)

    def match_properties(self, old: EntityType, new: EntityType) -> Matching:
        known = self.properties.get(new.table_key, {})
        return _matching(
            [prop.name for prop in old.properties], {p.name: known.get(p.name) for p in new.properties}
        )


def by_name(old: Schema, new: Schema) -> Identity:
    """Everything is what it is called."""
    before = {each.table_key: each for each in old.types()}
    both = {each.table_key: before[each.table_key] for each in new.types() if each.table_key in before}
    properties = {
        each.table_key: same_names(both[each.table_key], each)
        for each in new.types()
        if each.table_key in both
    }
    return Identity({key: key for key in both}, properties)


def same_names(old: EntityType, new: EntityType) -> dict[str, str]:
    """Properties that both types have, each as what it is called."""
    return {prop.name: prop.name for prop in new.properties if old.find_property(prop.name) is not None}


def _matching(old: Sequence[str], origins: Mapping[str, str | None]) -> Matching:
    taken = set(origins.values())
    return Matching(origins, {}, tuple(name for name in old if name not in taken))
