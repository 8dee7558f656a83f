"""Predicates against real Lance tables, with and without an index: the rows Python would pick."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from functools import cache
from itertools import count
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph_core.query import NO_PARAMS, CheckedMutation, Operator, bind_params
from omnigraph_core.query.checked import Condition, DeleteEntity, NodeBinding, Plain
from omnigraph_core.query.predicate import (
    NEVER,
    NoMatch,
    Sql,
    comparison_sql,
    condition_sql,
    flipped,
    membership_sql,
    pattern_sql,
    within_text_sql,
)
from omnigraph_core.query.temporal import from_milliseconds, to_milliseconds
from omnigraph_core.schema import PropertyType, Scalar, compile_schema
from omnigraph_core.schema.arrow import arrow_type
from omnigraph_core.values.scalars import single
from tests.unit.query_sources import match, mutation

NOW = datetime(2024, 5, 1, tzinfo=timezone.utc)
# A keyword of SQL in mixed case: quoting must keep it from being either.
COLUMN = "orderBy"
TEXTS = ["", "a", "A", "it's", 'b\\n"x`y', "ü", "a\nb", "%_", "\x00z", "\U0001f600", "--", "ab"]
NUMBERS: list[int | float] = [-(2**63), -(2**31) - 1, -(2**31), -1, -0.5, 0, 0.1, single(0.1), 2, 2.5, 3]
NUMBERS += [2**31, 2**32, 2**24 + 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 1e300, 5e-324, 3.5e38, -1e308]
STORED: dict[Scalar, list[Any]] = {
    Scalar.I32: [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1],
    Scalar.I64: [-(2**63), -(2**53) - 1, -1, 0, 2, 3, 2**53 + 1, 2**63 - 1],
    Scalar.U32: [0, 1, 2, 3, 2**32 - 1],
    Scalar.U64: [0, 1, 2, 3, 2**63, 2**64 - 1],
    Scalar.F32: [single(-0.1), -0.0, 0.0, single(0.1), 2.5, single(3.4e38), 2.0**24],
    Scalar.F64: [-0.1, -0.0, 0.0, 0.1, 2.5, 1e300, 2.0**53, 5e-324],
    Scalar.BOOL: [True, False],
    Scalar.STRING: TEXTS,
    Scalar.DATE: [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)],
    Scalar.DATE_TIME: [
        from_milliseconds(ms)
        for ms in (-62135596800000, -1, 0, 1, 1704067200123, 1704067200124, 253402300799999)
    ],
}
COMPARISONS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}
_names = count()


def dataset(column: pa.Array, index: str | None = None) -> lance.LanceDataset:
    table = pa.table({"row": list(range(len(column))), COLUMN: column})
    made = lance.write_dataset(table, f"memory://{next(_names)}")
    if index is not None:
        made.create_scalar_index(COLUMN, index)
    return made


def rows(target: lance.LanceDataset, sql: Sql) -> list[int]:
    if isinstance(sql, NoMatch):
        return []
    found: list[int] = (
        target.scanner(columns=["row"], filter=sql, prefilter=True).to_table()["row"].to_pylist()
    )
    return sorted(found)


def column_of(scalar: Scalar, values: list[Any]) -> pa.Array:
    type_ = arrow_type(PropertyType(scalar))
    if scalar is not Scalar.DATE_TIME:
        return pa.array(values, type_)
    milliseconds = pa.array([None if v is None else to_milliseconds(v) for v in values], pa.int64())
    return pa.Array.from_buffers(type_, len(values), milliseconds.buffers(), milliseconds.null_count)


@cache
def table_of(scalar: Scalar, index: str | None) -> lance.LanceDataset:
    """The stored values of a type, and a null."""
    return dataset(column_of(scalar, [*STORED[scalar], None]), index)


@pytest.mark.parametrize("index", [None, "BTREE"])
@pytest.mark.parametrize("scalar", STORED)
def test_comparisons(scalar: Scalar, index: str | None) -> None:
    """Numbers are compared exactly, whatever their width, but those beside an F32 as an F32 has them.

    A null is never in the answer.
    """
    stored = STORED[scalar]
    for value in NUMBERS if scalar.is_numeric else stored:
        for op, holds in COMPARISONS.items():
            sql = comparison_sql(COLUMN, PropertyType(scalar, nullable=True), op, value)
            asked = single(value) if scalar is Scalar.F32 else value
            expected = [row for row, held in enumerate(stored) if holds(held, asked)]
            assert rows(table_of(scalar, index), sql) == expected, (value, sql)


@pytest.mark.parametrize("index", [None, "BTREE"])
def test_parts_of_texts(index: str | None) -> None:
    target = table_of(Scalar.STRING, index)
    type_ = PropertyType(Scalar.STRING)
    for value in TEXTS:
        contains = comparison_sql(COLUMN, type_, Operator.CONTAINS, value)
        starts = comparison_sql(COLUMN, type_, Operator.STARTS_WITH, value)
        assert rows(target, contains) == [row for row, held in enumerate(TEXTS) if value in held], value
        assert rows(target, starts) == [row for row, held in enumerate(TEXTS) if held.startswith(value)], (
            value
        )
        within = within_text_sql(Operator.CONTAINS, value, COLUMN)
        begins = within_text_sql(Operator.STARTS_WITH, value, COLUMN)
        assert rows(target, within) == [row for row, held in enumerate(TEXTS) if held in value], value
        assert rows(target, begins) == [row for row, held in enumerate(TEXTS) if value.startswith(held)], (
            value
        )


@pytest.mark.parametrize("scalar", STORED)
def test_membership(scalar: Scalar) -> None:
    """Each row is a list of one stored value and a null; the last row is no list at all."""
    stored = STORED[scalar]
    type_ = arrow_type(PropertyType(scalar))
    flat = column_of(scalar, [item for value in stored for item in (value, None)])
    offsets = pa.array([*range(0, 2 * len(stored) + 1, 2)], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, flat, type=pa.list_(pa.field("item", type_)))
    target = dataset(pa.concat_arrays([lists, pa.array([None], lists.type)]))
    for value in NUMBERS if scalar.is_numeric else stored:
        sql = membership_sql(COLUMN, PropertyType(scalar, is_list=True), value)
        asked = single(value) if scalar is Scalar.F32 else value
        assert rows(target, sql) == [row for row, held in enumerate(stored) if held == asked], (value, sql)


def test_a_number_beyond_singles_is_not_taken_for_infinity() -> None:
    type_ = PropertyType(Scalar.F32)
    assert comparison_sql("f", type_, Operator.EQ, 1e300) is NEVER
    assert comparison_sql("f", type_, Operator.LT, 1e300) == "`f` <= 3.4028234663852886e+38"


def test_null_matches_nothing() -> None:
    type_ = PropertyType(Scalar.I32, nullable=True)
    assert all(comparison_sql(COLUMN, type_, op, None) is NEVER for op in Operator)
    assert membership_sql(COLUMN, type_, None) is NEVER
    assert within_text_sql(Operator.CONTAINS, None, COLUMN) is NEVER


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        (Operator.EQ, 2.5, NEVER),
        (Operator.NE, 2.5, "`age` IS NOT NULL"),
        (Operator.GT, 2.5, "`age` > 2"),
        (Operator.GE, -2.5, "`age` > -3"),
        (Operator.LT, 3000000000, "`age` <= 2147483647"),
        (Operator.EQ, 2.0, "`age` = 2"),
        (Operator.EQ, 3000000000, NEVER),
    ],
)
def test_numbers_an_integer_column_cannot_hold(op: Operator, value: Plain, expected: Sql) -> None:
    assert comparison_sql("age", PropertyType(Scalar.I32), op, value) == expected


@pytest.mark.parametrize("scalar", [Scalar.DATE, Scalar.DATE_TIME, Scalar.I64, Scalar.STRING])
def test_comparisons_use_the_index(scalar: Scalar) -> None:
    value = STORED[scalar][0]
    sql = comparison_sql(COLUMN, PropertyType(scalar), Operator.EQ, value)
    scanner = table_of(scalar, "BTREE").scanner(columns=["row"], filter=sql, prefilter=True)
    assert "ScalarIndexQuery" in scanner.explain_plan(), sql


def condition_of(query: CheckedMutation) -> Condition:
    (statement,) = query.statements
    assert isinstance(statement, DeleteEntity)
    return statement.condition


def test_conditions_and_patterns_of_checked_queries() -> None:
    query = mutation("query q($a: I32?) { delete Person where age > $a }")
    condition = condition_of(query)
    assert condition_sql(condition, bind_params(query.parameters, {"a": 3}), NOW) == "`age` > 3"
    assert condition_sql(condition, bind_params(query.parameters, {}), NOW) is NEVER
    (binding,) = match('$p: Person { tags: "b", name: "it\'s" }')
    assert isinstance(binding, NodeBinding)
    assert [pattern_sql(test, NO_PARAMS, NOW) for test in binding.tests] == [
        "array_has(`tags`, 'b')",
        "`name` = 'it''s'",
    ]


def test_now_in_a_condition() -> None:
    schema = compile_schema("node N { k: String @key at: DateTime }")
    condition = condition_of(mutation("query q() { delete N where at <= now() }", schema))
    target = dataset(column_of(Scalar.DATE_TIME, [NOW, NOW + timedelta(milliseconds=1), None]))
    sql = condition_sql(condition, NO_PARAMS, NOW)
    assert isinstance(sql, str)
    assert rows(target, sql.replace("`at`", f"`{COLUMN}`")) == [0]


@pytest.mark.parametrize("left", [1, 2, 3])
def test_flipped_comparisons_mean_the_same(left: int) -> None:
    for op, holds in COMPARISONS.items():
        assert holds(left, 2) == COMPARISONS[flipped(op)](2, left)
