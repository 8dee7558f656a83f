"""Rules about one row at a time: required, enum, @range, @check. A column at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph_core.change.changeset import TableChange
from omnigraph_core.change.coerce import clipped
from omnigraph_core.change.violations import Violations
from omnigraph_core.schema import Check, NodeType, Property, Range, Scalar

if TYPE_CHECKING:
    import pyarrow as pa


def check_values(change: TableChange, violations: Violations) -> None:
    """Add a violation for every value that its own property forbids."""
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
    import pyarrow as pa
    import pyarrow.compute as pc

    column = change.rows.column(prop.name)
    bad = pc.and_(pc.is_valid(column), pc.invert(pc.is_in(column, value_set=pa.array(values, pa.utf8()))))
    if not pc.any(bad).as_py():
        return
    expected, subject = ", ".join(values), f"{change.entity.name}.{prop.name}"

    def describe(row: int) -> str:
        return (
            f"invalid enum value '{clipped(column[row].as_py())}' for {subject}: expected one of {expected}"
        )

    change.report(violations, _where(bad), prop.name, describe)


def _check_range(change: TableChange, range_: Range, violations: Violations) -> None:
    """Bounds are inclusive, values compared as 64-bit floats; a NaN is in no range."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = change.rows.column(range_.property)
    values = pc.cast(column, pa.float64(), safe=False)
    within = []
    if range_.minimum is not None:
        within.append(pc.greater_equal(values, float(range_.minimum)))
    if range_.maximum is not None:
        within.append(pc.less_equal(values, float(range_.maximum)))
    for bound in within:
        # A comparison with null is null, which is no violation.
        bad = pc.fill_null(pc.invert(bound), False)
        if pc.any(bad).as_py():
            change.report(
                violations, _where(bad), range_.property, lambda row: _out(change, column[row], range_)
            )


def _out(change: TableChange, value: pa.Scalar, range_: Range) -> str:
    number, subject = value.as_py(), f"{change.entity.name}.{range_.property}"
    if range_.minimum is not None and not number >= range_.minimum:
        return f"@range violation on {subject}: value {number} < min {range_.minimum}"
    return f"@range violation on {subject}: value {number} > max {range_.maximum}"


def _check_pattern(change: TableChange, check: Check, violations: Violations) -> None:
    import pyarrow.compute as pc

    column = change.rows.column(check.property)
    bad = pc.fill_null(pc.invert(pc.match_substring_regex(column, pattern=check.pattern)), False)
    if not pc.any(bad).as_py():
        return
    subject = f"@check violation on {change.entity.name}.{check.property}"

    def describe(row: int) -> str:
        value = clipped(column[row].as_py())
        return f"{subject}: value '{value}' does not match pattern '{check.pattern}'"

    change.report(violations, _where(bad), check.property, describe)


def _where(mask: Any) -> pa.Array:
    """The indexes of the true entries."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.indices_nonzero(mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask)
