"""The prompt of the shell on a terminal: history, completion, several lines; imports prompt_toolkit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings

from omnigraph_cli.row_formats import RowFormat
from omnigraph_cli.shell.session import HELP, Session
from omnigraph_cli.shell.statements import is_whole

_WORDS = (
    *("query", "match", "return", "order", "limit", "not", "as", "asc", "desc"),
    *("insert", "update", "delete", "set", "where", "count", "sum", "avg", "min", "max"),
)
_LAST = re.compile(r"[\w$:./\\-]*$")


class Names(Completer):
    """What can stand at the cursor: words of the language, types, edges, properties, branches."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        typed = _LAST.search(before)
        part = typed.group() if typed else ""
        for name in sorted(set(self._known(before, part))):
            if name.startswith(part) and name != part:
                yield Completion(name, start_position=-len(part))

    def _known(self, before: str, part: str) -> Iterable[str]:
        if before.lstrip().startswith("\\"):
            return self._after_command(before.lstrip())
        schema = self._session.graph.at(branch=self._session.branch).schema
        if "." in part:  # a property: $p.na
            variable = part.rpartition(".")[0]
            return [f"{variable}.{prop.name}" for each in schema.types() for prop in each.properties]
        types = [each.name for each in schema.types()]
        edges = [each.name[:1].lower() + each.name[1:] for each in schema.edges]
        return [*_WORDS, *types, *edges, *(prop.name for each in schema.types() for prop in each.properties)]

    def _after_command(self, before: str) -> Iterable[str]:
        word, space, _ = before.partition(" ")
        if not space:
            return [name for each in HELP for name in re.findall(r"\\\S+", each)]
        if word == "\\b":
            return self._session.graph.branches()
        if word == "\\f":
            return list(RowFormat)
        schema = self._session.graph.at(branch=self._session.branch).schema
        return [each.name for each in schema.types()]


def statements(session: Session, history: Path | None) -> Iterator[str]:
    """What is typed, one statement at a time, until Ctrl-D. Ctrl-C drops a line that is begun."""
    typed: PromptSession[str] = PromptSession(
        history=_history(history),
        completer=Names(session),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_bindings(),
        prompt_continuation=lambda width, _line, _wrapped: "." * max(width - 1, 1) + " ",
    )
    while True:
        try:
            yield typed.prompt(lambda: f"{session.branch}> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _history(path: Path | None) -> History:
    """Kept in the user's own directory; a session without one still has its own."""
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _bindings() -> KeyBindings:
    """Enter ends a statement that is whole, and begins a new line in one that is not."""
    bindings = KeyBindings()

    @Condition
    def is_done() -> bool:
        from prompt_toolkit.application import get_app

        text = get_app().current_buffer.text
        return is_whole(text) or is_whole(text + "\n")

    @bindings.add("enter", filter=is_done)
    def accept(event: Any) -> None:
        event.current_buffer.validate_and_handle()

    return bindings
