"""A graph in dictionaries: the rules for records and mutations, one row at a time.

Written from the specification, without the library: every value is a pair of what is
given and what is stored, so that nothing here parses. Slow and short.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Row = dict[str, Any]
Rows = dict[str, Row]
"""Rows of one type by id. An edge has `src` and `dst` beside its properties."""

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Refused(Exception):
    """The whole write is refused, for the reason it names; nothing changes."""


class Bad(Refused):
    """The rows are wrong in themselves, or would leave the graph broken."""


class Conflict(Refused):
    """The rows collide with committed ones."""


class Ambiguous(Refused):
    """Two merged records mean one committed entity, and not both by its id; nobody says what then."""


@dataclass(frozen=True)
class Prop:
    name: str
    kind: str
    nullable: bool = True
    many: bool = False
    values: tuple[str, ...] = ()

    @property
    def declared(self) -> str:
        text = f"enum({', '.join(self.values)})" if self.kind == "enum" else self.kind
        return (f"[{text}]" if self.many else text) + ("?" if self.nullable else "")


@dataclass(frozen=True)
class Type:
    name: str
    props: tuple[Prop, ...]
    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    ends: tuple[str, str] | None = None
    card: tuple[int, int | None] = (0, None)

    @property
    def is_edge(self) -> bool:
        return self.ends is not None

    def prop(self, name: str) -> Prop:
        return next(prop for prop in self.props if prop.name == name)

    def source(self) -> str:
        body = [f"{prop.name}: {prop.declared}" for prop in self.props]
        body += [f"@key({', '.join(self.key)})"] if self.key else []
        body += [f"@unique({', '.join(group)})" for group in self.uniques]
        if self.ends is None:
            return f"node {self.name} {{ {' '.join(body)} }}"
        low, high = self.card
        head = (
            f"edge {self.name}: {self.ends[0]} -> {self.ends[1]} @card({low}..{'' if high is None else high})"
        )
        return f"{head} {{ {' '.join(body)} }}"


@dataclass(frozen=True)
class Record:
    """A load record: what stands in the file, and the stored values if they are all right."""

    type: Type
    given: Mapping[str, Any]
    stored: Mapping[str, Any]
    id: str | None = None
    ends: tuple[str, str] | None = None
    is_bad: bool = False

    def json(self) -> dict[str, Any]:
        data = dict(self.given) if self.id is None else {"id": self.id, **self.given}
        if self.ends is None:
            return {"type": self.type.name, "data": data}
        return {"edge": self.type.name, "from": self.ends[0], "to": self.ends[1], "data": data}

    def row(self) -> Row:
        row = {prop.name: self.stored.get(prop.name) for prop in self.type.props}
        return row if self.ends is None else {"src": self.ends[0], "dst": self.ends[1], **row}


def canonical(value: Any, kind: str) -> str:
    """The text of one member of a key or a unique group."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, float):
        return str(value)
    if value == 0:
        return "0"
    texts = (f"{value:.{digits}g}" for digits in range(1, 18))
    same = single if kind == "F32" else float
    text = format(Decimal(next(text for text in texts if same(float(text)) == value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def single(value: float) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)


def key_of(type_: Type, row: Row) -> str:
    members = [canonical(row[name], type_.prop(name).kind) for name in type_.key]
    return members[0] if len(members) == 1 else json.dumps(members, ensure_ascii=False, separators=(",", ":"))


def holding(type_: Type, row: Row, group: Sequence[str]) -> tuple[str, ...] | None:
    """What a row holds of a unique group; None if a member is null."""
    kinds = {prop.name: prop.kind for prop in type_.props}
    values = [row[name] for name in group]
    if any(value is None for value in values):
        return None
    return tuple(
        canonical(value, kinds.get(name, "String")) for name, value in zip(group, values, strict=True)
    )


class Fresh:
    """Ids nobody can know before; no given id looks like them."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        return f"?{self._count}"

    @staticmethod
    def made(id_: str) -> bool:
        return id_.startswith("?")


@dataclass
class Draft:
    """What one write would do to each type: rows that come, ids that go, or all rows anew."""

    put: dict[str, Rows] = field(default_factory=dict)
    gone: dict[str, set[str]] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)


class Oracle:
    """The content of one branch."""

    def __init__(self, types: Iterable[Type]) -> None:
        self.types = {type_.name: type_ for type_ in types}
        self.rows: dict[str, Rows] = {name: {} for name in self.types}
        self.fresh = Fresh()

    # ---- load ----

    def load(self, mode: str, records: Sequence[Record]) -> int:
        """Records of a load; returns how many entities there are. Raises Refused."""
        for record in records:
            missing = [p for p in record.type.props if not p.nullable and record.stored.get(p.name) is None]
            if record.is_bad or missing:
                raise Bad("wrong record")
        draft = Draft(replaced={record.type.name for record in records} if mode == "overwrite" else set())
        taken = False
        for name in dict.fromkeys(record.type.name for record in records):
            mine = [record for record in records if record.type.name == name]
            self._refuse_repeats(mode, mine)
            coming: Rows = {}
            named: dict[str, str | None] = {}
            for record in mine:
                id_ = self._id(mode, record)
                taken = taken or (mode == "append" and id_ in self.rows[name])
                if id_ in coming and not record.type.key and None in (record.id, named[id_]):
                    raise Ambiguous
                named[id_] = record.id
                coming[id_] = record.row()
            draft.put[name] = coming
        self._settle(draft, taken)
        return sum(len(rows) for rows in draft.put.values())

    def _refuse_repeats(self, mode: str, records: Sequence[Record]) -> None:
        """Inside one input no tuple occurs twice; no id does, unless merged and not from a key."""
        type_ = records[0].type
        for group in (*([type_.key] if type_.key else []), *type_.uniques):
            held = [tuple_ for record in records if (tuple_ := holding(type_, record.row(), group))]
            if len(set(held)) < len(held):
                raise Bad("tuple twice")
        ids = [record.id for record in records if record.id is not None]
        if mode != "merge" and len(set(ids)) < len(ids):
            raise Bad("id twice")

    def _id(self, mode: str, record: Record) -> str:
        if record.type.key:
            id_ = key_of(record.type, record.row())
            if record.id not in (None, id_):
                raise Bad("id is not the key")
            return id_
        if record.id is not None:
            return record.id
        if mode == "merge":
            for group in record.type.uniques:
                mine = holding(record.type, record.row(), group)
                for id_, row in self.rows[record.type.name].items():
                    if mine is not None and holding(record.type, row, group) == mine:
                        return id_
        return self.fresh()

    def identifies(self, record: Record) -> bool:
        """Would a second merge of the record find the first one's entity?"""
        given = record.type.key or record.id is not None
        return bool(given) or any(holding(record.type, record.row(), group) for group in record.type.uniques)

    # ---- the end of every write ----

    def _settle(self, draft: Draft, taken: bool = False) -> None:
        """Check the state that would be, and make it; `taken`: an id that should be new is not."""
        after = {name: self._after(name, draft) for name in self.types}
        if self._breaks_values(draft):
            raise Bad("value")
        if self._repeats_inside(draft):
            raise Bad("tuple twice")
        if self._breaks_endpoints(after):
            raise Bad("endpoint")
        if self._breaks_cards(draft, after):
            raise Bad("cardinality")
        if taken:
            raise Conflict("id taken")
        if self._held_by_others(draft, after):
            raise Conflict("tuple taken")
        self.rows = after

    def _after(self, name: str, draft: Draft) -> Rows:
        kept = {} if name in draft.replaced else self.rows[name]
        gone = draft.gone.get(name, set())
        return {id_: row for id_, row in (kept | draft.put.get(name, {})).items() if id_ not in gone}

    def _breaks_values(self, draft: Draft) -> bool:
        return any(
            row[prop.name] is None if not prop.nullable else False
            for name, rows in draft.put.items()
            for row in rows.values()
            for prop in self.types[name].props
        ) or any(
            row[prop.name] not in (None, *prop.values)
            for name, rows in draft.put.items()
            for row in rows.values()
            for prop in self.types[name].props
            if prop.kind == "enum"
        )

    def _repeats_inside(self, draft: Draft) -> bool:
        for name, rows in draft.put.items():
            for group in self.types[name].uniques:
                held = [t for row in rows.values() if (t := holding(self.types[name], row, group))]
                if len(set(held)) < len(held):
                    return True
        return False

    def _held_by_others(self, draft: Draft, after: Mapping[str, Rows]) -> bool:
        for name, coming in draft.put.items():
            type_ = self.types[name]
            for group in type_.uniques:
                mine = {holding(type_, row, group) for row in coming.values()} - {None}
                others = (row for id_, row in after[name].items() if id_ not in coming)
                if any(holding(type_, row, group) in mine for row in others):
                    return True
        return False

    def _breaks_endpoints(self, after: Mapping[str, Rows]) -> bool:
        for name, type_ in self.types.items():
            if type_.ends is not None:
                for row in after[name].values():
                    if row["src"] not in after[type_.ends[0]] or row["dst"] not in after[type_.ends[1]]:
                        return True
        return False

    def _breaks_cards(self, draft: Draft, after: Mapping[str, Rows]) -> bool:
        for name, type_ in self.types.items():
            if type_.ends is None:
                continue
            before, coming = self.rows[name], draft.put.get(name, {})
            leaving = {*coming, *draft.gone.get(name, ()), *(before if name in draft.replaced else ())}
            touched = {row["src"] for row in coming.values()}
            touched |= {before[id_]["src"] for id_ in leaving if id_ in before}
            counts = Counter(row["src"] for row in after[name].values())
            low, high = type_.card
            for source in touched & set(after[type_.ends[0]]):
                if counts[source] < low or (high is not None and counts[source] > high):
                    return True
        return False

    # ---- change ----

    def change(self, statements: Sequence[Statement]) -> tuple[int, int]:
        """Run a query; returns the affected nodes and edges. Raises Refused."""
        draft = Draft()
        nodes = edges = 0
        for statement in statements:
            type_ = statement.type
            if statement.verb == "insert":
                row = {prop.name: statement.assigned.get(prop.name) for prop in type_.props}
                if statement.ends is not None:
                    row = {"src": statement.ends[0], "dst": statement.ends[1], **row}
                id_ = key_of(type_, row) if type_.key else self.fresh()
                draft.put.setdefault(type_.name, {})[id_] = row
                nodes, edges = nodes + (not type_.is_edge), edges + type_.is_edge
            elif statement.verb == "update":
                seen = self._after(type_.name, draft)
                chosen = {
                    id_: {**row, **statement.assigned} for id_, row in seen.items() if statement.picks(row)
                }
                draft.put.setdefault(type_.name, {}).update(chosen)
                nodes += len(chosen)
            else:
                self._doom(statement, draft)
        self._settle(draft)
        for name, gone in draft.gone.items():
            is_edge = self.types[name].is_edge
            nodes, edges = nodes + (0 if is_edge else len(gone)), edges + (len(gone) if is_edge else 0)
        return nodes, edges

    def _doom(self, statement: Statement, draft: Draft) -> None:
        name = statement.type.name
        gone = {id_ for id_, row in self.rows[name].items() if statement.picks(row)}
        draft.gone.setdefault(name, set()).update(gone)
        for edge in self.types.values():
            if edge.ends is None or statement.type.is_edge:
                continue
            at = [end for end, node in zip(("src", "dst"), edge.ends, strict=True) if node == name]
            incident = {
                id_ for id_, row in self.rows[edge.name].items() if any(row[end] in gone for end in at)
            }
            draft.gone.setdefault(edge.name, set()).update(incident)


@dataclass(frozen=True)
class Statement:
    """One statement of a mutation; `assigned` and `value` are stored values."""

    verb: str
    type: Type
    assigned: Mapping[str, Any] = field(default_factory=dict)
    ends: tuple[str, str] | None = None
    column: str = ""
    operator: str = "="
    value: Any = None

    def picks(self, row: Row) -> bool:
        """A null on either side is never true."""
        held = row[{"from": "src", "to": "dst"}.get(self.column, self.column)]
        return held is not None and self.value is not None and OPERATORS[self.operator](held, self.value)
