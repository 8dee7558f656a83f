"""Do others write to the same branches as this process? Then writers take turns.

A lock that is free says little about that: among several writers it is free for a moment after
every commit. What says more is a plan that came too late, or a commit of another between two of ours.
It is only ever a guess about what is cheaper, and nothing that a write relies on.
"""

from __future__ import annotations

from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.write.limits import ALONE_AFTER_WRITES


class Turns:
    """What the writes of one process have met on each branch."""

    def __init__(self) -> None:
        self._made: dict[str, str] = {}
        """The last commit of ours on each branch."""
        self._shared: dict[str, int] = {}
        """For how many more writes a branch counts as shared."""

    def are_taken(self, branch: str) -> bool:
        """Is another writer to be expected on the branch?"""
        return self._shared.get(branch, 0) > 0

    def lost(self, branch: str) -> None:
        """Another writer was faster."""
        self._shared[branch] = ALONE_AFTER_WRITES

    def found(self, snapshot: Snapshot) -> None:
        """The state that a write starts from; its head may be another's, although we wrote before."""
        ours = self._made.get(snapshot.branch)
        if ours is not None and snapshot.head is not None and snapshot.head.commit_id != ours:
            self.lost(snapshot.branch)

    def committed(self, branch: str, commit_id: str | None) -> None:
        """We made a commit, or None: a write without one."""
        if commit_id is not None:
            self._made[branch] = commit_id
        self._shared[branch] = max(0, self._shared.get(branch, 0) - 1)
