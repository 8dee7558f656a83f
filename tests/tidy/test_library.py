"""What `import omnigraph_core` offers, and what it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import Any

import omnigraph_core as og
from tests.support.processes import REPOSITORY, clean_environment

HEAVY = {"pyarrow", "lance", "numpy", "obstore", "pandas", "polars", "typer", "rich"}


def test_the_import_alone_loads_nothing() -> None:
    code = "import sys, omnigraph_core as og; og.__all__; og.BusyError; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(), capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert loaded & HEAVY == set()
    assert {name for name in loaded if name.startswith("omnigraph")} == {
        "omnigraph_core",
        "omnigraph_core.errors",
    }


def test_every_public_name_is_there() -> None:
    module: Any = og
    for name in og.__all__:
        assert getattr(module, name) is not None
    assert set(og.__all__) <= set(dir(og))


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    stub = ast.parse((REPOSITORY / "omnigraph_core/__init__.pyi").read_text())
    typed = {
        alias.asname: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    module: Any = og
    assert {name: f"omnigraph_core.{home}" for name, home in module._HOMES.items()} == typed


def test_every_kind_of_error_is_public() -> None:
    from omnigraph_core import errors

    kinds = {
        name
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, errors.OmnigraphError)
    }
    assert kinds <= set(og.__all__)
