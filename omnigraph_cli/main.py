"""The entry point: builds the command tree, and turns every way of ending into an exit code."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence

import typer
from typer._completion_classes import completion_init
from typer.exceptions import Abort, TyperException

from omnigraph_cli import exits
from omnigraph_cli.commands import (
    branch,
    commit,
    completion,
    init,
    recovery,
    schema,
    snapshot,
    status,
    version,
)
from omnigraph_cli.output import HumanOutput, JsonOutput, Output, ReaderGoneError
from omnigraph_cli.run import VersionOption
from omnigraph_core.errors import InternalError, OmnigraphError, UsageError
from omnigraph_core.settings import load_settings

PROGRAM = "omnigraph"


def build_app() -> typer.Typer:
    """The whole command tree; importing and building it loads no data library."""
    app = typer.Typer(
        name=PROGRAM,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(version: VersionOption = False) -> None:
        """A git-like graph store: typed nodes and edges, atomic commits, branches, time travel."""

    for module in (init, status, snapshot, branch, commit, schema, recovery, completion, version):
        module.register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    code = _guarded(argv)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = _broken_pipe()
    sys.exit(code)


def _guarded(argv: list[str]) -> int:
    completion_init()
    command = typer.main.get_command(build_app())
    try:
        code = command.main(argv, prog_name=PROGRAM, standalone_mode=False)
        return code if isinstance(code, int) else exits.OK
    except OmnigraphError as error:
        return _fail(argv, error)
    except TyperException as error:
        return _usage(argv, error)
    except (KeyboardInterrupt, Abort):
        return exits.INTERRUPTED
    except ReaderGoneError:
        return _broken_pipe()
    except Exception:
        return _bug(argv)


def _fail(argv: Sequence[str], error: OmnigraphError) -> int:
    _output(argv).failure(error)
    return exits.BY_KIND[error.kind]


def _usage(argv: Sequence[str], error: TyperException) -> int:
    """Typer found the command line itself wrong; a bare group shows its help instead."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(error.format_message() + "\n")
        return exits.BY_KIND[UsageError.kind]
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else PROGRAM
    return _fail(argv, UsageError(error.format_message(), hint=f"see `{path} --help`"))


def _bug(argv: Sequence[str]) -> int:
    """An error nobody foresaw: one line for the user, the traceback for the report."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="omnigraph-bug-", suffix=".txt", delete=False, encoding="utf-8"
    ) as report:
        report.write(f"omnigraph {' '.join(argv)}\n\n{traceback.format_exc()}")
    last = traceback.format_exception_only(*sys.exc_info()[:2])[-1].strip().splitlines()[0]
    return _fail(
        argv, InternalError(f"a bug in omnigraph: {last}", hint=f"the traceback is in {report.name}")
    )


def _output(argv: Sequence[str]) -> Output:
    """How to report when the command's own options were never read."""
    before_separator = argv[: argv.index("--")] if "--" in argv else argv
    if "--json" in before_separator:
        return JsonOutput()
    try:
        color = load_settings().color
    except OmnigraphError:
        color = None
    return HumanOutput(quiet=False, color=color or "auto")


def _broken_pipe() -> int:
    """Whoever read our output has gone; keep the interpreter from complaining at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exits.BROKEN_PIPE
