"""Control objects as objects below an S3 prefix.

Fault model: any request may be refused, unanswered, answered although it failed to
arrive, or **landed although its answer was lost**, at once or late.

- Create and replace are conditional requests (`If-None-Match: *`, `If-Match`); the
  server decides between rivals.
- The client never retries by itself; this store does, and so knows whether an
  earlier attempt may have landed. Only then a failed condition is ambiguous, and it
  is settled by reading the object: our bytes mean that we won. Without an earlier
  attempt the rival won, also when it wrote the same bytes.
- An attempt that lands late is harmless while the object exists: its condition
  fails. After a deletion a late `create` brings the object back, as a power cut
  does on a disk (see `control`).
- Everything else is idempotent and simply repeated.

The bucket must exist and answer before anything is written, because some servers
create a missing bucket on the first write: so the first use of a store is a
`probe`, a listing of one key with a deadline of its own. It also answers for Lance,
which would retry a dead endpoint for minutes.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store

from omnigraph_core import faults
from omnigraph_core.errors import ConflictError
from omnigraph_core.records import dataclass
from omnigraph_core.settings import S3Settings
from omnigraph_core.storage.control import (
    ControlObject,
    Guard,
    InvalidObjectPath,
    Names,
    ObjectChanged,
    ObjectExists,
    Stored,
    checked_path,
    unguarded,
)
from omnigraph_core.storage.failures import StorageFailure
from omnigraph_core.storage.limits import DELETED_PER_REQUEST_MAX, REQUEST_DEFAULT_S
from omnigraph_core.storage.location import Location
from omnigraph_core.storage.s3_failures import s3_failure, symptoms
from omnigraph_core.storage.s3_options import obstore_arguments, server_name
from omnigraph_core.waits import waiting_for

_BACKOFF_FIRST_S = 0.1
_PAGE = 1000

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to try: one request, how many of them, and after how long to start no other one."""

    request_s: float
    attempts: int
    total_s: float


PATIENT = Patience(request_s=REQUEST_DEFAULT_S, attempts=4, total_s=15.0)
"""At worst 25 s: a request starts after 15 s at the latest."""
PROBING = Patience(request_s=REQUEST_DEFAULT_S, attempts=2, total_s=4.0)
"""At worst 14 s; a server that never answers takes 10."""


def lease_patience(ttl_s: float) -> Patience:
    """For leases: a request that hangs must leave time for another one before the lease runs out."""
    request_s = min(REQUEST_DEFAULT_S, max(1.0, ttl_s / 3))
    return Patience(request_s=request_s, attempts=2, total_s=request_s)


class S3ControlStore:
    """The `ControlStore` of an S3 prefix; safe between threads and between machines."""

    def __init__(self, location: Location, settings: S3Settings, patience: Patience = PATIENT) -> None:
        self._location = location
        self._server = server_name(settings)
        self._patience = patience
        self._store = S3Store(**obstore_arguments(location, settings, patience.request_s))
        self._probe_guard = threading.Lock()
        self._is_probed = False

    def probe(self) -> None:
        """Find out, once and in less than 15 s, whether the bucket is there and lets us list it."""
        with self._probe_guard:
            if not self._is_probed:
                self._retried("open", "", self._first_page, PROBING)
                self._is_probed = True

    def get(self, path: str) -> ControlObject | None:
        key = self._key(path)

        def read() -> ControlObject | None:
            try:
                found = obstore.get(self._store, key)
                modified_s = found.meta["last_modified"].timestamp()
                return ControlObject(bytes(found.bytes()), found.meta["e_tag"], modified_s)
            except FileNotFoundError as error:
                if symptoms(error).no_bucket:
                    raise
                return None

        return self._retried("read", path, read)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """The bytes of an object from `start` to before `end`; for what is too large to be read whole."""
        key = self._key(path)
        return self._retried(
            "read", path, lambda: bytes(obstore.get_range(self._store, key, start=start, end=end))
        )

    def create(self, path: str, data: bytes, guard: Guard = unguarded) -> str:
        return self._write("create", path, data, mode="create", refusal=ObjectExists, guard=guard)

    def replace(self, path: str, data: bytes, e_tag: str) -> str:
        return self._write("replace", path, data, mode={"e_tag": e_tag}, refusal=ObjectChanged)

    def put(self, path: str, data: bytes) -> str:
        return self._write("put", path, data, mode="overwrite", refusal=None)

    def copy(self, path: str, to: str) -> None:
        source, target = self._key(path), self._key(to)
        self._retried("copy", to, lambda: obstore.copy(self._store, source, target))

    def list(self, prefix: str) -> Names:
        key = self._key(prefix) if prefix else None
        self.probe()
        found = self._retried("list", prefix, lambda: obstore.list_with_delimiter(self._store, key))
        paths = (str(entry["path"]) for entry in found["objects"])
        return sorted(path.rpartition("/")[2] for path in paths if path != prefix)

    def written_at(self, prefix: str) -> Mapping[str, float]:
        key = self._key(prefix) if prefix else None
        self.probe()
        found = self._retried("list", prefix, lambda: obstore.list_with_delimiter(self._store, key))
        return {
            str(entry["path"]).rpartition("/")[2]: entry["last_modified"].timestamp()
            for entry in found["objects"]
            if str(entry["path"]) != prefix
        }

    def delete(self, path: str, guard: Guard = unguarded) -> None:
        self._delete(path, [self._key(path)], guard)
        faults.hit("control.delete.gone")

    def _delete(self, about: str, keys: Names, guard: Guard) -> None:
        def send() -> None:
            guard()
            obstore.delete(self._store, keys)

        self._retried("delete", about, send)

    def list_prefix(self, prefix: str) -> Names:
        key = self._key(prefix)
        return self._retried("list", prefix, lambda: self._all_pages(key))

    def listing(self, prefix: str) -> Mapping[str, Stored]:
        key = self._key(prefix)
        return self._retried("list", prefix, lambda: dict(sorted(self._all_stored(key))))

    def temporaries(self) -> Mapping[str, Stored]:
        """A request either makes the whole object or nothing."""
        return {}

    def delete_temporary(self, path: str) -> None:
        raise InvalidObjectPath(path)

    def delete_many(self, paths: Sequence[str], guard: Guard = unguarded) -> None:
        keys = [self._key(path) for path in paths]
        for start in range(0, len(keys), DELETED_PER_REQUEST_MAX):
            some = keys[start : start + DELETED_PER_REQUEST_MAX]
            self._delete(some[0], some, guard)

    def delete_prefix(self, prefix: str, guard: Guard = unguarded) -> None:
        key = self._key(prefix)
        # A deleted key is gone from the next listing, so no page can be skipped. What
        # stays are folder markers, which this client cannot address.
        deleted: Names = []
        while (keys := self._retried("list", prefix, lambda: self._first_page(key))) != deleted:
            for start in range(0, len(keys), DELETED_PER_REQUEST_MAX):
                self._delete(prefix, keys[start : start + DELETED_PER_REQUEST_MAX], guard)
            deleted = keys

    def exists(self, path: str) -> bool:
        return self.size(path) is not None

    def size(self, path: str) -> int | None:
        found = self._head(path)
        return None if found is None else int(found["size"])

    def digest(self, path: str) -> str | None:
        found = self._head(path)
        return None if found is None else f"etag:{found['e_tag']}"

    def _head(self, path: str) -> Any:
        """What the store says of an object; None when there is none."""
        key = self._key(path)

        def ask() -> Any:
            try:
                return obstore.head(self._store, key)
            except FileNotFoundError:
                return None

        return self._retried("read", path, ask)

    def entries(self) -> Names:
        """See `ControlStore.entries`.

        If one page holds all keys, the names come from the keys, because some servers
        keep a folder listed (SeaweedFS) after the last object below it is deleted.
        """
        self.probe()
        page = self._retried("list", "", self._first_page)
        if len(page) < _PAGE - 1:  # the marker of the root may have been among them
            return sorted({path.partition("/")[0] for path in page})
        found = self._retried("list", "", lambda: obstore.list_with_delimiter(self._store))
        objects = [str(entry["path"]) for entry in found["objects"]]
        return sorted({*objects, *map(str, found["common_prefixes"])} - {""})

    def is_empty(self) -> bool:
        return not self.entries()

    def _first_page(self, prefix: str | None = None) -> Names:
        """The first keys below a prefix, without the marker some tools put there for the folder itself."""
        pages: Iterator[Any] = iter(obstore.list(self._store, prefix, chunk_size=_PAGE))
        paths = (str(entry["path"]) for entry in next(pages, []))
        return [path for path in paths if path != (prefix or "")]

    def _all_pages(self, prefix: str) -> Names:
        """Every key below a prefix, sorted; the listing of one moment, page after page."""
        return sorted(path for path, _ in self._all_stored(prefix))

    def _all_stored(self, prefix: str) -> Iterator[tuple[str, Stored]]:
        pages: Iterator[Any] = iter(obstore.list(self._store, prefix, chunk_size=_PAGE))
        for page in pages:
            for entry in page:
                if entry["path"] != prefix:
                    yield str(entry["path"]), Stored(entry["size"], entry["last_modified"].timestamp())

    def _write(
        self,
        verb: str,
        path: str,
        data: bytes,
        *,
        mode: str | dict[str, str],
        refusal: Callable[[str], ConflictError] | None,
        guard: Guard = unguarded,
    ) -> str:
        key = self._key(path)
        attempts = 0

        def send() -> str:
            nonlocal attempts
            guard()
            attempts += 1
            try:
                result = obstore.put(self._store, key, data, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                found = symptoms(error)
                if found.no_bucket or found.may_pass:
                    raise
                raise _ConditionFailed from None
            return str(result["e_tag"])

        faults.hit(f"control.{verb}.synced")
        try:
            e_tag = self._retried(verb, path, send)
        except _ConditionFailed:
            landed = self._landed(path, data) if attempts > 1 else None
            if landed is None:
                assert refusal is not None, "an unconditional request has no condition to fail"
                raise refusal(path) from None
            e_tag = landed
        except StorageFailure:
            landed = None
            with suppress(StorageFailure):
                landed = self._landed(path, data)
            if landed is None:
                raise
            e_tag = landed
        faults.hit(f"control.{verb}.visible")
        return e_tag

    def _landed(self, path: str, data: bytes) -> str | None:
        """The e-tag of the object if it has exactly these bytes."""
        found = self.get(path)
        return found.e_tag if found is not None and found.data == data else None

    def _key(self, path: str) -> str:
        key = checked_path(path)
        self.probe()
        return key

    def _retried(
        self, action: str, path: str, call: Callable[[], Answer], patience: Patience | None = None
    ) -> Answer:
        """Call until it is answered, or until the failure is final or patience is at its end."""
        limits = patience or self._patience
        started = time.monotonic()
        pause = _BACKOFF_FIRST_S
        for attempt in range(1, limits.attempts + 1):
            if attempt > 1:
                faults.hit("control.again")
            try:
                with waiting_for(lambda: f"{self._server} to {action} {path or self._location.uri}"):
                    return call()
            except ValueError:
                raise InvalidObjectPath(path) from None
            except (BaseError, OSError) as error:
                found = symptoms(error)
            is_over = attempt == limits.attempts or time.monotonic() - started + pause > limits.total_s
            if is_over or not found.may_pass:
                uri = self._location.child(path) if path else self._location.uri
                # Not chained: the client's text may quote what was signed.
                raise s3_failure(found, action, uri, self._server)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause *= 2
        raise AssertionError("at least one attempt is made")


class _ConditionFailed(Exception):
    """The server found another version of the object than the request asked for."""
