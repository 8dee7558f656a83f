"""The arrows of the architecture, proven from the source."""

from __future__ import annotations

import ast

import pytest

from tests.support.source import CLI, CORE, floor_of, imports, sources

# From the ground up; a floor may import the floors before it (and itself).
FLOORS = [
    ["__init__"],
    ["errors"],
    ["records", "patterns"],
    [
        "ids",
        "limits",
        "progress",
        "waits",
        "faults",
        "jsontext",
        "times",
        "spill",
        "arguments",
        "outputs",
        "fields",
        "lifecycle",
    ],
    ["layout"],
    ["config_file"],
    ["settings"],
    ["schema"],
    ["values"],
    ["query"],
    ["storage"],
    ["tables"],
    ["manifest"],
    ["catalog"],
    ["history"],
    ["original"],
    ["write"],
    ["topology"],
    ["indexes"],
    ["rules"],
    ["change"],
    ["load", "export"],
    ["diff"],
    ["read"],
    ["maintenance", "migrate"],
    ["merge"],
    ["view"],
    ["opened"],
    ["writes"],
    ["merging"],
    ["maintaining"],
    ["branching"],
    ["undoing"],
    ["graph"],
    ["api"],
    ["spark"],
    ["shapes"],
]
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}

# Lance calls that move a HEAD by themselves. `tables/` owns them all.
INLINE_COMMITS = {
    "write_dataset",
    "merge_insert",
    "create_scalar_index",
    "create_index",
    "optimize_indices",
    "compact_files",
    "cleanup_old_versions",
    "update_config",
    "update_metadata",
    "update_schema_metadata",
    "replace_schema_metadata",
    "update_field_metadata",
    "add_columns",
    "alter_columns",
    "drop_columns",
    "truncate_table",
    "create_branch",
    "commit_batch",
    "commit_existing_index_segments",
}


def violations_of_floors() -> list[str]:
    found = []
    for path, tree in sources(CORE):
        mine = floor_of(path)
        for line, name in imports(tree):
            parts = name.split(".")
            if parts[0] == "omnigraph_cli":
                found.append(f"{path}:{line} the core imports the command line")
            if parts[0] != "omnigraph_core" or len(parts) < 2:
                continue
            theirs = parts[1] if parts[1] in LEVEL else "__init__"
            if LEVEL[theirs] > LEVEL[mine] or (LEVEL[theirs] == LEVEL[mine] and theirs != mine):
                found.append(f"{path}:{line} {mine} imports {theirs}, which is not below it")
    return found


def test_every_module_has_a_floor() -> None:
    assert {floor_of(path) for path, _ in sources(CORE)} <= set(LEVEL)


def test_floors_import_downwards_only() -> None:
    assert violations_of_floors() == []


def test_the_facade_stays_short() -> None:
    """What is not facade belongs to a floor below."""
    for name in ("graph.py", "opened.py", "writes.py", "merging.py", "maintaining.py"):
        assert len((CORE / name).read_text().splitlines()) < 300, name


@pytest.mark.parametrize(("library", "owner"), [("lance", "tables"), ("pyspark", "spark")])
def test_one_floor_owns_a_library(library: str, owner: str) -> None:
    users = {
        floor_of(path)
        for path, tree in sources(CORE)
        for _, name in imports(tree)
        if name.split(".")[0] == library
    }
    assert users <= {owner}
    assert not any(name.split(".")[0] == library for _, tree in sources(CLI) for _, name in imports(tree))


def test_schema_and_query_are_pure() -> None:
    """No I/O library and no Arrow, except in the module that is about Arrow."""
    impure = {"pyarrow", "lance", "numpy", "os", "pathlib", "subprocess", "socket", "obstore"}
    found = [
        f"{path}:{line} {name}"
        for floor in ("schema", "query")
        for path, tree in sources(CORE / floor)
        if path.name != "arrow.py"
        for line, name in imports(tree)
        if name.split(".")[0] in impure
    ]
    assert found == []


def test_only_settings_reads_the_environment() -> None:
    """And what hands a whole environment to another process, before there are settings."""
    found = []
    for root in (CORE, CLI):
        for path, tree in sources(root):
            if path == CORE / "settings.py" or path.parent == CLI / "warm":
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb"):
                    found.append(f"{path}:{node.lineno}")
    assert found == []


def test_the_core_prints_nothing_and_reads_no_arguments() -> None:
    found = []
    for path, tree in sources(CORE):
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("print", "input")
            ):
                found.append(f"{path}:{node.lineno} {node.func.id}")
            if isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr", "argv"):
                found.append(f"{path}:{node.lineno} {node.attr}")
    assert found == []


def test_no_inline_commit_outside_tables() -> None:
    found = []
    for path, tree in sources(CORE):
        if floor_of(path) == "tables":
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in INLINE_COMMITS
            ):
                found.append(f"{path}:{node.lineno} {node.func.attr}")
    assert found == []


def test_house_rules() -> None:
    """No catch-all modules, no leftover TODO, no bare except."""
    found = []
    for root in (CORE, CLI):
        for path, tree in sources(root):
            if path.stem.rstrip("s") in ("util", "helper", "misc", "common", "manager"):
                found.append(f"{path}: a name that says nothing")
            found += [
                f"{path}:{node.lineno} bare except"
                for node in ast.walk(tree)
                if isinstance(node, ast.ExceptHandler) and node.type is None
            ]
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if any(word in line for word in ("TO" + "DO", "FIX" + "ME", "X" + "XX")):
                    found.append(f"{path}:{number} {line.strip()}")
    assert found == []
