"""`change` against dictionaries: random mutations of several statements, by literals and parameters.

Each statement sees what the ones before it made; the rules are asked once, at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from omnigraph_core.errors import BadDataError, ConflictError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from tests.model.entities import (
    BOUNDS,
    ENUM,
    VECTOR,
    agree,
    comparable,
    drawn_records,
    folder,
    ids_of,
    lines,
    new_graph,
    schemas,
    seldom,
    value,
)
from tests.model.oracle import Bad, Conflict, Oracle, Prop, Refused, Statement, Type, key_of
from tests.support.examples import NEW
from tests.support.writers import check_whole

CHANGES_MAX = 6
REASONS = {"value", "tuple twice", "endpoint", "cardinality", "tuple taken"}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
ORDERED = ("=", "!=", "<", "<=", ">", ">=")


class Text:
    """A query as it is written: statements, and the parameters they use."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._declared: list[str] = []
        self._statements: list[str] = []
        self.params: dict[str, Any] = {}

    @property
    def source(self) -> str:
        return f"query q({', '.join(self._declared)}) {{\n" + "\n".join(self._statements) + "\n}"

    def add(self, statement: str) -> None:
        self._statements.append(statement)

    def value(self, prop: Prop, stored: Any) -> str:
        """The text of a value: a literal where one can say it, else a parameter."""
        literal = None if stored is None else _literal(prop, stored)
        if literal is not None and self._draw(st.booleans()):
            return literal
        name = f"p{len(self._declared)}"
        kind = "String" if prop.kind == "enum" else prop.kind
        optional = "?" if stored is None else self._draw(st.sampled_from(["", "?"]))
        self._declared.append(f"${name}: {f'[{kind}]' if prop.many else kind}{optional}")
        if stored is not None or self._draw(st.booleans()):
            self.params[name] = _parameter(prop, stored)
        return f"${name}"


def _literal(prop: Prop, stored: Any) -> str | None:
    """None for what has no literal: negative or huge numbers, exponents, control characters."""
    if prop.many or prop.kind == VECTOR:
        single = Prop(prop.name, "F32" if prop.kind == VECTOR else prop.kind)
        items = [_literal(single, item) for item in stored]
        if any(item is None for item in items):
            return None
        # An empty list is a list of strings.
        return f"[{', '.join(filter(None, items))}]" if items or prop.kind == "String" else None
    if prop.kind in ("String", "Blob", "enum"):
        escaped = stored.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"' if prop.kind == "String" or escaped in ENUM else None
    if prop.kind == "Bool":
        return str(stored).lower()
    if prop.kind in BOUNDS:
        return str(stored) if 0 <= stored < 2**63 else None
    if prop.kind in ("F32", "F64"):
        text = repr(stored)
        return None if "e" in text or text.startswith("-") or (prop.kind == "F32" and len(text) > 6) else text
    if prop.kind == "Date":
        return f'date("{_day(stored)}")'
    return f'datetime("{_moment(stored)}")'


def _parameter(prop: Prop, stored: Any) -> Any:
    if stored is None:
        return None
    if prop.many:
        return [_parameter(Prop(prop.name, prop.kind), item) for item in stored]
    if prop.kind == "Date":
        return _day(stored)
    return _moment(stored) if prop.kind == "DateTime" else stored


def _day(days: int) -> str:
    return date.fromordinal(date(1970, 1, 1).toordinal() + days).isoformat()


def _moment(milliseconds: int) -> str:
    return (EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")


def fits_a_parameter(prop: Prop, stored: Any) -> bool:
    """Integers of the query language are signed and have 64 bits."""
    values = stored if isinstance(stored, list) else [stored]
    return prop.kind != "U64" or all(each is None or each < 2**63 for each in values)


# ---- statements ----


def drawn_change(draw: Any, oracle: Oracle) -> tuple[Text, list[Statement]]:
    """One query: inserts and updates, or deletes."""
    text = Text(draw)
    statements: list[Statement] = []
    coming: dict[str, list[str]] = {name: [] for name in oracle.types}
    deletes = draw(st.sampled_from([False, False, True]))
    type_ = draw(st.sampled_from(list(oracle.types.values())))
    for _ in range(draw(st.integers(1, 4))):
        # Often the same type again: statements are to meet each other's rows.
        if draw(seldom(2)):
            type_ = draw(st.sampled_from(list(oracle.types.values())))
        if deletes:
            statement = _delete(draw, oracle, type_, text)
        elif type_.is_edge:
            statement = _insert_edge(draw, oracle, type_, coming, text)
        elif draw(st.booleans()):
            statement = _insert_node(draw, oracle, type_, coming, text)
        else:
            statement = _update(draw, oracle, type_, text)
        if statement is not None:
            statements.append(statement)
    return text, statements


def _drawn(draw: Any, prop: Prop) -> Any:
    if prop.nullable and draw(seldom(5)):
        return None
    if prop.kind == "enum" and draw(seldom(2)):
        return "nope"
    _, stored = draw(value(prop).filter(lambda pair: fits_a_parameter(prop, pair[1])))
    return stored


def _assignments(
    draw: Any, props: Sequence[Prop], text: Text, fixed: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], str]:
    fixed = fixed or {}
    assigned = {prop.name: fixed[prop.name] if prop.name in fixed else _drawn(draw, prop) for prop in props}
    words = [f"{prop.name}: {text.value(prop, assigned[prop.name])}" for prop in props]
    return assigned, draw(st.sampled_from([", ", " "])).join(words)


def _insert_node(
    draw: Any, oracle: Oracle, type_: Type, coming: dict[str, list[str]], text: Text
) -> Statement | None:
    props = [prop for prop in type_.props if not prop.nullable or draw(st.booleans())]
    if not props:
        return None
    # Half of the keyed ones take the place of a row that is there.
    rows = oracle.rows[type_.name].values()
    there = [row for row in rows if all(map(fits_a_parameter, type_.props, row.values()))]
    again = draw(st.sampled_from(there)) if there and draw(st.booleans()) else {}
    assigned, words = _assignments(draw, props, text, {name: again[name] for name in type_.key if again})
    text.add(f"insert {type_.name} {{ {words} }}")
    if type_.key:
        coming[type_.name].append(key_of(type_, assigned))
    return Statement("insert", type_, assigned)


def _insert_edge(
    draw: Any, oracle: Oracle, type_: Type, coming: dict[str, list[str]], text: Text
) -> Statement | None:
    assert type_.ends is not None
    known = [[*coming[end], *ids_of(oracle, end)] for end in type_.ends]
    if not all(known):
        return None
    source, target = (draw(st.sampled_from(ids)) for ids in known)
    if draw(seldom(8)):
        source = "nobody"
    ends = [text.value(Prop("from", "String"), source), text.value(Prop("to", "String"), target)]
    props = [prop for prop in type_.props if not prop.nullable or draw(st.booleans())]
    assigned, words = _assignments(draw, props, text)
    text.add(f"insert {type_.name} {{ from: {ends[0]}, to: {ends[1]} {',' if words else ''} {words} }}")
    return Statement("insert", type_, assigned, (source, target))


def _update(draw: Any, oracle: Oracle, type_: Type, text: Text) -> Statement | None:
    free = [prop for prop in type_.props if prop.name not in type_.key]
    where = _condition(draw, oracle, type_, text)
    if not free or where is None:
        return None
    props = draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique_by=lambda prop: prop.name))
    assigned, words = _assignments(draw, props, text)
    text.add(f"update {type_.name} set {{ {words} }} where {where.words}")
    return Statement("update", type_, assigned, None, where.column, where.operator, where.value)


def _delete(draw: Any, oracle: Oracle, type_: Type, text: Text) -> Statement | None:
    where = _condition(draw, oracle, type_, text)
    if where is None:
        return None
    text.add(f"delete {type_.name} where {where.words}")
    return Statement("delete", type_, {}, None, where.column, where.operator, where.value)


class _Where:
    def __init__(self, column: str, operator: str, value: Any, words: str) -> None:
        self.column, self.operator, self.value, self.words = column, operator, value, words


def _condition(draw: Any, oracle: Oracle, type_: Type, text: Text) -> _Where | None:
    """A predicate over a property or an endpoint; often with a value that is there."""
    columns = comparable(type_.props) + (["from", "to"] if type_.is_edge else [])
    if not columns:
        return None
    column = draw(st.sampled_from(columns))
    prop = Prop(column, "String") if column in ("from", "to") else type_.prop(column)
    name = {"from": "src", "to": "dst"}.get(column, column)
    there = [row[name] for row in oracle.rows[type_.name].values() if row[name] is not None]
    there = [each for each in there if fits_a_parameter(prop, each)]
    if there and not draw(seldom(4)):
        stored = draw(st.sampled_from(there))
    else:
        stored = draw(st.one_of(st.none(), value(prop).map(lambda pair: pair[1])))
        stored = stored if fits_a_parameter(prop, stored) else None
    operator = draw(st.sampled_from(ORDERED[:2] if prop.kind in ("Bool", "enum") else ORDERED))
    return _Where(column, operator, stored, f"{column} {operator} {text.value(prop, stored)}")


# ---- examples ----


class Changes:
    def __init__(self, here: Path, types: Sequence[Type], draw: Any, seen: Counter[str]) -> None:
        self.graph: Graph = new_graph(here / "g", types)
        self.oracle = Oracle(types)
        self.seen = seen
        self._here = here
        self._draw = draw

    def start(self) -> None:
        """Something to change."""
        for _ in range(4):
            records = drawn_records(self._draw, self.oracle, spoils=False)
            try:
                self.oracle.load("merge", records)
            except Refused:
                continue
            path = self._here / "start.jsonl"
            path.write_text(lines(self._draw, records), encoding="utf-8", newline="")
            self.graph.load([str(path)], LoadMode.MERGE)
            agree(self.oracle, self.graph)

    def change(self, text: Text, statements: Sequence[Statement]) -> None:
        before, head = b"".join(self.graph.export()), self.graph.head()
        verb = statements[0].verb if len({each.verb for each in statements}) == 1 else "insert and update"
        try:
            affected = self.oracle.change(statements)
        except Refused as refusal:
            error = {Bad: BadDataError, Conflict: ConflictError}[type(refusal)]
            self._count(f"{verb}: {refusal}")
            with pytest.raises(error):
                self.graph.change(text.source, params=text.params)
            assert (b"".join(self.graph.export()), self.graph.head()) == (before, head)
            return
        self._count(f"{verb} of {'some' if any(affected) else 'nothing'}")
        changed = self.graph.change(text.source, params=text.params)
        assert (changed.affected_nodes, changed.affected_edges) == affected
        assert (changed.commit_id is None) == (not any(affected))
        agree(self.oracle, self.graph)

    def _count(self, what: str) -> None:
        self.seen[what] += 1
        event(what)


def run(examples: int, base: settings | None = None, **more: Any) -> Counter[str]:
    seen: Counter[str] = Counter()

    @settings(
        base,
        max_examples=examples,
        report_multiple_bugs=False,
        **more,
    )
    @given(st.data())
    def changes(data: st.DataObject) -> None:
        types = data.draw(schemas(), label="types")
        with folder() as here:
            example = Changes(here, types, data.draw, seen)
            example.start()
            for _ in range(data.draw(st.integers(1, CHANGES_MAX))):
                text, statements = drawn_change(data.draw, example.oracle)
                if statements:
                    example.change(text, statements)
            check_whole(example.graph)

    changes()
    return seen


def test_changes_agree_with_dictionaries() -> None:
    seen = run(40, phases=(Phase.generate,))
    for what in ("insert", "update", "delete", "insert and update"):
        assert seen[f"{what} of some"] > 2, dict(seen)
    reasons = {what.partition(": ")[2] for what in seen} - {""}
    assert len(reasons) > len(REASONS) - 3, dict(seen)
    assert reasons <= REASONS


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_changes_agree_with_dictionaries_for_long() -> None:
    """New examples every time; a failing one is kept in `.hypothesis` and tried first."""
    run(1200, NEW)
