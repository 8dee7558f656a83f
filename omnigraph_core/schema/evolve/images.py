"""How each table comes to its new shape: the half of a plan that data is moved by.

The image of a table says where every new column comes from. It is what questions are asked of,
and what an apply builds, so the two cannot disagree.
"""

from __future__ import annotations

from omnigraph_core.records import dataclass
from omnigraph_core.schema.defaults import DefaultValue, default_of
from omnigraph_core.schema.model import EntityType, Property


@dataclass(frozen=True, slots=True)
class Column:
    """A property after the migration, and the one it was.

    Without an `origin` the column is new: filled with the default, else null. A column that is
    not `known` has a refused change or hint; nothing can be said of its values.
    """

    prop: Property
    origin: Property | None
    known: bool = True

    @property
    def fill(self) -> DefaultValue | None:
        """What existing rows get in a new column, as a JSON record would give it; None for null."""
        return default_of(self.prop) if self.origin is None else None

    @property
    def is_null(self) -> bool:
        """Is there no value in any row?"""
        return self.origin is None and self.fill is None

    @property
    def widened(self) -> bool:
        """Must every value be written again? Enum and String are stored alike."""
        return self.origin is not None and self.origin.type.scalar is not self.prop.type.scalar

    @property
    def is_same(self) -> bool:
        """Is the stored column exactly what it was?"""
        origin = self.origin
        return (
            origin is not None
            and origin.name == self.prop.name
            and origin.type.nullable == self.prop.type.nullable
            and not self.widened
        )


@dataclass(frozen=True, slots=True)
class TableImage:
    """A table of the new schema. Without an `origin` it is new and empty.

    `id`, and `src` and `dst` of edges, never change. `dropped` are old properties with no place
    in the new table.
    """

    entity: EntityType
    origin: EntityType | None
    columns: tuple[Column, ...]
    dropped: tuple[Property, ...] = ()

    @property
    def is_renamed(self) -> bool:
        return self.origin is not None and self.origin.name != self.entity.name

    @property
    def is_same(self) -> bool:
        """Does the stored table keep its columns? It may still have another name."""
        return self.origin is not None and not self.dropped and all(c.is_same for c in self.columns)

    def column(self, name: str) -> Column | None:
        """The column of a property; None for `id`, `src` and `dst`."""
        return next((column for column in self.columns if column.prop.name == name), None)


def new_table(entity: EntityType) -> TableImage:
    return TableImage(entity, None, tuple(Column(prop, None) for prop in entity.properties))
