"""Branches for people: where each stands, and what is on it that is nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from omnigraph_cli.times import age
from omnigraph_core import layout
from omnigraph_core.records import dataclass

if TYPE_CHECKING:
    from omnigraph_core.graph import Graph
    from omnigraph_core.history.log import CommitLog, GraphCommit


@dataclass(frozen=True, slots=True)
class Standing:
    """A branch, its head, and how many commits it and main have that the other has not."""

    name: str
    head: GraphCommit | None
    ahead: int
    behind: int

    def row(self, now_us: int) -> tuple[object, ...]:
        from omnigraph_cli.tables import Id

        if self.head is None:
            return (self.name, None, None, None, self.ahead, self.behind, None)
        message = self.head.message or self.head.operation
        when = age(now_us - self.head.created_at)
        return (
            self.name,
            Id(self.head.commit_id),
            when,
            self.head.actor_id,
            self.ahead,
            self.behind,
            message,
        )

    def content(self) -> dict[str, object]:
        head = self.head
        return {
            "name": self.name,
            "head": head and head.commit_id,
            "created_at": head and head.created_at,
            "actor": head and head.actor_id,
            "ahead": self.ahead,
            "behind": self.behind,
        }


COLUMNS = ("branch", "head", "age", "actor", "ahead", "behind", "message")


def standings(graph: Graph, names: Iterable[str]) -> list[Standing]:
    log = graph.log()
    main = _ids(log, layout.MAIN_BRANCH)
    found = []
    for name in names:
        own = _ids(log, name)
        head = log.commits.get(log.heads.get(name, ""))
        found.append(Standing(name, head, len(own - main), len(main - own)))
    return found


def only_on(graph: Graph, name: str) -> Sequence[str]:
    """The commits that no other branch has."""
    log = graph.log()
    others = {each for other in log.heads if other != name for each in _ids(log, other)}
    return sorted(_ids(log, name) - others)


def _ids(log: CommitLog, name: str) -> set[str]:
    return {commit.commit_id for commit in log.history(name)}
