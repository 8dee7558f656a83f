"""What is known of published commits beside `__manifest`: history, audits, and writes under way.

Asked when the newest version of a manifest is missing or torn. A power cut may do that to
a publish that was not acknowledged; what these witnesses know of was. The exception is a
write whose sidecar is still there: its history is synced together with its publish, so
after a cut the one may be whole and the other torn, and its recovery publishes it anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph_core import layout
from omnigraph_core.manifest.reader import RecordedCommit
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.write.pending import pending_operations

if TYPE_CHECKING:
    from omnigraph_core.history.lost import MoveRecords
    from omnigraph_core.storage import ControlStore


def move_records(control: ControlStore) -> MoveRecords:
    """What is on record of the branches of a graph."""
    from omnigraph_core.history.lost import MoveRecords

    return MoveRecords(control, lambda: adopted_branches(control))


def adopted_branches(control: ControlStore) -> Mapping[str, str]:
    """The branches that came with a graph of the original."""
    from omnigraph_core.original.record import read_record

    found = read_record(control)
    return {} if found is None else found.branches


class Testimony:
    """The witnesses of one graph; see `manifest.reader.Testimony` for what they are asked."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def pending_commits(self) -> frozenset[str]:
        from omnigraph_core.write.sidecar import read_sidecar

        control = self._tables.storage.control
        found = (read_sidecar(control, each) for each in pending_operations(control))
        return frozenset(
            commit_id
            for sidecar in found
            if sidecar is not None
            for commit_id in (sidecar.head.commit_id, sidecar.recovery_commit_id)
        )

    def recorded_above(self, branch: str, version: int, *, thorough: bool = False) -> RecordedCommit | None:
        from omnigraph_core.history.recorded import recorded_above

        recorded = recorded_above(self._tables, branch, version)
        if thorough:
            recorded += self._audited_above(branch, version)
        pending = self.pending_commits() if recorded else frozenset()
        return next((each for each in reversed(recorded) if each.commit_id not in pending), None)

    def _audited_above(self, branch: str, version: int) -> list[RecordedCommit]:
        """Main's only: commit rows are safe before their audit row is written, so a branch's table
        knows as much, and an audit row of a deleted branch of the same name would mislead."""
        from omnigraph_core.history.recoveries import read_recoveries

        return [
            RecordedCommit(each.graph_commit_id, each.manifest_version)
            for each in read_recoveries(self._tables)
            if branch == each.branch == layout.MAIN_BRANCH and each.manifest_version > version
        ]

    def is_silent(self, branch: str) -> bool:
        from omnigraph_core.history.recorded import commit_table_is_torn

        return commit_table_is_torn(self._tables, branch) and not self.pending_commits()

    @cached_property
    def _moves(self) -> MoveRecords:
        return move_records(self._tables.storage.control)

    def lost(self, names: Sequence[str]) -> list[str]:
        from omnigraph_core.history.lost import lost_branches

        return lost_branches(self._tables, self._moves, names)

    def was_made(self, name: str) -> bool:
        from omnigraph_core.history.lost import was_made

        return was_made(self._moves, name)
