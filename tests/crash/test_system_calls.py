"""Killed at system calls that no failpoint of ours sees: exactly before or exactly after, and durable."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pytest

from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.durability import own_files
from omnigraph_core.tables.refs import TableRef
from tests.support.injection import CALLS, SYNCS, possible_cuts, run_traced, spread, synced_paths, victim
from tests.support.scenarios import SETTINGS, Prepare, Scenario, check_outcome
from tests.support.writers import content, open_graph

SCENARIOS = {
    "publish": Scenario(),
    "publish that forks": Scenario(branch="dev"),
    "rollback": Scenario(death="write.table_committed.2", outcome="before"),
    "roll forward": Scenario(death="write.after_b", outcome="after"),
    "completion": Scenario(death="write.published", outcome="after"),
}
CUTS = {
    "publish": 5,
    "publish that forks": 3,
    "rollback": 3,
    "roll forward": 2,
    "completion": 2,
}
SIZES = [
    *(pytest.param(name, count, id=f"{name}, {count} cuts") for name, count in CUTS.items()),
    *(
        pytest.param(name, 40, id=f"{name}, 40 cuts", marks=[pytest.mark.soak, pytest.mark.timeout(900)])
        for name in CUTS
    ),
]


@pytest.mark.parametrize(("name", "count"), SIZES)
def test_killed_at_system_calls(
    name: str, count: int, prepare: Prepare, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    scenario = SCENARIOS[name]
    log = tmp_path / "strace.log"
    root = prepare(scenario, "dry")
    dry = run_traced(scenario.command(root), log, CALLS)
    assert dry.code == 0, dry.err
    cuts = possible_cuts(dry, root)
    assert {cut.call for cut in cuts} >= {"write", "fsync", "renameat", "linkat", "unlinkat"}
    killed = 0
    for number, cut in enumerate(spread(cuts, count, seed=count)):
        root = prepare(scenario, f"g{number}")
        done = run_traced(scenario.command(root), log, [cut.call], f"{cut.call}:signal=KILL:when={cut.nth}")
        assert done.code in (0, -signal.SIGKILL), done.err
        killed += done.code != 0
        try:
            check_outcome(root, scenario, acknowledged=done.code == 0)
        except Exception as error:
            raise AssertionError(f"after a kill at {cut}") from error
        shutil.rmtree(root)
    record_property("cuts", killed)
    assert killed >= count * 0.6, "the cuts missed their calls"


# What may be lost without harm: see `tables/durability.py`, and a lock's file is synced by name once.
STAGED = {"data", "_deletions"}
UNSYNCED = {"_transactions", "latest_version_hint.json", "__locks"}


@pytest.mark.parametrize(
    "deaths",
    [
        [],
        ["write.table_committed.2"],
        ["write.after_b"],
        ["manifest.after_publish"],
        ["write.table_committed.2", "manifest.after_publish"],
        ["write.after_b", "manifest.after_publish"],
    ],
    ids=lambda deaths: " then ".join(deaths) or "alive",
)
@pytest.mark.parametrize("branch", ["main", "dev"])
def test_everything_that_stays_was_synced(
    branch: str, deaths: list[str], prepare: Prepare, tmp_path: Path
) -> None:
    """By the writer, the recovery of it or the recovery of that: new files and what names them."""
    root = prepare(Scenario(branch=branch), "g")
    before = set(root.rglob("*"))
    log = tmp_path / "strace.log"
    command = victim("write", root, branch, "second")
    synced: set[str] = set()
    for death in deaths:
        done = run_traced(command, log, SYNCS, OMNIGRAPH_FAILPOINTS=f"{death}=kill")
        assert done.code == -signal.SIGKILL
        synced |= synced_paths(done)
        command = victim("recover", root)
    synced |= synced_paths(run_traced(command, log, SYNCS))
    graph = open_graph(root, SETTINGS)
    rolled_back = "second" not in content(graph, branch)["node:Person"]
    check_synced(root, before, synced, but_staged=rolled_back)


def check_synced(root: Path, before: set[Path], synced: set[str], *, but_staged: bool = False) -> None:
    """`but_staged`: files of a write that was rolled back are there, and nothing uses them."""
    new = [path for path in root.rglob("*") if path not in before]
    kept = [path for path in new if not UNSYNCED & set(path.relative_to(root).parts)]
    if but_staged:
        kept = [path for path in kept if path.parent.name != "data" or "__manifest" in path.parts]
    # What a write that died had written ahead of its publish belongs to no version.
    ahead = {path for path in kept if path.parent.name in STAGED} - referred(root)
    kept = [path for path in kept if path not in ahead]
    assert len(kept) > 5
    missing = [path for path in kept if path.is_file() and str(path) not in synced]
    assert not missing, "files: " + ", ".join(str(path.relative_to(root)) for path in missing)
    unnamed = {path.parent for path in kept if str(path.parent) not in synced}
    assert not unnamed, "directories: " + ", ".join(str(path.relative_to(root)) for path in unnamed)


def referred(root: Path) -> set[Path]:
    """The data and deletion files of every version of every dataset."""
    found: set[Path] = set()
    for versions in root.rglob("_versions"):
        dataset = lance.dataset(str(versions.parent))
        for version in dataset.versions():
            table = Table(TableRef("any", str(versions.parent)), dataset.checkout_version(version["version"]))
            found |= {Path(path) for path in own_files(table)}
    return found


@pytest.mark.parametrize(
    ("verb", "death"),
    [
        (["create"], "branch.manifest_created"),
        (["write", "second"], "tables.fork_created"),
        (["write", "second"], "write.forked"),
    ],
)
def test_what_a_dead_process_made_is_synced_before_it_is_used(
    verb: list[str], death: str, prepare: Prepare, tmp_path: Path
) -> None:
    """Branches and forks have no sidecar: whoever comes next takes them as they are."""
    root = prepare(Scenario(), "g")
    before = set(root.rglob("*"))
    log = tmp_path / "strace.log"
    if verb != ["create"]:
        open_graph(root, replace(SETTINGS, fsync=True)).create_branch("dev")
        before = set(root.rglob("*"))
    dying = victim(verb[0], root, "dev", *verb[1:])
    done = run_traced(dying, log, SYNCS, OMNIGRAPH_FAILPOINTS=f"{death}=kill")
    assert done.code == -signal.SIGKILL
    after = run_traced(victim("write", root, "dev", "third"), log, SYNCS)
    assert after.code == 0, after.err
    check_synced(root, before, synced_paths(done) | synced_paths(after))
