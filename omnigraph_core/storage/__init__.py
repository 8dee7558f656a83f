"""Where a graph lives: control objects, locks and syncing, the same for every kind of place.

`open_storage` is the only constructor the floors above need; they see the protocols
in `control` and `locks`, never the local or the S3 implementation. Nothing here
knows Lance.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_core.errors import UsageError
from omnigraph_core.settings import Settings
from omnigraph_core.storage.control import ControlObject, ControlStore, ObjectChanged, ObjectExists
from omnigraph_core.storage.flock import LocalLocks
from omnigraph_core.storage.local import LocalControlStore
from omnigraph_core.storage.location import Location, parse_location
from omnigraph_core.storage.locks import HeldLocks, Lock, LockHolder, LockLost, Locks, LockTimeout
from omnigraph_core.storage.sync import Syncer, SyncReport

__all__ = [
    "ControlObject",
    "ControlStore",
    "HeldLocks",
    "Location",
    "Lock",
    "LockHolder",
    "LockLost",
    "LockTimeout",
    "Locks",
    "ObjectChanged",
    "ObjectExists",
    "Storage",
    "SyncReport",
    "Syncer",
    "open_storage",
    "parse_location",
]


@dataclass(frozen=True, slots=True)
class Storage:
    """Everything a graph needs of the place it lives in."""

    location: Location
    control: ControlStore
    locks: Locks
    syncer: Syncer


def open_storage(location: Location, settings: Settings) -> Storage:
    """The storage of a location. Opens and creates nothing yet."""
    if not location.is_local:
        raise UsageError(f"{location.uri}: s3:// is not supported yet")
    syncer = Syncer(settings.fsync)
    return Storage(
        location=location,
        control=LocalControlStore(location.path, syncer),
        locks=LocalLocks(
            location.path, syncer, actor=settings.default_actor, timeout_s=settings.lock_timeout_s
        ),
        syncer=syncer,
    )
