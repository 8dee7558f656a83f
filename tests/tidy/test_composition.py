"""Spark plays the roles that a load defines: it inherits nothing concrete, and touches nothing private."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from tests.support.source import CORE, floor_of, sources

FLOOR = "spark"
LENT_BY = ("load", "rules")


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def base_names(node: ast.ClassDef) -> list[str]:
    return [base.id for base in node.bases if isinstance(base, ast.Name)]


@functools.cache
def concrete_classes() -> frozenset[str]:
    """Classes of the floors below that are no protocol and no abstract base, by module and name."""
    found = set()
    for path, tree in sources(CORE):
        if floor_of(path) in LENT_BY:
            module = ".".join(path.relative_to(CORE.parent).with_suffix("").parts)
            for node in classes(tree):
                if not {"ABC", "Protocol"} & set(base_names(node)):
                    found.add(f"{module}.{node.name}")
    return frozenset(found)


def private_names(tree: ast.Module) -> set[str]:
    """Names with one leading underscore that a module defines: functions, classes, attributes, fields."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.attr if isinstance(node, ast.Attribute) else node.id)
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


@functools.cache
def private_elsewhere() -> frozenset[str]:
    return frozenset(
        name for path, tree in sources(CORE) if floor_of(path) != FLOOR for name in private_names(tree)
    )


def faults_of(tree: ast.Module, where: str) -> list[str]:
    found = []
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("omnigraph_core"):
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                if alias.name.startswith("_") and not alias.name.startswith("__"):
                    found.append(f"{where}:{node.lineno} imports {alias.name}")
    for node in classes(tree):
        for name in base_names(node):
            if imported.get(name) in concrete_classes():
                found.append(f"{where}:{node.lineno} {node.name} is a {imported[name]}")
    foreign = private_elsewhere() - private_names(tree)
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute) and each.attr in foreign:
            found.append(f"{where}:{each.lineno} touches {each.attr}")
    return found


def test_spark_inherits_nothing_concrete_and_touches_nothing_private() -> None:
    found = []
    for path, tree in sources(CORE):
        if floor_of(path) == FLOOR:
            found += faults_of(tree, str(path.relative_to(CORE)))
    assert found == []


def test_what_is_looked_for_would_be_found() -> None:
    source = """
from omnigraph_core.load.run import Load
from omnigraph_core.load.roles import KeptRows
from omnigraph_core.load.staging import Stager, _Written

class Mine(Load):
    def run(self):
        self._own = self._budget

class Rows(KeptRows):
    pass
"""
    found = faults_of(ast.parse(source), "mine.py")
    assert [each.split(" ", 1)[1] for each in found] == [
        "imports _Written",
        "Mine is a omnigraph_core.load.run.Load",
        "touches _budget",
    ]
