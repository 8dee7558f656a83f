"""Killing `init` at every step: the next one makes a whole graph, and no half one is ever read."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from omnigraph_core.settings import Settings
from tests.support import warm
from tests.support.injection import run_traced, synced_paths, victim
from tests.support.paused import go_on, started, wait_until_stopped
from tests.support.processes import OMNIGRAPH, Omnigraph, clean_environment
from tests.support.writers import content, open_graph, write_three

BEFORE_EXISTENCE = [
    "lock.opened",
    "lock.acquired",
    "control.create.written",
    "control.create.visible",
    "init.recorded",
    "init.tables_created",
    "control.put.visible",
    "init.files_written",
]
AFTER_EXISTENCE = ["init.manifest_created", "init.synced", "control.delete.gone"]


@pytest.mark.parametrize("failpoint", BEFORE_EXISTENCE)
def test_killed_before_the_graph_exists(
    failpoint: str, omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    died = omnigraph(
        "init", "--schema", people, "g", environment={"OMNIGRAPH_FAILPOINTS": f"{failpoint}=kill"}
    )
    assert died.code == -signal.SIGKILL
    read = omnigraph("snapshot", "g")
    assert read.code == 6
    again = omnigraph("init", "--schema", people, "g")
    assert again.code == 0, again.err
    assert len(json.loads(omnigraph("snapshot", "g", "--json").out)["tables"]) == 4
    assert list((tmp_path / "g/__staging").iterdir()) == []


@pytest.mark.parametrize("failpoint", AFTER_EXISTENCE)
def test_killed_after_the_graph_exists(
    failpoint: str, omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    died = omnigraph(
        "init", "--schema", people, "g", environment={"OMNIGRAPH_FAILPOINTS": f"{failpoint}=kill"}
    )
    assert died.code == -signal.SIGKILL
    again = omnigraph("init", "--schema", people, "g")
    assert again.code in (0, 3), again.err
    assert len(json.loads(omnigraph("snapshot", "g", "--json").out)["tables"]) == 4
    assert list((tmp_path / "g/__staging").iterdir()) == []


@pytest.mark.parametrize("failpoint", ["init.recorded", "init.tables_created", "init.files_written"])
def test_a_failing_init_leaves_nothing(
    failpoint: str, omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    failed = omnigraph(
        "init", "--schema", people, "a/g", environment={"OMNIGRAPH_FAILPOINTS": f"{failpoint}=error"}
    )
    assert failed.code == 74
    assert failed.err == f"error: injected fault at {failpoint}\n"
    assert {path.name for path in tmp_path.iterdir()} == {"people.pg"}


def test_a_torn_manifest_of_a_dead_init_is_cleared(
    omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    """Power fails right after the first version was linked: the file is there, its content is not."""
    kill = {"OMNIGRAPH_FAILPOINTS": "init.manifest_created=kill"}
    assert omnigraph("init", "--schema", people, "g", environment=kill).code == -signal.SIGKILL
    for manifest in (tmp_path / "g/__manifest/_versions").glob("*.manifest"):
        manifest.write_bytes(b"")
    assert omnigraph("snapshot", "g").code == 6
    assert omnigraph("init", "--schema", people, "g").code == 0
    assert omnigraph("snapshot", "g").code == 0


def test_two_inits_at_once_make_one_graph(people: Path, tmp_path: Path) -> None:
    environment = clean_environment(OMNIGRAPH_FAILPOINTS="init.tables_created=sleep:300")
    rivals = [
        warm.Popen(
            [OMNIGRAPH, "init", "--schema", people, "g"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(3)
    ]
    assert sorted(process.wait(240) for process in rivals) == [0, 3, 3]


def test_a_live_init_makes_others_wait_and_time_out(
    omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    environment = clean_environment(OMNIGRAPH_FAILPOINTS="init.recorded=sleep:600000")
    holder = warm.Popen(
        [OMNIGRAPH, "init", "--schema", people, "g", "--as", "ann"], cwd=tmp_path, env=environment
    )
    try:
        while not list((tmp_path / "g").glob("__staging/*.json")):
            assert holder.poll() is None
        waited = omnigraph("init", "--schema", people, "g", "--lock-timeout", "0.2", "--json")
        failure = json.loads(waited.err)
        assert (waited.code, failure["code"], failure["retryable"]) == (8, "busy", True)
        assert (failure["holder"]["pid"], failure["holder"]["actor"]) == (holder.pid, "ann")
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    assert omnigraph("init", "--schema", people, "g").code == 0


def test_a_graph_with_a_leftover_record_is_never_cleared(
    omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    """An init that died at its very last step, then a write, then HEAD is damaged: an error, never a no."""
    kill = {"OMNIGRAPH_FAILPOINTS": "init.synced=kill"}
    assert omnigraph("init", "--schema", people, "g", environment=kill).code == -signal.SIGKILL
    (record,) = (tmp_path / "g/__staging").glob("*.json")
    saved = record.read_bytes()
    write_three(open_graph(tmp_path / "g", Settings(fsync=False)), "first")
    assert not record.exists()
    record.write_bytes(saved)
    newest = min((tmp_path / "g/__manifest/_versions").glob("*.manifest"))
    whole = newest.read_bytes()
    newest.write_bytes(b"")
    assert omnigraph("snapshot", "g").code == 74
    assert omnigraph("init", "--schema", people, "g").code == 3
    newest.write_bytes(whole)
    graph = open_graph(tmp_path / "g", Settings(fsync=False))
    write_three(graph, "second")
    assert content(graph)["node:Person"] == {"first", "second"}


def test_a_failing_init_does_not_clear_what_another_made(
    omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    """Its lock is taken away while it sleeps; another init finishes; then it wakes up and fails."""
    environment = clean_environment(OMNIGRAPH_FAILPOINTS="init.tables_created=stop")
    command = [OMNIGRAPH, "init", "--schema", people, "g"]
    slow = warm.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    try:
        wait_until_stopped(slow)
        shutil.rmtree(tmp_path / "g/__locks")
        assert omnigraph("init", "--schema", people, "g").code == 0
    finally:
        go_on(slow)
    assert slow.wait(240) != 0
    assert omnigraph("snapshot", "g").code == 0


def test_interrupting_an_init_that_has_made_its_graph_keeps_it(
    omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    with started([OMNIGRAPH, "init", "--schema", people, "g"], cwd=tmp_path, stop_at="init.synced") as late:
        late.until_stopped()
        assert omnigraph("snapshot", "g").code == 0
        late.process.send_signal(signal.SIGINT)
        late.go_on()
        assert late.ended().code == 130
    assert omnigraph("snapshot", "g").code == 0
    assert omnigraph("branch", "create", "b", "--store", "g").code == 0
    assert list((tmp_path / "g/__staging").iterdir()) == []


def test_timing_out_takes_nothing_from_the_one_that_holds_the_lock(
    omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    environment = clean_environment(OMNIGRAPH_FAILPOINTS="lock.acquired=stop")
    holder = warm.Popen([OMNIGRAPH, "init", "--schema", people, "g"], cwd=tmp_path, env=environment)
    try:
        wait_until_stopped(holder)
        assert omnigraph("init", "--schema", people, "g", "--lock-timeout", "0.1").code == 8
    finally:
        go_on(holder)
    assert holder.wait(240) == 0
    assert omnigraph("snapshot", "g").code == 0


# ---- an init that has made its graph and is not done ----


def change(*more: str) -> list[str]:
    text = 'query q() { insert Person { name: "first" } }'
    return ["change", "-e", text, "--store", "g", *more]


def test_nobody_takes_the_record_of_an_init_at_work(
    omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    """Until it is done a power cut may still take all of it, so nobody may be told that he has written."""
    command: list[str | Path] = [OMNIGRAPH, "init", "--schema", people, "g"]
    with started(command, cwd=tmp_path, stop_at="init.made") as init:
        init.until_stopped()
        early = omnigraph(*change("--lock-timeout", "0.2"))
        assert early.code == 8, early
        assert len(list((tmp_path / "g/__staging").glob("*.json"))) == 1
        init.go_on()
        assert init.ended().code == 0
    assert list((tmp_path / "g/__staging").iterdir()) == []
    assert omnigraph(*change()).code == 0


def test_what_a_dead_init_made_is_synced_before_its_record_goes(
    omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    kill = {"OMNIGRAPH_FAILPOINTS": "init.made=kill"}
    assert omnigraph("init", "--schema", people, "g", environment=kill).code == -signal.SIGKILL
    root = tmp_path / "g"
    made = {str(path) for path in root.glob("__manifest/*/*") if path.is_file()}
    assert len(made) >= 3
    traced = run_traced(victim("write", root, "main", "first"), tmp_path / "log", ["fsync", "fdatasync"])
    assert traced.code == 0, traced.err
    assert list((root / "__staging").iterdir()) == []
    assert made <= synced_paths(traced), made - synced_paths(traced)
