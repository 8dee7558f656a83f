"""The command tree: all of it for help and completion, one command of it to run that command.

Importing and declaring every command takes longer than most commands run, so a command line
that names a command gets a tree with that one alone. Users cannot tell: help, completion and
the answer to a mistyped name use the whole tree.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from omnigraph_cli.arguments import Group
from omnigraph_cli.run import VersionOption

PROGRAM = "omnigraph"

# Module in `commands/` to the words that run it, in the order of the help.
COMMANDS: dict[str, tuple[str, ...]] = {
    "help": ("help",),
    "init": ("init",),
    "load": ("load",),
    "change": ("change", "mutate"),
    "query": ("query", "read"),
    "lint": ("lint", "check"),
    "export": ("export",),
    "blob": ("blob",),
    "status": ("status", "st", "info"),
    "shell": ("shell",),
    "look": ("get", "head", "describe"),
    "snapshot": ("snapshot",),
    "branch": ("branch",),
    "tag": ("tag",),
    "merging": ("revert", "merge"),
    "undo": ("undo",),
    "op": ("op",),
    "commit": ("commit", "log", "show"),
    "diff": ("diff",),
    "blame": ("blame",),
    "schema": ("schema",),
    "optimize": ("optimize",),
    "index": ("index",),
    "cleanup": ("cleanup",),
    "maintain": ("maintain",),
    "doctor": ("doctor",),
    "repair": ("repair",),
    "recovery": ("recovery",),
    "relocate": ("relocate",),
    "adopt": ("adopt",),
    "spark": ("spark",),
    "config": ("config",),
    "completion": ("completion",),
    "warm": ("warm",),
    "version": ("version",),
}

# The listed commands by what they are for, in the order of the help.
GROUPS: dict[str, tuple[str, ...]] = {
    "Start": ("init", "load", "query", "shell", "status", "help"),
    "Data": ("change", "get", "head", "describe", "export", "lint", "blob"),
    "Branches and history": (
        "branch",
        "commit",
        "diff",
        "blame",
        "tag",
        "revert",
        "undo",
        "op",
        "snapshot",
    ),
    "Schema": ("schema",),
    "Maintenance": (
        "maintain",
        "optimize",
        "index",
        "cleanup",
        "doctor",
        "repair",
        "recovery",
        "relocate",
        "adopt",
    ),
    "Tools": ("config", "completion", "spark", "warm", "version"),
}


def command_for(argv: Sequence[str]) -> Any:
    """What runs this command line."""
    first = argv[0] if argv else None
    return _built(first if any(first in words for words in COMMANDS.values()) else None)


def whole_tree() -> Any:
    """All commands, for help, completion and suggestions."""
    return _built(None)


def build_all() -> None:
    """Declare every command now, and its options, for processes that are to start without doing so."""
    for words in (*COMMANDS.values(), (None,)):
        for word in words:
            _build_options(_built(word), None)


def _build_options(command: Any, parent: Any) -> None:
    settings = command.context_settings
    context = command.context_class(command, info_name=command.name, parent=parent, **settings)
    command.make_parser(context)
    for each in getattr(command, "commands", {}).values():
        _build_options(each, context)


@functools.cache
def _built(first: str | None) -> Any:
    return typer.main.get_command(build_app([] if first is None else [first]))


def build_app(argv: Sequence[str] = ()) -> typer.Typer:
    """The tree that this command line needs; building it imports no data library."""
    app = typer.Typer(
        name=PROGRAM,
        cls=Group,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(version: VersionOption = False) -> None:
        """A git-like graph store: typed nodes and edges, atomic commits, branches, time travel."""

    first = argv[0] if argv else None
    named = [module for module, words in COMMANDS.items() if first in words]
    for module in named or COMMANDS:
        import_module(f"omnigraph_cli.commands.{module}").register(app)
    if named:  # and not its aliases either
        app.registered_commands = [each for each in app.registered_commands if each.name == first]
        app.registered_groups = [each for each in app.registered_groups if each.name == first]
    return app
