"""Random migrations of random data on random branches, against a model that knows nothing of columns.

Each step changes rows, makes a branch, or applies a schema in which several things have changed at
once: types and properties come, go, pass their names on, are filled, widened, required or not. Then
every commit there ever was is read again.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")
STEPS = 14

VALUES: dict[str, list[Any]] = {
    "String": ["a", "b'c", "ü"],
    "I32": [0, -7, 2**31 - 1],
    "I64": [1, -(2**53)],
    "F32": [0.5, -2.0],
    "F64": [0.25, 3.0],
    "Date": [0, 19723],
    "DateTime": [0, 1704067200000],
    "Bool": [True, False],
}
WIDER = {"I32": ["I64", "F64"], "F32": ["F64"], "Date": ["DateTime"]}
DEFAULTS = {"String": '"new"', "I32": "5", "F64": "0.5", "Bool": "true"}
FILLED = {"String": "new", "I32": 5, "F64": 0.5, "Bool": True}
TYPE_NAMES = ["A", "B", "C", "D"]
NAMES = ["p", "q", "r", "s", "t"]


@dataclass
class Property:
    type: str
    nullable: bool = True
    default: str | None = None


@dataclass
class Type:
    properties: dict[str, Property] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)
    """New names of properties to old ones, in the schema that is about to be applied."""


@dataclass
class State:
    """A branch: its types by name, each with a key called k."""

    types: dict[str, Type] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)

    def source(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        for name, type_ in self.types.items():
            hint = f' @rename_from("{self.hints[name]}")' if name in self.hints else ""
            yield f"node {name}{hint} {{ k: String @key"
            for each, prop in type_.properties.items():
                optional = "?" if prop.nullable else ""
                default = "" if prop.default is None else f" @default({prop.default})"
                old = f' @rename_from("{type_.hints[each]}")' if each in type_.hints else ""
                yield f"  {each}: {prop.type}{optional}{default}{old}"
            yield "}"

    def records(self) -> list[str]:
        found = [
            {"type": name, "data": {"id": key, "k": key, **row}}
            for name, type_ in self.types.items()
            for key, row in type_.rows.items()
        ]
        return sorted(json.dumps(each, sort_keys=True) for each in found)

    def settled(self) -> State:
        """Without hints, as the next schema is written."""
        later = copy.deepcopy(self)
        later.hints = {}
        for type_ in later.types.values():
            type_.hints = {}
        return later


class Migration:
    """Some changes at once, made to the model."""

    def __init__(self, before: State, chance: random.Random) -> None:
        self.state = before.settled()
        self._before = before
        self._chance = chance

    def made(self) -> State:
        self._types()
        for name, type_ in self.state.types.items():
            old = self._before.types.get(self.state.hints.get(name, name))
            if old is not None and type_.rows.keys() == old.rows.keys():
                self._properties(type_)
        return self.state

    def _types(self) -> None:
        chance, types = self._chance, self.state.types
        if len(types) > 1 and chance.random() < 0.15:
            del types[chance.choice(sorted(types))]
        free = [name for name in TYPE_NAMES if name not in self._before.types]
        taken = sorted(types)
        if free and taken and chance.random() < 0.3:
            old, new = chance.choice(taken), free.pop()
            types[new], self.state.hints[new] = types.pop(old), old
            others = [name for name in taken if name != old]
            if others and chance.random() < 0.4:
                # The name is passed on.
                other = chance.choice(others)
                types[old], self.state.hints[old] = types.pop(other), other
        if free and chance.random() < 0.3:
            types[free.pop()] = Type({"p": Property(chance.choice(sorted(VALUES)))})

    def _properties(self, type_: Type) -> None:
        chance = self._chance
        old = sorted(type_.properties)
        for name in old:
            fate = chance.random()
            if fate < 0.12:
                self._drop(type_, name)
            elif fate < 0.3:
                self._change(type_, name)
        self._rename(type_, old)
        for name in [each for each in NAMES if each not in old and each not in type_.properties][:1]:
            if chance.random() < 0.5:
                self._add(type_, name)

    def _drop(self, type_: Type, name: str) -> None:
        del type_.properties[name]
        for row in type_.rows.values():
            del row[name]

    def _change(self, type_: Type, name: str) -> None:
        """Wider, or required as far as the rows allow it, or not required any more."""
        prop, chance = type_.properties[name], self._chance
        if prop.default is None and prop.type in WIDER and chance.random() < 0.5:
            old, prop.type = prop.type, chance.choice(WIDER[prop.type])
            for row in type_.rows.values():
                row[name] = widened(row[name], old, prop.type)
        if not prop.nullable or all(row[name] is not None for row in type_.rows.values()):
            prop.nullable = chance.random() < 0.5

    def _rename(self, type_: Type, old: list[str]) -> None:
        chance = self._chance
        left = sorted(type_.properties)
        free = [name for name in NAMES if name not in old]
        if not left or not free or chance.random() < 0.6:
            return
        moves = {free[0]: chance.choice(left)}
        others = [name for name in left if name not in moves.values()]
        if others and chance.random() < 0.5:
            moves[moves[free[0]]] = chance.choice(others)
        taken = {name: type_.properties.pop(origin) for name, origin in moves.items()}
        type_.properties |= taken
        type_.hints |= moves
        for row in type_.rows.values():
            values = {name: row.pop(origin) for name, origin in moves.items()}
            row |= values

    def _add(self, type_: Type, name: str) -> None:
        chance = self._chance
        kind = chance.choice(sorted(DEFAULTS))
        default = DEFAULTS[kind] if chance.random() < 0.5 else None
        nullable = default is None or chance.random() < 0.5
        type_.properties[name] = Property(kind, nullable, default)
        for row in type_.rows.values():
            row[name] = None if default is None else FILLED[kind]


def widened(value: Any, old: str, new: str) -> Any:
    if value is None:
        return None
    if old == "Date":
        return value * 86_400_000
    return float(value) if new == "F64" else value


class World:
    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root, self.chance = root, chance
        first = State({"A": Type({"p": Property("I32"), "q": Property("String")})})
        self.graph = Graph.init(str(root), first.source(), SETTINGS)
        self.branches = {"main": first}
        self.past: list[tuple[str, list[str]]] = []
        self._numbers = 0

    def step(self) -> None:
        branch = self.chance.choice(sorted(self.branches))
        dice = self.chance.random()
        if dice < 0.3:
            self.load(branch)
        elif dice < 0.4 and len(self.branches) < 4:
            self._numbers += 1
            self.graph.create_branch(f"b{self._numbers}", branch)
            self.branches[f"b{self._numbers}"] = copy.deepcopy(self.branches[branch])
        else:
            self.migrate(branch)
        self.remember(branch)

    def migrate(self, branch: str) -> None:
        wanted = Migration(self.branches[branch], self.chance).made()
        loss = self.chance.random() < 0.3
        self.graph.apply_schema(wanted.source(), branch=branch, allow_data_loss=loss)
        assert self.graph.apply_schema(wanted.source(), branch=branch).applied is False, wanted.source()
        self.branches[branch] = wanted.settled()

    def load(self, branch: str) -> None:
        state = self.branches[branch]
        name = self.chance.choice(sorted(state.types))
        type_ = state.types[name]
        rows = {}
        for number in range(self.chance.randrange(1, 4)):
            values = {
                each: None if prop.nullable and self.chance.random() < 0.3 else self.value(prop)
                for each, prop in type_.properties.items()
            }
            rows[f"{number}"] = values
        file = self.root.parent / "rows.jsonl"
        file.write_text(
            "".join(json.dumps({"type": name, "data": {"k": k, **row}}) + "\n" for k, row in rows.items())
        )
        self.graph.load([str(file)], LoadMode.MERGE, branch=branch)
        type_.rows |= rows

    def value(self, prop: Property) -> Any:
        return self.chance.choice(VALUES[prop.type])

    def remember(self, branch: str) -> None:
        head = self.graph.head(branch)
        assert head is not None
        expected = self.branches[branch].records()
        assert records(self.graph, head.commit_id) == expected, self.branches[branch].source()
        self.past.append((head.commit_id, expected))


def records(graph: Graph, ref: str) -> list[str]:
    lines = b"".join(graph.export(ref)).decode().splitlines()
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[] if seed < 3 else [pytest.mark.soak]) for seed in range(100)]
)
def test_random_migrations(seed: int, tmp_path: Path) -> None:
    world = World(tmp_path / "g", random.Random(seed))
    for _ in range(STEPS):
        world.step()
    fresh = Graph.open(str(tmp_path / "g"), SETTINGS, OpenMode.READ_WRITE)
    for branch, state in world.branches.items():
        head = fresh.head(branch)
        assert head is not None
        assert records(fresh, head.commit_id) == state.records()
    for commit_id, expected in world.past:
        assert records(fresh, commit_id) == expected
    check_whole(fresh)
