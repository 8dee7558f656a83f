"""Where a graph lives: control objects, locks and syncing, the same for every kind of place.

`open_storage` is the only constructor the floors above need; they see the protocols
in `control` and `locks`, never the local or the S3 implementation. Nothing here
knows Lance.
"""

from __future__ import annotations

from dataclasses import field

from omnigraph_core.records import dataclass
from omnigraph_core.settings import Settings
from omnigraph_core.storage.control import (
    ControlObject,
    ControlStore,
    Guard,
    ObjectChanged,
    ObjectExists,
    Stored,
    unguarded,
)
from omnigraph_core.storage.failures import check_writable
from omnigraph_core.storage.flock import LocalLocks
from omnigraph_core.storage.local import LocalControlStore
from omnigraph_core.storage.location import Location, parse_location
from omnigraph_core.storage.locks import HeldLocks, Lock, LockHolder, LockLost, Locks, LockTimeout
from omnigraph_core.storage.s3_options import StorageOptions, check_settings, lance_options
from omnigraph_core.storage.sync import Syncer, SyncReport

__all__ = [
    "ControlObject",
    "ControlStore",
    "Guard",
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
    "StorageOptions",
    "Stored",
    "SyncReport",
    "Syncer",
    "open_storage",
    "parse_location",
    "unguarded",
]


@dataclass(frozen=True, slots=True)
class Storage:
    """Everything a graph needs of the place it lives in.

    `lance_options` are the `storage_options` for every Lance call on this location;
    None on a local disk. They hold the credentials and show none in their `repr`.
    """

    location: Location
    control: ControlStore
    locks: Locks
    syncer: Syncer
    lance_options: StorageOptions | None = field(default=None, repr=False)

    def probe(self) -> None:
        """Raise a clear `StorageError` within 15 s if the place cannot be reached or listed.

        Every use of `control` and `locks` does this by itself, once. Call it before
        Lance is the first to touch an S3 location: Lance would retry a dead endpoint
        for a minute and then say little. Does nothing on a local disk.
        """
        self.control.probe()

    def require_writable(self) -> None:
        """Raise a `StorageError` if a local disk is read-only or keeps us out; S3 says so by itself."""
        if self.location.is_local:
            check_writable(self.location.path)


def open_storage(location: Location, settings: Settings) -> Storage:
    """The storage of a location. Opens and creates nothing yet, and sends no request.

    Settings that can never work on S3 are refused here, with `UsageError`.
    """
    if not location.is_local:
        return _open_s3(location, settings)
    syncer = Syncer(settings.fsync)
    return Storage(
        location=location,
        control=LocalControlStore(location.path, syncer, timeout_s=settings.lock_timeout_s),
        locks=LocalLocks(
            location.path, syncer, actor=settings.default_actor, timeout_s=settings.lock_timeout_s
        ),
        syncer=syncer,
    )


def _open_s3(location: Location, settings: Settings) -> Storage:
    """The S3 client is only loaded here: local graphs never pay for it."""
    from omnigraph_core.storage.lease import S3Locks
    from omnigraph_core.storage.s3 import S3ControlStore, lease_patience

    check_settings(location, settings.s3)
    ttl_s = settings.s3.lease_ttl_s
    return Storage(
        location=location,
        control=S3ControlStore(location, settings.s3),
        locks=S3Locks(
            S3ControlStore(location, settings.s3, lease_patience(ttl_s)),
            actor=settings.default_actor,
            timeout_s=settings.lock_timeout_s,
            ttl_s=ttl_s,
            dead_after_s=settings.s3.lease_dead_after_s,
        ),
        # What S3 has confirmed is durable.
        syncer=Syncer(enabled=False),
        lance_options=lance_options(location, settings.s3),
    )
