"""A disk that fails or fills up: an error and exactly before or after, never a success that is not one."""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.refs import TableRef
from tests.support.injection import (
    FAILED,
    SYNCS,
    Cut,
    Traced,
    possible_cuts,
    run_traced,
    synced_paths,
    victim,
    written_anew,
)
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.programs import require_program
from tests.support.records import PEOPLE
from tests.support.scenarios import SETTINGS, Prepare, Scenario, check_outcome
from tests.support.writers import open_graph, write_three

SCENARIOS = {
    "publish": Scenario(),
    "publish that forks": Scenario(branch="dev"),
    "rollback": Scenario(death="write.table_committed.2", outcome="before"),
    "completion": Scenario(death="write.published", outcome="after"),
}
# Not `write`: Lance's threads wake each other by writing to an eventfd, and one that fails leaves them
# waiting for ever. A disk that fails in the middle of a write is the really full one below.
FAULTS = {
    "no space for a name": ("renameat", "ENOSPC"),
    "no link": ("linkat", "EIO"),
    "no sync": ("fsync", "EIO"),
}

PLANS = [
    ("publish", "no space for a name", 3),
    ("publish", "no link", 2),
    ("publish", "no sync", 8),
    ("publish that forks", "no sync", 3),
    ("rollback", "no sync", 2),
    ("completion", "no sync", 2),
    ("completion", "no link", 1),
]
SIZES = [
    *(pytest.param(*plan, id=f"{plan[0]}, {plan[1]}") for plan in PLANS),
    *(
        pytest.param(scenario, fault, 60, id=f"{scenario}, {fault}, all", marks=pytest.mark.soak)
        for scenario in SCENARIOS
        for fault in FAULTS
    ),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "fault", "count"), SIZES)
def test_a_failing_disk(
    name: str,
    fault: str,
    count: int,
    prepare: Prepare,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    scenario = SCENARIOS[name]
    call, error = FAULTS[fault]
    log = tmp_path / "strace.log"
    root = prepare(scenario, "g")
    dry = run_traced(scenario.command(root), log, [call])
    assert dry.code == 0, dry.err
    places = sync_places(dry, root) if call == "fsync" else possible_cuts(dry, root)
    random.Random(count).shuffle(places)
    # Calls are counted by thread, and Lance has some: few numbers, each of which hits several calls.
    assert len(places) >= min(count, 2)
    judged, wanted = 0, min(count, len(places))
    for place in 3 * places:  # Where another thread makes the Nth call this time, the fault misses.
        if judged == wanted:
            break
        shutil.rmtree(root)
        prepare(scenario, "g")
        nth, only = (1, place) if isinstance(place, str) else (place.nth, None)
        calls = SYNCS if call == "fsync" else [call]
        done = run_traced(scenario.command(root), log, calls, f"{call}:error={error}:when={nth}", only)
        judged += judge(done, call, scenario, root)
    record_property("faults", judged)
    assert judged >= wanted * 0.6, "the faults missed the graph"


def sync_places(dry: Traced, root: Path) -> list[Cut | str]:
    """Paths that are synced and will have the same names again: all but data and temporary files.

    By path rather than by number: many threads sync, and the Nth of each would fail several,
    those of the repair among them.
    """
    places = (path for path in synced_paths(dry) if path.startswith(str(root)))
    return sorted(
        path for path in places if not re.search(r"/(data|_deletions)/|/\.og-tmp|/_transactions", path)
    )


def judge(done: Traced, call: str, scenario: Scenario, root: Path) -> bool:
    """False when the fault fell on nothing, which proves nothing."""
    hits = done.injected
    where = f"{hits}\nexit code {done.code}\n{done.out}{done.err}"
    assert all(str(root) in line for line in hits), where
    assert done.code in (0, FAILED), where
    assert "Traceback" not in done.err, where
    if done.code == FAILED:
        assert re.search("^error: ", done.err, re.MULTILINE), where
        assert done.out == "", where
    if call == "fsync" and hits:
        assert not synced_again(done), f"a failed sync was tried again: {where}"
        assert done.code == FAILED or is_made_good(done), f"a failed sync was ignored: {where}"
    try:
        check_outcome(root, scenario, acknowledged=done.code == 0)
    except Exception as error:
        raise AssertionError(where) from error
    return bool(hits)


_SYNCED = re.compile(r"fsync\(\d+<(?P<path>[^>]*)>")


def synced_again(done: Traced) -> set[str]:
    """Files whose sync failed and was called again. Directories are: for the names that came later."""
    failed: set[str] = set()
    again: set[str] = set()
    for line in done.lines:
        match = _SYNCED.search(line)
        path = match["path"] if match else ""
        if path in failed and not Path(path).is_dir():
            again.add(path)
        if "INJECTED" in line:
            failed.add(path)
    return again


def is_made_good(done: Traced) -> bool:
    """What could not be synced was written anew; a directory was synced after new names came into it."""
    failed = {match["path"] for line in done.injected if (match := _SYNCED.search(line))}
    files = {path for path in failed if not Path(path).is_dir()}
    return bool(failed) and files <= written_anew(done) and failed - files <= synced_paths(done)


def manifest_of_next(root: Path, ref: TableRef) -> Path:
    """Where the next version of a dataset will be."""
    return root / manifest_path(ref, open_graph(root, SETTINGS).door.tables.open(ref).version + 1)


def write_with_failing_sync(root: Path, of: Path, log: Path, **environment: str) -> Traced:
    command = Scenario().command(root)
    done = run_traced(command, log, SYNCS, "fsync:error=EIO:when=1", str(of), **environment)
    assert done.injected
    return done


def test_a_publish_that_could_not_be_synced_is_written_anew(prepare: Prepare, tmp_path: Path) -> None:
    """A second sync would say that all is well, although the kernel has dropped the bytes."""
    root, log = prepare(Scenario(), "g"), tmp_path / "strace.log"
    path = manifest_of_next(root, manifest_ref("main"))
    done = write_with_failing_sync(root, path, log)
    assert done.code == 0, done.err
    assert "finished by recovery" in done.err
    assert str(path) in written_anew(done)
    assert not synced_again(done)
    assert check_outcome(root, Scenario(), acknowledged=True)


def test_who_recovers_a_publish_that_could_not_be_synced_writes_it_anew(
    prepare: Prepare,
    tmp_path: Path,
) -> None:
    """He was not told that the sync had failed; so he trusts none that is not his own."""
    root, log = prepare(Scenario(), "g"), tmp_path / "strace.log"
    path = manifest_of_next(root, manifest_ref("main"))
    dead = write_with_failing_sync(root, path, log, OMNIGRAPH_FAILPOINTS="recovery.deciding=kill")
    assert dead.code == -signal.SIGKILL
    done = run_traced(victim("recover", root), log, SYNCS)
    assert done.code == 0, done.err
    assert str(path) in written_anew(done)
    assert not [line for line in done.lines if "fsync" in line and str(path) in line]
    assert check_outcome(root, Scenario(), acknowledged=True)


def test_a_table_that_could_not_be_synced_stays_rolled_back(prepare: Prepare, tmp_path: Path) -> None:
    """The decision is on record before anything is done: whoever goes on does not find all in order."""
    root, log = prepare(Scenario(), "g"), tmp_path / "strace.log"
    ref = open_graph(root, SETTINGS).snapshot().entry("edge:Knows").ref
    path = manifest_of_next(root, ref)
    dead = write_with_failing_sync(root, path, log, OMNIGRAPH_FAILPOINTS="recovery.decided=kill")
    assert dead.code == -signal.SIGKILL
    assert not check_outcome(root, Scenario(), acknowledged=False)


# ---- a really full disk ----

FULL_DISK = """
mount -t tmpfs -o size=64m none disk || exit 99
cp -r pristine disk/g
used=$(df -k --output=used disk | tail -1)
mount -o remount,size=$((used + {free}))k disk || exit 99
"$0" -m tests.support.injection write "$PWD/disk/g" main second > out 2> err
echo $? > code
mount -o remount,size=64m disk || exit 99
"$0" -m tests.crash.test_disk_errors "$PWD/disk/g" $(cat code)
"""


@pytest.mark.parametrize(
    "free",
    [
        *(4, 32, 64),
        *(pytest.param(free, marks=pytest.mark.soak) for free in range(8, 160, 4) if free not in (32, 64)),
    ],
)
def test_a_full_disk(free: int, tmp_path: Path) -> None:
    """With `free` KiB left: a tmpfs in a mount namespace of its own, made larger before looking."""
    unshare = require_program("unshare")
    write_three(Graph.init(str(tmp_path / "pristine"), PEOPLE, SETTINGS), "first")
    (tmp_path / "disk").mkdir()
    done = subprocess.run(
        [
            *(unshare, "--user", "--map-root-user", "--mount"),
            *("sh", "-c", FULL_DISK.format(free=free), sys.executable),
        ],
        cwd=tmp_path,
        env=clean_environment(OMNIGRAPH_FSYNC="on", PYTHONPATH=str(REPOSITORY)),
        capture_output=True,
        text=True,
        check=False,
    )
    err = (tmp_path / "err").read_text()
    assert done.returncode == 0, f"{done.stderr}\nthe writer said: {err}"
    code = int((tmp_path / "code").read_text())
    assert code in (0, FAILED), err
    assert "Traceback" not in err
    assert code == 0 or "no space left" in err.lower(), err
    if free <= 32:
        assert code == FAILED


if __name__ == "__main__":
    check_outcome(Path(sys.argv[1]), Scenario(), acknowledged=sys.argv[2] == "0")
