"""Commits for people: one short line each, alone or beside a drawing of how they descend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph_cli.lanes import children_first, colored, draw, shown_parents
from omnigraph_cli.tables import Id, cut
from omnigraph_core.values.shown import one_line

if TYPE_CHECKING:
    from omnigraph_core.graph import Graph
    from omnigraph_core.history.log import GraphCommit
    from omnigraph_core.history.removed import Removals

LIMITS = {
    "removed_by_cleanup": "removed by cleanup",
    "branch_deleted": "gone with a deleted branch",
    "not_recorded": "not on record",
}
"""Why it is not known what was before a commit."""

_ID_COLOR = 33


def line_of(commit: GraphCommit, removals: Removals, *, whole: bool, room: int | None) -> str:
    """One line, on a terminal one of its lines."""
    label = _label([], commit, removals)
    text = f"{Id(commit.commit_id).shown(whole=whole)}{label} {_described(commit)}".rstrip()
    return text if room is None else cut(text, room)


def _label(names: Sequence[str], commit: GraphCommit, removals: Removals) -> str:
    """` (main, tag:v1)`, and `removed` for a commit whose data cleanup has taken."""
    said = [*names, *(["removed"] if removals.removed_at(commit) is not None else [])]
    return one_line(f" ({', '.join(said)})") if said else ""


def _described(commit: GraphCommit) -> str:
    text = (commit.message or commit.operation or "").strip().partition("\n")[0]
    return one_line(f"{commit.shown_branch} {commit.actor_id or '-'} {text}").rstrip()


class Drawing:
    """Some commits of a history, in an order in which they can be drawn: children before their parents.

    Commits that were not chosen are passed over: a line goes to the next ones behind them.
    """

    def __init__(self, chosen: Iterable[GraphCommit], history: Iterable[GraphCommit]) -> None:
        known = {commit.commit_id: commit for commit in chosen}
        self._parents = shown_parents(known, {each.commit_id: _parents(each) for each in history})
        self.commits = [known[each] for each in children_first(list(known), self._parents)]

    def text(
        self, limit: int | None, names: Mapping[str, Sequence[str]], removals: Removals, *, is_colored: bool
    ) -> str:
        """The first `limit` of them, with the names of heads and tags."""

        def paint(text: str, color: int) -> str:
            return f"\033[{color}m{text}\033[0m" if is_colored else text

        known = {commit.commit_id: commit for commit in self.commits[:limit]}
        lines = []
        for line in draw(known, self._parents):
            text = colored(line.cells, paint)
            if line.commit is not None:
                label = _label(names.get(line.commit, ()), known[line.commit], removals)
                text += f" {paint(line.commit[-8:], _ID_COLOR)}{label} {_described(known[line.commit])}"
            lines.append(text.rstrip())
        return "\n".join(lines)


def _parents(commit: GraphCommit) -> tuple[str, ...]:
    both = (commit.parent_commit_id, commit.merged_parent_commit_id)
    return tuple(dict.fromkeys(parent for parent in both if parent is not None))


def names_of_commits(graph: Graph) -> dict[str, list[str]]:
    """Heads of branches and tags, by their commits."""
    found: dict[str, list[str]] = {}
    for name in graph.branches():
        head = graph.head(name)
        if head is not None:
            found.setdefault(head.commit_id, []).append(name)
    for tag in graph.tags():
        found.setdefault(tag.commit_id, []).append(f"tag:{tag.name}")
    return found
