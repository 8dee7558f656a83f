"""One session of the shell: what a statement does, and what it prints."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from omnigraph_cli.output import HumanOutput, counted
from omnigraph_cli.row_formats import RowFormat, written
from omnigraph_cli.run import Run
from omnigraph_cli.shell.statements import as_query
from omnigraph_cli.tables import Id
from omnigraph_cli.times import shown_time
from omnigraph_core.errors import OmnigraphError, UsageError
from omnigraph_core.values.shown import clipped

if TYPE_CHECKING:
    from omnigraph_core.graph import Graph

_LOG_COMMITS = 10
_HEAD_ROWS = 10

HELP = {
    "\\d [TYPE]": "describe the types, or one of them",
    "\\h TYPE [N]": "the first entities of a type",
    "\\g TYPE ID": "one entity",
    "\\b [BRANCH]": "which branch is used; or use another",
    "\\l": "list the branches",
    "\\log [N]": "the newest commits",
    "\\f FORMAT": "the format of answers: table, kv, json, jsonl, csv, md",
    "\\t": "timing on or off",
    "\\? or \\help": "this help",
    "\\q": "leave; so does Ctrl-D",
}


class Leave(Exception):
    """The person is done."""


class Session:
    """A graph, a branch of it, and how answers are shown."""

    def __init__(self, run: Run, graph: Graph, branch: str) -> None:
        self._run = run
        self.graph = graph
        self.branch = branch
        self.format = RowFormat.TABLE
        self.timing = True
        self._is_writable = False
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "\\q": self._leave,
            "\\quit": self._leave,
            "\\?": self._help,
            "\\help": self._help,
            "\\d": self._describe,
            "\\h": self._head,
            "\\g": self._get,
            "\\b": self._branch,
            "\\l": self._branches,
            "\\log": self._log,
            "\\f": self._format,
            "\\t": self._timing,
        }

    def execute(self, text: str) -> None:
        """Run one statement; a failure is told, and the session goes on."""
        if not text.strip():
            return
        began_s = time.monotonic()
        try:
            if text.lstrip().startswith("\\"):
                word, *more = text.split()
                if word not in self._commands:
                    raise UsageError(f"there is no command {word}", hint=self._near(word))
                self._commands[word](more)
                return
            self._ask(as_query(text))
        except OmnigraphError as error:
            self._run.output.failure(error)
            return
        if self.timing:
            self._run.output.remark(f"{time.monotonic() - began_s:.3f} s")

    def _ask(self, source: str) -> None:
        from omnigraph_core.query import parse_queries

        file = parse_queries(source, "<shell>")
        if any(each.is_mutation for each in file.queries):
            self._change(source)
            return
        result = self.graph.query(source, branch=self.branch, source_name="<shell>")
        for block in written(result, self.format):
            self.format.put(sys.stdout, block)
        sys.stdout.flush()

    def _change(self, source: str) -> None:
        if not self._is_writable:
            self.graph.prepare_for_writing()
            self._is_writable = True
        changed = self.graph.change(
            source,
            branch=self.branch,
            actor=self._run.actor,
            message=self._run.message,
            source_name="<shell>",
        )
        counts = f"{counted(changed.affected_nodes, 'node')}, {counted(changed.affected_edges, 'edge')}"
        made = f"commit {changed.commit_id}" if changed.commit_id else "nothing matched; no commit was made"
        self._say(f"changed {self.branch}: {counts}", made)

    def _near(self, word: str) -> str:
        """`\\branch` is what somebody types who wants `\\b`."""
        short = word[:2]
        return f"did you mean {short}? \\? lists all" if short in self._commands else "\\? lists them"

    def _leave(self, _: list[str]) -> None:
        raise Leave

    def _help(self, _: list[str]) -> None:
        width = max(map(len, HELP))
        self._say(
            "A query ends with its last bracket, or with an empty line.",
            "`match … return …` alone is a query, too: it needs no name.",
        )
        self._say(*(f"  {name:<{width}}  {text}" for name, text in HELP.items()))

    def _describe(self, words: list[str]) -> None:
        from omnigraph_cli.commands.look import described_type, described_types

        view = self.graph.at(branch=self.branch)
        show = self._tables().rows
        if words:
            show({}, *described_type(view, words[0])[1:])
        else:
            show({}, *described_types(view)[1:])

    def _head(self, words: list[str]) -> None:
        from omnigraph_cli.commands.look import table_of

        if not words or (len(words) > 1 and not words[1].isdigit()):
            raise UsageError("\\h takes a TYPE, and a number of rows")
        found = self.graph.at(branch=self.branch).head(words[0], int((words[1:] or [f"{_HEAD_ROWS}"])[0]))
        self._tables().rows({}, counted(len(found), "row"), *table_of(found))

    def _get(self, words: list[str]) -> None:
        from omnigraph_cli.commands.look import lines_of

        if len(words) != 2:
            raise UsageError("\\g takes a TYPE and an ID")
        self._say(*lines_of(self.graph.at(branch=self.branch).entity(*words)))

    def _branch(self, words: list[str]) -> None:
        if words:
            self.graph.snapshot(words[0])
            self.branch = words[0]
        self._say(f"branch {self.branch}")

    def _branches(self, _: list[str]) -> None:
        self._say(*self.graph.branches())

    def _log(self, words: list[str]) -> None:
        if words and not words[0].isdigit():
            raise UsageError("\\log takes a number of commits")
        shown = self.graph.commits(self.branch).commits[: int((words or [f"{_LOG_COMMITS}"])[0])]
        rows = [
            (Id(each.commit_id), shown_time(each.created_at), each.actor_id, each.message or each.operation)
            for each in shown
        ]
        self._tables().rows({}, counted(len(shown), "commit"), ["commit", "when", "actor", "message"], rows)

    def _format(self, words: list[str]) -> None:
        known = ", ".join(RowFormat)
        if len(words) != 1 or words[0] not in list(RowFormat):
            raise UsageError(f"\\f takes one of {known}, not '{clipped(' '.join(words))}'")
        self.format = RowFormat(words[0])

    def _timing(self, _: list[str]) -> None:
        self.timing = not self.timing
        self._say(f"timing is {'on' if self.timing else 'off'}")

    def _tables(self) -> HumanOutput:
        output = self._run.output
        assert isinstance(output, HumanOutput)
        return output

    def _say(self, *lines: str) -> None:
        self._run.output.result({}, *lines)
        sys.stdout.flush()


def opened(run: Run, branch: str | None) -> Session:
    """A session on the graph of a run."""
    from omnigraph_core.graph import OpenMode

    if run.is_json:
        raise UsageError("a shell is for people; --json is not", hint="use `omnigraph query --json`")
    graph = run.open(OpenMode.ON_DEMAND)
    name = run.branch(branch)
    graph.snapshot(name)
    return Session(run, graph, name)
