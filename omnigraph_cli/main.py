"""Runs the command line, and turns every way it can end into an exit code."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Sequence

from typer._completion_classes import completion_init
from typer.exceptions import Abort, TyperException

from omnigraph_cli import exits, streams
from omnigraph_cli.command_line import spelled_out
from omnigraph_cli.output import HumanOutput, JsonOutput, Output
from omnigraph_cli.streams import ReaderGoneError
from omnigraph_cli.tree import PROGRAM, command_for
from omnigraph_core.errors import InternalError, OmnigraphError, StorageError, UsageError
from omnigraph_core.settings import load_settings


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    argv = sys.argv[1:] if arguments is None else arguments
    streams.prepare()
    code = _guarded(argv, lambda: _invoke(argv))
    if code in (exits.OK, exits.ANSWER_IS_NO):
        code = _guarded(argv, sys.stdout.flush) or code
    else:  # the failure has been reported; that its output is lost as well adds nothing
        with contextlib.suppress(OmnigraphError, ReaderGoneError):
            sys.stdout.flush()
    sys.exit(code)


def _invoke(given: Sequence[str]) -> object:
    _refuse_other_than_text(given)
    completion_init()
    argv = spelled_out(given)
    return command_for(argv).main(argv, prog_name=PROGRAM, standalone_mode=False)


def _guarded(argv: Sequence[str], action: Callable[[], object]) -> int:
    """Run the action, report a failure, and return the exit code."""
    try:
        code = action()
        return code if isinstance(code, int) else exits.OK
    except OmnigraphError as error:
        return _fail(argv, error)
    except TyperException as error:
        return _usage(argv, error)
    except (KeyboardInterrupt, Abort):
        return exits.INTERRUPTED
    except ReaderGoneError:
        return exits.BROKEN_PIPE
    except SystemExit as leaving:  # Typer, when it has answered a shell's request for completions
        return leaving.code if isinstance(leaving.code, int) else exits.OK
    except Exception:
        return _bug(argv)
    except BaseException as error:
        return _panic(argv, error)


def _refuse_other_than_text(argv: Sequence[str]) -> None:
    """Any argument may end up in a message, a path or a commit, and those are UTF-8."""
    for argument in argv:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError(f"the argument {argument!a} is not UTF-8 text") from error


def _fail(argv: Sequence[str], error: OmnigraphError) -> int:
    _output(argv).failure(error)
    return exits.BY_KIND[error.kind]


def _usage(argv: Sequence[str], error: TyperException) -> int:
    """Typer rejected the command line; a group without a command shows its help instead."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(error.format_message() + "\n")
        return exits.BY_KIND[UsageError.kind]
    from omnigraph_cli.rejected import worded

    return _fail(argv, worded(error, PROGRAM))


def _bug(argv: Sequence[str]) -> int:
    """An unforeseen error: one line for the user, the traceback in a file for the bug report."""
    try:
        import tempfile

        with tempfile.NamedTemporaryFile(
            "w",
            prefix="omnigraph-bug-",
            suffix=".txt",
            delete=False,
            encoding="utf-8",
            errors="backslashreplace",
        ) as report:
            report.write(f"omnigraph {' '.join(argv)}\n\n{traceback.format_exc()}")
        hint = f"the traceback is in {report.name}"
    except OSError as error:
        hint = f"the traceback could not be saved: {error}"
    last = traceback.format_exception_only(*sys.exc_info()[:2])[-1].strip().splitlines()[0]
    return _fail(argv, InternalError(f"a bug in omnigraph: {last}", hint=hint))


def _panic(argv: Sequence[str], error: BaseException) -> int:
    """A panic in Lance, which is Rust, arrives as a BaseException.

    Its class cannot be imported, so it is recognised by name. The floors below translate
    the panics they know; this handles the rest.
    """
    if type(error).__name__ != "PanicException":
        raise error
    reason = next(iter(str(error).splitlines()), "a panic")
    return _fail(
        argv,
        StorageError(
            f"the storage library failed: {reason}", hint="a file of the graph may be damaged or missing"
        ),
    )


def _output(argv: Sequence[str]) -> Output:
    """How to report a failure when the command's own options were never read."""
    before_separator = argv[: argv.index("--")] if "--" in argv else argv
    if "--json" in before_separator:
        return JsonOutput()
    try:
        color = load_settings().color
    except OmnigraphError:
        color = None
    return HumanOutput(quiet=False, color=color or "auto")
