"""The coercion table: what each type takes, what it becomes, what it is refused for."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_core.schema import Property, PropertyType, Scalar
from omnigraph_core.schema.arrow import arrow_type
from omnigraph_core.times import parse_date, parse_datetime
from omnigraph_core.values.coerce import CoercionError, coerce
from omnigraph_core.values.columns import column
from omnigraph_core.values.shown import clipped

S = Scalar


def of(scalar: Scalar, **more: object) -> PropertyType:
    return PropertyType(scalar, **more)  # type: ignore[arg-type]


INTEGERS = {
    S.I32: (-(2**31), 2**31 - 1),
    S.I64: (-(2**63), 2**63 - 1),
    S.U32: (0, 2**32 - 1),
    S.U64: (0, 2**64 - 1),
}


@pytest.mark.parametrize("scalar", INTEGERS)
def test_integers_take_their_range_and_nothing_beyond(scalar: Scalar) -> None:
    low, high = INTEGERS[scalar]
    values = [low, high, 0]
    assert [coerce(value, of(scalar)) for value in values] == values
    assert column(values, Property("p", of(scalar))).to_pylist() == values
    for beyond in (low - 1, high + 1, 10**400):
        with pytest.raises(CoercionError, match=f"is out of range for {scalar.value}$"):
            coerce(beyond, of(scalar))


@pytest.mark.parametrize("scalar", INTEGERS)
@pytest.mark.parametrize("value", [30.0, True, "30", [1], {}])
def test_what_is_no_integer(scalar: Scalar, value: object) -> None:
    with pytest.raises(CoercionError, match=f"^expects {scalar.value}, got "):
        coerce(value, of(scalar))


@pytest.mark.parametrize(
    ("value", "type_", "stored"),
    [
        ("x", of(S.STRING), "x"),
        ("", of(S.STRING), ""),
        ("\0", of(S.STRING), "\0"),
        ("c", of(S.STRING, enum_values=("a", "b")), "c"),  # membership is validation's business
        (True, of(S.BOOL), True),
        (1, of(S.F64), 1.0),
        (2**53 + 1, of(S.F64), 2.0**53),
        (0.1, of(S.F64), 0.1),
        (0.1, of(S.F32), struct.unpack("f", struct.pack("f", 0.1))[0]),
        (3.4028235e38, of(S.F32), 3.4028234663852886e38),
        (1e-46, of(S.F32), 0.0),
        ("1970-01-02", of(S.DATE), 1),
        ("0001-01-01", of(S.DATE), -719162),
        (-719162, of(S.DATE), -719162),
        ("1970-01-01", of(S.DATE_TIME), 0),
        (-1, of(S.DATE_TIME), -1),
        ([], of(S.I32, is_list=True), []),
        (["1970-01-02", 5], of(S.DATE, is_list=True), [1, 5]),
        ([1, 2.5], of(S.VECTOR, dimension=2), [1.0, 2.5]),
        ("base64:QQ==", of(S.BLOB), b"A"),
        ("base64:", of(S.BLOB), b""),
        (None, of(S.I32), None),
        (None, of(S.VECTOR, dimension=2), None),
        (None, of(S.I32, is_list=True), None),
    ],
)
def test_what_a_value_becomes(value: object, type_: PropertyType, stored: object) -> None:
    assert coerce(value, type_) == stored
    array = column([coerce(value, type_), None], Property("p", type_))
    assert array.type == arrow_type(type_)
    assert array.null_count == (2 if value is None else 1)


@pytest.mark.parametrize(
    ("value", "type_", "message"),
    [
        (5, of(S.STRING), "expects String, got integer 5"),
        (5, of(S.STRING, nullable=True), "expects String, got integer 5"),
        (5, of(S.STRING, enum_values=("a", "b")), "expects enum(a, b), got integer 5"),
        ("\ud800", of(S.STRING), "text with half of a surrogate pair is not valid Unicode"),
        (1, of(S.BOOL), "expects Bool, got integer 1"),
        ("1", of(S.F64), "expects F64, got string '1'"),
        (True, of(S.F64), "expects F64, got boolean true"),
        (math.inf, of(S.F64), "inf is not a finite F64 number"),
        (math.nan, of(S.F32), "nan is not a finite F32 number"),
        (3.4028236e38, of(S.F32), "3.4028236e+38 is not a finite F32 number"),
        (10**309, of(S.F64), "an integer of hundreds of digits is not a finite F64 number"),
        ("2024-13-01", of(S.DATE), "invalid Date literal '2024-13-01'"),
        ("2024-01-01T00:00:00Z", of(S.DATE), "invalid Date literal '2024-01-01T00:00:00Z'"),
        (2932897, of(S.DATE), "day 2932897 is outside the years 0001 to 9999"),
        (1.0, of(S.DATE), "expects Date, got number 1.0"),
        (True, of(S.DATE), "expects Date, got boolean true"),
        (10**15, of(S.DATE_TIME), "millisecond 1000000000000000 is outside the years 0001 to 9999"),
        ("now", of(S.DATE_TIME), "invalid DateTime literal 'now'"),
        ("x", of(S.I32, is_list=True), "expects a JSON array, got string 'x'"),
        ([1, None], of(S.I32, is_list=True), "item 1: null is not allowed in a list"),
        ([[1]], of(S.I32, is_list=True), "item 0: expects I32, got array"),
        ([1], of(S.VECTOR, dimension=2), "expects 2 dimensions, got 1"),
        ([1, math.inf], of(S.VECTOR, dimension=2), "item 1: inf is not a finite F32 number"),
        ([1, 1e39], of(S.VECTOR, dimension=2), "item 1: 1e+39 is not a finite F32 number"),
        ([1, None], of(S.VECTOR, dimension=2), "item 1: null is not allowed in a list"),
        ({}, of(S.VECTOR, dimension=2), "expects a JSON array, got object"),
        ("base64:QQ", of(S.BLOB), "invalid base64 blob data"),
        ("base64:é", of(S.BLOB), "invalid base64 blob data"),
        ("/a", of(S.BLOB), "external URIs are not allowed: '/a' (inline bytes are base64:…)"),
        (5, of(S.BLOB), "expects Blob, got integer 5"),
    ],
)
def test_what_a_value_is_refused_for(value: object, type_: PropertyType, message: str) -> None:
    with pytest.raises(CoercionError) as caught:
        coerce(value, type_)
    assert str(caught.value) == message


def test_a_blob_column_is_inline_bytes() -> None:
    array = column([b"A", None, b""], Property("p", of(S.BLOB)))
    empty = {"uri": None, "position": None, "size": None}
    assert array.to_pylist() == [{"data": b"A", **empty}, None, {"data": b"", **empty}]


def test_long_and_unprintable_values_stay_readable() -> None:
    assert clipped("a\nb\x1b[31m\ud800") == "a\\nb\\x1b[31m\\ud800"
    assert clipped("x" * 1000) == "x" * 60 + "…"


@given(st.dates())
def test_every_date_is_read_back(day: date) -> None:
    days = parse_date(day.isoformat())
    assert pa.array([days], pa.date32()).to_pylist() == [day]


@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)),
    st.none() | st.integers(-23 * 60 - 59, 23 * 60 + 59),
    st.sampled_from(["T", " "]),
)
def test_every_moment_is_read_as_python_reads_it(
    moment: datetime, offset: int | None, separator: str
) -> None:
    zone = timezone.utc if offset is None else timezone(timedelta(minutes=offset))
    text = (moment if offset is None else moment.replace(tzinfo=zone)).isoformat(separator)
    exact = moment.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert parse_datetime(text) == exact // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00.0019999999", 1),
        ("1969-12-31T23:59:59.9999", -1),
        ("1970-01-01T01", 3_600_000),
        ("1970-01-01t00:01z", 60_000),
        ("1970-01-01T00:00:00+0530", -19_800_000),
        ("1970-01-01T00-01", 3_600_000),
        ("0001-01-01T00:00:00Z", -62135596800000),
        ("9999-12-31T23:59:59.999Z", 253402300799999),
        ("0001-01-01T00:00:00+00:01", None),
        ("9999-12-31T23:59:59-00:01", None),
        ("1970-01-01T24:00:00", None),
        ("2016-12-31T23:59:60Z", None),
        ("1970-01-01T00:00:00+24:00", None),
        ("1970-01-01Z", None),
        ("1970-01-01T", None),
        ("1970-01-01T00:00:00.", None),
        ("19700101T000000", None),
        ("1970-1-1", None),
        ("１970-01-01", None),
        ("1970-01-01\n", None),
        ("", None),
    ],
)
def test_moments_at_the_edges(text: str, milliseconds: int | None) -> None:
    assert parse_datetime(text) == milliseconds
