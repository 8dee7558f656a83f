"""The lifetime of a job: its folder, and the files it leaves.

The load's record names them before the job is submitted and until the load is over, so that
cleanup spares what tasks write; should this process die, whoever writes next deletes it by
the lists that the tasks keep.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from omnigraph_core import faults, layout
from omnigraph_core.errors import InternalError
from omnigraph_core.ids import new_ulid
from omnigraph_core.load.record import LoadRecord
from omnigraph_core.load.roles import Checked
from omnigraph_core.spark.check import put_together
from omnigraph_core.spark.outcome import Parsed, decode_outcome, read_result
from omnigraph_core.spark.spec import JobSpec, decode_splits, job_path, lists_folder
from omnigraph_core.spark.submit import Runner
from omnigraph_core.storage import Storage
from omnigraph_core.write.staging_record import listed_files


class RunningJob:
    """One load's job."""

    def __init__(self, storage: Storage, runner: Runner, record: LoadRecord) -> None:
        self.storage = storage
        self._runner, self._record = runner, record
        self._id = record.operation_id
        self._lists = lists_folder(self._id)
        self._folder = layout.staging_folder(self._id)
        self._is_handed_over = False
        self._files: set[str] = set()

    def begin(self) -> None:
        """Put on record where the job leaves its files; what is left of them goes with the record."""
        self._record.put_away_by(lambda: self._clean_up())
        self._record.tell(paths=(self._folder,), lists=self._lists)

    def run(self, spec: JobSpec) -> tuple[Parsed, Checked | None]:
        """Submit, wait, and take what came of it; raises what the job or the input failed of."""
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
        """From now on the sidecar names the kept files, and recovery decides about them."""
        left = self._files - kept
        self._record.tell(paths=(self._folder, *sorted(left)), lists=None)
        self._files = left
        self._is_handed_over = True

    def _drop_unused(self, used: set[str]) -> None:
        """Delete the files of attempts that failed or were repeated."""
        for path in listed_files(self.storage.control, self._id, self._lists):
            if path not in used:
                self.storage.control.delete(path)

    def _clean_up(self) -> None:
        # First, so that a task that is still at work knows; then its list, if it has one, is complete.
        self.storage.control.delete(job_path(self._id))
        if self._is_handed_over:
            for path in self._files:
                self.storage.control.delete(path)
        else:
            self._drop_unused(set())
        self.storage.control.delete_prefix(self._folder)
