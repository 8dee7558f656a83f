"""What doctor says about a graph: findings, each with a code that programs may rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TypeVarTuple

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.records import dataclass

Given = TypeVarTuple("Given")


class Severity(StrEnum):
    """The text is part of the JSON answer."""

    ERROR = "error"
    """Something is lost, wrong or in the way of writes."""
    WARNING = "warning"
    """Something waits for a command: a write of the dead, or a cost that has grown."""
    NOTE = "note"
    """Nothing is wrong: something is there to know, or goes with the next maintenance."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`code` never changes its meaning; docs/doctor.md lists all of them."""

    code: str
    severity: Severity
    where: str
    message: str
    fix: str | None = None
    """The command that mends it, or what a person has to do."""
    branch: str | None = None
    """The branch that the command has to be told, if it is not main."""

    @property
    def counts(self) -> bool:
        """Is something to be done about it?"""
        return self.severity is not Severity.NOTE


def error(code: str, where: str, message: str, fix: str | None = None) -> Finding:
    return Finding(code, Severity.ERROR, where, message, fix)


def warning(code: str, where: str, message: str, fix: str | None = None) -> Finding:
    return Finding(code, Severity.WARNING, where, message, fix)


def note(code: str, where: str, message: str, fix: str | None = None) -> Finding:
    return Finding(code, Severity.NOTE, where, message, fix)


def counted_files(names: list[str], size: int) -> str:
    """How many, how big, and one of them to look at: `2 files of 4,096 bytes, x.lance among them`."""
    if len(names) == 1:
        return f"1 file of {size:,} bytes, {names[0]}"
    return f"{len(names):,} files of {size:,} bytes, {names[0]} among them"


def failed(code: str, where: str, problem: BaseException) -> Finding:
    """What could not be read is an error, with the remedy that the failure itself knows."""
    known = isinstance(problem, OmnigraphError)
    text = str(problem) if known else f"{type(problem).__name__}: {problem}"
    return error(code, where, text, problem.hint if isinstance(problem, OmnigraphError) else None)


@contextmanager
def recorded(into: list[Finding], code: str, where: str) -> Iterator[None]:
    """A failure inside becomes a finding; the examination goes on after the block.

    Any failure: damaged bytes are met by code that never expected them.
    """
    try:
        yield
    except Exception as problem:
        into.append(failed(code, where, problem))


def attempt(
    code: str, where: str, ask: Callable[[*Given], Iterator[Finding]], *given: *Given
) -> list[Finding]:
    """All that `ask` yields, and the failure it ends with, if it does."""
    found: list[Finding] = []
    with recorded(found, code, where):
        found.extend(ask(*given))
    return found
