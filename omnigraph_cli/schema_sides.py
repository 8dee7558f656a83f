"""What `schema diff` compares: the schema of a ref, or a file."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph_cli.run import Run
from omnigraph_cli.sources import read_source
from omnigraph_core.errors import NotFoundError

if TYPE_CHECKING:
    from omnigraph_core.graph import Graph
    from omnigraph_core.schema import Schema

_PATHS = ("./", "../", "/")
_SUFFIX = ".pg"


class Sides:
    """Both sides of a comparison; the graph is opened by the first that needs it."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def schema(self, name: str) -> Schema:
        """The schema that a word of the command line means.

        What looks like a path is one. Anything else is a ref first, so that a file that happens to
        be called `main` cannot take the place of the branch.
        """
        if name == "-" or name.endswith(_SUFFIX) or name.startswith(_PATHS):
            return _compiled(name)
        try:
            return self._graph.catalog_of(name).schema
        except NotFoundError:
            if not os.path.isfile(name):
                raise
        return _compiled(name)

    @cached_property
    def _graph(self) -> Graph:
        from omnigraph_core.graph import OpenMode

        return self._run.open(OpenMode.READ_ONLY)


def _compiled(path: str) -> Schema:
    from omnigraph_core.schema import compile_schema

    return compile_schema(*read_source(path))
