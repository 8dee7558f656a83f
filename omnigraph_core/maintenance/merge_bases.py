"""The commits that later merges start from: the lowest common ancestors of every two commits to be merged.

Those are the heads of live branches; of deleted ones that can still be brought back; and commits
that have a tag, where a branch may be made at any time. Without its base a merge takes what one side
deleted for what the other side added. A base may itself be on a deleted branch, when that was merged
into both sides: then the branch stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations

from omnigraph_core.history.bases import all_bases, ancestors, parents_of
from omnigraph_core.history.log import CommitLog, GraphCommit
from omnigraph_core.maintenance.limits import PAIRED_BRANCHES_MAX

IsReadable = Callable[[GraphCommit], bool]


class MergeBases:
    """Collects what may be merged, then finds the bases."""

    def __init__(self, commits: Mapping[str, GraphCommit]) -> None:
        self._commits = commits
        self._parents = parents_of(CommitLog(commits, {}))
        self._tips: set[str] = set()

    def start_at(self, heads: Iterable[str]) -> None:
        """Of branches that are there, or may be back."""
        self._tips.update(heads)

    def start_at_tagged(self, commits: Iterable[str]) -> None:
        """Left out where they would be too many to look at every two."""
        tips = self._tips.union(commits)
        if len(tips) <= PAIRED_BRANCHES_MAX:
            self._tips = tips

    def found(self, is_live: IsReadable, is_aside: IsReadable) -> list[GraphCommit]:
        """`is_live`: it can be read; `is_aside`: it can, if its deleted branch stays.

        Also what is next to those on deleted branches, which are given up when their name is used again.
        """
        if len(self._tips) > PAIRED_BRANCHES_MAX:
            # Of very many branches, every commit where two lines part: among them are all bases.
            parting = _with_two_children(self._parents)
            found = {each for each in parting if each in self._commits and is_live(self._commits[each])}
        else:
            found = self._of_pairs(is_live)
            found |= self._of_pairs(lambda commit: is_live(commit) or is_aside(commit))
        return [self._commits[commit_id] for commit_id in sorted(found)]

    def _of_pairs(self, is_readable: IsReadable) -> set[str]:
        def is_base(commit_id: str) -> bool:
            return commit_id in self._commits and is_readable(self._commits[commit_id])

        found: set[str] = set()
        above = {tip: ancestors(self._parents, [tip]) for tip in self._tips}
        for a, b in combinations(sorted(self._tips), 2):
            if a not in above[b] and b not in above[a]:  # Otherwise the older one is the base, and stays.
                found |= all_bases(self._parents, [a], [b], is_base)
        return found


def _with_two_children(parents: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    counts: dict[str, int] = defaultdict(int)
    for above in parents.values():
        for parent in above:
            counts[parent] += 1
    return (each for each, count in counts.items() if count > 1)
