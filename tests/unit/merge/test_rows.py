"""Three-way merges of rows, on tables in memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from omnigraph_core.merge.clashes import row_conflicts
from omnigraph_core.merge.conflicts import Conflict
from omnigraph_core.merge.rows import MergedRows, Preference, Rows, rows, three_way, virtual
from omnigraph_core.schema import compile_schema

SCHEMA = compile_schema(
    "node Item { k: String @key a: I64? b: String? tags: [String]? } edge Link: Item -> Item { w: F64? }",
    "s.pg",
)
ITEM, LINK = SCHEMA.nodes[0], SCHEMA.edges[0]
ITEMS = pa.schema([("id", pa.utf8()), ("a", pa.int64()), ("b", pa.utf8()), ("tags", pa.list_(pa.utf8()))])
LINKS = pa.schema([("id", pa.utf8()), ("src", pa.utf8()), ("dst", pa.utf8()), ("w", pa.float64())])


def items(*given: dict[str, Any]) -> Rows:
    return rows(pa.Table.from_pylist(list(given), schema=ITEMS))


def item(
    a: int | None = 1, b: str | None = "one", tags: list[str] | None = None, key: str = "x"
) -> dict[str, Any]:
    return {"id": key, "a": a, "b": b, "tags": tags}


def told(merged: MergedRows) -> dict[str, Any]:
    return {
        "upserts": merged.upserts.to_pylist(),
        "removed": merged.removed.to_pylist(),
        "clashes": [tuple(each.values()) for each in merged.clashes.to_pylist()],
    }


def outcome(upserts: Any = (), removed: Any = (), clashes: Any = ()) -> dict[str, Any]:
    return {"upserts": list(upserts), "removed": list(removed), "clashes": list(clashes)}


BASE = item()
NONE, DELETED = "nothing", "deleted"
OPERATIONS: dict[str, dict[str, Any] | None] = {
    "nothing": item(),
    "a2": item(a=2),
    "a3": item(a=3),
    "b": item(b="two"),
    "a2b": item(a=2, b="two"),
    "a null": item(a=None),
    "tags": item(tags=["p"]),
    "other tags": item(tags=["q"]),
    "delete": None,
    "delete, reinsert alike": item(),
}
CLASHES = {
    ("a2", "a3"): ["a"],
    ("a2", "a null"): ["a"],
    ("a3", "a2b"): ["a"],
    ("a3", "a null"): ["a"],
    ("a2b", "a null"): ["a"],
    ("tags", "other tags"): ["tags"],
}


@pytest.mark.parametrize("theirs", OPERATIONS)
@pytest.mark.parametrize("ours", OPERATIONS)
def test_every_pair_of_operations_on_one_entity(ours: str, theirs: str) -> None:
    mine, other = OPERATIONS[ours], OPERATIONS[theirs]
    sides = [items(*([] if side is None else [side])) for side in (mine, other)]
    found = told(three_way(items(BASE), *sides))
    if mine is None or other is None:
        left = mine or other
        if left is not None and left != BASE:
            assert found == outcome(clashes=[("x", "delete_vs_update", None)])
        else:
            assert found == outcome(removed=["x"] if mine is not None else [])
        return
    clashes = CLASHES.get((ours, theirs)) or CLASHES.get((theirs, ours)) or []
    if clashes:
        assert found == outcome(clashes=[("x", "divergent_update", name) for name in clashes])
        return
    merged = {name: other[name] if other[name] != BASE[name] else mine[name] for name in mine}
    assert found == outcome(upserts=[] if merged == mine else [merged])


@pytest.mark.parametrize("ours", [None, "a2", "a3"])
@pytest.mark.parametrize("theirs", [None, "a2", "a3"])
def test_inserts(ours: str | None, theirs: str | None) -> None:
    sides = [items(*([] if side is None else [OPERATIONS[side]])) for side in (ours, theirs)]  # type: ignore[list-item]
    found = told(three_way(items(), *sides))
    if ours is not None and theirs is not None and ours != theirs:
        assert found == outcome(clashes=[("x", "divergent_insert", None)])
    elif ours is None and theirs is not None:
        assert found == outcome(upserts=[OPERATIONS[theirs]])
    else:
        assert found == outcome()


def links(*given: tuple[str, str, float]) -> Rows:
    found = [{"id": "l", "src": src, "dst": dst, "w": w} for src, dst, w in given]
    return rows(pa.Table.from_pylist(found, schema=LINKS))


def test_the_ends_of_an_edge_are_one_value() -> None:
    base = links(("p", "q", 1.0))
    moved = three_way(base, links(("p", "r", 1.0)), links(("r", "q", 1.0)))
    assert told(moved) == outcome(clashes=[("l", "divergent_update", "src, dst")])
    (conflict,) = row_conflicts(LINK, moved, base, links(("p", "r", 1.0)), links(("r", "q", 1.0)))
    assert (conflict.property_name, conflict.entity_id) == (None, "l")
    assert [conflict.base, conflict.ours, conflict.theirs] == [
        {"src": "p", "dst": "q"},
        {"src": "p", "dst": "r"},
        {"src": "r", "dst": "q"},
    ]
    apart = three_way(base, links(("p", "r", 1.0)), links(("p", "q", 2.0)))
    assert told(apart) == outcome(upserts=[{"id": "l", "src": "p", "dst": "r", "w": 2.0}])


def test_the_sign_of_a_zero_is_a_change_and_nan_is_none() -> None:
    nan = float("nan")
    flipped = three_way(links(("p", "q", 0.0)), links(("p", "q", 0.0)), links(("p", "q", -0.0)))
    assert [str(row["w"]) for row in flipped.upserts.to_pylist()] == ["-0.0"]
    assert (
        told(three_way(links(("p", "q", nan)), links(("p", "q", nan)), links(("p", "q", nan)))) == outcome()
    )


def test_clashing_rows_are_merged_as_far_as_they_go() -> None:
    ours, theirs = items(item(a=2)), items(item(a=3, b="two"))
    merged = three_way(items(BASE), ours, theirs)
    assert merged.clashing.to_pylist() == [item(a=2, b="two")]
    deleted = three_way(items(BASE), items(), items(item(a=3)))
    assert deleted.clashing.to_pylist() == [item(a=3)]


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [
        (
            Preference.OURS,
            outcome(upserts=[item(a=2, b="two", key="p")], removed=["t"]),
        ),
        (
            Preference.THEIRS,
            outcome(
                upserts=[item(a=3, b="two", key="p"), item(a=3, key="q"), item(b="hers", key="s")],
                removed=["r", "t"],
            ),
        ),
    ],
)
def test_a_preference_settles_every_clash(prefer: Preference, expected: dict[str, Any]) -> None:
    """p: both changed a; q: we deleted it; r: they deleted it; s: both inserted it; t: no clash."""
    base = items(item(key="p"), item(key="q"), item(key="r"), item(key="t"))
    ours = items(item(a=2, key="p"), item(a=2, key="r"), item(b="his", key="s"), item(key="t"))
    theirs = items(item(a=3, b="two", key="p"), item(a=3, key="q"), item(b="hers", key="s"))
    merged = three_way(base, ours, theirs, prefer)
    assert told(merged) == expected
    assert merged.clashing.num_rows == 0
    plain = three_way(base, ours, theirs)
    assert [each["id"] for each in plain.clashes.to_pylist()] == ["p", "q", "r", "s"]


def test_where_bases_clash_the_virtual_one_has_a_value_of_nobody() -> None:
    both = virtual(items(BASE), items(item(a=2)), items(item(a=3, b="two")))
    agreed = three_way(both, items(item(a=3, b="two")), items(item(a=3, b="two")))
    assert told(agreed) == outcome()
    for ours, theirs in ((2, 3), (3, 2), (1, 2)):
        sides = [items(item(a=each, b="two")) for each in (ours, theirs)]
        merged = three_way(both, *sides)
        assert told(merged) == outcome(clashes=[("x", "divergent_update", "a")])
        (conflict,) = row_conflicts(ITEM_WITHOUT_KEY, merged, both, *sides)
        assert (conflict.base, conflict.ours, conflict.theirs) == (None, ours, theirs)
    gone = virtual(items(BASE), items(), items(item(a=3)))
    assert told(three_way(gone, items(), items(item(a=3)))) == outcome(
        clashes=[("x", "delete_vs_update", None)]
    )
    assert told(three_way(gone, items(), items())) == outcome()


ITEM_WITHOUT_KEY = compile_schema("node Item { a: I64? b: String? tags: [String]? }", "s.pg").nodes[0]


def conflicts() -> list[Conflict]:
    ours = items(item(a=2, key="p"), item(a=2, key="q"), item(a=5, key="s"))
    theirs = items(item(a=3, b="two", key="p"), item(b="x", key="s"))
    base = items(item(key="p"), item(key="q"))
    return row_conflicts(ITEM_WITHOUT_KEY, three_way(base, ours, theirs), base, ours, theirs)


def test_clashes_in_the_words_of_conflicts() -> None:
    one, two, three = conflicts()
    assert (one.kind, one.entity_id, one.property_name) == ("divergent_update", "p", "a")
    assert (one.base, one.ours, one.theirs) == (1, 2, 3)
    assert one.message == "Item/p: a was changed differently on both sides"
    assert (two.kind, two.theirs) == ("delete_vs_update", None)
    assert two.ours == {"a": 2, "b": "one", "tags": None}
    assert two.message == "Item/q was deleted by theirs and changed by ours"
    assert (three.kind, three.base) == ("divergent_insert", None)


def test_rows_without_properties_and_no_rows_at_all() -> None:
    bare = pa.schema([("id", pa.utf8())])
    some = [
        rows(pa.Table.from_pylist([{"id": each} for each in ids], schema=bare)) for ids in ("pq", "q", "pqr")
    ]
    assert told(three_way(*some)) == outcome(upserts=[{"id": "r"}])
    assert told(three_way(some[0], some[2], some[1])) == outcome(removed=["p"])
    assert told(three_way(items(), items(), items())) == outcome()
