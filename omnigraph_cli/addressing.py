"""Which graph a command works on, and why that one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, UsageError
from omnigraph_core.records import dataclass
from omnigraph_core.settings import Settings


@dataclass(frozen=True, slots=True)
class Address:
    """The location of a graph as given, and where it was given."""

    place: str
    because: str


def given_place(store: str | None, positional: str | None) -> Address | None:
    """The graph that the command line names, if it names one."""
    if store is not None and positional is not None:
        raise UsageError(
            f"both --store '{store}' and GRAPH '{positional}' were given", hint="name the graph once"
        )
    if store is not None:
        return Address(store, "--store")
    return Address(positional, "argument") if positional is not None else None


def configured_place(settings: Settings) -> Address | None:
    """The graph that the environment or the nearest config file names."""
    if settings.store:
        return Address(settings.store, "OMNIGRAPH_STORE")
    config = settings.config
    if config is not None and config.store:
        return Address(_beside(config.path, config.store), str(config.path))
    if settings.user is not None and settings.user.store:
        return Address(_beside(settings.user.path, settings.user.store), str(settings.user.path))
    return None


def find_graph(given: Address | None, settings: Settings) -> Address:
    """The graph of a command that needs one to exist."""
    found = given or configured_place(settings)
    if found is not None:
        return found
    here = settings.working_directory
    if _looks_like_graph(here):
        return Address(str(here), "working directory")
    config = (
        f"{settings.config.path} has no store"
        if settings.config
        else "there is no omnigraph.toml here or above"
    )
    raise NotFoundError(
        "no graph was named: there is no --store or GRAPH, OMNIGRAPH_STORE is not set, "
        f"{config}, and {here} is not a graph",
        hint="name the graph, or create one with `omnigraph init`",
    )


def is_file(address: Address, settings: Settings) -> bool:
    """Does the address name a file? A graph is a directory."""
    from omnigraph_core.storage import parse_location

    location = parse_location(address.place, settings.working_directory)
    return location.is_local and os.path.exists(location.root) and not os.path.isdir(location.root)


def share_with_group(place: str, settings: Settings) -> None:
    """Let the files of this command be the group's, if the graph's directory is.

    Lance makes most of them, with the permissions that the process gives to every new file; most
    users' would keep the others of the group out of what this command makes.
    """
    from omnigraph_core.storage import parse_location

    location = parse_location(place, settings.working_directory)
    try:
        shared = location.is_local and os.stat(location.root).st_mode & stat.S_IWGRP
    except OSError:
        return
    if shared:
        os.umask(os.umask(0o077) & ~stat.S_IRWXG)


def _beside(config_file: Path, store: str) -> str:
    """A relative store in a config file is relative to that file."""
    return store if "://" in store else str(config_file.parent / store)


def _looks_like_graph(directory: Path) -> bool:
    return any((directory / layout.MANIFEST / "_versions").glob("*.manifest"))
