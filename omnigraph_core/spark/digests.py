"""What the inputs are, for the commit: names, bytes and digests, found while Spark is at work."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

from omnigraph_core.load.inputs import Input
from omnigraph_core.load.source import LocalFile
from omnigraph_core.spark.given import Given


class Digests:
    """Digests of local files, made in a thread; an object on S3 is not fetched twice for that."""

    def __init__(self, given: Given) -> None:
        self._inputs = given.inputs
        self._paths = given.paths
        pool = ThreadPoolExecutor(1, thread_name_prefix="digest")
        self._found = [pool.submit(_digest, each) for each in given.inputs]
        pool.shutdown(wait=False)

    def result(self) -> list[dict[str, object]]:
        described = zip(self._inputs, self._found, strict=True)
        unread: list[dict[str, object]] = [
            {"name": path, "sha256": None, "bytes": None} for path in self._paths
        ]
        return unread + [
            {"name": each.name, "sha256": found.result(), "bytes": each.size} for each, found in described
        ]


def _digest(given: Input) -> str | None:
    place = given.source.place
    if not isinstance(place, LocalFile):
        return None
    with place.open() as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
