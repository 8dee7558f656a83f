"""Text arguments without conversion.

Typer converts every argument with pydantic, and importing pydantic takes longer than most of
our commands run. The shell passes text and most options want text, so only numbers (and types
that Typer may add later) go through Typer's conversion.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command that converts only arguments that are not text."""

    def get_help(self, ctx: Any) -> str:
        return _help(self, ctx)

    def get_params(self, ctx: Any) -> Any:
        return _unconverted(super().get_params(ctx))


class Group(TyperGroup):
    """The same for the options of a group of commands."""

    def get_help(self, ctx: Any) -> str:
        return _help(self, ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if self.get_command(ctx, word) is None and not ctx.resilient_parsing and not word.startswith("-"):
            from omnigraph_cli.suggestions import NoSuchCommandError

            known = [name for name, each in self.commands.items() if not each.hidden]
            raise NoSuchCommandError(word, ctx.command_path, known)
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> Any:
        return _unconverted(super().get_params(ctx))


def _help(command: Any, ctx: Any) -> str:
    from omnigraph_cli.help_text import help_of

    return help_of(command, ctx.command_path.split(" "))


def _unconverted(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        # Typer keeps its conversion here once it is built. If a later Typer keeps it
        # elsewhere, nothing breaks: it converts everything itself.
        parameter._runtime_param = _Conversion(parameter)
    return parameters


class _Conversion:
    """Stands in front of Typer's own conversion of one parameter."""

    def __init__(self, parameter: Any) -> None:
        self._wanted = parameter.type_descriptor.annotation
        self._is_many = parameter.multiple or parameter.nargs == -1

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if self._is_many else None
        if self._wanted is str and isinstance(value, str):
            return value
        if self._wanted == list[str] and isinstance(value, list | tuple):
            return list(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
