"""The front of `df.write.format("omnigraph")`: a process beside the driver that keeps the load.

Spark plans, commits and aborts a write in processes that come and go. A load has a record with a
lock that one live process holds, from before the first file until the last is published or gone.
So the first of Spark's processes starts this one. It runs the load of every write; only its job
is not submitted but waited for: the tasks are those of the DataFrame. It ends when Spark commits
or aborts, or when Spark is gone. Then the load fails like any other, and takes its files along.

The three talk through files in a private folder of this machine: `ready` (the load is on record,
tasks may write), `taken` (its name has reached Spark), `outcomes` or `aborted` (from Spark), and
`ended`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from omnigraph_core.errors import BusyError, OmnigraphError, StorageError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.roles import Asked, Source
from omnigraph_core.load.run import Load
from omnigraph_core.records import dataclass
from omnigraph_core.settings import Settings, environment_for_child, load_settings
from omnigraph_core.spark.driver import is_alive, numbered_parts
from omnigraph_core.spark.given import Given
from omnigraph_core.spark.load import source_of
from omnigraph_core.spark.options import SparkOptions
from omnigraph_core.spark.outcome import Json, decode_failure, encode_failure, write_result
from omnigraph_core.spark.spec import JobSpec, decode_splits, encode_splits
from omnigraph_core.spark.splits import Split
from omnigraph_core.storage import Storage

_POLL_S = 0.02
_READY, _TAKEN, _OUTCOMES, _ABORTED, _ENDED = "ready", "taken", "outcomes", "aborted", "ended"


class WriteGivenUp(BusyError):
    """Spark aborted the write, or is gone."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One write, as its options say."""

    graph: str
    mode: str
    branch: str
    source: str | None
    actor: str | None
    message: str | None


class FrontDied(StorageError):
    """The process that keeps the load is gone; what it has left is cleaned up by the next writer."""


class Front:
    """The folder through which a front is reached, in whichever process of Spark."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    @classmethod
    def start(cls, wanted: Wanted, split: Split, settings: Settings) -> tuple[Front, str]:
        """Start a front; returns it with the id of its load once tasks may write. Raises what it fails of."""
        front = cls(tempfile.mkdtemp(prefix="omnigraph-spark-"))
        request = {"wanted": asdict(wanted), "split": encode_splits([split]), "planner": os.getpid()}
        # Spark's processes are children of one that lives as long as Spark does.
        front.put("request", {**request, "spark": os.getppid()})
        process = subprocess.Popen(
            [sys.executable, "-m", "omnigraph_core.spark.front"],
            env=_environment(settings),
            cwd=settings.working_directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=(front.folder / "log").open("wb"),
            start_new_session=True,
        )
        front.put("process", {"pid": process.pid})
        assert process.stdin is not None
        with process.stdin as told:
            told.write(str(front.folder).encode())
        try:
            content = front.wait(_READY)
        except BaseException:
            front.discard()
            raise
        front.put(_TAKEN, {})
        return front, str(content["operation_id"])

    def commit(self, outcomes: Sequence[Json]) -> Json:
        """Hand over what tasks have written; returns what was published. Raises what is wrong with it."""
        try:
            self.put(_OUTCOMES, {"outcomes": list(outcomes)})
            return self.wait(_ENDED)
        finally:
            self.discard()

    def abort(self) -> None:
        """Give the write up; returns when all of it is gone. Nothing when it has ended."""
        if not self.folder.is_dir():
            return
        try:
            self.put(_ABORTED, {})
            self.wait(_ENDED)
        except OmnigraphError:
            return
        finally:
            self.discard()

    def put(self, name: str, content: Json) -> None:
        unfinished = self.folder / f"{name}.{os.getpid()}.tmp"
        unfinished.write_text(json.dumps(content))
        unfinished.replace(self.folder / name)

    def get(self, name: str) -> Json | None:
        try:
            found: Json = json.loads((self.folder / name).read_text())
        except FileNotFoundError:
            return None
        return found

    def wait(self, name: str) -> Json:
        """What the front says; raises if it has failed, or died."""
        process = self.get("process")
        assert process is not None
        while True:
            has_ended = _has_ended(process["pid"])
            for each in (_ENDED, name):
                found = self.get(each)
                if found is not None and "failed" in found:
                    raise decode_failure(found["failed"])
                if found is not None and each == name:
                    return found
            if has_ended:
                raise FrontDied(f"the process that keeps the load has died{self._last_words()}")
            time.sleep(_POLL_S)

    def _last_words(self) -> str:
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def discard(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _environment(settings: Settings) -> dict[str, str]:
    """Our own, with the code that Spark has sent us on the path."""
    own = environment_for_child(settings, {})
    return {**own, "PYTHONPATH": os.pathsep.join(filter(None, [own.get("PYTHONPATH"), *sys.path]))}


def _has_ended(pid: int) -> bool:
    """Also of a child that nobody has waited for, which still has its number."""
    with suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG) != (0, 0):
            return True
    return not is_alive(pid)


class _Waiting:
    """Waits for a job that Spark runs by itself."""

    def __init__(self, front: Front, request: Json, split: Split, storage: Storage) -> None:
        self._front, self._request, self._split, self._storage = front, request, split, storage

    def run(self, spec: JobSpec) -> None:
        front = self._front
        front.put(_READY, {"operation_id": spec.operation_id})
        while (found := front.get(_OUTCOMES)) is None:
            taken = front.get(_TAKEN) is not None
            if front.get(_ABORTED) is not None or not front.folder.is_dir():
                raise WriteGivenUp("Spark gave up the write; nothing was changed")
            if not is_alive(self._request["spark"]) or not (taken or is_alive(self._request["planner"])):
                raise WriteGivenUp("Spark is gone; nothing was changed")
            time.sleep(_POLL_S)
        reports = sorted(found["outcomes"], key=lambda each: int(each["split"]))
        splits, outcomes = numbered_parts(self._split, reports, 0)
        more = {"checked": None, "splits": encode_splits(splits)}
        write_result(self._storage, spec.folder, outcomes, more)


@dataclass(frozen=True, slots=True)
class _Written:
    """What the tasks of Spark write, as the rows of a load."""

    front: Front
    request: Json
    split: Split

    def source(self, load: Load, asked: Asked, settings: Settings) -> Source:
        assert self.split.table_key is not None
        given = Given((self.split,), frozenset({self.split.table_key}), (), (self.split.name,))
        waiting = _Waiting(self.front, self.request, self.split, load.door.storage)
        return source_of(load.request, given, waiting.run, SparkOptions())


def run_front(front: Front, settings: Settings) -> None:
    """Load what Spark writes, and say how it ended."""
    request = front.get("request")
    assert request is not None
    wanted = Wanted(**request["wanted"])
    (split,) = decode_splits(request["split"])
    try:
        graph = Graph.open(wanted.graph, settings, OpenMode.READ_WRITE)
        loaded = graph.load(
            [],
            wanted.mode,
            branch=wanted.branch,
            source=wanted.source,
            actor=wanted.actor,
            message=wanted.message,
            spark=_Written(front, request, split),
        )
        ended: Json = {"commit_id": loaded.commit_id, "counts": dict(loaded.counts)}
    except OmnigraphError as error:
        ended = {"failed": encode_failure(error)}
    if not front.folder.is_dir():
        return
    front.put(_ENDED, ended)
    if not is_alive(request["spark"]):
        front.discard()


def main() -> None:
    run_front(Front(sys.stdin.read()), load_settings())


if __name__ == "__main__":
    main()
