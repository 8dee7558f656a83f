"""A job for as long as it matters: its staging record, its folder, and the files it leaves.

The record is up before the job is submitted and until the load is over, so that cleanup
spares what tasks write; should this process die, whoever writes next deletes it by the
lists that the tasks keep.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from omnigraph_core import faults, layout
from omnigraph_core.errors import InternalError, OmnigraphError
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.ids import new_ulid
from omnigraph_core.spark.check import Checked, put_together
from omnigraph_core.spark.options import SparkOptions
from omnigraph_core.spark.outcome import Parsed, decode_outcome, read_result
from omnigraph_core.spark.spec import JobSpec, decode_splits, lists_folder
from omnigraph_core.spark.submit import Runner
from omnigraph_core.write.door import Door
from omnigraph_core.write.plan import WriterKind
from omnigraph_core.write.staging import StagingRecord, amend, listed_files, staging


class RunningJob:
    """One load's job."""

    def __init__(
        self, door: Door, runner: Runner, options: SparkOptions, branch: str, actor: str | None
    ) -> None:
        self.storage = door.storage
        self._door, self._runner, self._options = door, runner, options
        self._id = new_ulid()
        self._lists = lists_folder(self._id)
        self._record = StagingRecord(
            self._id,
            WriterKind.LOAD.value,
            branch,
            actor,
            (layout.staging_folder(self._id),),
            (),
            lists=self._lists,
        )
        self._is_handed_over = False
        self._files: set[str] = set()

    @property
    def reader(self) -> str | None:
        return self._options.reader

    @contextmanager
    def recorded(self, start: GraphCommit | None) -> Iterator[None]:
        """Keep the staging record while the block runs; what is left of the job goes with it."""
        pinned = self._pinned(start)
        failure: BaseException | None = None
        with staging(self.storage, replace(self._record, pinned=pinned)):
            self._record = replace(self._record, pinned=pinned)
            try:
                yield
            except BaseException as error:
                # With nothing left to tell, the record may go as well.
                failure = error
            try:
                self._clean_up()
            except OmnigraphError:
                # The record stays, and the next sweep does it.
                if failure is None:
                    raise
                raise failure from None
        if failure is not None:
            raise failure

    def _pinned(self, start: GraphCommit | None) -> tuple[tuple[str, int], ...]:
        if start is not None:
            return ()
        base = self._door.base(self._record.branch)
        return tuple((key, entry.table_version) for key, entry in sorted(base.tables.items()))

    def run(self, spec: JobSpec) -> tuple[Parsed, Checked | None]:
        """Submit, wait, and take what came of it; raises what the job or the input failed of."""
        spec = replace(
            spec,
            operation_id=self._id,
            graph=self.storage.location.uri,
            front_pid=None if self._options.in_cluster else os.getpid(),
        )
        spec.write(self.storage)
        self._runner(spec)
        content = read_result(self.storage, spec.folder)
        if content is None:
            raise InternalError("the Spark job left no result")
        splits = decode_splits(content["splits"])
        parsed = Parsed.of(splits, [decode_outcome(each) for each in content["outcomes"]])
        faults.hit("spark.job_done")
        parsed.raise_failure()
        self._files = parsed.used_files
        self._drop_unused(self._files)
        answers = content["checked"]
        return parsed, None if answers is None else put_together(answers)

    def add_files(self, paths: Iterable[str]) -> None:
        """Files that the front has written itself."""
        written = set(paths) - self._files
        if written:
            self._files |= written
            name = f"{self._lists}/front-{new_ulid()}.json"
            self.storage.control.put(name, json.dumps(sorted(written)).encode())

    def hand_over(self, kept: frozenset[str]) -> None:
        """The sidecar names the kept files from now on; whoever recovers it decides about them."""
        self._is_handed_over = True
        self._files -= kept
        paths = (*self._record.paths, *sorted(self._files))
        self._record = replace(self._record, paths=paths, lists=None)
        amend(self.storage, self._record)

    def _drop_unused(self, used: set[str]) -> None:
        """Attempts that failed, or were repeated, have left files nobody will use."""
        for path in listed_files(self.storage, self._lists):
            if path not in used:
                self.storage.control.delete(path)

    def _clean_up(self) -> None:
        if self._is_handed_over:
            for path in self._files:
                self.storage.control.delete(path)
        else:
            self._drop_unused(set())
        self.storage.control.delete_prefix(layout.staging_folder(self._id))
