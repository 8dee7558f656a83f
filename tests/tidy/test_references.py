"""What messages and pages refer to exists: commands, options, tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from omnigraph_cli.command_line import spelled_out
from omnigraph_cli.tree import build_app
from tests.support.processes import REPOSITORY

CORE, CLI = REPOSITORY / "omnigraph_core", REPOSITORY / "omnigraph_cli"
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CHANGELOG.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
ROOT: Any = get_command(build_app())

# Known offenders. An entry that is no longer needed fails the test as well: remove it.
UNKNOWN_COMMANDS: set[tuple[str, str]] = set()
# Modules of the core that name options. `java` and `submit` build command lines of other programs.
OPTIONS_IN_CORE = {
    "omnigraph_core/spark/java.py",
    "omnigraph_core/spark/submit.py",
}

_QUOTED = re.compile(r"`(omnigraph [^`]+)`")
_SHELL = re.compile(r"^ {4}(?:\$ )?(?:[a-z]+ [^|\n]*\| )?(omnigraph [^|>\n]*)", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|-[a-zA-Z](?![\w-]))")


def texts(path: Path) -> Iterator[str]:
    """Every string of a module, with `{}` for what is filled in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def complaint(usage: str) -> str | None:
    """What the command tree does not have of a usage such as `omnigraph blob get|stat ID [--out F]`."""
    words = spelled_out(usage.replace("\\|", "|").split()[1:])
    commands: list[Any] = [ROOT]
    while words and hasattr(commands[0], "commands") and re.fullmatch(r"[a-z|]+", words[0]):
        names = words.pop(0).split("|")
        missing = [name for name in names if name not in commands[0].commands]
        if missing:
            return f"no command {missing[0]}"
        commands = [commands[0].commands[name] for name in names]
    known = {"-h", "--help"}.union(
        *({name for parameter in command.params for name in parameter.opts} for command in commands)
    )
    quoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", " ".join(words))
    unknown = [option for option in _OPTION.findall(quoted) if option not in known]
    return f"no option {unknown[0]}" if unknown else None


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ("omnigraph load --data x --mode merge", None),
        ("omnigraph blob get|stat node T ID [--out FILE]", None),
        ("omnigraph COMMAND --help", None),
        ("omnigraph query -e 'query q() { … --anything }'", None),
        ("omnigraph brunch list", "no command brunch"),
        ("omnigraph branch lost", "no command lost"),
        ("omnigraph load --dat x", "no option --dat"),
        ("omnigraph init -z", "no option -z"),
        ("omnigraph --store g branch --json list", None),
        ("omnigraph --store g brunch list", "no command brunch"),
    ],
)
def test_the_check_itself(usage: str, expected: str | None) -> None:
    assert complaint(usage) == expected


def test_messages_name_commands_that_exist() -> None:
    found = {
        (str(path.relative_to(REPOSITORY)), usage)
        for package in (CORE, CLI)
        for path in package.rglob("*.py")
        for text in texts(path)
        for usage in _QUOTED.findall(text)
        if complaint(usage)
    }
    assert found == UNKNOWN_COMMANDS


def test_help_examples_name_commands_that_exist() -> None:
    usages = [
        usage
        for path in (CLI / "commands").glob("*.py")
        for text in texts(path)
        for usage in re.findall(r"(?:^|&& |\| )(omnigraph [^|>]*)", text)
        if not text.startswith("omnigraph {}")
    ]
    assert len(usages) > 30
    assert [(usage, wrong) for usage in usages if (wrong := complaint(usage))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_pages_name_commands_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    usages = [*_QUOTED.findall(text), *_SHELL.findall(text)]
    assert [(usage, wrong) for usage in usages if (wrong := complaint(usage))] == []


def test_the_core_names_no_options() -> None:
    """Errors of the core carry a `field`; omnigraph_cli/wording.py has the option for it."""
    found = {
        str(path.relative_to(REPOSITORY))
        for path in CORE.rglob("*.py")
        if any(re.search(r"(?<![\w-])--[a-z]", text) for text in texts(path))
    }
    assert found == OPTIONS_IN_CORE


def leaves(path: tuple[str, ...], group: Any) -> Iterator[str]:
    for name, child in group.commands.items():
        if hasattr(child, "commands"):
            yield from leaves((*path, name), child)
        elif not child.hidden:
            yield " ".join((*path, name))


def test_the_command_table_of_the_readme_is_the_command_tree() -> None:
    table = re.findall(r"^\| (`omnigraph .*?) \| ", (REPOSITORY / "README.md").read_text(), re.MULTILINE)
    listed = []
    for cell in table:
        first, *others = re.findall(r"`([^`]+)`", cell)
        assert complaint(first) is None, first
        words = first.replace("\\|", "|").split()[1:]
        group = [words.pop(0)] if hasattr(ROOT.commands[words[0]], "commands") else []
        for entry in [" ".join(words), *others]:
            assert complaint(" ".join(["omnigraph", *group, entry])) is None, entry
            listed += [" ".join([*group, name]) for name in entry.split()[0].split("|")]
    assert sorted(listed) == sorted(leaves((), ROOT))


def test_every_test_that_a_guarantee_names_exists() -> None:
    rows = re.findall(r"^\| .* \| (`.*) \|$", (REPOSITORY / "docs/guarantees.md").read_text(), re.MULTILINE)
    missing, names = [], 0
    for cell in (cell for cell in rows if "test" in cell and "python -m" not in cell):
        path = REPOSITORY
        for reference in re.findall(r"`([^`]+)`", cell):
            file, _, function = reference.partition("::")
            if file:
                path = REPOSITORY / file if file.startswith("tests/") else path.parent / file
            names += 1
            if not path.exists() or (function and f"def {function}(" not in path.read_text()):
                missing.append(reference)
    assert missing == []
    assert names > 60
