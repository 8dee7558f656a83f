"""Source texts: schemas and queries from a file, from stdin or from the command line."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from omnigraph_cli.completing import complete_query
from omnigraph_cli.limits import SOURCE_BYTES_MAX
from omnigraph_core.errors import BadDataError, LimitError, UsageError
from omnigraph_core.jsontext import parse_json
from omnigraph_core.records import dataclass
from omnigraph_core.values.shown import clipped

# The options with which a command takes a query; the names are the fields of `QueryOptions`.
QUERY_OPTIONS: dict[str, tuple[object, object]] = {
    "name": (
        Annotated[
            str | None,
            typer.Argument(
                metavar="NAME",
                help="The query to run, if the source has several.",
                autocompletion=complete_query,
            ),
        ],
        None,
    ),
    "name_option": (
        Annotated[str | None, typer.Option("--name", metavar="NAME", help="Same as NAME.")],
        None,
    ),
    "expression": (
        Annotated[
            str | None, typer.Option("-e", "--expr", "--query-string", metavar="GQ", help="The query text.")
        ],
        None,
    ),
    "query": (
        Annotated[
            str | None, typer.Option("--query", metavar="FILE|-", help="A file of queries; - reads stdin.")
        ],
        None,
    ),
    "params": (
        Annotated[
            str | None, typer.Option("--params", metavar="JSON", help="Parameters, as one JSON object.")
        ],
        None,
    ),
    "params_file": (
        Annotated[
            str | None,
            typer.Option("--params-file", metavar="FILE", help="Parameters, as a JSON object in a file."),
        ],
        None,
    ),
    "param": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--param",
                metavar="K=V",
                help="One parameter; its declared type decides how V is read. Repeatable.",
            ),
        ],
        None,
    ),
}


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A query and its parameters, as the library takes them."""

    text: str
    source_name: str
    name: str | None
    params: Mapping[str, Any] | None
    param_texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What the command line says about a query; `read` reads the files it names."""

    name: str | None
    name_option: str | None
    expression: str | None
    query: str | None
    params: str | None
    params_file: str | None
    param: list[str] | None

    def read(self) -> QuerySource:
        """The text behind `-e` or `--query`, exactly one of them, and the parameters."""
        name = self.name or self.name_option
        text, source_name = self._text()
        params = read_params(self.params, self.params_file)
        for given in self.param or ():
            if not given.partition("=")[0] or "=" not in given:
                raise UsageError(
                    f"--param: '{clipped(given)}' is not NAME=VALUE", hint="such as --param who=Ann"
                )
        return QuerySource(text, source_name, name, params, self.param or ())

    def _text(self) -> tuple[str, str]:
        if self.name is not None and self.name_option is not None and self.name != self.name_option:
            raise UsageError(
                f"both NAME '{self.name}' and --name '{self.name_option}' were given", hint="use one of them"
            )
        if self.expression is not None and self.query is not None:
            raise UsageError("both -e and --query were given", hint="use one of them")
        if self.expression is not None:
            return self.expression, "<-e>"
        if self.query is None:
            raise UsageError("no query was given", hint="use -e 'query q() { … }' or --query FILE")
        return read_source(self.query)


def read_params(params: str | None, params_file: str | None) -> Mapping[str, Any] | None:
    """The JSON object of `--params` or `--params-file`; None without either."""
    if params is not None and params_file is not None:
        raise UsageError("both --params and --params-file were given", hint="use one of them")
    if params is None and params_file is None:
        return None
    text, name = (params, "--params") if params_file is None else read_source(params_file)
    try:
        value = parse_json(text or "")
    except ValueError as error:
        raise BadDataError(f"{name}: not JSON: {error}") from error
    if value is not None and not isinstance(value, dict):
        raise BadDataError(f"{name}: expected a JSON object of parameters")
    return value


def read_source(option: str) -> tuple[str, str]:
    """The text behind `FILE|-`, and the name that messages use for it."""
    name = "<stdin>" if option == "-" else option
    data = _read_bounded(option, name)
    try:
        return data.decode("utf-8-sig"), name
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadDataError(
            f"{name}:{line}: not UTF-8 text (byte 0x{data[error.start]:02x})", hint="save the file as UTF-8"
        ) from error


def await_stdin(what: str) -> None:
    """Before standard input is read: there must be one, and a person at a terminal is told to type."""
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    if sys.stdin.isatty():
        sys.stderr.write(f"reading {what} from the terminal; end it with Ctrl-D on a line of its own\n")


def _read_bounded(option: str, name: str) -> bytes:
    """The whole source text; reads at most one byte more than a source may have."""
    if option == "-":
        await_stdin("text")
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if option == "-" else open(option, "rb") as file:
            data = file.read(SOURCE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file") from None
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from error
    if len(data) > SOURCE_BYTES_MAX:
        raise LimitError(f"{name}: larger than {SOURCE_BYTES_MAX >> 20} MiB, the limit for a source text")
    return data
