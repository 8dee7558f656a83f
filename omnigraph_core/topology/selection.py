"""Which edges a step follows."""

from __future__ import annotations

from omnigraph_core.query.checked import Direction
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType
from omnigraph_core.schema.model import DST_COLUMN, SRC_COLUMN


@dataclass(frozen=True, slots=True)
class EdgeSelection:
    """Edges of one type followed one way; `where` is a filter on them as SQL.

    With `by_edge` every edge counts, otherwise only who is connected to whom.
    """

    edge: EdgeType
    direction: Direction
    where: str | None = None
    by_edge: bool = False
    columns: tuple[str, ...] = ()

    @property
    def near(self) -> str:
        """The type of the nodes that edges are followed from."""
        return self.edge.to_type if self.direction is Direction.BACKWARD else self.edge.from_type

    @property
    def far(self) -> str:
        return self.edge.from_type if self.direction is Direction.BACKWARD else self.edge.to_type

    @property
    def sides(self) -> list[str]:
        """The columns of an edge whose node it is followed from."""
        if self.direction is Direction.BOTH:
            return [SRC_COLUMN, DST_COLUMN]
        return [SRC_COLUMN if self.direction is Direction.FORWARD else DST_COLUMN]

    @property
    def is_plain(self) -> bool:
        """All edges of the type, and only who is connected to whom."""
        return self.where is None and not self.by_edge
