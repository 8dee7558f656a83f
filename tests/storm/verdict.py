"""Was everybody told the truth? The graph after a storm, held against the journal.

- Every acknowledged write is there exactly once; every failed one is not; an unknown one is whole or absent.
- A write that began after another one was acknowledged on its branch comes after it.
- A read is the state of a commit, and misses nothing that was acknowledged before it began.
- Every commit that can still be read holds what the replay of the history says.
- No command ended in a bug, hung, or failed for a reason that nobody gave it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from tests.storm.journal import Call, Journal
from tests.storm.model import Graph, Key, Listed, Replay, Row, State, parsed
from tests.storm.nemesis import HANGS
from tests.storm.steps import Fault, Verb

ALLOWED = {0, 3, 4, 5, 6, 7, 8}
ANSWERS_NO = {Verb.DOCTOR, Verb.REPAIR, Verb.CLEANUP}
FAILING = {Fault.ERROR, Fault.DISK, Fault.NETWORK, Fault.CUT, Fault.PAUSE}
STORAGE = 74
ASKED = ("name", "age", "note")
MOVERS = {Verb.UNBRANCH, Verb.UNDELETE, Verb.RENAME, Verb.BRANCH, Verb.LOAD_FROM}


class Verdict:
    """Everything that is wrong, in words."""

    def __init__(
        self, journal: Journal, commits: Iterable[Listed], heads: dict[str, str], *, is_remote: bool
    ) -> None:
        self.journal = journal
        self.graph = Graph(commits)
        self.heads = heads
        self.is_remote = is_remote
        self.wrong: list[str] = []
        self.replay = Replay(self.graph, journal.meanings, _told_bases(journal))
        self._by_message = _by_message(self.graph)

    def check(self) -> list[str]:
        self.wrong += self.replay.wrong
        for call in self.journal.calls:
            self._check_code(call)
            self._check_write(call)
            self._check_read(call)
        self._check_order()
        return self.wrong

    def check_content(self, commit: str, content: dict[Key, Row], what: str) -> None:
        state = self.replay.states.get(commit)
        if state is not None and state.rows != content:
            how = _difference(state.rows, content)
            self.wrong.append(f"{what} holds other rows than its history says: {how}")

    # ---- each call ----

    def _check_code(self, call: Call) -> None:
        code = call.answer.code
        if code in ALLOWED or call.is_unknown or (code == 1 and call.step.verb in ANSWERS_NO):
            return
        is_failing = self.is_remote or (call.step.fault in FAILING and bool(call.answer.fault))
        if code == STORAGE and is_failing:
            return
        kind = "hung" if code == HANGS else "ended wrongly"
        self.wrong.append(f"a command {kind}: {call}")

    def _check_write(self, call: Call) -> None:
        if call.command.meaning is None or call.step.verb is Verb.OPTIMIZE:
            return  # Upkeep of several branches is a commit for each, and may get no further than some.
        found = self._by_message.get(call.step.name, [])
        if len(found) > 1:
            self.wrong.append(f"happened {len(found)} times: {call}")
        if call.is_done and call.commit is not None:
            if [call.commit] != found and self._must_be_there(call):
                self.wrong.append(f"acknowledged and lost: {call}")
        elif not call.is_done and not call.is_unknown and found:
            self.wrong.append(f"failed, and there all the same: {call}")

    def _must_be_there(self, call: Call) -> bool:
        """A commit goes with its branch; otherwise the history stays listed."""
        return not self._was_moved(_branch_of(call), call.called)

    def _was_moved(self, branch: str, since: float) -> bool:
        """May the name have come to mean another branch, or none, after that?"""
        return any(
            call.step.verb in MOVERS and branch in call.command.argv and call.returned >= since
            for call in self.journal.calls
            if call.is_done or call.is_unknown
        )

    def _check_read(self, call: Call) -> None:
        if not call.is_done:
            return
        if call.step.verb is Verb.EXPORT_AT:
            at = call.command.argv[2]
            if at in self.replay.states:
                self.check_content(at, _rows(call.answer.out), f"{call.step.name}: export of {at}")
        elif call.step.verb is Verb.EXPORT:
            self._check_export(call)
        elif call.step.verb in ANSWERED:
            self._check_query(call)

    def _check_export(self, call: Call) -> None:
        content = _rows(call.answer.out)
        if self.replay.unknown or self._was_moved(call.step.branch, 0.0):
            return  # Of commits that went with their branch nobody knows what they held.
        same = [commit for commit, state in self.replay.states.items() if state.rows == content]
        if not same:
            self.wrong.append(f"read what no commit holds: {call}")
            return
        missing = [other for other in self._acknowledged_before(call) if not self._is_in(other, same)]
        if missing:
            self.wrong.append(f"read without what was acknowledged before ({missing[0]}): {call}")

    def _check_query(self, call: Call) -> None:
        told = call.told
        commit = told.get("graph_commit_id")
        state = self.replay.states.get(str(commit))
        if state is not None:
            wanted, found = ANSWERED[call.step.verb](state, told["rows"])
            if wanted != found:
                how = _difference(wanted, found)
                self.wrong.append(f"a query at {commit} answered wrongly: {how} {call}")
        if commit in self.graph.commits:
            for other in self._acknowledged_before(call):
                if not self._is_in(other, [str(commit)]):
                    self.wrong.append(f"a query missed what was acknowledged before it ({other}): {call}")

    def _acknowledged_before(self, call: Call) -> list[Call]:
        branch = _branch_of(call)
        return [
            other
            for other in self.journal.calls
            if other.commit in self.graph.commits
            and other.command.meaning is not None
            and other.step.verb is not Verb.OPTIMIZE
            and _branch_of(other) == branch
            and other.returned < call.called
            and not self._was_moved(branch, other.called)
        ]

    def _is_in(self, call: Call, commits: Iterable[str]) -> bool:
        assert call.commit is not None
        return any(self.graph.is_ancestor(call.commit, commit) for commit in commits)

    # ---- all calls ----

    def _check_order(self) -> None:
        for call in self.journal.calls:
            if call.commit not in self.graph.commits or call.command.meaning is None:
                continue
            if call.step.verb is Verb.OPTIMIZE:
                continue
            for other in self._acknowledged_before(call):
                if not self._is_in(other, [str(call.commit)]):
                    self.wrong.append(f"written without what was acknowledged before ({other}): {call}")
                    return

    def check_heads(self, content_of: Callable[[str], dict[Key, Row]]) -> None:
        for branch, head in self.heads.items():
            self.check_content(head, content_of(branch), f"branch {branch}")
            for call in self.journal.calls:
                is_there = call.commit in self.graph.commits and call.command.meaning is not None
                if not is_there or call.step.verb is Verb.OPTIMIZE or _branch_of(call) != branch:
                    continue
                if self._must_be_there(call) and not self._is_in(call, [head]):
                    self.wrong.append(f"acknowledged, and not in the history of {branch}: {call}")


def _branch_of(call: Call) -> str:
    """Where the commit of a call goes."""
    argv = call.command.argv
    told = call.told
    if call.step.verb is Verb.MERGE:
        return argv[argv.index("--into") + 1]
    if call.step.verb is Verb.UNDO:
        undone = told.get("undone") or {}
        return str((undone.get("after") or {}).get("branch", ""))
    return call.step.branch


def _people(state: State, rows: Iterable[Row]) -> tuple[Row, Row]:
    """Wanted and found."""
    people = {key[1]: row for key, row in state.rows.items() if key[0] == "Person"}
    wanted = {name: tuple(row.get(each) for each in ASKED) for name, row in people.items()}
    return wanted, {row["p.name"]: tuple(row[f"p.{name}"] for name in ASKED) for row in rows}


def _hops(state: State, rows: Iterable[Row]) -> tuple[Row, Row]:
    edges = {(row["src"], row["dst"]) for key, row in state.rows.items() if key[0] == "Knows"}
    found = {(row["p.name"], row["q.name"]) for row in rows}
    return {f"{p} knows {q}": True for p, q in edges}, {f"{p} knows {q}": True for p, q in found}


ANSWERED = {Verb.QUERY: _people, Verb.HOPS: _hops}


def _told_bases(journal: Journal) -> dict[str, list[str]]:
    """Bases of merges that had to do without the right ones, and said so."""
    return {
        call.commit: list(call.told["bases"])
        for call in journal.calls
        if call.step.verb is Verb.MERGE and call.commit is not None and call.told.get("warnings")
    }


def _by_message(graph: Graph) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for commit in graph.commits.values():
        if commit.message is not None and commit.operation != "recovery":
            found.setdefault(commit.message, []).append(commit.id)
    return found


def _rows(text: str) -> dict[Key, Row]:
    return dict(parsed(json.loads(line)) for line in text.splitlines())


def _difference(wanted: dict[Any, Any], found: dict[Any, Any]) -> str:
    keys = [key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)]
    shown = [f"{key}: {wanted.get(key)} ≠ {found.get(key)}" for key in sorted(keys, key=str)[:3]]
    return f"{len(keys)} differ, {'; '.join(shown)}"
