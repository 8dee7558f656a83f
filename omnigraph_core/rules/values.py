"""Rules about single rows: required, enum, @range, @check; checked column by column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.rules.changeset import TableChange
from omnigraph_core.rules.violations import Violations
from omnigraph_core.schema import Check, NodeType, Property, Range, Scalar
from omnigraph_core.values.arrays import any_true, whole
from omnigraph_core.values.shown import clipped


def check_values(change: TableChange, violations: Violations) -> None:
    """Add a violation for every value that its property forbids."""
    for prop in change.entity.properties:
        if not prop.type.nullable:
            _check_required(change, prop, violations)
        if prop.type.enum_values is not None:
            _check_enum(change, prop, prop.type.enum_values, violations)
    if isinstance(change.entity, NodeType):
        for range_ in change.entity.ranges:
            _check_range(change, range_, violations)
        for check in change.entity.checks:
            _check_pattern(change, check, violations)


def _check_required(change: TableChange, prop: Property, violations: Violations) -> None:
    column = change.rows.column(prop.name)
    if column.null_count:
        text = f"{_KINDS.get(prop.type.scalar, '')}property is required, but has no value"
        change.report(violations, _where(column.is_null()), prop.name, lambda _: text)


_KINDS = {Scalar.BLOB: "Blob ", Scalar.VECTOR: "Vector "}


def _check_enum(change: TableChange, prop: Property, values: tuple[str, ...], violations: Violations) -> None:
    column = change.rows.column(prop.name)
    bad = pc.and_(pc.is_valid(column), pc.invert(pc.is_in(column, value_set=pa.array(values, pa.utf8()))))
    if not any_true(bad):
        return
    expected, subject = ", ".join(values), f"{change.entity.name}.{prop.name}"

    def describe(row: int) -> str:
        return (
            f"invalid enum value '{clipped(column[row].as_py())}' for {subject}: expected one of {expected}"
        )

    change.report(violations, _where(bad), prop.name, describe)


def _check_range(change: TableChange, range_: Range, violations: Violations) -> None:
    column = change.rows.column(range_.property)
    for bad in beyond_bounds(column, range_):
        if any_true(bad):
            change.report(
                violations, _where(bad), range_.property, lambda row: _out(change, column[row], range_)
            )


def beyond_bounds(column: Any, range_: Range) -> list[Any]:
    """Which values each bound of the range forbids, the lower one first; null is allowed.

    Bounds are inclusive, values compared as 64-bit floats; a NaN is in no range.
    """
    values = pc.cast(column, pa.float64(), safe=False)
    within = []
    if range_.minimum is not None:
        within.append(pc.greater_equal(values, float(range_.minimum)))
    if range_.maximum is not None:
        within.append(pc.less_equal(values, float(range_.maximum)))
    # A comparison with null is null, which is no violation.
    return [pc.fill_null(pc.invert(bound), False) for bound in within]


def _out(change: TableChange, value: pa.Scalar, range_: Range) -> str:
    number, subject = value.as_py(), f"{change.entity.name}.{range_.property}"
    if range_.minimum is not None and not number >= range_.minimum:
        return f"@range violation on {subject}: value {number} < min {range_.minimum}"
    return f"@range violation on {subject}: value {number} > max {range_.maximum}"


def _check_pattern(change: TableChange, check: Check, violations: Violations) -> None:
    column = change.rows.column(check.property)
    bad = unmatched(column, check)
    if not any_true(bad):
        return
    subject = f"@check violation on {change.entity.name}.{check.property}"

    def describe(row: int) -> str:
        value = clipped(column[row].as_py())
        return f"{subject}: value '{value}' does not match pattern '{check.pattern}'"

    change.report(violations, _where(bad), check.property, describe)


def unmatched(column: Any, check: Check) -> Any:
    """In which values the pattern is not found; null is allowed."""
    return pc.fill_null(pc.invert(pc.match_substring_regex(column, pattern=check.pattern)), False)


def _where(mask: Any) -> pa.Array:
    """The indexes of the true entries."""
    return pc.indices_nonzero(whole(mask))
