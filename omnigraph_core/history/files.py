"""Are the files of a commit what they were? Its details have a digest of each that it added."""

from __future__ import annotations

import json

from omnigraph_core.history.log import GraphCommit
from omnigraph_core.storage import ControlStore


def damaged_files(control: ControlStore, commit: GraphCommit) -> list[str]:
    """The files that a commit added and that are gone by now or have other bytes. Reads all of them.

    None for a commit that recorded nothing: of another writer of the format, or before there
    were digests.
    """
    recorded = json.loads(commit.details or "{}").get("files", {})
    return sorted(path for path, digest in recorded.items() if control.digest(path) != digest)
