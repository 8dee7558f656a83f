"""The commits that later merges start from: the lowest common ancestors of every two commits to be merged.

Those are the heads of live branches; of deleted ones that can still be brought back; and commits
that have a tag, where a branch may be made at any time. Without its base a merge takes what one side
deleted for what the other side added. A base may itself be on a deleted branch, when that was merged
into both sides: then the branch stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, combinations, product

from omnigraph_core.history.bases import all_bases, ancestors, parents_of
from omnigraph_core.history.log import CommitLog, GraphCommit
from omnigraph_core.maintenance.limits import PAIRED_BRANCHES_MAX

IsReadable = Callable[[GraphCommit], bool]


class MergeBases:
    """Collects what may be merged, then finds the bases."""

    def __init__(self, commits: Mapping[str, GraphCommit]) -> None:
        self._commits = commits
        self._parents = parents_of(CommitLog(commits, {}))
        self._live: set[str] = set()
        self._more: dict[str, None] = {}

    def start_at(self, heads: Iterable[str]) -> None:
        """Of branches that are there."""
        self._live.update(heads)

    def may_start_at(self, commits: Iterable[str]) -> None:
        """Heads that may be back, and places for branches: to be merged with one that is there."""
        self._more.update(dict.fromkeys(commits))

    def found(self, is_live: IsReadable, is_aside: IsReadable) -> list[GraphCommit]:
        """`is_live`: it can be read; `is_aside`: it can, if its deleted branch stays.

        Also what is next to those on deleted branches, which are given up when their name is used again.
        """
        if len(self._live) > PAIRED_BRANCHES_MAX:
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
        pairs = self._pairs()
        above = {tip: ancestors(self._parents, [tip]) for tip in set(chain.from_iterable(pairs))}
        for a, b in pairs:
            if a not in above[b] and b not in above[a]:  # Otherwise the older one is the base, and stays.
                found |= all_bases(self._parents, [a], [b], is_base)
        return found

    def _pairs(self) -> list[tuple[str, str]]:
        """Every two live heads, and each with as many of the others as there may be."""
        room = PAIRED_BRANCHES_MAX - len(self._live)
        others = [each for each in self._more if each not in self._live][:room]
        live = sorted(self._live)
        return [*combinations(live, 2), *product(live, others)]


def _with_two_children(parents: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    counts: dict[str, int] = defaultdict(int)
    for above in parents.values():
        for parent in above:
            counts[parent] += 1
    return (each for each, count in counts.items() if count > 1)
