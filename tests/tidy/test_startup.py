"""What a command loads before it needs to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from omnigraph_cli.tree import COMMANDS, build_app
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.processes import clean_environment
from tests.support.records import PEOPLE

DATA_LIBRARIES = {"lance", "pyarrow", "pyspark", "pandas", "numpy", "obstore", "duckdb"}
# Typer's conversion of arguments and its tables, and what an HTTP client needs.
NEVER = {"pydantic", "rich", "pyspark", "pandas", "obstore", "duckdb", "http.client", "email"}
WRITING = {
    "omnigraph_core.rules",
    "omnigraph_core.change",
    "omnigraph_core.load",
    "omnigraph_core.export",
    "omnigraph_core.indexes",
    "omnigraph_core.manifest.publisher",
    "omnigraph_core.write.door",
    "omnigraph_core.write.recovery",
}
LOOKUP = 'query q() { match { $p: Person { name: "Ann" } } return { $p.age } }'
HOP = 'query q() { match { $p: Person { name: "Ann" } $p knows $q } return { $q.name, $q.age } }'
ORDERED = "query q() { match { $p: Person } return { $p.name as n, $p.age } order { n } limit 2 }"

PROBE = """
import sys
from omnigraph_cli.main import main
try:
    main({arguments!r})
except SystemExit as end:
    code = end.code
print()
print(code, *sys.modules)
"""


def loaded_by(arguments: list[str], **environment: str) -> tuple[int, set[str]]:
    """The exit code of a command in a process of its own, and all modules it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(arguments=arguments)],
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        check=True,
    )
    code, *modules = done.stdout.splitlines()[-1].split(" ")
    return int(code), set(modules)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("startup") / "g"
    graph = Graph.init(str(root), PEOPLE, Settings(actor="ann", fsync=False))
    graph.change('query q() { insert Person { name: "Ann", age: 30 } insert Person { name: "Bob" } }')
    graph.change('query q() { insert Knows { from: "Ann", to: "Bob" } }')
    return str(root)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["init", "--help"],
        ["--version"],
        ["version"],
        ["completion", "bash"],
        ["snapshot", "/nowhere"],
    ],
    ids=" ".join,
)
def test_light_commands_load_no_data_library(arguments: list[str]) -> None:
    _, modules = loaded_by(arguments)
    assert modules & (DATA_LIBRARIES | NEVER) == set()


def test_completing_a_branch_loads_no_data_library() -> None:
    words = "omnigraph snapshot --branch m"
    _, modules = loaded_by([], _OMNIGRAPH_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD="3")
    assert modules & DATA_LIBRARIES == set()


def test_listing_branches_loads_no_data_library_and_nothing_that_writes(place: str) -> None:
    code, modules = loaded_by(["branch", "list", place])
    assert code == 0
    assert modules & (DATA_LIBRARIES | NEVER | WRITING | {"omnigraph_core.read"}) == set()


@pytest.mark.parametrize("arguments", [["query", "-e", LOOKUP], ["snapshot"]], ids=["query", "snapshot"])
def test_reading_loads_nothing_that_writes(arguments: list[str], place: str) -> None:
    code, modules = loaded_by([*arguments, "--store", place])
    assert code == 0
    assert modules & (NEVER | WRITING) == set()


@pytest.mark.parametrize("text", [LOOKUP, HOP, ORDERED], ids=["look-up", "hop", "ordered"])
def test_queries_do_not_load_what_arrow_asks_numpy_for(text: str, place: str) -> None:
    """Arrow loads `numpy.ma` to convert a NumPy array, whatever is in it."""
    code, modules = loaded_by(["query", "-e", text, "--store", place])
    assert code == 0
    assert "numpy.ma" not in modules


def test_a_command_loads_no_other_command(place: str) -> None:
    _, modules = loaded_by(["query", "-e", LOOKUP, "--store", place])
    assert [name for name in modules if name.startswith("omnigraph_cli.commands.")] == [
        "omnigraph_cli.commands.query"
    ]


def described(command: Any) -> object:
    """Everything a person can see of a command and of those under it."""
    children = getattr(command, "commands", {})
    options = [(each.name, each.opts, getattr(each, "help", None), each.metavar) for each in command.params]
    return (
        [command.name, command.help, command.epilog, command.hidden, options],
        {name: described(child) for name, child in children.items()},
    )


def test_a_word_alone_gives_the_command_that_the_whole_tree_has() -> None:
    whole: Any = get_command(build_app())
    words = [word for group in COMMANDS.values() for word in group]
    assert sorted(whole.commands) == sorted(words)
    for word in words:
        alone: Any = get_command(build_app([word, "--anything"]))
        assert described(alone.commands[word]) == described(whole.commands[word])
        assert list(alone.commands) == [word]


@pytest.mark.parametrize("argv", [[], ["--help"], ["brunch"], ["--", "query"]], ids=" ".join)
def test_what_names_no_command_gets_the_whole_tree(argv: list[str]) -> None:
    tree: Any = get_command(build_app(argv))
    assert len(tree.commands) == sum(map(len, COMMANDS.values()))


def test_numbers_are_converted_as_ever(place: str, tmp_path: Path) -> None:
    """A number that is no number is still refused."""
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph_cli", "query", "-e", LOOKUP, "--store", place, "--timeout", "x"],
        env=clean_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--timeout: 'x' is not a number" in done.stderr
