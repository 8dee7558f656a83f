"""Progress of a job: written by the driver to the staging folder, shown by the front."""

from __future__ import annotations

import json
from dataclasses import asdict

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The phase, its tasks, and the rows read and mistakes found so far, by all attempts at splits."""

    phase: str
    done: int
    total: int
    rows: int
    bad: int

    @property
    def title(self) -> str:
        """What the progress bar says beside the number of rows."""
        facts = [f"{self.done} of {self.total} tasks"] if self.total else []
        facts += [f"{self.bad} bad"] if self.bad else []
        return f"{self.phase} ({', '.join(facts)})" if facts else self.phase


def write_progress(storage: Storage, folder: str, progress: JobProgress) -> None:
    storage.control.put(_path(folder), json.dumps(asdict(progress)).encode())


def read_progress(storage: Storage, folder: str) -> JobProgress | None:
    """The latest progress; harmless if it cannot be read."""
    try:
        found = storage.control.get(_path(folder))
        return None if found is None else JobProgress(**json.loads(found.data))
    except (OmnigraphError, ValueError, TypeError):
        return None


def _path(folder: str) -> str:
    return f"{folder}/progress.json"
