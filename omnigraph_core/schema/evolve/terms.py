"""The words of a migration plan: how a drop drops, what a step costs, how much it can harm."""

from __future__ import annotations

from enum import StrEnum

from omnigraph_core.records import dataclass
from omnigraph_core.schema.annotations import TypeKind


class Mode(StrEnum):
    """What happens to dropped data: old commits keep it, or its bytes go with the next cleanup."""

    SOFT = "soft"
    HARD = "hard"


class Cost(StrEnum):
    """What a step writes, beyond the new schema itself."""

    NOTHING = "nothing"
    METADATA = "metadata only"
    COLUMN = "one column"
    TABLE = "the fragments that hold it"


class Tier(StrEnum):
    """How much a step can harm: not at all, not if the data allows it, or by its nature."""

    SAFE = "safe"
    VALIDATED = "validated"
    DESTRUCTIVE = "destructive"


class Code(StrEnum):
    """Changes that can lose or refuse data, by the numbers that scripts know."""

    DROP_NODE = "OG-DS-102"
    DROP_EDGE = "OG-DS-103"
    DROP_PROPERTY = "OG-DS-104"
    ADD_REQUIRED = "OG-MF-103"
    TIGHTEN_NULLABILITY = "OG-MF-104"
    CHANGE_TYPE = "OG-MF-106"

    @property
    def tier(self) -> Tier:
        validated = self in (Code.ADD_REQUIRED, Code.TIGHTEN_NULLABILITY)
        return Tier.VALIDATED if validated else Tier.DESTRUCTIVE


@dataclass(frozen=True, slots=True)
class Owner:
    """The type a step is about, under its new name."""

    kind: TypeKind
    name: str

    @property
    def stored(self) -> bool:
        """Interfaces have no table, so nothing about them is ever written."""
        return self.kind != "interface"

    def entity(self, property_name: str | None = None) -> str:
        """`node:Person` or `node:Person.age`, as refusals name what they refuse."""
        path = self.name if property_name is None else f"{self.name}.{property_name}"
        return f"{self.kind}:{path}"
