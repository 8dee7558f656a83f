"""docs/cli-guidelines.md has all 31 points, and the tests that it names exist."""

from __future__ import annotations

import ast
import re

from tests.support.processes import REPOSITORY

PAGE = (REPOSITORY / "docs" / "cli-guidelines.md").read_text(encoding="utf-8")


def test_all_points_are_there() -> None:
    numbers = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, 32))


def test_every_named_test_exists() -> None:
    for path, _, name in (each.partition("::") for each in re.findall(r"`(tests/[^`]+)`", PAGE)):
        text = (REPOSITORY / path).read_text(encoding="utf-8")
        functions = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
        assert not name or name in functions, f"{path}::{name}"
