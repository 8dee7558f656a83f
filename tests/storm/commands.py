"""A step as a command line, and what it means to the model."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tests.storm.steps import CITIES, PROPERTIES, TAGS, Step, Verb
from tests.support.records import edge, node

KEPT = ("age", "note")
COMING = tuple(name for name in PROPERTIES if name not in KEPT)

Meaning = dict[str, Any]
"""What the commit of a step does to the rows, ready for JSON. Empty: it makes no commit of its own."""


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    stdin: str = ""
    meaning: Meaning | None = None
    is_write: bool = True
    file: str = ""
    """The name of a file that the input is in, for what does not read standard input."""


def schema(properties: Sequence[str]) -> str:
    more = "".join(f"  {name}: I64?\n" for name in properties)
    return (
        f"node Person {{\n  name: String @key\n  age: I64?\n  note: String?\n{more}}}\n"
        "node City { name: String @key  size: I64? }\n"
        "edge Knows: Person -> Person { w: I64? }\n"
        "edge Lives: Person -> City { w: I64? }\n"
    )


def command(step: Step, graph: str, commits: Sequence[str]) -> Command | None:
    """What to run; None while there is nothing to pick from."""
    make = _MAKERS[step.verb]
    made: Command | None = make(step, commits)
    if made is None:
        return None
    common = ["--store", graph, "--json"]
    if made.is_write:
        common += ["--as", f"worker {step.name.partition('.')[0]}", "--lock-timeout", "120"]
        common += ["--message", step.name] if made.meaning is not None else []
    return replace(made, argv=(*made.argv, *common))


# ---- rows in ----


def _records(step: Step, is_new: bool) -> list[dict[str, Any]]:
    """People, and edges among them; where all must be new, with names nobody else uses."""
    names = [f"{step.name}.{each}" for each in step.people] if is_new else list(step.people)
    names.append(step.name)
    rows = [node("Person", name=name, age=step.value, note=f"by {step.name}") for name in names]
    for number, (source, target) in enumerate(pairwise(names)):
        rows.append(edge("Knows", source, target, id=f"{step.name}.{number}", w=step.value + number))
    return rows


def _load(step: Step, mode: str, rows: list[dict[str, Any]], meaning: Meaning, *more: str) -> Command:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    argv = ("load", "--data", "-", "--format", "jsonl", "--mode", mode, "--branch", step.branch, *more)
    return Command(argv, lines, meaning)


def _append(step: Step, commits: Sequence[str]) -> Command:
    rows = _records(step, is_new=True)
    return _load(step, "append", rows, {"op": "put", "rows": rows})


def _merge_load(step: Step, commits: Sequence[str]) -> Command:
    rows = _records(step, is_new=False)
    return _load(step, "merge", rows, {"op": "put", "rows": rows})


def _spark(step: Step, commits: Sequence[str]) -> Command:
    rows = _records(step, is_new=True)
    made = _load(step, "append", rows, {"op": "put", "rows": rows}, "--spark")
    file = f"{step.name}.jsonl"
    argv = tuple(file if each == "-" else each for each in made.argv)
    return replace(made, argv=argv, file=file)


def _load_from(step: Step, commits: Sequence[str]) -> Command | None:
    if step.branch == "main":
        return None
    rows = _records(step, is_new=True)
    return _load(step, "append", rows, {"op": "put", "rows": rows}, "--from", "main")


def _overwrite(step: Step, commits: Sequence[str]) -> Command:
    chance = random.Random(step.pick)
    cities = chance.sample(CITIES, chance.randint(1, 4))
    rows = [node("City", name=name, size=step.value + number) for number, name in enumerate(cities)]
    return _load(step, "overwrite", rows, {"op": "replace", "type": "City", "rows": rows})


def _change(step: Step, text: str, params: dict[str, Any], declared: str, meaning: Meaning) -> Command:
    query = f"query q({declared}) {{ {text} }}"
    argv = ("change", "-e", query, "--params", json.dumps(params), "--branch", step.branch)
    return Command(argv, meaning=meaning)


def _insert(step: Step, commits: Sequence[str]) -> Command:
    rows = [node("Person", name=step.name, age=step.value, note=None)]
    text = "insert Person { name: $n, age: $v }"
    params = {"n": step.name, "v": step.value}
    return _change(step, text, params, "$n: String, $v: I64", {"op": "put", "rows": rows})


def _update(step: Step, commits: Sequence[str]) -> Command:
    value: Any = str(step.value) if step.property == "note" else step.value
    kind = "String" if step.property == "note" else "I64"
    text = f"update Person set {{ {step.property}: $v }} where name = $n"
    meaning = {"op": "set", "id": step.people[0], "values": {step.property: value}}
    return _change(step, text, {"n": step.people[0], "v": value}, f"$n: String, $v: {kind}", meaning)


def _delete(step: Step, commits: Sequence[str]) -> Command:
    text, params = "delete Person where name = $n", {"n": step.people[0]}
    return _change(step, text, params, "$n: String", {"op": "delete", "id": step.people[0]})


# ---- branches and history ----


def _on_branch(*argv: str, meaning: Meaning | None = None) -> Command:
    return Command(("branch", *argv), meaning=meaning)


def _create(step: Step, commits: Sequence[str]) -> Command:
    source = _picked(step, commits) if step.pick % 3 == 0 else step.branch
    return _on_branch("create", step.other, "--from", source or step.branch)


def _picked(step: Step, commits: Sequence[str]) -> str | None:
    """One of the newest commits that anybody was told of."""
    newest = commits[-40:]
    return newest[step.pick % len(newest)] if newest else None


def _merge(step: Step, commits: Sequence[str]) -> Command:
    source, target = (step.other, step.branch) if step.branch != step.other else (step.other, "main")
    return _on_branch("merge", source, "--into", target, meaning={"op": "merge"})


def _reset(step: Step, commits: Sequence[str]) -> Command | None:
    to = _picked(step, commits)
    if to is None:
        return None
    return _on_branch("reset", step.branch, to, meaning={"op": "reset", "commit": to})


def _revert(step: Step, commits: Sequence[str]) -> Command | None:
    what = _picked(step, commits)
    argv = ("revert", what or "", "--branch", step.branch)
    return Command(argv, meaning={"op": "revert", "commit": what}) if what else None


def _undo(step: Step, commits: Sequence[str]) -> Command | None:
    what = _picked(step, commits)
    return Command(("undo", what), meaning={"op": "revert", "commit": what}) if what else None


def _tag(step: Step, commits: Sequence[str]) -> Command:
    return Command(("tag", "create", TAGS[step.pick % len(TAGS)], step.branch))


def _schema(step: Step, commits: Sequence[str]) -> Command:
    chance = random.Random(step.pick)
    wanted = [name for name in COMING if chance.random() < 0.5]
    argv = ("schema", "apply", "--schema", "-", "--branch", step.branch)
    return Command(argv, schema(wanted), meaning={"op": "schema", "properties": wanted})


# ---- upkeep and reading ----


def _optimize(step: Step, commits: Sequence[str]) -> Command:
    where = ("--all-branches",) if step.pick % 2 else ("--branch", step.branch)
    return Command(("optimize", *where), meaning={"op": "same"})


def _index(step: Step, commits: Sequence[str]) -> Command:
    return Command(("index", "build", "--branch", step.branch))


def _cleanup(step: Step, commits: Sequence[str]) -> Command:
    # A grace below the longest pause: a sleeper may find that what it read is gone, and says so.
    return Command(("cleanup", "--keep", str(4 + step.pick % 6), "--grace", "10s", "--yes"))


def _export_at(step: Step, commits: Sequence[str]) -> Command | None:
    at = f"tag:{TAGS[step.pick % len(TAGS)]}" if step.pick % 5 == 0 else _picked(step, commits)
    return Command(("export", "--snapshot", at), is_write=False) if at else None


def _reading(*argv: str) -> Command:
    return Command(argv, is_write=False)


QUERY = "query q() { match { $p: Person } return { $p.name, $p.age, $p.note } }"
HOPS = "query q() { match { $p: Person  $p knows $q } return { $p.name, $q.name } }"

_MAKERS: dict[Verb, Any] = {
    Verb.APPEND: _append,
    Verb.MERGE_LOAD: _merge_load,
    Verb.OVERWRITE: _overwrite,
    Verb.LOAD_FROM: _load_from,
    Verb.SPARK: _spark,
    Verb.INSERT: _insert,
    Verb.UPDATE: _update,
    Verb.DELETE: _delete,
    Verb.BRANCH: _create,
    Verb.UNBRANCH: lambda step, _: _on_branch("delete", step.other, "--yes"),
    Verb.UNDELETE: lambda step, _: _on_branch("undelete", step.other),
    Verb.RENAME: lambda step, _: _on_branch("rename", step.other, _another(step)),
    Verb.MERGE: _merge,
    Verb.REVERT: _revert,
    Verb.RESET: _reset,
    Verb.UNDO: _undo,
    Verb.TAG: _tag,
    Verb.UNTAG: lambda step, _: Command(("tag", "delete", TAGS[step.pick % len(TAGS)])),
    Verb.SCHEMA: _schema,
    Verb.OPTIMIZE: _optimize,
    Verb.INDEX: _index,
    Verb.CLEANUP: _cleanup,
    Verb.REPAIR: lambda step, _: Command(("repair", "--branch", step.branch), is_write=False),
    Verb.RECOVER: lambda *_: _reading("recovery", "run"),
    Verb.EXPORT: lambda step, _: _reading("export", "--branch", step.branch),
    Verb.EXPORT_AT: _export_at,
    Verb.QUERY: lambda step, _: _reading("query", "-e", QUERY, "--branch", step.branch),
    Verb.HOPS: lambda step, _: _reading("query", "-e", HOPS, "--branch", step.branch),
    Verb.LIST: lambda step, _: _reading("commit", "list", "--branch", step.branch, "--limit", "20"),
    Verb.STATUS: lambda *_: _reading("status"),
    Verb.DOCTOR: lambda *_: _reading("doctor"),
}


def _another(step: Step) -> str:
    return "exp" if step.other != "exp" else "dev"
