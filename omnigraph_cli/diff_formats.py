"""A difference as text: table (lines with `+`, `~`, `-`), jsonl, json, md; written as it is read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

from omnigraph_cli.output import counted, tell, write_exactly
from omnigraph_core import shapes
from omnigraph_core.values.shown import clipped, one_line

if TYPE_CHECKING:
    from omnigraph_core.diff.columns import SchemaDifference
    from omnigraph_core.diff.graph import GraphDiff
    from omnigraph_core.diff.records import EntityChange, Op
    from omnigraph_core.diff.tables import Counts

_SIGNS = {"insert": "+", "update": "~", "delete": "-"}


class DiffFormat(StrEnum):
    TABLE = "table"
    JSONL = "jsonl"
    JSON = "json"
    MD = "md"

    def put(self, stream: TextIO, text: str) -> None:
        """Write a block as those want it who read this format."""
        (tell if self in (DiffFormat.TABLE, DiffFormat.MD) else write_exactly)(stream, text)


class WrittenDiff:
    """The text of a difference. What was counted on the way is known when all of it is written."""

    def __init__(self, diff: GraphDiff, ops: Collection[Op], *, stat: bool) -> None:
        self._diff, self._ops, self._stat = diff, ops, stat
        self.schema: list[SchemaDifference] = diff.schema_differences() if len(ops) == len(_SIGNS) else []
        self.counts: dict[str, Counts] = {}

    @property
    def differs(self) -> bool:
        return bool(self.schema) or any(counts.total for counts in self.counts.values())

    def text(self, form: DiffFormat) -> Iterator[str]:
        if form is DiffFormat.JSON:
            return self.json_after({})
        if form is DiffFormat.JSONL:
            return self._jsonl()
        return self._md() if form is DiffFormat.MD else self._table()

    def changes(self) -> Iterator[EntityChange]:
        """Every change that was asked for, type by type; only counted if that was all."""
        from omnigraph_core.diff.records import entity_changes
        from omnigraph_core.diff.tables import Counts

        for diff in self._diff.table_diffs():
            found = dict.fromkeys(_SIGNS, 0)
            if self._stat:
                counts = diff.counts()
                found = {"insert": counts.inserted, "update": counts.updated, "delete": counts.deleted}
                found = {op: number if op in self._ops else 0 for op, number in found.items()}
            else:
                for change in entity_changes(diff, self._ops):
                    found[change.op] += 1
                    yield change
            total = Counts(found["insert"], found["update"], found["delete"])
            if total.total:
                self.counts[diff.entity.table_key] = total

    def json_after(self, content: Mapping[str, object]) -> Iterator[str]:
        """One object that starts with `content`."""
        head = shapes.diff_head(self._diff.before.snapshot, self._diff.after.snapshot, self.schema)
        yield json.dumps({**content, **head}, ensure_ascii=False, indent=2)[: -len("\n}")]
        separator = ',\n  "changes": [\n    '
        for change in self.changes():
            yield separator + json.dumps(shapes.entity_change(change), ensure_ascii=False)
            separator = ",\n    "
        if self.counts and not self._stat:
            yield "\n  ]"
        elif not self._stat:
            yield ',\n  "changes": []'
        yield ",\n" + json.dumps(shapes.diff_counts(self.counts), ensure_ascii=False, indent=2)[2:] + "\n"

    def _jsonl(self) -> Iterator[str]:
        for each in self.schema:
            yield json.dumps(shapes.schema_difference(each), ensure_ascii=False) + "\n"
        for change in self.changes():
            yield json.dumps(shapes.entity_change(change), ensure_ascii=False) + "\n"
        if self._stat:
            for line in _listed(shapes.diff_counts(self.counts)):
                yield json.dumps(line, ensure_ascii=False) + "\n"

    def _table(self) -> Iterator[str]:
        for each in self.schema:
            yield f"{one_line(_schema_line(each))}\n"
        current = None
        for change in self.changes():
            name = f"{change.entity.kind} {change.entity.name}"
            if name != current:
                yield f"{name}\n"
            current = name
            yield f"  {_SIGNS[change.op]} {clipped(change.entity_id)}{_values(change)}\n"
        if self._stat:
            for table_key, counts in self.counts.items():
                yield f"{table_key.replace(':', ' ', 1)}: {_counted(counts)}\n"
        yield f"{self.summary()}\n"

    def _md(self) -> Iterator[str]:
        for each in self.schema:
            yield f"- {escaped(one_line(_schema_line(each)))}\n"
        yield "\n" if self.schema else ""
        if self._stat:
            list(self.changes())
            yield "| type | inserted | updated | deleted |\n|---|---|---|---|\n"
            for key, counts in self.counts.items():
                numbers = f"{counts.inserted} | {counts.updated} | {counts.deleted}"
                yield f"| {key.replace(':', ' ', 1)} | {numbers} |\n"
            return
        yield "| type | change | id | property | before | after |\n|---|---|---|---|---|---|\n"
        for change in self.changes():
            start = f"| {change.entity.kind} {change.entity.name} | {change.op} | "
            start += escaped(clipped(change.entity_id))
            for row in _md_rows(change):
                yield f"{start} | {' | '.join(map(escaped, row))} |\n"

    def summary(self) -> str:
        if not self.differs:
            return "no difference"
        from omnigraph_core.diff.tables import Counts

        total = Counts()
        for counts in self.counts.values():
            total = total.plus(counts)
        return (
            f"{counted(total.total, 'entity', 'entities')}: {_counted(total)}" if total.total else "no rows"
        )


def _counted(counts: Counts) -> str:
    return f"{counts.inserted} inserted, {counts.updated} updated, {counts.deleted} deleted"


def _listed(content: Mapping[str, Any]) -> list[object]:
    return list(content["tables"])


def _schema_line(of: SchemaDifference) -> str:
    subject = f"{of.entity.kind} {of.entity.name}"
    if of.property is not None:
        subject += f".{of.property}"
    word = of.change.rpartition("_")[2]
    if of.was is not None and of.now is not None:
        return f"schema: {subject} {word}: {of.was} → {of.now}"
    return f"schema: {subject} {word}"


def _values(change: EntityChange) -> str:
    """What a line says behind the id."""
    shown = shapes.entity_change(change)
    before, after = _object(shown, "before"), _object(shown, "after")
    if change.before is not None and change.after is not None:
        parts = [f"{name}: {_value(before[name])} → {_value(after[name])}" for name in after]
    else:
        parts = [f"{name}: {_value(each)}" for name, each in {**before, **after}.items() if each is not None]
    return "  " + ", ".join(parts) if parts else ""


def _md_rows(change: EntityChange) -> list[tuple[str, str, str]]:
    shown = shapes.entity_change(change)
    before, after = _object(shown, "before"), _object(shown, "after")
    if change.before is not None and change.after is not None:
        return [(name, _value(before[name]), _value(after[name])) for name in after]
    whole = ", ".join(f"{name}: {_value(each)}" for name, each in {**before, **after}.items())
    return [("", whole, "") if change.after is None else ("", "", whole)]


def _object(shown: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = shown.get(key) or {}
    return found


def _value(value: object) -> str:
    """JSON on one printable line, the beginning if it is long."""
    return clipped(json.dumps(value, ensure_ascii=False))


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")
