"""What the command line makes of an error of the core that names an argument."""

from __future__ import annotations

import ast
from typing import Any

from typer.main import get_command

from omnigraph_cli.output import failure_object
from omnigraph_cli.tree import build_app
from omnigraph_cli.wording import OPTIONS, hint_of, message_of
from omnigraph_core.errors import UsageError
from tests.support.processes import REPOSITORY


def test_an_argument_at_fault_leads_the_message() -> None:
    error = UsageError("x is a directory", field="out")
    assert (message_of(error), hint_of(error)) == ("--out: x is a directory", None)


def test_an_argument_that_helps_ends_the_hint() -> None:
    error = UsageError("Parquet is binary", hint="write it to a file", field="out")
    assert (message_of(error), hint_of(error)) == ("Parquet is binary", "write it to a file with --out PATH")


def test_an_error_without_a_field_is_left_alone() -> None:
    error = UsageError("no", hint="try yes")
    assert (message_of(error), hint_of(error)) == ("no", "try yes")


def test_the_json_failure_has_the_words_and_the_field() -> None:
    shown = failure_object(UsageError("x is a directory", field="out"))
    assert list(shown.items()) == [
        ("error", "--out: x is a directory"),
        ("code", "usage"),
        ("exit", 2),
        ("retryable", False),
        ("hint", None),
        ("field", "out"),
    ]


def test_every_field_has_an_option() -> None:
    """Both ways: no field of the core without words, no words without a field, no made-up option."""
    fields = {
        keyword.value.value
        for path in (REPOSITORY / "omnigraph_core").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "field" and isinstance(keyword.value, ast.Constant)
    }
    assert fields == set(OPTIONS)
    assert {option.split(" ")[0] for option in OPTIONS.values()} <= _options(get_command(build_app()))


def _options(command: Any) -> set[str]:
    own = {name for parameter in command.params for name in parameter.opts}
    return own.union(*(_options(child) for child in getattr(command, "commands", {}).values()))
