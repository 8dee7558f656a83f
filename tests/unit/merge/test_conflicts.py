"""Conflicts as lines of JSON, there and back, and in their order."""

from __future__ import annotations

import io
import json

import pytest

from omnigraph_core.errors import BadDataError
from omnigraph_core.merge.conflicts import (
    Conflict,
    ConflictKind,
    Heads,
    conflict_lines,
    in_order,
    read_conflict_lines,
    read_heads,
)


def conflict(
    kind: ConflictKind = ConflictKind.DIVERGENT_UPDATE,
    entity_kind: str = "node",
    type_name: str = "Item",
    entity_id: str | None = "x",
    property_name: str | None = "a",
) -> Conflict:
    return Conflict(
        kind,
        "edge" if entity_kind == "edge" else "node",
        type_name,
        entity_id,
        property_name,
        base=1,
        ours={"a": ["ü\n"]},
        theirs=None,
        message=f"{entity_id} \u2028",
    )


IN_ORDER = [
    conflict(ConflictKind.ORPHAN_EDGE, "edge", "Link", "z", None),
    conflict(ConflictKind.CARDINALITY_VIOLATION, "edge", "Link", None, None),
    conflict(entity_id="a", property_name="b"),
    conflict(entity_id="b", property_name="a"),
    conflict(entity_id="b", property_name="b"),
    conflict(ConflictKind.DELETE_VS_UPDATE, entity_id="c", property_name=None),
    conflict(ConflictKind.UNIQUE_VIOLATION, entity_id=None, property_name=None),
    conflict(ConflictKind.VALUE_CONSTRAINT_VIOLATION, type_name="Thing"),
]


def test_by_table_then_id_then_property_and_sets_last() -> None:
    assert in_order(reversed(IN_ORDER)) == IN_ORDER


def test_there_and_back() -> None:
    heads = Heads("01A", "01B")
    text = "".join(conflict_lines(IN_ORDER, heads))
    assert text.count("\n") == len(IN_ORDER)
    read = list(read_conflict_lines(io.StringIO(text + "\n"), "f"))
    assert [found for found, _ in read] == IN_ORDER
    assert {read_heads(content, "f") for _, content in read} == {heads}


def test_what_stands_beside_a_conflict_is_handed_on() -> None:
    line = json.dumps({**IN_ORDER[0].as_json(), "choice": "ours"})
    ((found, content),) = read_conflict_lines([line], "f")
    assert (found, content["choice"]) == (IN_ORDER[0], "ours")


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "quarrel"},
        {"entity_kind": "table"},
        {"type_name": 3},
        {"entity_id": 3},
        {"property": []},
        {"message": None},
    ],
)
def test_lines_that_are_no_conflicts(change: dict[str, object]) -> None:
    good, bad = (json.dumps({**IN_ORDER[0].as_json(), **more}) for more in ({}, change))
    with pytest.raises(BadDataError, match="f:2: this is not a conflict"):
        list(read_conflict_lines([good, bad], "f"))


@pytest.mark.parametrize("line", ["{", "[]", "3", '"x"', "null", "{}", "[" * 100_000])
def test_lines_that_are_no_records(line: str) -> None:
    with pytest.raises(BadDataError, match="f:1: "):
        list(read_conflict_lines([line], "f"))
