"""Kinds of graphs that the Rust original can leave behind, beside the fixtures: made of them, by its hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from omnigraph_core import layout
from tests.support.original_hand import Hand, version_row
from tests.support.originals import unpack_in_place

PERSON, COMPANY, KNOWS, WORKS, THING = (
    "node:Person",
    "node:Company",
    "edge:Knows",
    "edge:WorksAt",
    "node:Thing",
)


def person(name: str, age: int | None = None) -> dict[str, Any]:
    return {"id": name, "name": name, "age": age}


def knows(source: str, target: str) -> dict[str, Any]:
    return {"id": f"{source}-{target}", "src": source, "dst": target}


def forks_of_forks(hand: Hand) -> None:
    hand.put(PERSON, [person("Zed", 1)])
    hand.put(PERSON, [person("Yan", 2)], "side")
    hand.branch("sub", "side")
    hand.put(PERSON, [person("Sub", 3)], "sub")
    hand.put(COMPANY, [{"id": "New", "name": "New"}], "sub")
    hand.branch("sub-lazy", "sub")
    hand.branch("sub-sub", "sub")
    hand.put(PERSON, [person("Sub", 4), person("Deep")], "sub-sub")
    hand.put(PERSON, [person("Later", 5)], "side")


def overlapping_names(hand: Hand) -> None:
    """One branch's directory is inside another's; ours makes no such names."""
    hand.branch("sub")
    hand.put(PERSON, [person("Sub", 1)], "sub")
    hand.branch("sub/x")
    hand.put(PERSON, [person("X", 2)], "sub/x")


def deleted_branches(hand: Hand) -> None:
    """One is gone, one is back under its name, and of one its forks are left."""
    hand.branch("gone")
    hand.put(PERSON, [person("Lost")], "gone")
    hand.delete_branch("gone")
    hand.delete_branch("side")
    hand.branch("side")
    hand.put(PERSON, [person("Back")], "side")
    hand.branch("half")
    hand.put(PERSON, [person("Half")], "half")
    for path in (layout.MANIFEST, layout.COMMITS):
        lance.dataset(str(hand.root / path)).branches.delete("half")
    hand.forget("half")


def compacted(hand: Hand) -> None:
    """Many commits, with compactions and index builds between, and rows deleted before and after."""
    for number in range(18):
        hand.put(PERSON, [person(f"p{number}", number), person("Ann", number)])
    hand.delete(PERSON, ["p3", "p4"], drifts=[KNOWS])
    hand.maintain(PERSON, lambda table: table.optimize.compact_files())
    hand.maintain(PERSON, lambda table: table.optimize.optimize_indices())
    hand.delete(PERSON, ["p5"])
    hand.put(PERSON, [person("p5", 55)])
    hand.maintain(PERSON, lambda table: table.optimize.compact_files(), "feat/x")


def cleaned(hand: Hand) -> None:
    """Its cleanup counts from HEAD: old commits are lost, and the lazy branch with them."""
    hand.lost |= {hand.put(PERSON, [person(f"p{number}", number)]) for number in range(3)}
    hand.put(PERSON, [person("last", 3)])
    for path in (*hand.root.glob("nodes/*"), *hand.root.glob("edges/*")):
        table = lance.dataset(str(path))
        table.cleanup_old_versions(timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)


def empty(hand: Hand) -> None:
    """As `init` left it."""
    for path in (*hand.root.glob("nodes/*"), *hand.root.glob("edges/*")):
        _only_first(path, 1)
    _only_first(hand.root / layout.MANIFEST, 3)
    _only_first(hand.root / layout.COMMITS, 1)
    _only_first(hand.root / layout.COMMIT_ACTORS, 1)
    hand.rows = {layout.MAIN_BRANCH: {}}


def _only_first(path: Path, versions: int) -> None:
    """Nothing newer was ever committed."""
    for manifest in (path / "_versions").glob("*.manifest"):
        if 2**64 - 1 - int(manifest.stem) > versions:
            manifest.unlink()


def edges_only(hand: Hand) -> None:
    hand.put(KNOWS, [knows("Ann", "Cy"), knows("Bob", "Cy")])
    hand.branch("edges")
    hand.put(KNOWS, [knows("Cy", "Ann")], "edges")
    hand.delete(KNOWS, ["Ann-Cy"], "edges")
    hand.delete(WORKS, [key[1] for key in hand.rows["main"] if key[0] == WORKS])


def merged_back(hand: Hand) -> None:
    """Both sides changed, somebody decided, and the branch goes on."""
    hand.put(PERSON, [person("Ann", 99)], "side")
    hand.put(PERSON, [person("Ann", 98)])
    table = hand.writable(PERSON)
    rows = [{**row, "age": row.get("age")} for key, row in hand.rows["side"].items() if key[0] == PERSON]
    data = pa.Table.from_pylist(rows, schema=table.schema)
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)
    hand.rows["main"] = {
        **hand.rows["main"],
        **{key: row for key, row in hand.rows["side"].items() if key[0] == PERSON},
    }
    hand.publish([PERSON], merged=hand.head("side"))
    hand.put(PERSON, [person("After", 1)], "side")


def overwritten(hand: Hand) -> None:
    """A load that replaces a type, while branches read what was there before."""
    table = hand.writable(COMPANY)
    rows = [{"id": "Only", "name": "Only"}]
    lance.write_dataset(pa.Table.from_pylist(rows, schema=table.schema), table.uri, mode="overwrite")
    others = {key: row for key, row in hand.rows["main"].items() if key[0] not in (COMPANY, WORKS)}
    edges = hand.writable(WORKS)
    edges.delete("true")
    hand.rows["main"] = {**others, (COMPANY, "Only"): rows[0]}
    hand.publish([COMPANY, WORKS])


def drifted(hand: Hand) -> None:
    """On main and on a branch; rows, columns and indexes that nobody published."""
    hand.put(PERSON, [person("Here", 1)], "side")
    hand.writable(PERSON, "side").delete("id = 'Here'")
    table = hand.writable(PERSON)
    table.add_columns({"extra": "cast(7 as int)"})
    table.delete("id = 'Ann'")
    edges = hand.writable(KNOWS)
    edges.create_scalar_index("src", "BTREE", name="src_idx", replace=True)
    edges.delete("true")


def lost_commit_row(hand: Hand) -> None:
    """Killed after the publish and before the commit row: the state is newer than any commit."""
    table = hand.writable(PERSON)
    data = pa.Table.from_pylist([person("Unsaid", 1)], schema=table.schema)
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)
    hand.rows["main"][(PERSON, "Unsaid")] = {"id": "Unsaid", "name": "Unsaid", "age": 1}
    hand.merge_rows([version_row(PERSON, lance.dataset(table.uri), "main")], "main")


def lost_and_gone_on(hand: Hand) -> None:
    lost_commit_row(hand)
    hand.put(PERSON, [person("Next", 2)])
    hand.branch("from-there")
    hand.put(PERSON, [person("There", 2)], "from-there")


def odd_names(hand: Hand) -> None:
    for name in ("a.b", "a/b/c", "Grüße", "x-1_2"):
        hand.branch(name)
        hand.put(PERSON, [person(f"on {name} 'quoted'", 1)], name, actor="ann\nmallory\t'\"")


def emptied(hand: Hand) -> None:
    """Everything was deleted, edges first."""
    for key in (KNOWS, WORKS, PERSON, COMPANY):
        ids = [each for of, each in hand.rows["main"] if of == key]
        if ids:
            hand.delete(key, ids)


def changed_schema(hand: Hand) -> None:
    """After renames and drops: more rows, a branch, a compaction."""
    hand.put(PERSON, [{"id": "New", "name": "New", "years": 3, "city": "Ulm"}])
    hand.branch("b")
    hand.put(PERSON, [{"id": "New", "name": "New", "years": 4, "city": None}], "b")
    hand.maintain(PERSON, lambda table: table.optimize.compact_files())
    hand.delete(PERSON, ["New"], "b")


def values_on_branches(hand: Hand) -> None:
    """Blobs, vectors, lists and dates on a fork, beside nulls; the vector index is built anew."""
    hand.branch("b")
    table = hand.writable(THING, "b")
    table.delete("id = 't3'")
    hand.rows["b"] = {key: row for key, row in hand.rows["b"].items() if key != (THING, "t3")}
    hand.publish([THING], "b")
    hand.branch("b/c", "b")
    fork = hand.writable(THING, "b/c")
    fork.delete("id = 't2'")
    hand.rows["b/c"] = {key: row for key, row in hand.rows["b/c"].items() if key != (THING, "t2")}
    hand.publish([THING], "b/c")


LOST = ("cleaned",)
"""Those of which commits cannot be read any more."""

KINDS: dict[str, tuple[str, Callable[[Hand], None]]] = {
    "forks of forks": ("branches", forks_of_forks),
    "overlapping names": ("plain", overlapping_names),
    "deleted branches": ("branches", deleted_branches),
    "compacted": ("branches", compacted),
    "cleaned": ("branches", cleaned),
    "empty": ("plain", empty),
    "edges only": ("plain", edges_only),
    "merged back": ("branches", merged_back),
    "overwritten": ("branches", overwritten),
    "drifted": ("branches", drifted),
    "lost commit row": ("plain", lost_commit_row),
    "lost and gone on": ("merged", lost_and_gone_on),
    "odd names": ("plain", odd_names),
    "emptied": ("deletes", emptied),
    "changed schema": ("schema", changed_schema),
    "values on branches": ("rich", values_on_branches),
}


def made(kind: str, into: Path) -> Hand:
    fixture, make = KINDS[kind]
    hand = Hand(unpack_in_place(fixture, into))
    make(hand)
    return hand
