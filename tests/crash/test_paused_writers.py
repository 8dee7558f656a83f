"""A process that sleeps past its lease, at every failpoint it passes with a lease in its hand.

Meanwhile another one takes over, writes and is told success. Then the sleeper wakes up. It may fail,
or succeed truthfully; nothing that anybody was told is lost, nothing is there twice, the history has
no hole, and the next write needs nobody's help. Which failpoints there are is found out by a run
that is left in peace, so new ones are covered without being named here.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.settings import load_settings
from omnigraph_core.tables.refs import control_table
from tests.support import warm
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.records import PEOPLE
from tests.support.sleepers import Ended, Place, apply_another, asleep, ended, start, wake
from tests.support.writers import check_audits, check_whole, open_graph, write_three

# The lease of a sleeper, or of one that dies, runs out soon; on a busy machine that may be too soon to
# come to its place, and the next one gets more. Those who take over have the time everybody has.
TTL_FIRST_S = 1
TTL_MAX_S = 16
SEED_VARIABLE = "PAUSED_WRITERS_SEED"
# Looking at everything takes longer with every commit there is: from then on another graph is used.
PAUSES_A_WORLD = 8


@dataclass(frozen=True)
class Scene:
    """Who sleeps: its verb, on which branch, and where a writer before it has died."""

    verb: str
    own_branch: bool = False
    death: str | None = None
    rival_applies: bool = False
    """Who takes over changes the schema first."""


SCENES = {
    "load": Scene("load"),
    "first load on a branch": Scene("load", own_branch=True),
    "change": Scene("change"),
    "index": Scene("index"),
    "schema apply": Scene("schema apply"),
    "schema apply on a branch": Scene("schema apply", own_branch=True),
    "load beside an apply": Scene("load", rival_applies=True),
    "change beside an apply": Scene("change", own_branch=True, rival_applies=True),
    "index beside an apply": Scene("index", rival_applies=True),
    "apply beside an apply": Scene("schema apply", rival_applies=True),
    "rollback beside an apply": Scene("recovery run", death="write.table_committed.2", rival_applies=True),
    "optimize": Scene("optimize"),
    "cleanup": Scene("cleanup"),
    "rollback": Scene("recovery run", death="write.table_committed.2"),
    "rollback of forks": Scene("recovery run", own_branch=True, death="write.table_committed.2"),
    "roll forward": Scene("recovery run", death="write.after_b"),
    "completion": Scene("recovery run", death="write.published"),
}
UPKEEP = {"index", "optimize", "cleanup"}
SAMPLE = 1
# The normal run has one place of each verb and of each way to recover, and leaves the rest to the soak.
SOAKED = {"schema apply on a branch", "rollback of forks"}
SAMPLED = [
    name
    for name, scene in SCENES.items()
    if name not in SOAKED and (not scene.rival_applies or scene.verb == "schema apply")
]
SHORT, LONG = [pytest.mark.timeout(900)], [pytest.mark.soak, pytest.mark.timeout(3600)]
SIZES = [
    *(pytest.param(name, SAMPLE, id=f"{name}, {SAMPLE} place", marks=SHORT) for name in SAMPLED),
    *(pytest.param(name, None, id=f"{name}, all", marks=LONG) for name in SCENES),
]


class World:
    """One graph on S3 for several pauses of a scene, and everything that anybody was told about it."""

    def __init__(self, place: str, environment: dict[str, str], ttl_s: float = TTL_FIRST_S) -> None:
        self.place, self.environment = place, environment
        self.settings = settings = load_settings(environment, Path("/"))
        self.told: dict[str, set[str]] = {"main": {"first"}}
        self.ttl_s = ttl_s
        self._numbers = 0
        write_three(Graph.init(place, PEOPLE, settings), "first")

    def new_name(self, kind: str) -> str:
        self._numbers += 1
        return f"{kind}{self._numbers}"

    @property
    def short_lease(self) -> dict[str, str]:
        return self.environment | {"OMNIGRAPH_LEASE_TTL": str(self.ttl_s)}

    def lengthen_lease(self) -> None:
        self.ttl_s = min(2 * self.ttl_s, TTL_MAX_S)

    def branch_for(self, scene: Scene) -> str:
        if not scene.own_branch:
            return "main"
        branch = self.new_name("dev")
        self.open().create_branch(branch)
        self.told[branch] = set(self.told["main"])
        return branch

    def open(self) -> Graph:
        """As a new process would see it."""
        return open_graph(self.place, self.settings)

    def write(self, branch: str, kind: str) -> None:
        name = self.new_name(kind)
        write_three(self.open(), name, branch)
        self.told[branch].add(name)

    def apply(self, branch: str) -> str:
        """Returns the hash of the schema that the branch has now."""
        apply_another(self.open(), branch, self.new_name("rival"))
        head = self.open().head(branch)
        assert head is not None
        return head.schema_hash

    def let_die(self, branch: str, step: str) -> str:
        while True:
            name = self.new_name("dead")
            done = warm.run(
                [sys.executable, "-m", "tests.support.writers", self.place, branch, name],
                env=clean_environment(**self.short_lease, OMNIGRAPH_FAILPOINTS=f"{step}=kill"),
                cwd=REPOSITORY,
                capture_output=True,
                check=False,
            )
            if done.returncode == -signal.SIGKILL:
                return name
            assert b"LockLost" in done.stderr, done.stderr
            self.lengthen_lease()

    def people(self, branch: str) -> list[str]:
        """With repetitions, if there are any."""
        graph = self.open()
        entry = graph.snapshot(branch).entry("node:Person")
        rows = graph.door.tables.open(entry.ref, entry.table_version).read(["id"])
        return sorted(rows.column("id").to_pylist())


def check_world(world: World, branch: str, doubtful: set[str]) -> None:
    """`doubtful`: who may be there or not, because nobody was told that they are."""
    found = world.people(branch)
    assert len(set(found)) == len(found), "a row is there twice"
    assert world.told[branch] <= set(found), "an acknowledged row is lost"
    assert set(found) <= world.told[branch] | doubtful, "a row is there that nobody wrote"
    graph = world.open()
    check_whole(graph)
    check_audits(graph)
    view = graph.at(branch=branch)
    assert {entity.table_key for entity in view.schema.types()} == set(view.snapshot.tables)
    for entity in view.schema.types():
        entry = view.snapshot.entry(entity.table_key)
        stored = graph.door.tables.open(entry.ref, entry.table_version).schema.names
        assert sorted(stored) == sorted(table_schema(entity).names), entity.table_key
    for ref, key in (
        (commits_ref(branch), "graph_commit_id"),
        (control_table(layout.COMMIT_ACTORS), "graph_commit_id"),
        (control_table(layout.RECOVERIES), "operation_id"),
    ):
        if graph.door.tables.exists(ref):
            ids = graph.door.tables.open(ref).read([key]).column(key).to_pylist()
            assert len(set(ids)) == len(ids), f"{ref.key}: an id is there twice"


def begin(world: World, scene: Scene, stop: Place | None) -> tuple[subprocess.Popen[str], str, set[str]]:
    """Start the process that will sleep; its branch, and those whose fate is open."""
    branch = world.branch_for(scene)
    if scene.verb in UPKEEP:
        world.write(branch, "unindexed")
    doubtful = {world.let_die(branch, scene.death)} if scene.death else set()
    name = world.new_name("sleeper")
    environment = world.short_lease if stop else world.environment
    process = start(world.place, scene.verb, branch, name, stop, environment)
    return process, branch, doubtful | ({name} if scene.verb in ("load", "change") else set())


def pause(world: World, scene: Scene, stop: Place) -> bool:
    """One pause at one place, and everything that must hold afterwards; False if it never came there."""
    process, branch, doubtful = begin(world, scene, stop)
    with asleep(process) as sleeps:
        if not sleeps:
            world.lengthen_lease()
            world.told[branch] |= {name for name in world.people(branch) if name in doubtful}
            return False
        applied_by_rival = world.apply(branch) if scene.rival_applies else None
        world.write(branch, "rival")
        done = wake(process)
    if done.error is None and scene.verb in ("load", "change"):
        check_success(world, branch, done, doubtful)
    if done.error is None and scene.verb == "schema apply":
        check_applied(world, branch, done, applied_by_rival)
    world.write(branch, "next")
    check_world(world, branch, doubtful)
    world.told[branch] |= set(world.people(branch)) & doubtful
    return True


def check_applied(world: World, branch: str, done: Ended, applied_by_rival: str | None) -> None:
    history = world.open().log().history(branch)
    (commit,) = [each for each in history if each.commit_id == done.commit_id]
    head = world.open().head(branch)
    assert head is not None
    assert head.schema_hash in {commit.schema_hash, applied_by_rival}


def check_success(world: World, branch: str, done: Ended, doubtful: set[str]) -> None:
    """What the sleeper says it has done is there, and in the history."""
    (name,) = doubtful
    world.told[branch].add(name)
    history = world.open().log().history(branch)
    assert [each.commit_id for each in history].count(done.commit_id or "") == 1


@pytest.fixture
def environment(s3_environment: dict[str, str]) -> dict[str, str]:
    return {**s3_environment, "OMNIGRAPH_ACTOR": "ann"}


@pytest.mark.parametrize(("name", "count"), SIZES)
def test_a_sleeper_does_no_harm_wherever_it_falls_asleep(
    name: str, count: int | None, environment: dict[str, str], s3_location: Callable[[], str]
) -> None:
    scene = SCENES[name]
    world = World(s3_location(), environment)
    places = left_in_peace(world, scene)
    seed = int(os.environ.get(SEED_VARIABLE) or random.randrange(1 << 32))
    random.Random(seed).shuffle(places)
    reached = 0
    for number, place in enumerate(places):
        if reached == count:
            break
        if number % PAUSES_A_WORLD == PAUSES_A_WORLD - 1:
            world = World(s3_location(), environment, world.ttl_s)
            left_in_peace(world, scene)
        try:
            reached += pause(world, scene, place)
        except Exception as error:
            raise AssertionError(f"asleep at {place}; again with {SEED_VARIABLE}={seed}") from error
    assert reached >= (count or len(places) / 2), "the pauses missed their places"


def left_in_peace(world: World, scene: Scene) -> list[Place]:
    """Where a process comes by that nobody disturbs."""
    process, branch, doubtful = begin(world, scene, None)
    peaceful = ended(process)
    assert peaceful.error is None, peaceful
    world.told[branch] |= set(world.people(branch)) & doubtful
    least = 4 if scene.verb in UPKEEP else 8
    assert len(peaceful.passed) >= least, f"the recording saw almost no failpoint: {peaceful.passed}"
    return list(peaceful.passed)
