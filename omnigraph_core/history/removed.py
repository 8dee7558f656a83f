"""Which commits cleanup has removed: `__cleanup.json`, written before the first version goes.

History stays listed, so a commit whose data is gone must be known as such: a version may be
half gone when a cleanup is killed, and a reader must not take what is left of it for the
commit. Per branch, by identity, the record has a floor: commits of manifest versions below it
are gone, but for those it names. Floors only ever rise, and what is gone stays gone.

The record is replaced by its e-tag, and each version of it has a revision of its own: of two
cleanups one is refused, and decides anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, StorageError
from omnigraph_core.fields import Fields
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.history.sealed import seal, unseal
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.branch import Branch, branch_name
from omnigraph_core.records import dataclass
from omnigraph_core.storage import ControlStore

RECORD_VERSION = 1


class CleanupRecordDamaged(StorageError):
    """Nobody can tell what was removed; nothing is read by commit or removed before it is repaired."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{layout.CLEANUP_RECORD} cannot be read: {reason}",
            hint="restore it from a backup; branches can be read and written meanwhile",
        )


class CommitRemoved(NotFoundError):
    """The commit is on record, but cleanup has removed what it held."""

    def __init__(self, commit_id: str, removed_at: int) -> None:
        super().__init__(
            f"commit {commit_id} was removed by cleanup on {shown_day(removed_at)}",
            hint="`omnigraph commit list` shows which commits can still be read",
        )
        self.commit_id, self.removed_at = commit_id, removed_at

    def details(self) -> Mapping[str, object]:
        return {"commit_id": self.commit_id, "removed_at": self.removed_at}


def shown_day(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds // 1_000_000, timezone.utc).strftime("%Y-%m-%d")


@dataclass(frozen=True, slots=True)
class Floor:
    """What is left of the commits of one branch: those at or above a manifest version, and a few below."""

    on: Branch
    floor: int
    kept: tuple[int, ...]
    removed_at: int
    """When the last one of them went, in microseconds since the epoch."""
    actor_id: str

    def has_removed(self, version: int) -> bool:
        return version < self.floor and version not in self.kept


@dataclass(frozen=True, slots=True)
class Removals:
    """The record as it was read; without an e-tag there is none."""

    floors: tuple[Floor, ...] = ()
    e_tag: str | None = None

    def of(self, branch: Branch) -> Floor | None:
        return next((each for each in self.floors if each.on.may_be(branch)), None)

    def removed_at(self, commit: GraphCommit) -> int | None:
        """When the commit was removed, None if it was not."""
        floor = self.of(commit.on)
        return floor.removed_at if floor and floor.has_removed(commit.manifest_version) else None

    def refuse(self, commit: GraphCommit) -> None:
        removed_at = self.removed_at(commit)
        if removed_at is not None:
            raise CommitRemoved(commit.commit_id, removed_at)


def read_removals(control: ControlStore) -> Removals:
    found = control.get(layout.CLEANUP_RECORD)
    if found is None:
        return Removals()
    try:
        # Earlier versions of OmniGraph gave the record no digest.
        return Removals(tuple(_floors(unseal(found.data, RECORD_VERSION, always=False))), found.e_tag)
    except ValueError as error:
        raise CleanupRecordDamaged(str(error)) from error


def write_removals(control: ControlStore, floors: Sequence[Floor], known: Removals) -> Removals:
    """Replace the record that was read; `ObjectChanged` or `ObjectExists` if another cleanup was first."""
    data = _encode(floors)
    if known.e_tag is None:
        return Removals(tuple(floors), control.create(layout.CLEANUP_RECORD, data))
    return Removals(tuple(floors), control.replace(layout.CLEANUP_RECORD, data, known.e_tag))


def _encode(floors: Sequence[Floor]) -> bytes:
    content: dict[str, object] = {
        "schema_version": RECORD_VERSION,
        "revision": new_ulid(),
        "branches": [
            {
                "branch": each.on.name,
                "identity": each.on.identity,
                "floor": each.floor,
                "kept": list(each.kept),
                "removed_at": str(each.removed_at),
                "actor_id": each.actor_id,
            }
            for each in floors
        ],
    }
    return seal(content)


def _floors(content: Fields) -> list[Floor]:
    content.text("revision")
    found = [_floor(each) for each in content.objects("branches")]
    content.end()
    return found


def _floor(each: Fields) -> Floor:
    floor = Floor(
        on=Branch(branch_name(each, "branch"), each.optional_text("identity")),
        floor=each.whole("floor"),
        kept=each.wholes("kept"),
        removed_at=each.moment_as_text("removed_at"),
        actor_id=each.text("actor_id"),
    )
    each.end()
    return floor
