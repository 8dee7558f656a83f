"""The rules of a load, checked in executors on one part of the keys each.

Fragments are dealt into parts by the texts that rules compare: a few large objects for
each part, so that the shuffle costs next to nothing. Each part is then asked by the very
rules of every load; what they find is put together as if they had been asked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.load.held_rows import LINE_COLUMN, POSITION_COLUMN, SOURCE_COLUMN, compared_columns
from omnigraph_core.load.intake import check_among, newness_in
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.load.roles import Checked
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import Change, ChangeSet, Newness, Origin, TableChange
from omnigraph_core.rules.committed import ByText, Committed
from omnigraph_core.rules.parts import Part, add_answers, part_numbers
from omnigraph_core.rules.rows_by_part import deal, having, placed_texts
from omnigraph_core.rules.validate import find_violations
from omnigraph_core.rules.violations import Answers, Violations
from omnigraph_core.schema import EdgeType, EntityType, NodeType
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.settings import Settings
from omnigraph_core.spark.intake import WrittenType
from omnigraph_core.spark.outcome import Json, decode_violation, encode_violation
from omnigraph_core.spark.spec import JobSpec, TableAt
from omnigraph_core.spark.task import TaskFailed
from omnigraph_core.spark.worker import fragment_groups, tables_at
from omnigraph_core.tables.keys import are_few
from omnigraph_core.values.identity import tuple_texts

By = tuple[str, ...]
Dealt = tuple[bool, str, By, int, bytes]
"""Is it committed? Table key, the columns it was dealt by, the number of the fragment, and the rows."""
CommittedPart = tuple[str, By, tuple[int, ...]]
"""Fragments of a committed table, and the columns by whose text they are dealt."""


def dealt_by(written: WrittenType) -> list[By]:
    """The columns by whose texts rules compare rows of a type."""
    entity = written.entity
    found: list[By] = [] if written.is_fresh else [(ID_COLUMN,)]
    if isinstance(entity, EdgeType):
        found += [(SRC_COLUMN,), (DST_COLUMN,)]
    if isinstance(entity, NodeType) and entity.key is not None:
        found.append(tuple(entity.key.columns))
    return list(dict.fromkeys([*found, *(tuple(group.columns) for group in entity.uniques)]))


@dataclass(frozen=True, slots=True)
class DealTask:
    """Deals fragments, each known by its table key and number."""

    spec: JobSpec
    settings: Settings
    types: Mapping[str, WrittenType]
    parts: int

    def __call__(self, items: Iterable[tuple[str, int]]) -> Iterator[tuple[int, Dealt]]:
        try:
            storage = tables_at(self.spec.graph, self.settings).storage
            for key, number in items:
                written = self.types[key]
                for by in dealt_by(written):
                    rows = written.read(storage, written.fragments[number], compared_columns(by))
                    rows = _numbered(rows.combine_chunks(), written.fragments[number].start)
                    numbers = part_numbers(tuple_texts(rows, by, written.entity), self.parts)
                    for part, data in enumerate(deal(rows, numbers, self.parts)):
                        yield part, (False, key, by, number, data)
        except OmnigraphError as error:
            raise TaskFailed(error) from error


def looked_up(spec: JobSpec, types: Mapping[str, WrittenType]) -> dict[ByText, int]:
    """By which texts rules look up committed rows of which table, and how many texts there are."""
    wanted: dict[ByText, int] = {}

    def add(key: str, by: By, texts: int) -> None:
        wanted[key, by] = wanted.get((key, by), 0) + texts

    replaces = spec.mode is LoadMode.OVERWRITE
    for key, written in types.items():
        entity = written.entity
        if not replaces:
            for by in dealt_by(written):
                if by not in ((SRC_COLUMN,), (DST_COLUMN,)):
                    add(key, by, written.rows)
        for name in (entity.from_type, entity.to_type) if isinstance(entity, EdgeType) else ():
            node = spec.schema.node(name).table_key
            if not (replaces and node in types):
                add(node, (ID_COLUMN,), written.rows)
    return wanted


def committed_parts(
    spec: JobSpec, settings: Settings, types: Mapping[str, WrittenType], parts: int
) -> list[CommittedPart]:
    """What to deal of the committed rows: tables that every part would go through by itself."""
    found: list[CommittedPart] = []
    for (key, by), texts in looked_up(spec, types).items():
        at = spec.committed[key]
        table = tables_at(spec.graph, settings).open(at.ref, at.version)
        if pays_to_deal(texts // parts, table.count_rows()):
            found += [(key, by, group) for group in fragment_groups(table)]
    return found


def pays_to_deal(texts: int, rows: int) -> bool:
    """Would one part look at all rows? A few texts are looked up in the index."""
    return rows > 0 and not are_few(texts, rows)


@dataclass(frozen=True, slots=True)
class DealCommittedTask:
    """Deals committed rows, so that they are read once for all parts."""

    spec: JobSpec
    settings: Settings
    parts: int

    def __call__(self, items: Iterable[CommittedPart]) -> Iterator[tuple[int, Dealt]]:
        try:
            entities = {entity.table_key: entity for entity in self.spec.schema.types()}
            for key, by, fragments in items:
                at = self.spec.committed[key]
                table = tables_at(self.spec.graph, self.settings).open(at.ref, at.version)
                for rows in placed_texts(table, entities[key], by, fragments):
                    numbers = part_numbers(rows.column("text").combine_chunks(), self.parts)
                    for part, data in enumerate(deal(rows, numbers, self.parts)):
                        yield part, (True, key, by, fragments[0], data)
        except OmnigraphError as error:
            raise TaskFailed(error) from error


@dataclass(frozen=True, slots=True)
class DealtTable:
    """The committed rows of this part, as they were dealt."""

    pieces: Sequence[bytes]

    def having(self, number: int, texts: pa.Array) -> pa.Table:
        return having((pa.ipc.open_stream(data).read_all() for data in self.pieces), texts)


def _numbered(rows: pa.Table, start: int) -> pa.Table:
    return rows.append_column(POSITION_COLUMN, pa.array(np.arange(start, start + rows.num_rows)))


@dataclass(frozen=True, slots=True)
class DealtChange(Change):
    """The change of one table, of which only one part is here."""

    entity: EntityType
    newness: Newness
    replaces: bool
    total: int
    sources: tuple[str, ...]
    dealt: Mapping[By, Sequence[bytes]]
    """The rows of this part in the order of the input, by the columns they were dealt by."""

    @property
    def count(self) -> int:
        return self.total

    def part(self, by: Sequence[str], part: Part) -> TableChange:
        names = compared_columns(tuple(by))
        found = [pa.ipc.open_stream(data).read_all() for data in self.dealt.get(tuple(by), ())]
        if not found:
            origin = Origin(self.sources, pa.array([], pa.int32()), pa.array([], pa.int64()))
            rows = table_schema(self.entity).empty_table().select(names)
            return TableChange(self.entity, rows, origin, self.newness, self.replaces)
        rows = pa.concat_tables(found).combine_chunks()
        source, lines, positions = (
            rows.column(name).combine_chunks() for name in (SOURCE_COLUMN, LINE_COLUMN, POSITION_COLUMN)
        )
        origin = Origin(self.sources, source, lines, positions)
        return TableChange(self.entity, rows.select(names), origin, self.newness, self.replaces)


@dataclass(frozen=True, slots=True)
class _NamedBase:
    """The tables at the versions the front has named."""

    tables: Mapping[str, TableAt]

    def entry(self, table_key: str) -> TableAt:
        return self.tables[table_key]


@dataclass(frozen=True, slots=True)
class CheckTask:
    """Asks the rules of one part, whose number is that of the partition."""

    spec: JobSpec
    settings: Settings
    types: Mapping[str, WrittenType]
    parts: int

    def __call__(self, number: int, arrived: Iterable[tuple[int, Dealt]]) -> Iterator[Json]:
        try:
            yield self._check(number, [dealt for _, dealt in arrived])
        except OmnigraphError as error:
            raise TaskFailed(error) from error

    def _check(self, number: int, arrived: list[Dealt]) -> Json:
        parts = (Part(number, self.parts),)
        dealt: dict[str, dict[By, list[tuple[int, bytes]]]] = {}
        there: dict[ByText, list[bytes]] = {}
        for is_committed, key, by, place, data in arrived:
            if is_committed:
                there.setdefault((key, by), []).append(data)
            else:
                dealt.setdefault(key, {}).setdefault(by, []).append((place, data))
        among = Answers()
        changes: dict[str, Change] = {}
        for key, written in sorted(self.types.items()):
            mine = {by: [data for _, data in sorted(found)] for by, found in dealt.get(key, {}).items()}
            changes[key] = self._change(written, mine)
            check_among(changes[key], parts, among, asks_ids=bool(written.given_ids))
        # Each executor asks for one part alone; what is large was dealt with the rows.
        base = _NamedBase(self.spec.committed)
        tables = {looked: DealtTable(pieces) for looked, pieces in there.items()}
        committed = Committed(tables_at(self.spec.graph, self.settings), base, deals=False, dealt=tables)
        violations, conflicts = Answers(), Answers()
        taken = find_violations(ChangeSet(self.spec.schema, changes, parts), committed, violations, conflicts)
        return {
            "among": _encoded(among),
            "violations": _encoded(violations),
            "conflicts": _encoded(conflicts),
            "key_conflict": taken,
            "reads": committed.reads,
        }

    def _change(self, written: WrittenType, dealt: Mapping[By, Sequence[bytes]]) -> DealtChange:
        newness = newness_in(self.spec.mode, is_fresh=written.is_fresh)
        replaces = self.spec.mode is LoadMode.OVERWRITE
        return DealtChange(written.entity, newness, replaces, written.rows, written.sources, dealt)


def _encoded(answers: Answers) -> list[Json]:
    return [
        {"first": [encode_violation(each) for each in found.first], "total": found.total}
        for found in answers.questions
    ]


def put_together(answers: Sequence[Json]) -> Checked:
    """The answers of all parts, as if the rules had been asked at once."""
    taken = [each["key_conflict"] for each in answers if each["key_conflict"] is not None]
    reads: dict[str, int] = {}
    for each in answers:
        reads |= each["reads"]
    return Checked(
        among=_joined([each["among"] for each in answers]),
        violations=_joined([each["violations"] for each in answers]),
        conflicts=_joined([each["conflicts"] for each in answers]),
        key_conflict=(taken[0][0], taken[0][1]) if taken else None,
        reads=reads,
    )


def _joined(parts: Sequence[Sequence[Json]]) -> Violations:
    joined = Violations()
    for answers in zip_longest(*parts):
        found = [each for each in answers if each is not None]
        kept = [decode_violation(each) for answer in found for each in answer["first"]]
        add_answers(joined, kept, sum(answer["total"] for answer in found))
    return joined
