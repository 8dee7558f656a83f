"""Violations are counted without end and shown up to a point."""

from __future__ import annotations

import pytest

from omnigraph_core.errors import BadDataError
from omnigraph_core.rules.violations import InvalidRecords, Violation, Violations


@pytest.mark.parametrize(
    ("violation", "text"),
    [
        (Violation("bad", "f.jsonl", 3, "Person", "age"), "f.jsonl:3: Person.age: bad"),
        (Violation("bad", "f.jsonl", 3, "Person"), "f.jsonl:3: Person: bad"),
        (Violation("bad", "f.jsonl", 3), "f.jsonl:3: bad"),
        (Violation("bad", "f.jsonl"), "f.jsonl: bad"),
        (Violation("bad", type_name="Person", property="age"), "Person.age: bad"),
        (Violation("bad"), "bad"),
    ],
)
def test_a_violation_names_what_is_known_of_its_place(violation: Violation, text: str) -> None:
    assert str(violation) == text


def test_nothing_wrong_raises_nothing() -> None:
    Violations().raise_if_any()


def test_the_first_are_shown_and_all_are_counted() -> None:
    violations = Violations()
    for line in range(1, 1235):
        violations.add(Violation("bad", "f", line, "T", "p"))
    worded: list[int] = []
    violations.add_worded(range(20), lambda item: worded.append(item) or Violation("late"))
    assert worded == []
    assert violations.total == 1254
    with pytest.raises(InvalidRecords) as caught:
        violations.raise_if_any()
    lines = str(caught.value).splitlines()
    assert lines == [f"f:{line}: T.p: bad" for line in range(1, 21)] + ["…and 1234 more"]
    assert isinstance(caught.value, BadDataError)
    details = caught.value.details()
    assert details["total"] == 1254
    shown = details["violations"]
    assert isinstance(shown, list)
    assert len(shown) == 20
    assert shown[0] == {"file": "f", "line": 1, "type": "T", "property": "p", "message": "bad"}


def test_a_few_are_shown_without_a_remainder() -> None:
    violations = Violations()
    violations.extend([Violation("one"), Violation("two")])
    with pytest.raises(InvalidRecords) as caught:
        violations.raise_if_any()
    assert str(caught.value) == "one\ntwo"


@pytest.mark.parametrize(("keep", "kept"), [(3, 3), (0, 0), (None, 50)])
def test_how_many_are_kept(keep: int | None, kept: int) -> None:
    violations = Violations(keep)
    assert violations.wanted == keep
    for line in range(50):
        violations.add(Violation("bad", line=line))
    assert [violation.line for violation in violations.first] == list(range(kept))
    assert violations.wanted == (None if keep is None else 0)
    assert violations.total == 50


def test_keeping_all_still_shows_a_few() -> None:
    violations = Violations(keep=None)
    violations.extend(Violation("bad", line=line) for line in range(50))
    with pytest.raises(InvalidRecords) as caught:
        violations.raise_if_any()
    assert str(caught.value).splitlines()[20:] == ["…and 30 more"]
    assert len(caught.value.violations) == 50
