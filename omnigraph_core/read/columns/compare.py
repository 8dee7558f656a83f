"""Comparing two values of each row, column by column.

Numbers are compared exactly, whatever their types. As in Lance's filters, NaN equals
itself and is greater than every other number. Null on either side is not true.
"""

from __future__ import annotations

import operator as python_operators
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.query.checked import Plain
from omnigraph_core.query.syntax import Operator
from omnigraph_core.read.columns.values import python_values

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.topology.arrays import BoolArray

_SIGNS = {
    Operator.EQ: "eq",
    Operator.NE: "ne",
    Operator.LT: "lt",
    Operator.LE: "le",
    Operator.GT: "gt",
    Operator.GE: "ge",
}


def holds(left: Plain, operator: Operator, right: Plain) -> bool:
    """The comparison of two values that are known beforehand."""
    if left is None or right is None:
        return False
    if operator is Operator.CONTAINS:
        assert isinstance(left, str | tuple)
        return right in left
    if operator is Operator.STARTS_WITH:
        assert isinstance(left, str)
        assert isinstance(right, str)
        return left.startswith(right)
    return bool(getattr(python_operators, _SIGNS[operator])(left, right))


def compared(left: pa.Array, operator: Operator, right: pa.Array) -> BoolArray:
    """For each row, does the comparison hold?"""
    if operator in (Operator.CONTAINS, Operator.STARTS_WITH):
        return _within(left, operator, right)
    known = pc.and_(pc.is_valid(left), pc.is_valid(right)).to_numpy(zero_copy_only=False)
    if pa.types.is_integer(left.type) or pa.types.is_floating(left.type):
        order = _numeric_order(_numbers(left), _numbers(right))
        answer = getattr(python_operators, _SIGNS[operator])(order, 0)
    else:
        function = {"eq": pc.equal, "ne": pc.not_equal, "lt": pc.less, "le": pc.less_equal}
        function |= {"gt": pc.greater, "ge": pc.greater_equal}
        answer = pc.fill_null(function[_SIGNS[operator]](left, right), False).to_numpy(zero_copy_only=False)
    return np.asarray(answer & known, np.bool_)


def among(items: pa.Array, values: pa.Array) -> BoolArray:
    """For each value, is it one of the items of the first list?"""
    wanted = frozenset(python_values(items)[0] or ())
    return np.fromiter((value in wanted for value in python_values(values)), np.bool_, len(values))


def _numbers(values: pa.Array) -> npt.NDArray[Any]:
    return pc.fill_null(values, 0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _numeric_order(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """-1, 0 or 1 for each pair."""
    if left.dtype.kind == "f" and right.dtype.kind == "f":
        return _float_order(left.astype(np.float64), right.astype(np.float64))
    if left.dtype.kind == "f":
        return -_mixed_order(right, left.astype(np.float64))
    if right.dtype.kind == "f":
        return _mixed_order(left, right.astype(np.float64))
    if left.dtype.kind == right.dtype.kind:
        return _sign(left > right, left < right)
    if left.dtype.kind == "u":
        return -_signed_order(right, left)
    return _signed_order(left, right)


def _signed_order(signed: npt.NDArray[Any], unsigned: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    magnitude = np.maximum(signed, 0).astype(np.uint64)
    wide = unsigned.astype(np.uint64)
    return _sign((signed >= 0) & (magnitude > wide), (signed < 0) | (magnitude < wide))


def _mixed_order(whole: npt.NDArray[Any], real: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """Rounding the whole number decides unless it makes the two equal; then both are whole."""
    rounded = whole.astype(np.float64)
    order = _float_order(rounded, real)
    close = (order == 0) & (np.abs(rounded) >= 2**53)
    for position in np.flatnonzero(close):
        exact, other = int(whole[position]), int(real[position])
        order[position] = (exact > other) - (exact < other)
    return order


def _float_order(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    odd_left, odd_right = np.isnan(left), np.isnan(right)
    greater = (left > right) | (odd_left & ~odd_right)
    less = (left < right) | (odd_right & ~odd_left)
    return _sign(greater, less)


def _sign(greater: npt.NDArray[Any], less: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    return greater.astype(np.int8) - less.astype(np.int8)


def _within(left: pa.Array, operator: Operator, right: pa.Array) -> BoolArray:
    """Is one text in another, or a value among the items of a list; row by row, as there is no kernel."""
    pairs = zip(python_values(left), python_values(right), strict=True)
    if operator is Operator.STARTS_WITH:
        found = (a is not None and b is not None and a.startswith(b) for a, b in pairs)
    else:
        found = (a is not None and b is not None and b in a for a, b in pairs)
    return np.fromiter(found, np.bool_, len(left))
