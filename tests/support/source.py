"""The source of the packages, parsed, for tests that read it."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.processes import REPOSITORY

CORE = REPOSITORY / "omnigraph_core"
CLI = REPOSITORY / "omnigraph_cli"


@functools.cache
def sources(root: Path) -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(root.rglob("*.py"))]


def floor_of(path: Path) -> str:
    return path.relative_to(CORE).parts[0].removesuffix(".py")


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def failpoints() -> list[str]:
    """Every place of the library where a process can be made to stand still."""
    found: set[str] = set()
    for path in CORE.rglob("*.py"):
        found.update(re.findall(r'faults\.hit\("([^"]+)"\)', path.read_text(encoding="utf-8")))
    return sorted(found | {f"write.table_committed.{number}" for number in range(1, 4)})
