"""What one read may keep for later reads of the same process.

Everything in it was made from tables at exact versions and is found by them, so that it
is never stale: another version is another key. It can be lost at any time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from omnigraph_core.manifest.snapshot import SubTableEntry

Kept = TypeVar("Kept")

_SPENT_MAX = 1_000


class ReadCache:
    """Values by key, up to a number of bytes; least recently used go first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._spent: dict[Hashable, float] = {}

    def get(self, key: CacheKey[Kept]) -> Kept | None:
        with self._lock:
            found = self._kept.get(key) if key.is_certain else None
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]  # type: ignore[return-value]

    def put(self, key: CacheKey[Kept], value: Kept, size: int) -> None:
        if size > self._bytes_max or not key.is_certain:
            return
        with self._lock:
            self._bytes += size - self._kept.pop(key, (None, 0))[1]
            self._kept[key] = value, size
            while self._bytes > self._bytes_max:
                self._bytes -= self._kept.popitem(last=False)[1][1]

    def spent(self, key: CacheKey[Kept]) -> float:
        """Seconds spent so far on doing without a value."""
        return self._spent.get(key, 0.0)

    def spend(self, key: CacheKey[Kept], seconds: float) -> None:
        with self._lock:
            if len(self._spent) > _SPENT_MAX:
                self._spent.clear()
            self._spent[key] = self._spent.get(key, 0.0) + seconds


class CacheKey(tuple[Hashable, ...], Generic[Kept]):
    """What a value is, and of which tables; the type parameter is the value's."""

    __slots__ = ()

    @property
    def is_certain(self) -> bool:
        """Names of branches are used again; only a commit tells two tables of one name and version apart."""
        entries = [each for each in self if isinstance(each, SubTableEntry)]
        return all(entry.metadata.commit_id is not None for entry in entries)
