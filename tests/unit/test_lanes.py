"""Drawings of histories: exact ones of many shapes, and what holds for any."""

from __future__ import annotations

import random

import pytest

from omnigraph_cli.lanes import children_first, colored, draw, shown_parents


def parsed(spec: str) -> dict[str, list[str]]:
    """`c:a b` is a commit c with the parents a and b; children first."""
    return {line.split(":")[0]: line.split(":")[1].split() for line in spec.split("; ")}


def drawn(spec: str) -> list[str]:
    parents = parsed(spec)
    return [f"{line.cells} {line.commit or ''}".rstrip() for line in draw(parents, parents)]


SHAPES = {
    "a line": ("c:b; b:a; a:", ["* c", "* b", "* a"]),
    "a merge": (
        "m:b d; d:c; b:a; c:a; a:",
        ["* m", "|\\", "| * d", "* | b", "| * c", "|/", "* a"],
    ),
    "a merge whose side is done first": (
        "d:b c; c:a; b:a; a:",
        ["* d", "|\\", "| * c", "* | b", "|/", "* a"],
    ),
    "a fast forward": ("m:a c; c:b; b:a; a:", ["* m", "|\\", "| * c", "| * b", "|/", "* a"]),
    "three heads": ("x:a; y:a; z:a; a:", ["* x", "| * y", "|/", "| * z", "|/", "* a"]),
    "criss-cross": (
        "x:p q; y:q p; p:r; q:r; r:",
        ["* x", "|\\", "| | * y", "| |/|", "|/| |", "| |/", "* | p", "| * q", "|/", "* r"],
    ),
    "roots of their own": (
        "x:b; y:s; z:b; b:a; a:; s:",
        ["* x", "| * y", "| | * z", "| |/", "|/|", "* | b", "* | a", " /", "* s"],
    ),
    "a merge of what is drawn to the right": (
        "x:a; y:b; z:c; m:a b; a:r; b:r; c:r; r:",
        [
            "* x",
            "| * y",
            "| | * z",
            "| | | * m",
            "| | |/|",
            "| |/| |",
            "| | |/",
            "| |/|",
            "|/| |",
            "* | | a",
            "| * | b",
            "|/ /",
            "| * c",
            "|/",
            "* r",
        ],
    ),
    "a parent that is not drawn": ("b:a", ["* b"]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    spec, expected = SHAPES[shape]
    assert drawn(spec) == expected


def some_history(chooser: random.Random) -> dict[str, list[str]]:
    """Children first; each has up to three parents among the next few, some none."""
    names = [str(number) for number in range(chooser.randrange(1, 25))]
    found = {}
    for number, name in enumerate(names):
        later = names[number + 1 : number + 6]
        found[name] = chooser.sample(later, min(len(later), chooser.choice((0, 1, 1, 1, 1, 2, 2, 3))))
    return found


@pytest.mark.parametrize("seeds", [range(400), range(400, 800)])
def test_any_history_is_drawn_whole(seeds: range) -> None:
    """Each commit once, in its order; and every stroke goes on from one above it."""
    for seed in seeds:
        parents = some_history(random.Random(f"lanes {seed}"))
        assert children_first(list(parents), parents) == list(parents)
        lines = list(draw(parents, parents))
        assert [line.commit for line in lines if line.commit is not None] == list(parents)
        children = {parent for each in parents.values() for parent in each}
        above = ""
        for line in lines:
            assert line.cells.count("*") == (line.commit is not None)
            for place, cell in enumerate(line.cells):
                if cell != " " and not (cell == "*" and line.commit not in children):
                    assert goes_on(above, place, cell), (seed, above, line.cells)
            above = line.cells


def goes_on(above: str, place: int, cell: str) -> bool:
    """Is there a stroke above that leads to where this one starts?"""
    start = {"/": place + 1, "\\": place - 1}.get(cell, place)
    left, middle, right = f" {above}".ljust(start + 3)[start : start + 3]
    return left == "\\" or middle in "|*" or right == "/"


def test_commits_that_are_not_shown_are_passed_over() -> None:
    parents = parsed("m:d c; d:b; c:a; b:a; a:r; r:")
    assert shown_parents(["m", "a"], parents) == {"m": ("a",), "a": ()}
    assert shown_parents(["m", "b", "c"], parents) == {"m": ("b", "c"), "b": (), "c": ()}
    long = {str(number): [str(number + 1)] for number in range(5_000)}
    assert shown_parents(["0", "5000"], long) == {"0": ("5000",), "5000": ()}


def test_a_parent_is_never_drawn_above_its_child() -> None:
    """Clocks may say otherwise."""
    parents = {"child": ["parent"], "parent": [], "other": []}
    assert children_first(["parent", "other", "child"], parents) == ["other", "child", "parent"]
    assert children_first(["child", "parent"], {}) == ["child", "parent"]


def test_colours_go_by_lane() -> None:
    shown = colored("| * |/", lambda text, color: f"<{color}{text}>")
    assert shown == "<31|> * <33|><33/>"
