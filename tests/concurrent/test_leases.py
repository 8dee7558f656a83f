"""Leases on S3 between real processes, and what happens when holders die, stop or lose their object."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from omnigraph_cli.wording import hint_of
from omnigraph_core import layout
from omnigraph_core.errors import ErrorKind, InternalError
from omnigraph_core.settings import load_settings
from omnigraph_core.storage import LockLost, LockTimeout, Storage, open_storage, parse_location
from omnigraph_core.storage.lease_object import LeaseRecord, decode_lease
from omnigraph_core.storage.locks import LockHolder
from tests.support import warm
from tests.support.processes import clean_environment
from tests.support.s3server import S3Server

MAIN = layout.branch_lock("main")
LEASE = f"{layout.LOCKS_DIR}/{MAIN}.json"
# Long enough for a holder on a busy machine to renew in time; the dead need not.
TTL_S = 2.0
TAKEOVER_S = 1.25 * TTL_S
DEAD_TTL_S = 0.5
# For holders that nobody is to succeed, however long the machine keeps them waiting.
LASTING = {"OMNIGRAPH_LEASE_TTL": "60", "OMNIGRAPH_LOCK_TIMEOUT": "200"}

PROLOGUE = """
import os, sys, time
from pathlib import Path
from omnigraph_core.settings import load_settings
from omnigraph_core.storage import LockLost, open_storage, parse_location
locks = open_storage(parse_location(sys.argv[1], Path("/")), load_settings()).locks
"""


@pytest.fixture
def place(s3_server: S3Server) -> str:
    return s3_server.new_location()


@pytest.fixture
def environment(s3_server: S3Server) -> dict[str, str]:
    return {**s3_server.environment, "OMNIGRAPH_LEASE_TTL": str(TTL_S), "OMNIGRAPH_LOCK_TIMEOUT": "20"}


@pytest.fixture
def storage(place: str, environment: dict[str, str]) -> Storage:
    return opened(place, environment)


def opened(place: str, environment: dict[str, str], **more: str) -> Storage:
    return open_storage(parse_location(place, Path("/")), load_settings({**environment, **more}))


def start(script: str, place: str, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return warm.Popen(
        [sys.executable, "-c", PROLOGUE + script, place, *arguments],
        env=clean_environment(OMNIGRAPH_ACTOR="alice", **environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


HOLDER = """
lock = locks.lock("branch.main", doing="load people.jsonl", operation_id="01OP").acquire()
print("held", lock.token, flush=True)
for line in sys.stdin:
    try:
        lock.check()
        print("mine", flush=True)
    except LockLost as lost:
        print(lost, flush=True)
"""


@contextmanager
def holding_process(place: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lease of main, and checks it for every line it is given."""
    process = start(HOLDER, place, environment)
    try:
        assert hear(process) == "held 1"
        yield process
    finally:
        process.kill()
        process.communicate()


CRITICAL_SECTIONS = """
print("ready", flush=True)
sys.stdin.readline()
root, sections = Path(sys.argv[2]), int(sys.argv[3])
count, log = root / "count", os.open(root / "log", os.O_WRONLY | os.O_APPEND)
for _ in range(sections):
    with locks.lock("branch.main") as lock:
        os.write(log, f"enter {os.getpid()} {lock.token}\\n".encode())
        value = int(count.read_text())
        count.write_text(str(value + 1))
        lock.check()
        os.write(log, f"leave {os.getpid()} {lock.token}\\n".encode())
"""


@pytest.mark.parametrize("sections", [10, pytest.param(100, marks=pytest.mark.soak)])
def test_critical_sections_of_four_processes_never_overlap(
    place: str, environment: dict[str, str], tmp_path: Path, sections: int
) -> None:
    (tmp_path / "count").write_text("0")
    (tmp_path / "log").write_text("")
    patient = {**environment, **LASTING}
    processes = [start(CRITICAL_SECTIONS, place, patient, str(tmp_path), str(sections)) for _ in range(4)]
    assert [hear(process) for process in processes] == ["ready"] * 4
    for process in processes:
        say(process, "go")
    errors = [process.communicate(timeout=250)[1] for process in processes]
    assert errors == [""] * 4
    assert (tmp_path / "count").read_text() == str(4 * sections)
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert [line[0] for line in lines] == ["enter", "leave"] * (4 * sections)
    assert [line[1:] for line in lines[::2]] == [line[1:] for line in lines[1::2]]
    tokens = [int(line[2]) for line in lines[::2]]
    assert all(earlier < later for earlier, later in pairwise(tokens))
    assert len({line[1] for line in lines}) == 4


def test_a_lease_is_renewed_for_as_long_as_it_is_held(
    storage: Storage, place: str, environment: dict[str, str]
) -> None:
    with storage.locks.lock(MAIN) as lock:
        first = storage.control.get(LEASE)
        with pytest.raises(LockTimeout):
            opened(place, environment).locks.lock(MAIN).acquire(1.5 * TAKEOVER_S)
        lock.check()
        last = storage.control.get(LEASE)
    assert first is not None
    assert last is not None
    assert first.e_tag != last.e_tag
    assert lock_record(first.data).owner == lock_record(last.data).owner


def test_a_timeout_names_the_holder(storage: Storage, place: str, environment: dict[str, str]) -> None:
    with holding_process(place, {**environment, **LASTING}) as process:
        began = time.monotonic()
        with pytest.raises(LockTimeout) as caught:
            storage.locks.lock(MAIN).acquire(0.2)
        assert time.monotonic() - began >= 0.2
        shown = storage.locks.read_holder(MAIN)
    error = caught.value
    assert error.kind is ErrorKind.BUSY
    assert f"pid {process.pid} on " in error.message
    assert "alice (load people.jsonl)" in error.message
    assert error.field == "lock_timeout"
    assert "wait longer with --lock-timeout" in str(hint_of(error))
    details = error.details()
    assert details["lock"] == MAIN
    assert isinstance(details["holder"], dict)
    assert details["holder"]["operation_id"] == "01OP"
    assert shown is not None
    assert shown.as_json() == details["holder"]


def test_the_lease_of_a_killed_holder_is_taken_over_but_not_at_once(
    storage: Storage, place: str, environment: dict[str, str]
) -> None:
    with holding_process(place, environment) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert storage.locks.read_holder(MAIN) is not None
        began = time.monotonic()
        assert not storage.locks.lock(MAIN).try_acquire()
        with storage.locks.lock(MAIN).acquire(60) as lock:
            assert time.monotonic() - began >= TAKEOVER_S
            assert lock.token == 2
            lock.check()


def test_what_one_lock_object_has_watched_counts_for_the_next(storage: Storage) -> None:
    storage.control.put(LEASE, dead_lease().encode())
    assert not storage.locks.lock(MAIN).try_acquire()
    time.sleep(1.25 * DEAD_TTL_S)
    assert storage.locks.read_holder(MAIN) is None
    assert storage.locks.lock(MAIN).try_acquire()


def test_the_holders_own_ttl_decides(storage: Storage, place: str, environment: dict[str, str]) -> None:
    storage.control.put(LEASE, dead_lease(ttl_s=60.0).encode())
    rival = opened(place, environment, OMNIGRAPH_LEASE_TTL="0.4").locks.lock(MAIN)
    with pytest.raises(LockTimeout):
        rival.acquire(1.0)


def test_a_stopped_holder_that_wakes_has_lost(
    storage: Storage, place: str, environment: dict[str, str]
) -> None:
    with holding_process(place, environment) as process:
        say(process, "check")
        assert hear(process) == "mine"
        process.send_signal(signal.SIGSTOP)
        with storage.locks.lock(MAIN).acquire(60) as lock:
            assert lock.token == 2
            process.send_signal(signal.SIGCONT)
            say(process, "check")
            assert hear(process).startswith(f"the lock '{MAIN}' is no longer held: ")
            lock.check()
            say(process, "check")
            assert "no longer held" in hear(process)


def test_a_holder_that_was_stopped_too_long_has_lost_even_if_nobody_came(
    place: str, environment: dict[str, str]
) -> None:
    with holding_process(place, environment) as process:
        process.send_signal(signal.SIGSTOP)
        time.sleep(TTL_S)
        process.send_signal(signal.SIGCONT)
        say(process, "check")
        assert hear(process).endswith(f"no longer held: it was not renewed within {TTL_S:g} s")


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.soak)])
def test_of_two_contenders_for_a_dead_lease_one_wins(
    storage: Storage, place: str, environment: dict[str, str], rounds: int
) -> None:
    """The rounds run at the same time, on locks of their own; winners keep what they won."""
    names = [f"branch.{number}" for number in range(rounds)]
    for name in names:
        storage.control.put(f"{layout.LOCKS_DIR}/{name}.json", dead_lease(token=7).encode())
    rivals = [opened(place, environment, **LASTING) for _ in range(2)]
    won: list[tuple[str, int]] = []
    lost: list[str] = []

    def contend(rival: Storage, name: str) -> None:
        lock = rival.locks.lock(name)
        while not lock.try_acquire():
            if name in [taken for taken, _ in won]:
                lost.append(name)
                over.wait(240)
                return
            time.sleep(0.05)
        won.append((name, lock.token))
        over.wait(240)
        lock.check()
        lock.release()

    over = threading.Barrier(2 * rounds)
    threads = [threading.Thread(target=contend, args=(rival, name)) for name in names for rival in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted((name, 8) for name in names)
    assert sorted(lost) == sorted(names)


@pytest.mark.parametrize("replaced", [True, False])
def test_a_holder_whose_lease_was_replaced_or_removed_notices_at_once(
    storage: Storage, replaced: bool
) -> None:
    lock = storage.locks.lock(MAIN).acquire()
    if replaced:
        storage.control.put(LEASE, dead_lease(token=9).encode())
    else:
        storage.control.delete(LEASE)
    with pytest.raises(LockLost) as caught:
        lock.check()
    assert caught.value.details() == {"lock": MAIN}
    assert ("taken over by bob" if replaced else "was removed") in caught.value.message
    lock.release()
    left = storage.control.get(LEASE)
    assert (lock_record(left.data).token if left else None) == (9 if replaced else None)


def test_another_lock_object_in_this_process_is_a_stranger(storage: Storage) -> None:
    first, second = storage.locks.lock(MAIN), storage.locks.lock(MAIN)
    with first:
        assert not second.try_acquire()
        with pytest.raises(LockTimeout):
            second.acquire(0)
        with pytest.raises(InternalError):
            first.acquire(0)
        first.check()
    assert second.try_acquire()
    assert second.token == 2
    second.release()
    second.release()
    left = storage.control.get(LEASE)
    assert left is not None
    assert b'"state": "free"' in left.data
    assert storage.locks.read_holder(MAIN) is None


def test_a_lock_that_is_not_held_says_so(storage: Storage) -> None:
    lock = storage.locks.lock(MAIN)
    with pytest.raises(LockLost):
        lock.check()
    with lock:
        assert lock.holder is not None
        assert storage.locks.read_holder(MAIN) == lock.holder
    assert lock.holder is None
    with pytest.raises(LockLost):
        lock.check()
    with pytest.raises(LockLost):
        _ = lock.token


def test_an_unreadable_lease_is_waited_for_and_then_taken(storage: Storage) -> None:
    storage.control.put(LEASE, b"garbage")
    began = time.monotonic()
    with storage.locks.lock(MAIN).acquire(60) as lock:
        assert time.monotonic() - began >= TAKEOVER_S
        jumped = lock.token
    assert jumped > 1_000_000
    with storage.locks.lock(MAIN) as lock:
        assert lock.token == jumped + 1


def test_lock_all_takes_everything_in_order_or_nothing(storage: Storage) -> None:
    names = ["branch.b", "refs", "branch.a"]
    with storage.locks.lock_all(names, doing="branch create") as held:
        held.check()
        assert [lock.name for lock in held.locks] == ["refs", "branch.a", "branch.b"]
    with storage.locks.lock("branch.b"), pytest.raises(LockTimeout) as caught:
        storage.locks.lock_all(names, 0.1)
    assert caught.value.details()["lock"] == "branch.b"
    assert all(storage.locks.read_holder(name) is None for name in names)


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


def test_a_forked_child_neither_has_nor_releases_the_lease(place: str, environment: dict[str, str]) -> None:
    output, _ = start(FORKED, place, environment).communicate(timeout=240)
    assert output == "7 False\n"


LEAVING = """
class Slow:
    def __del__(self):
        time.sleep(1.5)
slow = Slow()
locks.lock("branch.main").acquire()
"""


def test_leaving_without_releasing_ends_the_process_quietly(place: str, environment: dict[str, str]) -> None:
    """The renewal is still at work while the interpreter goes away."""
    process = start(LEAVING, place, environment)
    assert process.communicate(timeout=240) == ("", "")
    assert process.returncode == 0


def dead_lease(token: int = 1, ttl_s: float = DEAD_TTL_S) -> LeaseRecord:
    """What a process that died leaves behind."""
    holder = LockHolder(pid=1, host="far", actor="bob", doing="", operation_id=None, since_us=0)
    return LeaseRecord(token=token, owner="dead", ttl_s=ttl_s, holder=holder, nonce="n")


def lock_record(data: bytes) -> LeaseRecord:
    record = decode_lease(data)
    assert record is not None
    return record
