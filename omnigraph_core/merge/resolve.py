"""Resolutions: the conflicts of a merge taken back with a choice each.

A file of conflicts as a merge wrote it, with `choice` added to its lines: `ours`, `theirs`,
`delete`, or `{"value": …}`; for an edge without its node `delete` (the edge goes) or `keep_node`.
It is good for the two heads it was made for, and for nothing else.

Conflicts about several entities have no choice: what settles the others may settle them, and
those that are left are raised again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from omnigraph_core.errors import BadDataError, PreconditionError
from omnigraph_core.merge.conflicts import (
    ROW_KINDS,
    Conflict,
    Heads,
    Take,
    choices_for,
    read_conflict_lines,
    read_heads,
)
from omnigraph_core.records import dataclass
from omnigraph_core.values.shown import one_line

Identity = tuple[str, str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Choice:
    take: Take
    value: Any = None


class ResolutionOutdated(PreconditionError):
    """The file was made for other heads."""

    def __init__(self, name: str, made_for: Heads, heads: Heads) -> None:
        super().__init__(
            f"{name} was made for the heads {made_for.ours} and {made_for.theirs};"
            f" they are {heads.ours} and {heads.theirs} now",
            hint="write the conflicts down again, and choose again",
        )
        self.made_for, self.heads = made_for, heads

    def details(self) -> Mapping[str, object]:
        return {"precondition_failure": {"expected": self.made_for.as_json(), "actual": self.heads.as_json()}}


class ResolutionUnfit(BadDataError):
    """The file has choices for conflicts that there are not, or none for some that there are."""

    has_lines = True

    def __init__(self, name: str, unknown: Sequence[Identity], missing: Sequence[Identity]) -> None:
        lines = [f"{name} does not fit the conflicts of this merge"]
        lines += [f"not a conflict: {_said(each)}" for each in unknown]
        lines += [f"no choice for: {_said(each)}" for each in missing]
        hint = 'give each conflict a "choice", one of its "choices"' if missing else None
        super().__init__("\n".join(map(one_line, lines)), hint=hint)
        self.unknown, self.missing = tuple(unknown), tuple(missing)

    def details(self) -> Mapping[str, object]:
        return {
            "unknown": [_as_json(each) for each in self.unknown],
            "missing": [_as_json(each) for each in self.missing],
        }


@dataclass(frozen=True, slots=True)
class Resolution:
    """The choices of one file, by the identity of their conflicts."""

    name: str
    heads: Heads | None
    """None for a file without lines."""
    choices: Mapping[Identity, Choice]
    named: frozenset[Identity] = field(default_factory=frozenset)
    """All conflicts of the file, also those without a choice."""

    def check_heads(self, heads: Heads) -> None:
        if self.heads is not None and self.heads != heads:
            raise ResolutionOutdated(self.name, self.heads, heads)

    def check_known(self, seen: Iterable[Identity]) -> None:
        """Raise for lines about conflicts that the merge never had."""
        unknown = self.named - set(seen)
        if unknown:
            raise ResolutionUnfit(self.name, sorted(unknown, key=_order), ())

    def complete(self, conflicts: Iterable[Conflict], default: Take | None) -> dict[Identity, Choice]:
        """A choice for each conflict that needs one; for those that have none, the default."""
        found, missing = {}, set()
        for conflict in conflicts:
            needs = bool(choices_for(conflict.kind))
            chosen = self.choices.get(conflict.identity)
            if chosen is None and default is not None and conflict.kind in ROW_KINDS:
                chosen = Choice(default)
            if chosen is not None:
                found[conflict.identity] = chosen
            elif needs:
                missing.add(conflict.identity)
        if missing:
            known = {each.identity for each in conflicts}
            unknown = sorted(self.named - known, key=_order)
            raise ResolutionUnfit(self.name, unknown, sorted(missing, key=_order))
        return found


def read_resolution(lines: Iterable[str], name: str) -> Resolution:
    """Read a file of conflicts with choices."""
    heads: Heads | None = None
    choices: dict[Identity, Choice] = {}
    named: set[Identity] = set()
    for conflict, content in read_conflict_lines(lines, name):
        subject = f"{name}: {_said(conflict.identity)}"
        found = read_heads(content, subject)
        if heads is not None and heads != found:
            raise BadDataError(f"{subject}: it was made for other heads than the lines before it")
        heads = found
        named.add(conflict.identity)
        if content.get("choice") is None:
            continue
        choice = _choice(content["choice"], conflict, subject)
        if choices.setdefault(conflict.identity, choice) != choice:
            raise BadDataError(f"{subject}: it has two choices")
    return Resolution(name, heads, choices, frozenset(named))


def _choice(content: Any, conflict: Conflict, subject: str) -> Choice:
    allowed = choices_for(conflict.kind)
    if isinstance(content, dict) and list(content) == ["value"] and Take.VALUE in allowed:
        return Choice(Take.VALUE, content["value"])
    plain = [take for take in allowed if take is not Take.VALUE]
    if isinstance(content, str) and content in plain:
        return Choice(Take(content))
    if not allowed:
        raise BadDataError(f"{subject}: {conflict.kind} has no choice; change an entity on either side")
    words = [f'"{take}"' for take in plain] + (['{"value": …}'] if Take.VALUE in allowed else [])
    raise BadDataError(f"{subject}: the choice must be one of {', '.join(words)}")


def _said(identity: Identity) -> str:
    kind, table_key, entity_id, name = identity
    place = "".join(f" {part}" for part in (entity_id, name) if part is not None)
    return f"{kind} {table_key}{place}"


def _as_json(identity: Identity) -> dict[str, object]:
    return dict(zip(("kind", "table_key", "entity_id", "property"), identity, strict=True))


def _order(identity: Identity) -> tuple[str, str, str, str]:
    kind, table_key, entity_id, name = identity
    return (table_key, entity_id or "", name or "", kind)
