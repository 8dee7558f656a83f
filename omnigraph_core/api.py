"""`omnigraph_core.open` and `init`: the first line of a script that uses the library."""

from __future__ import annotations

import os
from builtins import open as io_open
from dataclasses import replace

from omnigraph_core import arguments
from omnigraph_core.errors import UsageError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings, load_settings


def open(  # noqa: A001
    place: str | os.PathLike[str],
    *,
    read_only: bool = False,
    actor: str | None = None,
    settings: Settings | None = None,
) -> Graph:
    """Open a graph: a path, a `file://` or an `s3://` URI.

    Nothing is written until the first write; that one first repairs what dead writers left. With
    `read_only`, whatever would write is refused. `actor` signs the commits of this graph. Without
    `settings`, the environment and `omnigraph.toml` are read, as the command line reads them.
    """
    arguments.flags(read_only=read_only)
    mode = OpenMode.READ_ONLY if read_only else OpenMode.ON_DEMAND
    return Graph.open(_text(place), _settings(settings, actor), mode)


def init(
    place: str | os.PathLike[str],
    schema: str | os.PathLike[str],
    *,
    actor: str | None = None,
    message: str | None = None,
    settings: Settings | None = None,
) -> Graph:
    """Create a graph and open it. `schema` is the text of a schema or, as a `Path`, a file of it."""
    used = _settings(settings, actor)
    source, name = _schema(schema)
    return Graph.init(_text(place), source, used, source_name=name, message=message)


def _settings(settings: Settings | None, actor: str | None) -> Settings:
    arguments.optional_texts(actor=actor)
    if settings is None:
        settings = load_settings()
    arguments.instance("settings", settings, Settings, "settings or None")
    return settings if actor is None else replace(settings, actor=actor)


def _text(place: object) -> str:
    named = os.fspath(place) if isinstance(place, os.PathLike) else place
    arguments.texts(place=named)
    assert isinstance(named, str)
    return named


def _schema(schema: object) -> tuple[str, str]:
    """The text, and what errors call it."""
    if not isinstance(schema, os.PathLike):
        arguments.texts(schema=schema)
        assert isinstance(schema, str)
        return schema, "<schema>"
    path = os.fspath(schema)
    try:
        with io_open(path, encoding="utf-8") as file:
            return file.read(), path
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"the schema file '{path}' cannot be read: {reason}", field="schema") from error
