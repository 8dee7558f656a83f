"""The inputs for the commit: names, sizes and digests, computed while Spark runs."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

from omnigraph_core.load.formats.source import LocalFile
from omnigraph_core.load.inputs import Input
from omnigraph_core.spark.given import Given

_BYTES_AT_ONCE = 2**20


class Digests:
    """Digests of local files, made in a thread; an object on S3 is not fetched twice for that."""

    def __init__(self, given: Given) -> None:
        self._inputs, self._paths = given.inputs, given.paths
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="digest")
        self._found = [self._pool.submit(self._digest, each) for each in given.inputs]

    def __enter__(self) -> Digests:
        return self

    def __exit__(self, *failure: object) -> None:
        """An aborted load does not wait for digests."""
        self._over.set()
        self._pool.shutdown()

    def result(self) -> list[dict[str, object]]:
        unread: list[dict[str, object]] = [
            {"name": path, "sha256": None, "bytes": None} for path in self._paths
        ]
        described = zip(self._inputs, self._found, strict=True)
        return unread + [
            {"name": each.name, "sha256": found.result(), "bytes": each.size} for each, found in described
        ]

    def _digest(self, given: Input) -> str | None:
        place = given.place
        if not isinstance(place, LocalFile):
            return None
        found = hashlib.sha256()
        with place.open() as file:
            while not self._over.is_set() and (data := file.read(_BYTES_AT_ONCE)):
                found.update(data)
        return found.hexdigest()
