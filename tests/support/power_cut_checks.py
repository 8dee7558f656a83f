"""After a power cut: every kind of command, and whether each found what it must.

A graph is exactly as before or as after each thing that was going on; what was
acknowledged is there, with its commit and its actor; nothing needs a person. The
commands come in an order drawn by the seed, each as a process of its own would run it
(opened anew), because the first one that writes has to clear up for all of them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path

from omnigraph_core.graph import Graph, GraphNotFound, OpenMode
from omnigraph_core.load.modes import LoadMode
from tests.support.power_cut_programs import (
    ADD,
    EVOLVED_ROWS,
    EVOLVED_SCHEMA,
    Program,
    Rows,
    Step,
    World,
    quick,
    rows_of,
)
from tests.support.records import PEOPLE
from tests.support.writers import check_whole

Commits = Sequence[tuple[str | None, str | None, str]]

ADD_COMPANY = "query add($n: String) { insert Company { name: $n } }"
PROBE = "probe"


def observe(home: Path) -> World:
    """Read every branch and every tag there is, without writing anything."""
    try:
        graph = Graph.open(str(home / "g"), quick(home))
    except GraphNotFound:
        return {}
    tags = {f"tag:{tag.name}": _rows(graph, "main", f"tag:{tag.name}") for tag in graph.tags()}
    return {branch: _rows(graph, branch) for branch in graph.branches()} | tags


def _rows(graph: Graph, branch: str, ref: str | None = None) -> Rows:
    records = [json.loads(line) for line in b"".join(graph.export(ref, branch=branch)).splitlines()]
    rows = [_row(record) for record in records]
    assert len(set(rows)) == len(rows), f"a row of {branch} is there twice"
    moods = {str(record["data"].get("mood")) for record in records if record.get("type") == "Person"}
    is_evolved = graph.catalog_of(branch=branch).schema == EVOLVED_SCHEMA
    assert moods <= {"fine" if is_evolved else "None"}, f"people of {branch} are {moods}"
    return frozenset({*rows, *(EVOLVED_ROWS if is_evolved else ())})


def _row(record: Mapping[str, object]) -> tuple[str, ...]:
    if "edge" in record:
        return (str(record["edge"]), str(record["from"]), str(record["to"]))
    data = record["data"]
    assert isinstance(data, dict)
    return (str(record["type"]), str(data["name"]))


def possible(before: World, steps: Sequence[Step], done: set[str]) -> Iterator[tuple[set[str], World]]:
    """Every state in which the graph may be, each with the steps it takes for done."""
    subsets = chain.from_iterable(combinations(steps, count) for count in range(len(steps) + 1))
    for chosen in subsets:
        names = {step.name for step in chosen}
        if done & {step.name for step in steps} <= names:
            world = before
            for step in chosen:
                world = step.apply(world)
            yield names, world


def check(home: Path, program: Program, before: World, promised: Mapping[str, Commits], seed: str) -> None:
    """Raises what is wrong: an assertion, or the error of the command that failed."""
    done = set(promised)
    seen = observe(home)
    readable = dict(_keyed(possible(before, program.steps, done)))
    between = dict(_keyed(possible(before, program.in_between, set()))) if not done else {}
    assert _key(seen) in {**readable, **between}, f"readers see {_show(seen, before)}"
    if not seen:
        Graph.init(str(home / "g"), PEOPLE, quick(home))
        before, readable = {"main": frozenset()}, {_key({"main": frozenset()}): set()}
    commands = _commands(home, random.Random(seed))
    added: dict[str, Rows] = {}
    for command in commands:
        for branch, rows in command().items():
            added[branch] = added.get(branch, frozenset()) | rows
    after = observe(home)
    for branch, rows in added.items():
        assert branch in after, f"branch {branch} was written to and is gone"
        assert rows <= after[branch], f"{branch} lost {sorted(rows - after[branch])}, written after the cut"
    plain = {branch: rows - added.get(branch, frozenset()) for branch, rows in after.items()}
    assert _key(plain) in readable, f"in the end there is {_show(plain, before)}"
    undone = readable.get(_key(seen), set()) - readable[_key(plain)]
    assert not undone, f"readers saw {undone}, and then it was undone"
    _check_history(home, promised)
    _contest(home, program.contested)
    program.again(home)


def _commands(home: Path, chance: random.Random) -> list[Callable[[], dict[str, Rows]]]:
    commands: list[Callable[[], dict[str, Rows]]] = [
        chance.choice([lambda: _change(home, "main", "main"), lambda: _load(home)]),
        lambda: _change_branches(home),
        lambda: _branch_and_back(home, "fresh"),
        lambda: _list(home),
    ]
    chance.shuffle(commands)
    return commands


def _open(home: Path, actor: str = "prober") -> Graph:
    return Graph.open(str(home / "g"), quick(home, actor), OpenMode.READ_WRITE)


def _change(home: Path, branch: str, name: str) -> dict[str, Rows]:
    name = f"{PROBE}-{name}"
    assert _open(home).change(ADD, params={"n": name}, branch=branch, actor=name).commit_id
    return {branch: rows_of(name)}


def _change_branches(home: Path) -> dict[str, Rows]:
    """On every branch: the tables that are forked already, and one that is not."""
    added: dict[str, Rows] = {}
    for branch in sorted({*_open(home).branches()} - {"main"}):
        added |= _change(home, branch, f"on-{branch}")
        name = f"{PROBE}-company"
        assert _open(home).change(ADD_COMPANY, params={"n": name}, branch=branch).commit_id
        added[branch] |= {("Company", name)}
    return added


def _load(home: Path) -> dict[str, Rows]:
    records = home.with_name("probe.jsonl")
    records.write_text(json.dumps({"type": "Person", "data": {"name": f"{PROBE}-loaded"}}) + "\n")
    assert _open(home).load([str(records)], LoadMode.MERGE).commit_id
    return {"main": frozenset({("Person", f"{PROBE}-loaded")})}


def _branch_and_back(home: Path, name: str) -> dict[str, Rows]:
    start = _rows(_open(home), "main")
    _open(home).create_branch(name)
    assert name in _open(home).branches()
    added = _change(home, name, "passing")[name]
    assert _rows(_open(home), name) == start | added
    _open(home).delete_branch(name)
    assert name not in _open(home).branches()
    return {}


def _list(home: Path) -> dict[str, Rows]:
    """As the listing commands do: repair if something is pending, then list."""
    graph = Graph.open(str(home / "g"), quick(home))
    if graph.has_pending():
        graph.prepare_for_writing()
        assert not graph.has_pending()
    log = graph.log()
    assert set(log.heads) == set(graph.branches())
    for branch in graph.branches():
        assert log.history(branch)[-1].parent_commit_id is None, f"history of {branch} has a hole"
    return {}


def _check_history(home: Path, promised: Mapping[str, Commits]) -> None:
    graph = _open(home)
    check_whole(graph)
    log = graph.log()
    for commit_id, actor, branch in chain.from_iterable(promised.values()):
        if branch in log.heads:
            found = {commit.commit_id: commit for commit in log.history(branch)}
            assert commit_id in found, f"{branch} has lost the acknowledged commit of {actor}"
            assert found[commit_id].actor_id == actor, f"{found[commit_id].actor_id} instead of {actor}"
    for commit in log.commits.values():
        assert commit.actor_id is not None, f"commit {commit.commit_id} ({commit.operation}) has no actor"
    recovered = [each.operation_id for each in graph.recoveries()]
    assert len(set(recovered)) == len(recovered), "a recovery is recorded twice"


def _contest(home: Path, name: str) -> None:
    """The branch that was being made or deleted: deleted if it is there, and made again."""
    if name in _open(home).branches():
        _open(home).delete_branch(name)
    _branch_and_back(home, name)


def _key(world: World) -> frozenset[tuple[str, Rows]]:
    return frozenset(world.items())


def _keyed(
    worlds: Iterator[tuple[set[str], World]],
) -> Iterator[tuple[frozenset[tuple[str, Rows]], set[str]]]:
    return ((_key(world), names) for names, world in worlds)


def _show(world: World, before: World) -> str:
    """By what it differs from before."""
    parts = [f"no {branch}" for branch in before if branch not in world]
    for branch, rows in world.items():
        old = before.get(branch)
        more, less = rows - (old or frozenset()), (old or frozenset()) - rows
        parts.append(f"{branch}{'' if old is not None else ' (new)'} +{sorted(more)} -{sorted(less)}")
    return "; ".join(parts)
