"""The schemas of one graph by their hash. A hash has one schema, so each is read once per process."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph_core.catalog.files import Catalog, schema_at
from omnigraph_core.schema import Schema
from omnigraph_core.storage import ControlStore


class Schemas:
    """Nobody asks for "the" schema of a graph: a snapshot was published with one, named by its hash."""

    def __init__(self, control: ControlStore, accepted: Callable[[], Catalog]) -> None:
        self._control = control
        self._accepted = accepted
        self._known: dict[str, Schema] = {}

    def keep(self, catalog: Catalog) -> None:
        """What the schema files say needs no second reading."""
        self._known.setdefault(catalog.schema_hash, catalog.schema)

    def by_hash(self, published: str) -> Schema:
        """The schema with this hash. The first question also checks that the schema files agree."""
        if published not in self._known:
            self.keep(self._accepted())
        return self.kept(published)

    def of_commit(self, published: str | None) -> Schema:
        """The schema that a commit names; the accepted one where none is named, by older writers."""
        return self._accepted().schema if published is None else self.by_hash(published)

    def kept(self, published: str) -> Schema:
        """The same, even while the schema files of the root are being edited by hand."""
        if published not in self._known:
            self._known[published] = schema_at(self._control, published)
        return self._known[published]
