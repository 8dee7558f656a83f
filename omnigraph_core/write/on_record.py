"""Files of a write that takes long to stage, on record from the moment each is written.

The record begins with the first file: a write that stages none has none. Should the process die,
the next writer deletes what it names; should it fail, it does so itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.storage import Storage
from omnigraph_core.write.staging import KeptRecord, staging
from omnigraph_core.write.staging_record import StagingRecord


class FilesOnRecord:
    """A context. `begin` says what the record says besides the files."""

    def __init__(self, storage: Storage, begin: StagingRecord) -> None:
        self._storage = storage
        self._begin = begin
        self._kept: KeptRecord | None = None
        self._open = ExitStack()

    @property
    def operation_id(self) -> str:
        return self._begin.operation_id

    def __enter__(self) -> FilesOnRecord:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        """Nothing that goes wrong here is news to the caller: the record stays, and the sweep does it."""
        with suppress(OmnigraphError), self._open:
            if self._kept is not None:
                self._kept.stays = True
                self.discard(self._kept.record.paths)
                self._kept.end()

    def add(self, paths: Iterable[str]) -> None:
        """Put files on record; raises `StagingSwept` if the record is no longer ours."""
        if self._kept is not None:
            self._kept.amend(paths=(*self._kept.record.paths, *paths))
        elif paths := tuple(paths):
            record = replace(self._begin, paths=paths)
            self._kept = self._open.enter_context(staging(self._storage, record))

    def check(self) -> None:
        """Raise if others took this write for dead and removed its files."""
        if self._kept is not None:
            self._kept.check()

    def hand_over(self) -> None:
        """From here on the sidecar names the files."""
        if self._kept is not None:
            self._kept.amend(paths=())

    def discard(self, paths: Sequence[str]) -> None:
        """Delete files that are on record, or were until others took it: nobody else has their names."""
        for path in paths:
            self._storage.control.delete(path)
