"""Properties and positions of the entities a query has met, by their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph_core.schema import EntityType, NodeType, Scalar

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.topology.arrays import IntArray


class KeptColumn:
    """Values of one property; `slots` says for each code where its value is, -1 for not read yet."""

    __slots__ = ("length", "pieces", "slots")

    def __init__(self) -> None:
        self.slots: IntArray = np.zeros(0, np.int64)
        self.pieces: list[pa.Array] = []
        self.length = 0

    def grow(self, size: int) -> None:
        missing = size - len(self.slots)
        if missing > 0:
            self.slots = np.concatenate([self.slots, np.full(missing, -1, np.int64)])

    def has(self, codes: IntArray) -> bool:
        """Are the values of all of these known?"""
        if not self.pieces or int(codes.max(initial=-1)) >= len(self.slots):
            return False
        return bool((self.slots[codes] >= 0).all())

    def add(self, codes: IntArray, values: pa.Array) -> None:
        self.slots[codes] = np.arange(self.length, self.length + len(values))
        self.pieces.append(values)
        self.length += len(values)

    def take(self, codes: IntArray) -> pa.Array:
        if len(self.pieces) > 1:
            self.pieces = [pa.concat_arrays(self.pieces)]
        return self.pieces[0].take(pa.array(self.slots[codes]))


class Positions:
    """Where entities that have been met are among all of their type, both ways; -1 for not met."""

    __slots__ = ("codes", "positions")

    def __init__(self, count: int) -> None:
        self.codes: npt.NDArray[np.int32] = np.full(count, -1, np.int32)
        self.positions: IntArray = np.zeros(0, np.int64)

    def add(self, positions: IntArray) -> None:
        """The next codes are at these positions; an entity that is not in the table at all has none."""
        first = len(self.positions)
        codes = np.arange(first, first + len(positions), dtype=np.int32)
        self.codes[positions[positions >= 0]] = codes[positions >= 0]
        self.positions = np.concatenate([self.positions, positions])


def names_of_id(entity: EntityType) -> list[str]:
    """A text that is the whole key of a node is its id, letter for letter; nothing else need be read."""
    key = entity.key if isinstance(entity, NodeType) else None
    if key is None or len(key.columns) != 1:
        return []
    prop = entity.find_property(key.columns[0])
    return [prop.name] if prop is not None and prop.type.scalar is Scalar.STRING else []
