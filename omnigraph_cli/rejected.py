"""What Typer rejects on a command line, in the words of all other messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import UsageError
from omnigraph_core.values.shown import clipped

if TYPE_CHECKING:
    from typer.exceptions import TyperException

_KINDS = {"int_": "a whole number", "float_": "a number"}


def worded(error: TyperException, program: str) -> UsageError:
    """By the names of Typer's exceptions: importing them would cost every command."""
    context = getattr(error, "ctx", None)
    see = f"see `{context.command_path if context is not None else program} --help`"
    kind = type(error).__name__
    if kind == "NoSuchOption":
        return _unknown(error, see)
    if kind == "BadOptionUsage" and error.format_message().endswith("requires an argument."):
        return UsageError(f"{getattr(error, 'option_name', 'an option')} needs a value", hint=see)
    parameter = getattr(error, "param", None)
    if parameter is not None and kind == "MissingParameter":
        return _missing(parameter, see)
    if parameter is not None and kind == "BadParameter":
        return UsageError(f"{_name(parameter)}: {_value_at_fault(error)}", hint=see)
    return UsageError(error.format_message(), hint=see)


def _unknown(error: TyperException, see: str) -> UsageError:
    near = sorted(getattr(error, "possibilities", None) or ())[:3]
    name = getattr(error, "option_name", "")
    hint = f"did you mean {' or '.join(near)}?" if near else see
    return UsageError(f"there is no option {name}", hint=hint)


def _missing(parameter: Any, see: str) -> UsageError:
    what = parameter.metavar or "VALUE"
    if parameter.param_type_name != "option":
        return UsageError(f"{what} is missing", hint=see)
    return UsageError(f"{_name(parameter)} is missing", hint=f"add {_name(parameter)} {what}, or {see}")


def _name(parameter: Any) -> str:
    """The long form of an option, or what help calls an argument."""
    if parameter.param_type_name != "option":
        return str(parameter.metavar or parameter.name)
    return str(max(parameter.opts, key=len))


def _value_at_fault(error: TyperException) -> str:
    """Typer has values checked by Pydantic, which keeps what was given."""
    details = getattr(error.__cause__, "errors", None)
    found = details()[0] if details is not None else {"type": ""}
    wanted = next((each for kind, each in _KINDS.items() if found["type"].startswith(kind)), None)
    if wanted is None:
        return str(getattr(error, "message", error))
    return f"'{clipped(str(found['input']))}' is not {wanted}"
