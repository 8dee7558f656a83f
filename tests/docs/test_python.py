"""The examples of docs/python.md, and the notebook, are run and give what they show."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import REPOSITORY, clean_environment

NOTEBOOK = REPOSITORY / "examples/quickstart.ipynb"


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OMNIGRAPH_STORE", "OMNIGRAPH_BRANCH", "OMNIGRAPH_ACTOR", "OMNIGRAPH_MEMORY_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMNIGRAPH_FSYNC", clean_environment()["OMNIGRAPH_FSYNC"])


def test_the_examples_of_the_page() -> None:
    page = (REPOSITORY / "docs/python.md").read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(page, {}, "python.md", None, 0)
    assert len(test.examples) > 25
    said = io.StringIO()
    failed, _ = doctest.DocTestRunner().run(test, out=said.write)
    assert not failed, said.getvalue()


def shown(cell: dict[str, Any]) -> str:
    """What a cell of the notebook shows as plain text."""
    texts = []
    for output in cell["outputs"]:
        content = output.get("text") or output.get("data", {}).get("text/plain") or []
        texts.append("".join(content))
    return "".join(texts)


def executed(source: str, names: dict[str, Any]) -> str:
    """Run a cell as Jupyter does: the value of its last expression is shown."""
    parsed = ast.parse(source)
    last = parsed.body.pop() if parsed.body and isinstance(parsed.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(parsed, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
            if value is not None:
                said.write(repr(value))
    return said.getvalue()


def comparable(text: str) -> str:
    return re.sub(r"\b[0-9A-HJKMNP-TV-Z]{26}\b|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "…", text).strip()


def test_the_notebook() -> None:
    """Without Jupyter, which would be the largest part of the environment: cells in order, one namespace."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 5
    for cell in cells:
        source = "".join(cell["source"])
        assert comparable(executed(source, names)) == comparable(shown(cell)), source
