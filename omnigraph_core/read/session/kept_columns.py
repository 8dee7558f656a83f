"""Properties and positions of the entities a query has met, by their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph_core.read.columns.values import value_sizes
from omnigraph_core.schema import EntityType, NodeType, Scalar
from omnigraph_core.topology.arrays import in_arrow

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.topology.arrays import IntArray


# Fewer than such a part of a type are found by sorting them, not by an array of all of it.
_FEW = 64


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
        return self._whole().take(in_arrow(self.slots[codes]))

    def sizes(self, codes: IntArray) -> IntArray | int:
        """How many bytes each of the values takes, as `value_sizes` says it."""
        return value_sizes(self._whole(), self.slots[codes])

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)

    def _whole(self) -> pa.Array:
        if len(self.pieces) > 1:
            self.pieces = [pa.concat_arrays(self.pieces)]
        return self.pieces[0]


class Positions:
    """Where entities that have been met are among all of their type, both ways; -1 for not met."""

    __slots__ = ("_codes", "_count", "_order", "positions")

    def __init__(self, count: int) -> None:
        self._count = count
        self._codes: npt.NDArray[np.int32] | None = None
        """By position; made once many have been met, as it is as long as the type is large."""
        self._order: IntArray | None = None
        self.positions: IntArray = np.zeros(0, np.int64)

    def add(self, positions: IntArray) -> None:
        """The next codes are at these positions; an entity that is not in the table at all has none."""
        first = len(self.positions)
        self.positions = np.concatenate([self.positions, positions])
        self._order = None
        if self._codes is not None:
            self._enter(first)

    def codes_at(self, positions: IntArray) -> IntArray:
        """The codes of what is at these positions, of which -1 has none."""
        if self._codes is None and (len(self.positions) + len(positions)) * _FEW > self._count:
            self._codes = np.full(self._count, -1, np.int32)
            self._enter(0)
        if self._codes is not None:
            found: IntArray = self._codes[positions].astype(np.int64)
            found[positions < 0] = -1
            return found
        if not len(self.positions):
            return np.full(len(positions), -1, np.int64)
        if self._order is None:
            self._order = np.argsort(self.positions, kind="stable").astype(np.int64)
        ordered = self.positions[self._order]
        at = np.minimum(np.searchsorted(ordered, positions), len(ordered) - 1)
        return np.where((ordered[at] == positions) & (positions >= 0), self._order[at], -1)

    def _enter(self, first: int) -> None:
        assert self._codes is not None
        fresh = self.positions[first:]
        codes = np.arange(first, len(self.positions), dtype=np.int32)
        self._codes[fresh[fresh >= 0]] = codes[fresh >= 0]


def names_of_id(entity: EntityType) -> list[str]:
    """A text that is the whole key of a node is its id, letter for letter; nothing else need be read."""
    key = entity.key if isinstance(entity, NodeType) else None
    if key is None or len(key.columns) != 1:
        return []
    prop = entity.find_property(key.columns[0])
    return [prop.name] if prop is not None and prop.type.scalar is Scalar.STRING else []
