"""What a write does beside its phase B: files of the publish and of its history, written and synced.

Nobody sees them before phase C, which adopts them. What phase C has not adopted is removed.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from omnigraph_core.errors import StorageError
from omnigraph_core.history.commits import CommitAhead
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.tables.held_tables import HeldTables
from omnigraph_core.write.plan import WritePlan
from omnigraph_core.write.sidecar_record import Sidecar


class Ahead:
    """The files of one write that has begun; leaving the `with` block removes what is left."""

    def __init__(self, publisher: Publisher, plan: WritePlan, sidecar: Sidecar, held: HeldTables) -> None:
        self.publish = publisher.ahead(sidecar.to_publish())
        self.history = _history(plan, sidecar, held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self.publish, self.history):
            if each is not None:
                each.discard()


def _history(plan: WritePlan, sidecar: Sidecar, held: HeldTables) -> CommitAhead | None:
    if not plan.makes_commit or not held.storage.location.is_local:
        return None
    try:
        return CommitAhead(held, sidecar.head, plan.base.on, plan.base.manifest_version + 1)
    except StorageError:
        return None  # Said after the publish, or mended by its recovery.
