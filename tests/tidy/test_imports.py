"""Where modules may import from, inside a floor; and where numpy and pyarrow may be imported late."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY
from tests.support.source import CLI, CORE, imports, sources

# Rooms of a floor, from the ground up; modules beside the rooms stand on all of them.
ROOMS = {
    "read": ["columns", "plan", "session", "search", "match", "answer"],
    "load": ["formats"],
}

# Some commands are done without Arrow: help, completion, listing branches, checking a query. What
# they load imports numpy and pyarrow inside functions; all other modules at the top.
LATE = {
    "tables": "listing branches reads the references to tables, and opens none",
    "manifest": "listing branches reads their identities, and no manifest",
    "history": "a ref is parsed before anything is opened",
    "original": "every command asks whose graph it is, and most graphs are ours",
}

# A load or an export is of one format, so that a parser is imported by whoever uses it.
PARSERS = {"pyarrow.csv", "pyarrow.json", "pyarrow.parquet"}


def room_of(parts: list[str]) -> int | None:
    """The height of a module in its floor, given its path below the core; None without rooms."""
    rooms = ROOMS.get(parts[0])
    if rooms is None or len(parts) < 2:
        return None
    return rooms.index(parts[1]) if parts[1] in rooms else len(rooms)


def test_rooms_import_downwards_only() -> None:
    found = []
    for path, tree in sources(CORE):
        parts = list(path.relative_to(CORE).with_suffix("").parts)
        mine = room_of(parts)
        for line, name in imports(tree):
            theirs = name.split(".")[1:] if name.startswith("omnigraph_core.") else []
            if mine is None or not theirs or theirs[0] != parts[0]:
                continue
            if (height := room_of(theirs)) is not None and height > mine:
                found.append(f"{path}:{line} {'/'.join(parts)} imports {name}, which is not below it")
    assert found == []


def test_every_folder_of_a_floor_with_rooms_is_a_room() -> None:
    for floor, rooms in ROOMS.items():
        assert {path.parent.name for path in (CORE / floor).glob("*/__init__.py")} == set(rooms)


def late_imports(path: Path, tree: ast.Module) -> list[str]:
    """numpy and pyarrow imported inside functions."""
    found = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            late = [each for each in names if each.split(".")[0] in ("numpy", "pyarrow")]
            found += [f"{path}:{node.lineno} {each}" for each in late if each not in PARSERS]
    return found


def may_be_late(path: Path) -> str | None:
    """The entry of LATE that a module is under."""
    place = path.relative_to(CORE)
    return next((entry for entry in LATE if entry in (place.parts[0], place.as_posix())), None)


def test_numpy_and_pyarrow_are_imported_at_the_top_of_modules_that_need_them() -> None:
    found = []
    for path, tree in sources(CORE):
        if may_be_late(path) is None:
            found += late_imports(path, tree)
    assert found == []


@pytest.mark.parametrize("entry", LATE)
def test_what_may_import_late_does(entry: str) -> None:
    """An entry that nothing is left of goes."""
    assert any(late_imports(path, tree) for path, tree in sources(CORE) if may_be_late(path) == entry)


def test_pure_modules_of_values_are_pure() -> None:
    """The query language reads values by them, and it is checked without Arrow."""
    pure = {"coerce", "scalars", "shown"}
    found = [
        f"{path}:{line} {name}"
        for path, tree in sources(CORE / "values")
        if path.stem in pure
        for line, name in imports(tree)
        if name.split(".")[0] in ("numpy", "pyarrow")
        or (name.startswith("omnigraph_core.values.") and name.split(".")[2] not in pure)
    ]
    assert found == []
    used = {
        name.split(".")[2]
        for floor in ("schema", "query")
        for _, tree in sources(CORE / floor)
        for _, name in imports(tree)
        if name.startswith("omnigraph_core.values.")
    }
    assert used <= pure
    late = {path.name for path, tree in sources(CLI) if late_imports(path, tree)}
    assert late == {"without_docs.py"}  # about how Arrow itself is imported


def test_no_test_module_imports_another() -> None:
    """Neither do the programs that tests run: what is shared is in `tests/support`, or beside them."""
    found = [
        f"{path.relative_to(REPOSITORY)}:{number} {line.strip()}"
        for path in sorted((REPOSITORY / "tests").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\b(from|import) tests(\.\w+)*\.test_\w+", line)
        or re.search(r"\bfrom tests(\.\w+)* import .*\btest_\w+", line)
    ]
    assert found == []
