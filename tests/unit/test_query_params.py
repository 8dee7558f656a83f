"""Parameters: which JSON values and which texts a declared type takes, and what becomes of them."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

import pytest

from omnigraph_core.errors import ErrorKind
from omnigraph_core.query import (
    NO_PARAMS,
    Parameter,
    ParameterError,
    bind_params,
    parse_queries,
    read_param_texts,
)

UTC = timezone.utc


def declared(parameters: str) -> tuple[Parameter, ...]:
    text = f"query q({parameters}) {{ match {{ $n: N }} return {{ $n }} }}"
    return parse_queries(text).queries[0].parameters


def bound(type_: str, value: Any) -> Any:
    return bind_params(declared(f"$x: {type_}"), {"x": value})["x"]


ACCEPTED: list[tuple[str, Any, Any]] = [
    ("String", "a", "a"),
    ("String", "", ""),
    ("String?", None, None),
    ("Blob", "base64:AA==", "base64:AA=="),
    ("Bool", True, True),
    ("I32", 2**31 - 1, 2**31 - 1),
    ("I32", -(2**31), -(2**31)),
    ("I32", "-7", -7),
    ("I64", "9223372036854775807", 2**63 - 1),
    ("I64", -(2**63), -(2**63)),
    ("U32", 2**32 - 1, 2**32 - 1),
    ("U64", 2**63 - 1, 2**63 - 1),
    ("F64", 1, 1.0),
    ("F64", 0.1, 0.1),
    ("F32", 0.5, 0.5),
    ("F32", 0.1, 0.10000000149011612),
    ("Date", "2024-02-29", date(2024, 2, 29)),
    ("DateTime", "2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
    ("DateTime", "2024-02-29T10:00:00Z", datetime(2024, 2, 29, 10, tzinfo=UTC)),
    ("DateTime", "2024-02-29 10:00", datetime(2024, 2, 29, 10, tzinfo=UTC)),
    ("DateTime", "2024-03-01T01:30:00.1239+02:00", datetime(2024, 2, 29, 23, 30, 0, 123000, tzinfo=UTC)),
    ("[I32]", [1, "2"], (1, 2)),
    ("[String]", [], ()),
    ("[Date]?", ["2024-01-01"], (date(2024, 1, 1),)),
    ("[Date]?", None, None),
    ("Vector(2)", [1, 0.5], (1.0, 0.5)),
    ("Vector(2)?", None, None),
]


@pytest.mark.parametrize(("type_", "value", "expected"), ACCEPTED)
def test_json_values(type_: str, value: Any, expected: Any) -> None:
    got = bound(type_, value)
    assert got == expected
    assert type(got) is type(expected)


REFUSED: list[tuple[str, Any, str]] = [
    ("String", 1, "expected string, got number 1"),
    ("String", True, "expected string, got boolean"),
    ("String", ["a"], "expected string, got array"),
    ("String", {"a": 1}, "expected string, got object"),
    ("String", None, "null is not accepted for non-nullable parameter of type String"),
    ("String", "\udc80", "the text is not valid Unicode"),
    ("I32", 1.0, "expected integer for I32, got number 1.0"),
    ("I32", True, "expected integer for I32, got boolean"),
    ("I32", "x", "expected integer for I32, got string 'x'"),
    ("I32", "1.0", "expected integer for I32, got string '1.0'"),
    ("I32", "١", "expected integer for I32, got string '١'"),
    ("I32", 2**31, "value 2147483648 exceeds I32"),
    ("I32", -(2**31) - 1, "value -2147483649 exceeds I32"),
    ("U32", -1, "value -1 exceeds U32"),
    ("U64", 2**63, "value 9223372036854775808 exceeds U64"),
    ("F64", "1.5", "expected float for F64, got string '1.5'"),
    ("F64", True, "expected float for F64, got boolean"),
    ("F64", float("nan"), "value nan exceeds F64"),
    ("F64", float("inf"), "value inf exceeds F64"),
    ("F64", 10**400, "value 1000"),
    ("F32", 3.5e38, "value 3.5e+38 exceeds F32"),
    ("Bool", 1, "expected boolean, got number 1"),
    ("Bool", "true", "expected boolean, got string 'true'"),
    ("Date", 19000, "expected date string, got number 19000"),
    ("Date", "2023-02-29", "invalid Date '2023-02-29'"),
    ("Date", "2024-01-01T00:00:00Z", "invalid Date '2024-01-01T00:00:00Z'"),
    ("DateTime", 5, "expected date-time string, got number 5"),
    ("DateTime", "2024-01-01T25:00:00Z", "invalid DateTime '2024-01-01T25:00:00Z'"),
    ("DateTime", "0001-01-01T00:00:00+01:00", "invalid DateTime"),
    ("[I32]", 1, "expected array for [I32], got number 1"),
    ("[I32]", [1, None], "expected integer for I32, got null"),
    ("[I32]", [[1]], "expected integer for I32, got array"),
    ("Vector(2)", [1], "expected 2 values for Vector(2), got 1"),
    ("Vector(2)", [1, "a"], "expected float for F32, got string 'a'"),
    ("Vector(2)", [1, 1e39], "value 1e+39 exceeds F32"),
    ("Vector(2)", "a", "expected array for Vector(2), got string 'a'"),
]


@pytest.mark.parametrize(("type_", "value", "reason"), REFUSED)
def test_refused_json_values(type_: str, value: Any, reason: str) -> None:
    with pytest.raises(ParameterError) as caught:
        bound(type_, value)
    assert str(caught.value).startswith(f"parameter 'x': {reason}")
    assert caught.value.kind is ErrorKind.BAD_DATA
    assert caught.value.details()["parameter"] == "x"


def test_a_number_python_does_not_care_to_write() -> None:
    with pytest.raises(ParameterError, match="value of thousands of digits exceeds I64"):
        bound("I64", 10**5000)


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(ParameterError) as caught:
        bind_params(declared("$a: I32?, $name: String"), {"a": 1})
    assert str(caught.value) == "parameter 'name': not provided (expected String)"
    assert caught.value.details() == {"parameter": "name", "expected": "String"}


def test_an_optional_parameter_may_be_left_out() -> None:
    assert dict(bind_params(declared("$a: I32?, $b: [String]?"), None).values) == {"a": None, "b": None}
    assert dict(bind_params((), {}).values) == dict(NO_PARAMS.values) == {}


def test_undeclared_names_are_ignored_but_not_objects() -> None:
    assert dict(bind_params(declared("$a: I32"), {"a": 1, "other": [1, "x", None]}).values) == {"a": 1}
    with pytest.raises(ParameterError, match="parameter 'other': objects"):
        bind_params(declared("$a: I32"), {"a": 1, "other": {}})


TEXTS: list[tuple[str, str, Any]] = [
    ("String", "x=a=b", "a=b"),
    ("String", "x=", ""),
    ("String", "x=007", "007"),
    ("String?", "x=null", "null"),
    ("String", "$x=a", "a"),
    ("I32", "x=-5", -5),
    ("I32?", "x=null", None),
    ("F64", "x=1e3", 1000.0),
    ("F64", "x=-2", -2.0),
    ("Bool", "x=true", True),
    ("Bool", "x=false", False),
    ("Date", "x=2024-01-01", date(2024, 1, 1)),
    ("DateTime?", "x=null", None),
    ("[String]", 'x=["a","b"]', ("a", "b")),
    ("[I64]?", "x=null", None),
    ("Vector(2)", "x=[1,2.5]", (1.0, 2.5)),
]


@pytest.mark.parametrize(("type_", "text", "expected"), TEXTS)
def test_texts(type_: str, text: str, expected: Any) -> None:
    parameters = declared(f"$x: {type_}")
    assert bind_params(parameters, read_param_texts(parameters, [text]))["x"] == expected


BAD_TEXTS: list[tuple[str, str, str]] = [
    ("I32", "x=five", "parameter 'x': expected integer for I32, got string 'five'"),
    ("I32", "x=", "parameter 'x': expected integer for I32, got string ''"),
    ("I32", "x=null", "parameter 'x': expected integer for I32, got string 'null'"),
    ("F64", "x=nan", "parameter 'x': expected float for F64, got string 'nan'"),
    ("F64", "x=1e999", "parameter 'x': value inf exceeds F64"),
    ("Bool", "x=yes", "parameter 'x': expected boolean, got string 'yes'"),
    ("[String]", "x=a,b", "parameter 'x': expected a JSON array for [String], got 'a,b'"),
    ("[String]", "x=" + "[" * 100_000, "parameter 'x': expected a JSON array for [String]"),
    ("[String]", "x=3", "parameter 'x': expected array for [String], got number 3"),
    ("I32", "x", "parameter 'x': expected NAME=VALUE"),
    ("I32", "y=1", "parameter 'y': the query declares no such parameter"),
]


@pytest.mark.parametrize(("type_", "text", "message"), BAD_TEXTS, ids=[text[:20] for _, text, _ in BAD_TEXTS])
def test_refused_texts(type_: str, text: str, message: str) -> None:
    parameters = declared(f"$x: {type_}")
    with pytest.raises(ParameterError) as caught:
        bind_params(parameters, read_param_texts(parameters, [text]))
    assert str(caught.value).startswith(message)


def test_a_text_given_twice() -> None:
    with pytest.raises(ParameterError, match="given twice"):
        read_param_texts(declared("$x: I32"), ["x=1", "x=2"])
