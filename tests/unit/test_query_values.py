"""What literals, parameters and `now()` become, and which values a column takes."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest

from omnigraph_core.query import NO_PARAMS, UnfitValueError, assigned_value, bind_params, evaluate
from omnigraph_core.query.checked import CurrentTime, InsertNode, Plain
from omnigraph_core.query.temporal import parse_date_time, to_days, to_milliseconds
from omnigraph_core.schema import compile_schema
from tests.unit.query_sources import mutation

NOW = datetime(2024, 5, 1, 12, 0, 0, 123999, tzinfo=timezone(timedelta(hours=2)))
EVERYTHING = compile_schema("""
node All {
  s: String? b: Bool? i: I32? j: I64? u: U32? v: U64? f: F32? g: F64?
  d: Date? t: DateTime? w: Vector(2)? x: Blob? l: [I32]? m: [F64]? e: enum(a, b)?
}
""")


def stored(assignment: str, parameters: str = "", given: dict[str, object] | None = None) -> Plain:
    """What an insert puts into the one column it names."""
    query = mutation(f"query q({parameters}) {{ insert All {{ {assignment} }} }}", EVERYTHING)
    (statement,) = query.statements
    assert isinstance(statement, InsertNode)
    (assigned,) = statement.assignments
    return assigned_value(assigned, bind_params(query.parameters, given), NOW)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ('s: "a\\n\\"b\\""', 'a\n"b"'),
        ("b: true", True),
        ("i: 2147483647", 2**31 - 1),
        ("v: 007", 7),
        ("f: 1", 1.0),
        ("f: 0.1", 0.10000000149011612),
        ("g: 0.1", 0.1),
        ("g: 9007199254740992", 2.0**53),
        ('d: date("2024-02-29")', date(2024, 2, 29)),
        ('t: datetime("2024-01-01T00:00:00+01:00")', datetime(2023, 12, 31, 23, tzinfo=timezone.utc)),
        ("t: now()", datetime(2024, 5, 1, 10, 0, 0, 123000, tzinfo=timezone.utc)),
        ("w: [1, 0.1]", (1.0, 0.10000000149011612)),
        ('x: "base64:AA=="', "base64:AA=="),
        ("l: [1, 2]", (1, 2)),
        ("l: []", ()),
        ("m: [1, 2.5]", (1.0, 2.5)),
        ('e: "b"', "b"),
    ],
)
def test_values(assignment: str, expected: Plain) -> None:
    value = stored(assignment)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("assignment", "reason"),
    [
        ("i: 3000000000", "integer value 3000000000 exceeds Int32 range"),
        ("u: 4294967296", "integer value 4294967296 exceeds UInt32 range"),
        ("i: 2.0", "cannot convert float 2.0 to Int32"),
        ("l: [1, 2.5]", "cannot convert float 1.0 to Int32"),
        ("l: [3000000000]", "integer value 3000000000 exceeds Int32 range"),
        ("g: 9007199254740993", "integer value 9007199254740993 is not exact as Float64"),
        ("f: 16777217", "integer value 16777217 is not exact as Float32"),
        ("f: 1" + "0" * 39 + ".0", "value 1e+39 exceeds Float32 range"),
        ("w: [1, 1" + "0" * 39 + ".0]", "vector component 1e+39 exceeds Float32 range"),
    ],
)
def test_e101_values_no_column_of_the_type_holds(assignment: str, reason: str) -> None:
    with pytest.raises(UnfitValueError) as caught:
        stored(assignment)
    name = assignment[0]
    assert str(caught.value) == f"property '{name}': {reason}"
    assert caught.value.details() == {"violations": [{"property": name, "message": reason}]}


def test_parameters_and_null() -> None:
    assert stored("i: $x", "$x: I64?", {"x": 5}) == 5
    assert stored("i: $x", "$x: I64?", {}) is None
    with pytest.raises(UnfitValueError, match="exceeds UInt32 range"):
        stored("u: $x", "$x: I32", {"x": -1})


def test_now_is_one_instant_in_whole_milliseconds() -> None:
    now = evaluate(CurrentTime(), NO_PARAMS, NOW)
    assert now == datetime(2024, 5, 1, 10, 0, 0, 123000, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00.001Z", 1),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1970-01-01T01:00+0100", 0),
        ("9999-12-31T23:59:59.999", 253402300799999),
    ],
)
def test_instants(text: str, milliseconds: int) -> None:
    instant = parse_date_time(text)
    assert instant is not None
    assert to_milliseconds(instant) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024",
        "20240101",
        "2024-1-1",
        "2024-01-01T",
        "2024-01-01T10:00.5",
        "2024-01-01T10:00:60Z",
        "2024-01-01T10:00:00+1",
        "2024-01-01T10:00:00+00:60",
        "2024-01-01T10:00:00Zx",
        "٢٠٢٤-01-01",
    ],
)
def test_texts_that_are_no_instant(text: str) -> None:
    assert parse_date_time(text) is None


def test_days_before_the_epoch() -> None:
    assert to_days(date(1969, 12, 31)) == -1
