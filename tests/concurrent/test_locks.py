"""Locks between real processes, and what happens when holders die or files go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omnigraph_cli.wording import hint_of
from omnigraph_core import faults, layout
from omnigraph_core.errors import ErrorKind, InternalError
from omnigraph_core.ids import now_us
from omnigraph_core.storage.failures import StorageFailure
from omnigraph_core.storage.flock import LocalLocks
from omnigraph_core.storage.locks import LockLost, LockTimeout, in_lock_order
from omnigraph_core.storage.sync import Syncer
from tests.support import warm

MAIN = layout.branch_lock("main")
PROLOGUE = """
import os, sys, time
from pathlib import Path
from omnigraph_core.storage.flock import LocalLocks
from omnigraph_core.storage.locks import LockLost
from omnigraph_core.storage.sync import Syncer
root = Path(sys.argv[1])
locks = LocalLocks(root, Syncer(enabled=True), actor="alice", timeout_s=60)
"""


@pytest.fixture
def locks(tmp_path: Path) -> LocalLocks:
    return LocalLocks(tmp_path, Syncer(enabled=True), actor="bob", timeout_s=60)


def lock_file(tmp_path: Path, name: str = MAIN) -> Path:
    return tmp_path / layout.LOCKS_DIR / f"{name}.lock"


def start(script: str, tmp_path: Path) -> subprocess.Popen[str]:
    return warm.Popen(
        [sys.executable, "-c", PROLOGUE + script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def holding_process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of main until it is killed."""
    script = """
locks.lock("branch.main", doing="load people.jsonl", operation_id="01OP").acquire()
print("held", flush=True)
sys.stdin.read()
"""
    process = start(script, tmp_path)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


CRITICAL_SECTIONS = """
print("ready", flush=True)
sys.stdin.readline()
count, log = root / "count", os.open(root / "log", os.O_WRONLY | os.O_APPEND)
for _ in range(100):
    with locks.lock("branch.main") as lock:
        os.write(log, f"enter {os.getpid()} {lock.token}\\n".encode())
        value = int(count.read_text())
        count.write_text(str(value + 1))
        lock.check()
        os.write(log, f"leave {os.getpid()} {lock.token}\\n".encode())
"""


def test_critical_sections_of_four_processes_never_overlap(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    (tmp_path / "log").write_text("")
    processes = [start(CRITICAL_SECTIONS, tmp_path) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=240)
    assert [process.returncode for process in processes] == [0] * 4
    assert (tmp_path / "count").read_text() == "400"
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert [line[0] for line in lines] == ["enter", "leave"] * 400
    assert [line[1:] for line in lines[::2]] == [line[1:] for line in lines[1::2]]
    assert [int(line[2]) for line in lines[::2]] == list(range(1, 401))
    assert len({line[1] for line in lines}) == 4


def test_a_timeout_names_the_holder(tmp_path: Path, locks: LocalLocks) -> None:
    with holding_process(tmp_path) as process:
        began = time.monotonic()
        with pytest.raises(LockTimeout) as caught:
            locks.lock(MAIN).acquire(0.2)
        assert time.monotonic() - began >= 0.2
    error = caught.value
    assert error.kind is ErrorKind.BUSY
    assert error.retryable
    assert f"pid {process.pid} on " in error.message
    assert "alice (load people.jsonl)" in error.message
    assert error.field == "lock_timeout"
    assert "wait longer with --lock-timeout" in str(hint_of(error))
    details = error.details()
    assert details["lock"] == MAIN
    assert isinstance(details["holder"], dict)
    assert details["holder"]["pid"] == process.pid
    assert details["holder"]["operation_id"] == "01OP"


def test_killing_the_holder_frees_the_lock_at_once(tmp_path: Path, locks: LocalLocks) -> None:
    with holding_process(tmp_path) as process:
        assert not locks.lock(MAIN).try_acquire()
        threading.Timer(0.05, process.kill).start()
        with locks.lock(MAIN).acquire(60) as lock:
            assert lock.token == 2
            lock.check()


def test_a_holder_is_shown_only_while_it_holds(tmp_path: Path, locks: LocalLocks) -> None:
    assert locks.read_holder(MAIN) is None
    assert not (tmp_path / layout.LOCKS_DIR).exists()
    began = now_us()
    with holding_process(tmp_path) as process:
        holder = locks.read_holder(MAIN)
        assert holder is not None
        assert (holder.pid, holder.actor, holder.doing) == (process.pid, "alice", "load people.jsonl")
        assert began <= holder.since_us <= now_us()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert b"people.jsonl" in lock_file(tmp_path).read_bytes()
        assert locks.read_holder(MAIN) is None
    with locks.lock(MAIN) as lock:
        assert locks.read_holder(MAIN) == lock.holder
    assert locks.read_holder(MAIN) is None


def test_another_lock_object_in_this_process_is_a_stranger(locks: LocalLocks) -> None:
    first, second = locks.lock(MAIN), locks.lock(MAIN)
    with first:
        assert not second.try_acquire()
        with pytest.raises(LockTimeout):
            second.acquire(0)
        with pytest.raises(InternalError):
            first.acquire(0)
        first.check()
    assert second.try_acquire()
    second.release()
    second.release()


def test_a_lock_that_is_not_held_says_so(locks: LocalLocks) -> None:
    lock = locks.lock(MAIN)
    with pytest.raises(LockLost):
        lock.check()
    with lock:
        lock.check()
        assert lock.token == 1
    assert lock.holder is None
    with pytest.raises(LockLost):
        lock.check()
    with pytest.raises(LockLost):
        _ = lock.token


def test_the_lock_is_released_when_the_block_fails(locks: LocalLocks) -> None:
    with pytest.raises(RuntimeError), locks.lock(MAIN):
        raise RuntimeError
    assert locks.lock(MAIN).try_acquire()


def test_a_failing_acquisition_holds_nothing(locks: LocalLocks) -> None:
    faults.arm("lock.signed=error")
    try:
        with pytest.raises(faults.InjectedFault):
            locks.lock(MAIN).acquire(0)
    finally:
        faults.arm("")
    with locks.lock(MAIN).acquire(0) as lock:
        assert lock.token == 2


def test_a_holder_whose_file_was_replaced_has_lost(tmp_path: Path, locks: LocalLocks) -> None:
    lock = locks.lock(MAIN).acquire()
    lock_file(tmp_path).unlink()
    with pytest.raises(LockLost) as caught:
        lock.check()
    assert caught.value.details() == {"lock": MAIN}
    with locks.lock(MAIN).acquire(0) as other:
        other.check()
        with pytest.raises(LockLost):
            lock.check()
        lock.release()
        other.check()
        assert not locks.lock(MAIN).try_acquire()


def test_a_file_replaced_while_it_is_being_locked_is_not_the_lock(
    tmp_path: Path, locks: LocalLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = locks.lock(MAIN)
    steps: list[str] = []

    def replace_once_opened(step: str) -> None:
        if step == "lock.opened" and step not in steps:
            lock_file(tmp_path).rename(tmp_path / "old.lock")
            lock_file(tmp_path).touch()
        steps.append(step)

    with monkeypatch.context() as patched:
        patched.setattr(faults, "hit", replace_once_opened)
        lock.acquire()
    assert steps.count("lock.opened") == 2
    lock.check()
    assert not locks.lock(MAIN).try_acquire()
    assert (tmp_path / "old.lock").read_bytes() == b""


FORKED = """
lock = locks.lock("branch.main").acquire()
child = os.fork()
if child == 0:
    try:
        lock.check()
    except LockLost:
        lock.release()
        os._exit(7)
    os._exit(0)
_, status = os.waitpid(child, 0)
lock.check()
print(os.waitstatus_to_exitcode(status), locks.lock("branch.main").try_acquire())
"""

FORKED_LONGER = """
lock = locks.lock("branch.main").acquire()
if os.fork() == 0:
    time.sleep(600)
lock.release()
print(locks.lock("branch.main").try_acquire(), flush=True)
os.killpg(0, 9)
"""


def test_a_forked_child_neither_has_nor_releases_the_lock(tmp_path: Path) -> None:
    output, _ = start(FORKED, tmp_path).communicate(timeout=240)
    assert output == "7 False\n"


def test_a_forked_child_does_not_keep_a_released_lock(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + FORKED_LONGER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.communicate(timeout=240)[0] == "True\n"


@pytest.mark.parametrize("content", [b"garbage", b"[1]\n", b'{"token": 5, "hold'])
def test_tokens_grow_even_over_an_unreadable_lock_file(
    tmp_path: Path, locks: LocalLocks, content: bytes
) -> None:
    for expected in (1, 2, 3):
        with locks.lock(MAIN) as lock:
            assert lock.token == expected
    lock_file(tmp_path).write_bytes(content)
    with locks.lock(MAIN) as lock:
        jumped = lock.token
    assert jumped > 3
    with locks.lock(MAIN) as lock:
        assert lock.token == jumped + 1


def test_a_shorter_record_leaves_nothing_of_a_longer_one(tmp_path: Path, locks: LocalLocks) -> None:
    with locks.lock(MAIN, doing="x" * 100):
        pass
    with locks.lock(MAIN, doing="y"):
        assert lock_file(tmp_path).read_bytes().endswith(b"}\n")
        assert b"xx" not in lock_file(tmp_path).read_bytes()


def test_locks_are_ordered_refs_first_then_by_bytes() -> None:
    names = [layout.branch_lock(name) for name in ("zebra", "a", "Ä", "B", "a/b", "a")]
    ordered = in_lock_order([*names, layout.REFS_LOCK])
    assert ordered == ["refs", "branch.%C3%84", "branch.B", "branch.a", "branch.a%2Fb", "branch.zebra"]


def test_lock_all_takes_everything_in_order(locks: LocalLocks) -> None:
    names = ["branch.b", "refs", "branch.a", "branch.b"]
    with locks.lock_all(names, doing="branch create") as held:
        held.check()
        assert [lock.name for lock in held.locks] == ["refs", "branch.a", "branch.b"]
        since = [lock.holder.since_us for lock in held.locks if lock.holder]
        assert since == sorted(since)
        assert len(since) == 3
        assert held.token("branch.b") == 1
        assert not locks.lock("branch.a").try_acquire()
    assert all(locks.read_holder(name) is None for name in names)


def test_lock_all_releases_everything_when_one_is_busy(locks: LocalLocks) -> None:
    with locks.lock("branch.b"):
        with pytest.raises(LockTimeout) as caught:
            locks.lock_all(["branch.b", "branch.a", "refs"], 0.1)
        assert caught.value.details()["lock"] == "branch.b"
        assert locks.lock("refs").try_acquire()
        assert locks.lock("branch.a").try_acquire()


def test_two_takers_of_the_same_locks_in_any_order_both_finish(locks: LocalLocks) -> None:
    errors: list[Exception] = []

    def take(names: list[str]) -> None:
        try:
            for _ in range(20):
                locks.lock_all(names, 10).release()
        except Exception as error:
            errors.append(error)

    names = ["branch.a", "branch.b", "refs"]
    threads = [threading.Thread(target=take, args=(order,)) for order in (names, names[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_long_branch_names_have_locks_of_their_own(locks: LocalLocks) -> None:
    first, second = ("branch." + "ä" * 400 + end for end in "xy")
    with locks.lock(first):
        assert not locks.lock(first).try_acquire()
        with locks.lock(second).acquire(0):
            pass


def test_a_lock_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    locks = LocalLocks(tmp_path / "file", Syncer(enabled=True), actor="bob", timeout_s=0)
    with pytest.raises(StorageFailure) as caught:
        locks.lock(MAIN).acquire()
    assert caught.value.details()["errno"] == "ENOTDIR"
    assert os.listdir(tmp_path) == ["file"]
