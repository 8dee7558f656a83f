"""One run of a command: the options every command has, and what they resolve to."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.models import OptionInfo

from omnigraph_cli.addressing import Address, find_graph, given_place, is_file, share_with_group
from omnigraph_cli.arguments import Command, Group
from omnigraph_cli.completing import one_of
from omnigraph_cli.exits import BY_KIND
from omnigraph_cli.limits import OBJECTS_BETWEEN_COLLECTIONS
from omnigraph_cli.output import HumanOutput, JsonOutput, Output, tell
from omnigraph_cli.pager import paged
from omnigraph_cli.progress import KINDS, checked_kind
from omnigraph_cli.screen import Screen
from omnigraph_cli.sources import QUERY_OPTIONS, QueryOptions
from omnigraph_cli.warm import client
from omnigraph_core import __version__
from omnigraph_core.errors import NotFoundError, OmnigraphError, UsageError
from omnigraph_core.records import dataclass
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.values.shown import one_line
from omnigraph_core.write.actors import check_actor

if TYPE_CHECKING:
    from omnigraph_core.graph import Graph, OpenMode
    from omnigraph_core.storage import Location


@dataclass(frozen=True, slots=True)
class Run:
    """What a command gets besides its own options."""

    settings: Settings
    output: Output
    given: Address | None
    verbose: bool
    actor: str
    message: str | None
    screen: Screen
    progress: str = "off"
    no_input: bool = False
    full_ids: bool = False

    @property
    def is_json(self) -> bool:
        return isinstance(self.output, JsonOutput)

    def address(self) -> Address:
        """The graph this run works on; with --verbose, a remark says why this one."""
        address = find_graph(self.given, self.settings)
        if self.verbose:
            self.output.remark(f"graph {address.place} (from {address.because})")
        if is_file(address, self.settings):
            raise NotFoundError(f"there is no graph: {address.place} is a file, not a directory")
        return address

    def open(self, mode: OpenMode) -> Graph:
        from omnigraph_core.graph import Graph

        place = self.address().place
        share_with_group(place, self.settings)
        self.screen.start()
        graph = Graph.open(place, self.settings, mode)
        for warning in graph.warnings:
            self.output.remark(f"warning: {warning}")
        return graph

    def branch(self, option: str | None) -> str:
        """`--branch`, else OMNIGRAPH_BRANCH, else the config files, else main."""
        return option or self.settings.default_branch


def echo_target(run: Run, what: str, location: Location) -> None:
    """Say which graph a command is about to write to."""
    where = "local" if location.is_local else "remote"
    run.output.remark(f"omnigraph {what} → {location.uri} (direct, {where})")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"omnigraph {__version__}")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option(
        "-V", "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
    ),
]

_COMMON: dict[str, tuple[object, object]] = {
    "store": (
        Annotated[
            str | None,
            typer.Option(
                "--store", "--uri", metavar="URI", help="The graph: a path, a file:// or an s3:// URI."
            ),
        ],
        None,
    ),
    "json_output": (
        Annotated[bool, typer.Option("--json", help="Print results and failures as JSON.")],
        False,
    ),
    "quiet": (
        Annotated[
            bool, typer.Option("-q", "--quiet", help="Print only data that was asked for, and errors.")
        ],
        False,
    ),
    "verbose": (
        Annotated[bool, typer.Option("-v", "--verbose", help="Say which graph is used, and why.")],
        False,
    ),
    "color": (
        Annotated[str, typer.Option(metavar="auto|always|never", help="When to use colour.")],
        "auto",
    ),
    "version": (VersionOption, False),
}

_WRITING: dict[str, tuple[object, object]] = {
    "actor": (
        Annotated[str | None, typer.Option("--as", metavar="ACTOR", help="The actor of the commit.")],
        None,
    ),
    "message": (
        Annotated[str | None, typer.Option("--message", "-m", metavar="TEXT", help="Commit message.")],
        None,
    ),
    "no_input": (
        Annotated[bool, typer.Option("--no-input", help="Never ask: refuse what needs consent.")],
        False,
    ),
    "lock_timeout": (
        Annotated[
            float | None,
            typer.Option(
                "--lock-timeout",
                metavar="SECONDS",
                help="How long to wait for another writer; default 30.",
            ),
        ],
        None,
    ),
}

_PROGRESS: dict[str, tuple[object, object]] = {
    "progress": (
        Annotated[
            str,
            typer.Option(
                "--progress",
                metavar="|".join(KINDS),
                help="auto: a status line on a terminal. json: JSON lines on stderr.",
                autocompletion=one_of(*KINDS),
            ),
        ],
        "auto",
    ),
}

_PAGING: dict[str, tuple[object, object]] = {
    "no_pager": (
        Annotated[bool, typer.Option("--no-pager", help="Print long output without a pager.")],
        False,
    ),
}

_LISTING: dict[str, tuple[object, object]] = {
    "full_ids": (
        Annotated[bool, typer.Option("--full-ids", help="Show whole ids; in a pipe they always are.")],
        False,
    ),
}

_GRAPH_ARGUMENT = Annotated[str | None, typer.Argument(metavar="GRAPH", help="The graph; same as --store.")]

SHARED_OPTIONS = frozenset({**_COMMON, **_WRITING, **_PROGRESS, **_PAGING, **_LISTING})
"""The names of parameters that many commands have; help shows their options last."""

CommandBody = Callable[..., None]


def command_group(app: typer.Typer, name: str, *, help: str) -> typer.Typer:  # noqa: A002
    """A group of commands, as `branch` in `branch list`."""
    group = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode=None, help=help)
    app.add_typer(group, name=name)
    return group


def command(
    app: typer.Typer,
    name: str,
    *,
    examples: Iterable[str],
    takes_graph: bool = True,
    takes_query: bool = False,
    writes: bool = False,
    lists_ids: bool = False,
    has_progress: bool = False,
    is_text: bool = True,
    needs_settings: bool = True,
    hidden: bool = False,
    aliases: Iterable[str] = (),
    elsewhere: Mapping[str, typer.Typer] | None = None,
) -> Callable[[CommandBody], CommandBody]:
    """Register `body(run, …)` with the options every command has.

    `takes_graph` adds the positional GRAPH; `takes_query` adds NAME, -e, --query and what its
    parameters are given by, and the body is `body(run, asked, …)`; `writes` adds --as,
    --message and --lock-timeout; `lists_ids` adds --full-ids, `has_progress` --progress. What a
    command prints is paged on a terminal, unless it writes or is not `is_text`. A command that does
    not need settings works where they are broken. `aliases` are other names of it in the same place,
    `elsewhere` has those in other places. The examples appear in the help and in the manual page.
    An option given as nothing (`--branch "$UNSET"`) is refused for every command: it would silently
    mean another.
    """

    def register(body: CommandBody) -> CommandBody:
        declared = list(inspect.signature(body, eval_str=True).parameters.values())[1 + takes_query :]
        own = [_parameter(each.name, each.annotation, each.default) for each in declared]
        pages = not writes and is_text
        shared = {
            **(_PAGING if pages else {}),
            **(_PROGRESS if has_progress else {}),
            **(_LISTING if lists_ids else {}),
            **(_WRITING if writes else {}),
            **_COMMON,
        }
        extra = [_parameter(key, annotation, default) for key, (annotation, default) in shared.items()]
        asked = QUERY_OPTIONS if takes_query else {}
        query = [_parameter(key, annotation, default) for key, (annotation, default) in asked.items()]
        graph = [_parameter("graph", _GRAPH_ARGUMENT, None)] if takes_graph else []

        @functools.wraps(body)
        def invoke(**arguments: Any) -> None:
            if writes:
                gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
            _refuse_empty([*query, *own, *extra], arguments)
            given = {parameter.name: arguments.pop(parameter.name) for parameter in query}
            mine = {parameter.name: arguments.pop(parameter.name) for parameter in own}
            is_outcome = writes and not _is_preview(mine)
            run = _make_run(arguments, _settings(needed=needs_settings), is_outcome=is_outcome)
            try:
                with paged(run.settings, wanted=pages and not arguments.get("no_pager", True)):
                    body(run, *([QueryOptions(**given)] if takes_query else []), **mine)
            except OmnigraphError as error:
                run.output.failure(error)
                raise typer.Exit(BY_KIND[error.kind]) from error
            except KeyboardInterrupt as interrupt:
                for note in getattr(interrupt, "__notes__", ()):
                    tell(sys.stderr, f"interrupted: {one_line(note)}\n")
                raise

        parameters = [*graph, *query, *own, *extra]
        invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        invoke.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        epilog = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
        app.command(name, cls=Command, epilog=epilog, hidden=hidden)(invoke)
        for alias, place in {**dict.fromkeys(aliases, app), **(elsewhere or {})}.items():
            place.command(alias, cls=Command, epilog=epilog, hidden=True)(invoke)
        return body

    return register


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    _complete_choices(annotation)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _complete_choices(annotation: object) -> None:
    """An option that takes one of a few words, by its metavar (`fail|ours|theirs`), completes them."""
    for info in getattr(annotation, "__metadata__", ()):
        if isinstance(info, OptionInfo) and info.autocompletion is None and info.metavar:
            words = info.metavar.split("|")
            if len(words) > 1 and all(word.isalpha() and word.islower() for word in words):
                info.autocompletion = one_of(*words)


def _refuse_empty(parameters: Iterable[inspect.Parameter], arguments: Mapping[str, Any]) -> None:
    """Refuse an empty option. A message may be empty; arguments are checked where they are used."""
    for parameter in parameters:
        info = next(iter(getattr(parameter.annotation, "__metadata__", ())), None)
        if isinstance(info, OptionInfo) and arguments[parameter.name] == "" and parameter.name != "message":
            # In `Annotated`, Typer keeps the first name of an option where its default would be.
            name = info.default if isinstance(info.default, str) else f"--{parameter.name}"
            raise UsageError(f"{name} is empty", hint=f"omit {name}, or give it a value")


def _is_preview(own: Mapping[str, Any]) -> bool:
    """Is what a writing command answers all that it was asked for?"""
    return own.get("dry_run") is True or own.get("confirm") is False


def _settings(*, needed: bool) -> Settings:
    try:
        return load_settings()
    except UsageError:
        if needed:
            raise
        return Settings()


def _make_run(arguments: Mapping[str, Any], settings: Settings, *, is_outcome: bool) -> Run:
    settings = replace(settings, actor=arguments.get("actor") or settings.actor)
    check_actor(settings.default_actor)
    timeout = arguments.get("lock_timeout")
    if timeout is not None:
        if not 0 <= timeout < float("inf"):
            raise UsageError(f"--lock-timeout: {timeout:g} is not a number of seconds")
        settings = replace(settings, lock_timeout_s=timeout)
    color = _color(arguments["color"], settings)
    output: Output = JsonOutput()
    if not arguments["json_output"]:
        quiet = arguments["quiet"]
        output = HumanOutput(
            quiet=quiet,
            color=color,
            tells_outcome=not (quiet and is_outcome),
            full_ids=arguments.get("full_ids", False),
        )
    if arguments["verbose"] and settings.warm_idle_s is not None:
        output.remark("started warm" if client.reason is None else f"started cold: {client.reason}")
    return Run(
        settings=settings,
        output=output,
        given=given_place(arguments["store"], arguments.get("graph")),
        verbose=arguments["verbose"],
        actor=settings.default_actor,
        message=arguments.get("message"),
        screen=_screen(arguments, settings),
        progress=_progress(arguments),
        no_input=arguments.get("no_input", False),
        full_ids=arguments.get("full_ids", False),
    )


def _screen(arguments: Mapping[str, Any], settings: Settings) -> Screen:
    can_draw = sys.stderr.isatty() and not settings.is_dumb_terminal
    return Screen(
        sys.stderr, can_draw=can_draw, tells_waits=not (arguments["quiet"] or arguments["json_output"])
    )


def _progress(arguments: Mapping[str, Any]) -> str:
    """`auto` is for people: not for those who asked for JSON or for quiet."""
    kind = checked_kind(arguments.get("progress", "off"))
    is_unwanted = arguments["quiet"] or arguments["json_output"]
    return "off" if kind == "auto" and is_unwanted else kind


def _color(option: str, settings: Settings) -> Literal["auto", "always", "never"]:
    if option not in ("auto", "always", "never"):
        raise UsageError(f"--color: '{option}' is not one of auto, always, never")
    chosen = settings.color or "auto" if option == "auto" else option
    return "always" if chosen == "always" else "never" if chosen == "never" else "auto"
