"""docs/json.md has every key that the shapes write, in the section of its command."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.processes import REPOSITORY

# The functions of omnigraph_core/shapes, and the section that describes what they return.
SECTIONS = {
    "failure": "Failures",
    "initialized": "`init`",
    "snapshot": "`snapshot`",
    "loaded": "`load`",
    "changed": "`change`",
    "query_head": "`query`",
    "query_metadata": "`query`",
    "query_plan": "`query`",
    "lint_report": "`lint`",
    "blob": "`blob stat`",
    "entity": "`get`, `head` and `describe`",
    "entities": "`get`, `head` and `describe`",
    "described": "`get`, `head` and `describe`",
    "status": "`status`",
    "branch_created": "`branch`",
    "branch_list": "`branch`",
    "branch_deleted": "`branch`",
    "branch_renamed": "`branch`",
    "merged": "`branch merge`",
    "merged_branch_deleted": "`branch merge`",
    "branch_undeleted": "`branch`",
    "tag": "`tag`",
    "tag_created": "`tag`",
    "tag_list": "`tag`",
    "tag_deleted": "`tag`",
    "operation_log": "`op log`",
    "operation": "`op log`",
    "undone": "`undo`",
    "commit": "`commit`",
    "commit_list": "`commit`",
    "unknown_changes": "`commit`",
    "blame": "`blame`",
    "origin": "`blame`",
    "diff_head": "`diff`",
    "diff_counts": "`diff`",
    "schema_difference": "`diff`",
    "entity_change": "`diff`",
    "pending_write": "`recovery`",
    "recovery": "`recovery`",
    "recovery_list": "`recovery`",
    "recovery_run": "`recovery`",
    "topology_built": "`index build`",
    "optimized": "`optimize`",
    "cleaned": "`cleanup`",
    "maintained": "`maintain`",
    "findings": "`doctor`",
    "repaired": "`repair`",
    "relocated": "`relocate`",
    "adopted": "`adopt`",
    "schema": "`schema show`",
    "schema_plan": "`schema plan`",
    "schema_applied": "`schema apply`",
    "schema_diff": "`schema diff`",
    "spark_package": "`spark package`",
    "version": "`version`",
    "warm_servers": "`warm`",
}
# Returns a value, not an object.
OTHERS = {"value"}

SHAPES = [
    ast.parse(path.read_text(encoding="utf-8"))
    for path in (REPOSITORY / "omnigraph_core" / "shapes").glob("*.py")
]
FUNCTIONS = {node.name: node for tree in SHAPES for node in tree.body if isinstance(node, ast.FunctionDef)}
PAGE = (REPOSITORY / "docs" / "json.md").read_text(encoding="utf-8")


def keys_of(name: str) -> set[str]:
    """Every key that a function writes, those of its private helpers included."""
    keys: set[str] = set()
    for node in ast.walk(FUNCTIONS[name]):
        if isinstance(node, ast.Dict):
            keys |= {key.value for key in node.keys if isinstance(key, ast.Constant)}
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            keys.add(node.slice.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("_"):
            keys |= keys_of(node.func.id)
    return keys


def test_no_name_is_used_twice() -> None:
    assert len(FUNCTIONS) == sum(isinstance(node, ast.FunctionDef) for tree in SHAPES for node in tree.body)


def test_every_shape_has_a_section() -> None:
    assert {name for name in FUNCTIONS if not name.startswith("_")} == SECTIONS.keys() | OTHERS


@pytest.mark.parametrize("name", SECTIONS)
def test_the_section_names_every_key(name: str) -> None:
    section = re.search(rf"^## {re.escape(SECTIONS[name])}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    code = " ".join(re.findall(r"```.*?```|`[^`]+`", section[1], re.DOTALL))
    keys = keys_of(name)
    assert keys
    assert keys - set(re.findall(r"\w+", code)) == set()
