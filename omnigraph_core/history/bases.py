"""What two commits have in common: their lowest common ancestors.

A common ancestor that is itself an ancestor of another one is never a base: a merge from there
would see changes that both sides already share, and undo what was taken back since. Several
lowest ones are possible (two branches that merged each other's older commits); picking one of
them loses edits without a word, so all of them are bases and the merge joins them.

Only ids and parents are needed. A commit that is no longer on record still is an ancestor by
its id; its own parents are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from omnigraph_core.history.log import CommitLog
from omnigraph_core.records import dataclass

Parents = Mapping[str, tuple[str, ...]]
"""The parents of every commit on record: the first one, then the merged one."""


@dataclass(frozen=True, slots=True)
class Bases:
    """The lowest readable common ancestors, by id; none for unrelated commits."""

    commit_ids: tuple[str, ...]
    unreadable: tuple[str, ...] = ()
    """Lower ones that had to be passed over: their branch or their versions are gone."""


def parents_of(log: CommitLog) -> dict[str, tuple[str, ...]]:
    return {
        commit_id: tuple(
            parent
            for parent in (commit.parent_commit_id, commit.merged_parent_commit_id)
            if parent is not None
        )
        for commit_id, commit in log.commits.items()
    }


def ancestors(parents: Parents, starts: Iterable[str]) -> set[str]:
    """These commits and everything they descend from."""
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        commit_id = waiting.pop()
        if commit_id not in found:
            found.add(commit_id)
            waiting += parents.get(commit_id, ())
    return found


def lowest_common(parents: Parents, a: Iterable[str], b: Iterable[str]) -> tuple[str, ...]:
    """The lowest common ancestors of what comes of merging all of `a`, and of the same for `b`.

    A commit is its own ancestor, so the lowest of a commit and its descendant is the commit.
    """
    return _lowest(parents, ancestors(parents, a) & ancestors(parents, b))


def find_bases(parents: Parents, a: str, b: str, is_readable: Callable[[str], bool]) -> Bases:
    """The bases of a merge of two commits. One that cannot be read gives way to what is below it."""
    return lowest_readable(parents, [a], [b], is_readable)


def all_bases(
    parents: Parents, a: Iterable[str], b: Iterable[str], is_readable: Callable[[str], bool]
) -> set[str]:
    """The bases of a merge, and those by which several of them are joined, and so on down."""
    bases = lowest_readable(parents, a, b, is_readable).commit_ids
    found = set(bases)
    for place in range(1, len(bases)):
        found |= all_bases(parents, bases[:place], [bases[place]], is_readable)
    return found


def lowest_readable(
    parents: Parents, a: Iterable[str], b: Iterable[str], is_readable: Callable[[str], bool]
) -> Bases:
    """`lowest_common`, of those that can be read."""
    common = ancestors(parents, a) & ancestors(parents, b)
    passed: list[str] = []
    while True:
        lowest = _lowest(parents, common)
        lost = [commit_id for commit_id in lowest if not is_readable(commit_id)]
        if not lost:
            return Bases(lowest, tuple(sorted(passed)))
        passed += lost
        common -= set(lost)


def _lowest(parents: Parents, among: set[str]) -> tuple[str, ...]:
    """Those of which no other one descends."""
    above = ancestors(parents, (parent for each in among for parent in parents.get(each, ())))
    return tuple(sorted(among - above))
