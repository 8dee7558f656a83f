"""Blame and the history of entities in random histories, against a replay of every commit.

The replay holds the state of every commit, taken when it was made, and follows a property as the
promise says: to the first parent if the value is the same there, else to the merged parent if it is
the same there, else it is the commit's own.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from omnigraph_core.diff.trails import Limit
from omnigraph_core.graph import Graph
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.merge.run import MergeConflicts
from omnigraph_core.settings import Settings
from omnigraph_core.write.branches import BranchHasDescendants
from tests.support.records import edge, node, write_jsonl

SCHEMA = """
node Item { k: String @key  a: I64?  b: I64? }
node Other { k: String @key }
edge Link: Item -> Item { w: I64? }
"""
RENAMED = """
node Thing @rename_from("Item") { k: String @key  x: I64? @rename_from("a")  b: I64?  c: I64? @default(7) }
node Other { k: String @key }
edge Link: Thing -> Thing { w: I64? }
"""
BRANCHES = ("main", "dev", "exp")
IDS = tuple("pqrst")

Row = dict[str, object]
State = dict[str, Row]
"""The entities of a state by type and id, with properties by the names they have in the end."""


class Replay:
    """A graph, and the state of every commit it ever had."""

    def __init__(self, place: Path, seed: int) -> None:
        self.random = random.Random(f"blame {seed}")
        self.place = place
        self.graph = Graph.init(str(place / "g"), SCHEMA, Settings(fsync=False, actor="ann"))
        self.states: dict[str, State] = {}
        self.commits: dict[str, GraphCommit] = {}
        self.names = {"a": "a"}
        self.purged: set[Branch] = set()
        self.keep_up()
        for name in BRANCHES[1:]:
            self.graph.create_branch(name)

    def keep_up(self) -> None:
        for commit_id, commit in self.graph.log().commits.items():
            if commit_id not in self.states:
                self.commits[commit_id] = commit
                self.states[commit_id] = self.state(commit_id)

    def state(self, commit_id: str) -> State:
        found: State = {}
        for line in b"".join(self.graph.export(commit_id)).splitlines():
            record = json.loads(line)
            row = dict(record["data"])
            if "edge" in record:
                row |= {"src": record["from"], "dst": record["to"]}
            row = {self.names.get(name, name): value for name, value in row.items()}
            entity_id = str(record.get("id") or row.pop("id", None) or row["k"])
            row.pop("id", None)
            found[f"{record.get('type') or record['edge']}/{entity_id}".replace("Item/", "Thing/")] = row
        return found

    def value(self) -> int:
        return self.random.randrange(3)

    def write(self, branch: str) -> None:
        """One commit of any kind, or none."""
        graph, chance, key = self.graph, self.random.random(), self.random.choice(IDS)
        here = [name.partition("/")[2] for name in self.head(branch) if name.startswith("Thing/")]
        if chance < 0.35 and here:
            name = self.random.choice("ab")
            statement = f'update Item set {{ {name}: {self.value()} }} where k = "{self.random.choice(here)}"'
            graph.change(f"query q() {{ {statement} }}", branch=branch)
        elif chance < 0.5:
            graph.change(f'query q() {{ delete Item where k = "{key}" }}', branch=branch)
        elif chance < 0.55:
            graph.change(f'query q() {{ insert Other {{ k: "{len(self.states)}" }} }}', branch=branch)
        else:
            overwrites = chance > 0.93
            keys = IDS if overwrites else self.random.sample(IDS, 2)
            records = [node("Item", k=each, a=self.value(), b=self.value()) for each in keys]
            ends = self.random.choices(keys, k=2)
            records.append(edge("Link", *ends, id=self.random.choice("mn"), w=self.value()))
            mode = LoadMode.OVERWRITE if overwrites else LoadMode.MERGE
            graph.load([write_jsonl(self.place / "rows", records)], mode, branch=branch)

    def head(self, branch: str) -> State:
        head = self.graph.head(branch)
        assert head is not None
        return self.states[head.commit_id]

    def merge(self, one: str, other: str) -> None:
        """A strategy settles values; where rules are broken, nothing is merged."""
        try:
            self.graph.merge(one, other, strategy=self.random.choice(("ours", "theirs")))
        except MergeConflicts:
            return

    def revert(self, branch: str) -> None:
        head = self.graph.head(branch)
        if head is not None and head.parent_commit_id is not None:
            try:
                self.graph.revert(branch, branch, strategy="theirs")
            except MergeConflicts:
                return

    def step(self) -> None:
        one, other = self.random.sample(BRANCHES, 2)
        chance = self.random.random()
        if chance < 0.55:
            self.write(one)
        elif chance < 0.8:
            self.merge(one, other)
        elif chance < 0.87:
            self.revert(one)
        elif chance < 0.91:
            self.graph.reset_branch(one, other)
        elif chance < 0.96:
            self.graph.optimize(branch=one)
        elif one != "main":
            on = self.graph.snapshot(one).on
            try:
                self.graph.delete_branch(one)
            except BranchHasDescendants:
                return
            if self.random.random() < 0.5:
                self.graph.undelete_branch(one)
            else:
                self.purged.add(on)
                self.graph.create_branch(one, other)
        self.keep_up()

    # ---- what must come out ----

    def parents(self, commit_id: str) -> list[str]:
        commit = self.commits[commit_id]
        return [
            each for each in (commit.parent_commit_id, commit.merged_parent_commit_id) if each is not None
        ]

    def way(self, commit_id: str, entity: str, name: str) -> list[str]:
        """The commits that a value is followed through; the last one has set it."""
        way = []
        while True:
            way.append(commit_id)
            row = self.states[commit_id][entity]
            for parent in self.parents(commit_id):
                before = self.states[parent].get(entity, {})
                if name in before and before[name] == row[name]:
                    commit_id = parent
                    break
            else:
                return way

    def is_purged(self, commit: GraphCommit | None) -> bool:
        """Did it go with its branch, when another one got the name?"""
        return commit is not None and commit.on in self.purged

    def changing(self, commits: list[GraphCommit], entity: str) -> list[str]:
        found = []
        for commit in commits:
            parent = commit.parent_commit_id
            now = self.states[commit.commit_id].get(entity)
            was = None if parent is None else self.states[parent].get(entity)
            shared = {} if now is None or was is None else {name: was[name] for name in was if name in now}
            if (now is None) != (was is None) or any(now[name] != was[name] for name in shared):  # type: ignore[index]
                found.append(commit.commit_id)
        return found


def check(replay: Replay, branches: tuple[str, ...], type_name: str) -> int:
    """Every entity of the branches; returns how many origins lie on the other side of a merge."""
    merged = 0
    graph = Graph.open(str(replay.place / "g"), Settings(fsync=False))
    log = graph.log()
    for branch in branches:
        first_parents = {each.commit_id for each in log.first_parents(log.heads[branch])}
        for entity in replay.states[log.heads[branch]]:
            kind, _, entity_id = entity.partition("/")
            if kind == "Other":
                continue
            found = graph.blame(type_name if kind == "Thing" else kind, entity_id, branch=branch)
            row = replay.states[log.heads[branch]][entity]
            assert {each.property: each.value for each in found.origins} == row
            for each in found.origins:
                way = replay.way(log.heads[branch], entity, each.property)
                if each.limit is None:
                    assert each.commit.commit_id == way[-1], (branch, entity, each.property)
                    merged += way[-1] not in first_parents
                else:
                    beyond = way[way.index(each.commit.commit_id) + 1]
                    assert beyond == each.commit.merged_parent_commit_id
                    assert each.limit is Limit.BRANCH_DELETED
                    assert replay.is_purged(replay.commits[beyond])
        for entity in [f"Thing/{key}" for key in IDS] + ["Link/m"]:
            kind, _, entity_id = entity.partition("/")
            name = type_name if kind == "Thing" else kind
            touched = graph.commits(branch, type_name=name, entity_id=entity_id)
            expected = replay.changing(log.history(branch), entity)
            lost = {each.commit_id for each in log.history(branch) if replay.is_purged(each)}
            known = [each for each in expected if each not in lost]
            assert [each.commit_id for each in touched.commits] == known, (branch, entity)
            assert {each.commit.commit_id for each in touched.unknown} == lost
    return merged


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 30))])
def test_blame_is_what_a_replay_of_all_commits_gives(seed: int, tmp_path: Path) -> None:
    replay = Replay(tmp_path, seed)
    for _ in range(45):
        replay.step()
    merged = check(replay, BRANCHES, "Item")
    replay.graph.apply_schema(RENAMED)
    replay.names = {"a": "x"}
    for state in replay.states.values():
        for row in state.values():
            if "a" in row:
                row["x"] = row.pop("a")
    replay.keep_up()
    replay.graph.change('query q() { insert Thing { k: "new", c: 1 } }')
    replay.graph.change("query q() { update Thing set { x: 9 } where b = 1 }")
    replay.keep_up()
    merged += check(replay, ("main",), "Thing")
    assert merged
