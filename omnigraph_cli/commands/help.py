"""`omnigraph help`."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import typer

from omnigraph_cli.run import Run, command
from omnigraph_core.errors import NotFoundError

# Topics that are not called as their page in docs/ is; the others are.
_PAGES = {"pg": "schema", "gq": "queries", "formats": "data"}
TOPICS = ("refs", "pg", "gq", "formats", "exit-codes", "environment")


def complete_help(incomplete: str) -> list[str]:
    from omnigraph_cli.tree import GROUPS

    words = [*TOPICS, *(word for names in GROUPS.values() for word in names)]
    return [word for word in words if word.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    @command(
        app,
        "help",
        takes_graph=False,
        needs_settings=False,
        examples=[
            "omnigraph help",
            "omnigraph help load",
            "omnigraph help branch merge",
            "omnigraph help refs",
        ],
    )
    def help_(
        run: Run,
        words: Annotated[
            list[str] | None,
            typer.Argument(
                metavar="[COMMAND|TOPIC]",
                help=f"A command, or one of {', '.join(TOPICS)}, or a page of the documentation.",
                autocompletion=complete_help,
            ),
        ] = None,
    ) -> None:
        """Show help: all commands, one of them, or a topic."""
        asked = [word for word in words or [] if word != "omnigraph"]
        text = _help(asked)
        run.output.document({"topic": " ".join(asked), "text": text}, text)


def _help(words: list[str]) -> str:
    from omnigraph_cli import pages
    from omnigraph_cli.environment import REFS, environment_page
    from omnigraph_cli.help_text import help_of
    from omnigraph_cli.tree import PROGRAM, whole_tree

    found: Any = whole_tree()
    for word in words:
        found = getattr(found, "commands", {}).get(word)
        if found is None:
            break
    if found is not None:
        return help_of(found, [PROGRAM, *words])
    topic = "-".join(words)
    if topic == "refs":
        return _readable(REFS)
    if topic == "environment":
        return _readable(environment_page())
    page = _PAGES.get(topic, topic)
    if page in pages.topics():
        return _readable(pages.text(page))
    known = [*TOPICS, *pages.topics(), *found_commands(whole_tree())]
    near = difflib.get_close_matches(topic, known, 1)
    hint = f"did you mean `omnigraph help {near[0]}`?" if near else f"topics are: {', '.join(TOPICS)}"
    raise NotFoundError(f"there is no help about '{' '.join(words)}'", hint=hint)


def found_commands(tree: Any) -> list[str]:
    return [name for name, each in tree.commands.items() if not each.hidden]


def _readable(markdown: str) -> str:
    from omnigraph_cli.markdown import plain

    return plain(markdown)
