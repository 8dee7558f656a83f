"""The part of the facade that says what was done to a graph, and takes it back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph_core import arguments
from omnigraph_core.branching import GraphBranches

if TYPE_CHECKING:
    from omnigraph_core.history.operations import Operation
    from omnigraph_core.merge.undo import Undone


class GraphOperations(GraphBranches):
    """An open graph whose operations are on record."""

    def operations(self, limit: int | None = None) -> list[Operation]:
        """Everything that published or moved a branch or a tag, newest first. Writes nothing."""
        arguments.count("limit", limit)
        from omnigraph_core.history.operations import newest_operations

        names = self._names()
        return [each.named(names.of) for each in newest_operations(self._manifest, limit)]

    def undo(
        self, operation: str | None = None, *, actor: str | None = None, message: str | None = None
    ) -> Undone:
        """Take the last operation back, or the one of an id, as a new operation.

        Conflicts with what happened since are raised like those of `revert`; then nothing changes.
        """
        arguments.optional_texts(operation=operation, actor=actor, message=message)
        from omnigraph_core.history.operations import find_operation, last_to_undo
        from omnigraph_core.merge.undo import Undo

        signed = self._signed(actor)
        if operation is None:
            found = last_to_undo(self._manifest)
        else:
            found = find_operation(self._manifest, operation)
        names = self._names()
        done = Undo(self.door, signed, message).run(found)
        return replace(done, operation=done.operation.named(names.of))
