"""Help: grouped, examples first, nothing cut; topics; and that what it names exists."""

from __future__ import annotations

import re

import pytest

from omnigraph_cli.environment import ENVIRONMENT
from omnigraph_cli.help_text import children_of, examples_of, help_of, summary_of
from omnigraph_cli.suggestions import _WORDS
from omnigraph_cli.tree import GROUPS, whole_tree
from tests.support.processes import REPOSITORY, Omnigraph


def test_every_listed_command_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(name for name, _ in children_of(whole_tree()))


@pytest.mark.parametrize("room", [40, 80])
def test_the_first_page_has_all_commands_and_cuts_nothing(room: int) -> None:
    text = help_of(whole_tree(), ["omnigraph"], room)
    assert max(map(len, text.splitlines())) <= room
    joined = " ".join(text.split())
    assert [title for title in GROUPS if f"{title}:" not in text] == []
    for _, child in children_of(whole_tree()):
        assert " ".join(summary_of(child).split()) in joined
    assert "..." not in text


def test_examples_come_first(omnigraph: Omnigraph) -> None:
    text = omnigraph("load", "--help").out
    order = ["Usage: ", "Examples:", "Arguments:", "\nOptions:", "Options of every command:"]
    assert [text.index(each) for each in order] == sorted(text.index(each) for each in order)
    assert "Required." in text


def test_help_by_word(omnigraph: Omnigraph) -> None:
    assert omnigraph("help").out == omnigraph("--help").out
    assert omnigraph("help", "load").out == omnigraph("load", "--help").out
    assert omnigraph("help", "branch", "merge").out == omnigraph("branch", "merge", "-h").out
    assert omnigraph("help", "nothing").code == 6
    assert "did you mean `omnigraph help refs`?" in omnigraph("help", "ref").err


@pytest.mark.parametrize(
    ("topic", "has"),
    [
        ("refs", "REF@{TIME}"),
        ("pg", "node Person"),
        ("gq", "query "),
        ("formats", "CSV"),
        ("exit-codes", "130"),
        ("environment", "OMNIGRAPH_STORE"),
        ("guarantees", "test"),
    ],
)
def test_topics(topic: str, has: str, omnigraph: Omnigraph) -> None:
    done = omnigraph("help", topic)
    assert (done.code, has in done.out) == (0, True)
    assert "](" not in done.out


def test_the_environment_is_whole() -> None:
    read = set(re.findall(r'"(OMNIGRAPH_[A-Z_]+|AWS_[A-Z0-9_]+)"', _settings_source()))
    told = {name for names in ENVIRONMENT for name in names.split(", ")}
    assert read - told == set()


def _settings_source() -> str:
    folder = REPOSITORY / "omnigraph_core"
    return (folder / "settings.py").read_text() + (folder / "config_file.py").read_text()


def test_hints_name_commands_that_exist() -> None:
    tree = whole_tree()
    for said in _WORDS.values():
        if said.startswith("omnigraph "):
            words = said.split()[1:]
            child = tree.commands[words[0]]
            assert not hasattr(child, "commands") or words[1] in child.commands, said


def test_examples_name_options_that_exist() -> None:
    def check(command: object, path: list[str]) -> None:
        for name, child in getattr(command, "commands", {}).items():
            check(child, [*path, name])
        options = {each for param in command.params for each in (*param.opts, *param.secondary_opts)}  # type: ignore[attr-defined]
        for example in examples_of(command):
            own = example.partition(" ".join(path))[2]
            used = re.findall(r"(?<![\w'])(--[a-z-]+)", own.partition("&&")[0].partition("|")[0])
            assert [each for each in used if each not in options] == [], example

    check(whole_tree(), ["omnigraph"])
