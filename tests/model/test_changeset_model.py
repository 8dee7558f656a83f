"""Random change sets that insert, update and remove in one commit, against dictionaries.

The oracle says which of them the rules of the graph allow, and what the graph holds afterwards.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph_core.change.plan import Intent, plan_changes
from omnigraph_core.errors import InternalError
from omnigraph_core.graph import Graph
from omnigraph_core.rules.changeset import ChangeSet, TableChange
from omnigraph_core.rules.committed import Committed
from omnigraph_core.rules.validate import RecordsConflict, check_against, check_rows
from omnigraph_core.rules.violations import InvalidRecords, Violations
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.settings import Settings
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.plan import WritePlan, WriterKind

SETTINGS = Settings(fsync=False, actor="ann")
SCHEMA = """
node P { k: String @key mail: String? @unique }
node Q { name: String? }
edge Link: P -> P @card(1..2)
edge Owns: P -> Q
"""
STEPS = 60
IDS = [f"i{number}" for number in range(9)]
COLUMNS = {
    "node:P": ("k", "mail"), "node:Q": ("name",), "edge:Link": ("src", "dst"), "edge:Owns": ("src", "dst"),
}  # fmt: skip
ENDS = {"edge:Link": ("node:P", "node:P"), "edge:Owns": ("node:P", "node:Q")}

Row = tuple[str | None, ...]
State = dict[str, dict[str, Row]]


@dataclass(frozen=True)
class Step:
    """What one commit does to one table."""

    rows: dict[str, Row]
    removed: list[str]


def random_row(chance: random.Random, key: str, id_: str) -> Row:
    if key == "node:P":
        return (id_, chance.choice([None, None, *"abcdefghijkl"]))
    if key == "node:Q":
        return (chance.choice("xy"),)
    return (chance.choice(IDS), chance.choice(IDS))


def random_steps(chance: random.Random, state: State) -> dict[str, Step]:
    """Not only what is allowed, but so that much of it is: edges mostly go with their nodes."""
    steps: dict[str, Step] = {}
    for key in COLUMNS:
        if chance.random() < 0.4:
            continue
        named = chance.sample(IDS, chance.randrange(2, 7))
        cut = chance.randrange(0, len(named) + 1)
        rows = {id_: random_row(chance, key, id_) for id_ in named[:cut]}
        steps[key] = Step(rows, named[cut:])
    if chance.random() < 0.8:
        for key, (source, target) in ENDS.items():
            step = steps.setdefault(key, Step({}, []))
            ends = [_after(state, steps, each) for each in (source, target)]
            fits = {id_: row for id_, row in step.rows.items() if row[0] in ends[0] and row[1] in ends[1]}
            loose = [id_ for id_, (a, b) in state[key].items() if a not in ends[0] or b not in ends[1]]
            going = {*step.removed, *loose} - fits.keys()
            steps[key] = Step(fits, sorted(going))
    return {key: step for key, step in steps.items() if step.rows or step.removed}


def _after(state: State, steps: dict[str, Step], key: str) -> dict[str, Row]:
    step = steps.get(key, Step({}, []))
    return {id_: row for id_, row in state[key].items() if id_ not in step.removed} | step.rows


def is_valid(before: State, steps: dict[str, Step], after: State) -> bool:
    mails = [row[1] for row in after["node:P"].values() if row[1] is not None]
    if len(set(mails)) < len(mails):
        return False
    for key, ends in ENDS.items():
        for row in after[key].values():
            if any(end not in after[node] for end, node in zip(row, ends, strict=True)):
                return False
    links = steps.get("edge:Link", Step({}, []))
    left = [row[0] for id_, row in before["edge:Link"].items() if id_ in {*links.rows, *links.removed}]
    touched = {*left, *(row[0] for row in links.rows.values())} & after["node:P"].keys()
    counts = Counter(row[0] for row in after["edge:Link"].values())
    return all(1 <= counts[source] <= 2 for source in touched)


class Writer:
    """Publishes steps as one commit on one branch."""

    def __init__(self, graph: Graph, branch: str) -> None:
        self.graph, self.branch = graph, branch

    def write(self, steps: dict[str, Step]) -> None:
        door, intent = self.graph.door, Intent(WriterKind.BRANCH_MERGE, "ann")

        def build(attempt: Attempt) -> WritePlan:
            committed, violations = Committed(door.tables, attempt.snapshot), Violations()
            changes = change_set(attempt.schema, steps)
            check_rows(changes, violations)
            check_against(changes, committed, violations)
            return plan_changes(door, attempt, changes, committed, intent)

        door.write(self.branch, build)

    def state(self) -> tuple[State, dict[str, dict[str, int]]]:
        """What the branch holds, and the row id of everything."""
        found: State = {}
        row_ids: dict[str, dict[str, int]] = {}
        snapshot = self.graph.door.attempt(self.branch).snapshot
        for key, names in COLUMNS.items():
            entry = snapshot.entry(key)
            rows = self.graph.door.tables.open(entry.ref, entry.table_version).read(with_row_id=True)
            assert rows.num_rows == entry.row_count
            values = [tuple(row[name] for name in names) for row in rows.to_pylist()]
            ids = rows.column("id").to_pylist()
            found[key] = dict(zip(ids, values, strict=True))
            row_ids[key] = dict(zip(ids, rows.column("_rowid").to_pylist(), strict=True))
            assert len(found[key]) == rows.num_rows
        return found, row_ids

    def counts(self) -> dict[str, dict[str, int]]:
        details = self.graph.commit(self.branch).details
        assert details is not None
        found: dict[str, dict[str, int]] = json.loads(details)["counts"]
        return found


def change_set(schema: Schema, steps: dict[str, Step]) -> ChangeSet:
    entities = {entity.table_key: entity for entity in schema.types()}
    return ChangeSet(schema, {key: table_change(entities[key], step) for key, step in steps.items()})


def table_change(entity: EntityType, step: Step) -> TableChange:
    names = ("id", *COLUMNS[entity.table_key])
    rows = [dict(zip(names, (id_, *row), strict=True)) for id_, row in step.rows.items()]
    table = pa.Table.from_pylist(rows, schema=table_schema(entity))
    return TableChange(entity, table, removed=pa.array(step.removed, pa.utf8()))


def expected_counts(before: State, steps: dict[str, Step]) -> dict[str, dict[str, int]]:
    found = {}
    for key, step in steps.items():
        updated = len(step.rows.keys() & before[key].keys())
        removed = sum(id_ in before[key] for id_ in step.removed)
        numbers = {"inserted": len(step.rows) - updated, "updated": updated, "deleted": removed}
        found[key] = {name: number for name, number in numbers.items() if number}
    return found


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_random_change_sets_agree_with_dictionaries(branch: str, tmp_path: Path) -> None:
    chance = random.Random(branch)
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)
    people = {id_: (id_, None) for id_ in IDS}
    Writer(graph, "main").write({"node:P": Step(dict(people), []), "node:Q": Step({"i0": ("x",)}, [])})
    if branch != "main":
        graph.create_branch(branch)
    writer = Writer(graph, branch)
    (state, row_ids), refused, mixed = writer.state(), 0, 0
    for _ in range(STEPS):
        steps = random_steps(chance, state)
        if not steps:
            continue
        after = {key: _after(state, steps, key) for key in COLUMNS}
        if not is_valid(state, steps, after):
            with pytest.raises((InvalidRecords, RecordsConflict)):
                writer.write(steps)
            assert writer.state() == (state, row_ids), steps
            refused += 1
            continue
        writer.write(steps)
        counts = expected_counts(state, steps)
        mixed += any("deleted" in numbers and len(numbers) > 1 for numbers in counts.values())
        assert writer.counts() == counts, steps
        found, new_ids = writer.state()
        assert found == after, steps
        for key, known in row_ids.items():
            kept = {id_: row_id for id_, row_id in known.items() if id_ in after[key]}
            assert {id_: new_ids[key][id_] for id_ in kept} == kept
        state, row_ids = found, new_ids
    assert refused > 5, "rules were hardly asked"
    assert mixed > 3, "hardly any table had rows written and removed at once"


def test_a_change_that_replaces_everything_removes_nothing_besides(tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)
    entity = graph.door.attempt("main").schema.node("Q")
    with pytest.raises(InternalError):
        TableChange(entity, table_schema(entity).empty_table(), replaces=True, removed=pa.array(["a"]))
