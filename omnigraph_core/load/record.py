"""The staging record of a load: one, whatever it has to tell.

Files it writes, a folder and lists of a Spark job, a branch that was made for it: all of it
goes into the same record, which begins when there is something to tell and ends when
nothing is left. What cannot be put away stays on record, and the next sweep does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.write.door import Door
from omnigraph_core.write.plan import WriterKind
from omnigraph_core.write.provisional import forget_unwritten, made_for_write
from omnigraph_core.write.staging import KeptRecord, staging
from omnigraph_core.write.staging_record import StagingRecord


class LoadRecord:
    """A context: a load that fails in it takes along the branch that was made for it."""

    def __init__(self, door: Door, branch: str, actor: str | None) -> None:
        self.operation_id = new_ulid()
        self._door, self._branch = door, branch
        self._first = StagingRecord(self.operation_id, WriterKind.LOAD.value, branch, actor)
        self._kept: KeptRecord | None = None
        self._open = ExitStack()
        self._left: list[Callable[[], None]] = []

    def __enter__(self) -> LoadRecord:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        self.close(keeps_branch=failure is None)

    def tell(self, **known: Any) -> None:
        """Put on record what is known from now on; raises `StagingSwept` if it is no longer ours."""
        if self._kept is not None:
            self._kept.amend(**known)
            return
        record = replace(self._first, **known)
        kept = self._open.enter_context(staging(self._door.storage, record))
        kept.stays = True
        self._kept = kept

    def pin(self, base: Snapshot) -> None:
        """Versions that the load reads; cleanup keeps them."""
        tables = sorted(base.tables.items())
        self.tell(pinned=tuple((key, entry.table_version) for key, entry in tables))

    def add_paths(self, paths: Iterable[str]) -> None:
        self.tell(paths=(*self._paths, *paths))

    def drop_paths(self, paths: frozenset[str]) -> None:
        """From now on the sidecar names these files."""
        self.tell(paths=tuple(path for path in self._paths if path not in paths))

    @property
    def _paths(self) -> tuple[str, ...]:
        return () if self._kept is None else self._kept.record.paths

    def check(self) -> None:
        """Raise if others took this load for dead and removed what it had written."""
        if self._kept is not None:
            self._kept.check()

    def make_branch(self, start: GraphCommit, called: str) -> bool:
        """Make the branch of the load; False if another process has, in the meantime."""
        self.tell(made_from=start.commit_id)
        assert self._kept is not None
        return made_for_write(self._door, self._branch, called, start, self._kept)

    def put_away_by(self, put_away: Callable[[], None]) -> None:
        """Call this at the end, to remove what the load has left over."""
        self._left.append(put_away)

    def close(self, *, keeps_branch: bool) -> None:
        """Put away what is left, and end the record; nothing when it is closed already."""
        left, self._left = self._left, []
        kept, self._kept = self._kept, None
        if kept is None:
            for put_away in left:
                put_away()
            return
        with self._open:
            tidy = True
            for put_away in left:
                tidy = _succeeds(put_away) and tidy
            if not keeps_branch:
                # What the caller hears is why the load failed; the record stays if the branch does.
                tidy = self._forgets_branch(kept.record) and tidy
            if tidy:
                with suppress(OmnigraphError):
                    kept.end()

    def _forgets_branch(self, record: StagingRecord) -> bool:
        try:
            return forget_unwritten(self._door, record, patient=True)
        except OmnigraphError:
            return False


def _succeeds(put_away: Callable[[], None]) -> bool:
    try:
        put_away()
    except OmnigraphError:
        return False
    return True
