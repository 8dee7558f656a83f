"""Control objects and leases when S3 misbehaves: what is reported is what happened."""

from __future__ import annotations

import socket
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import ErrorKind, OmnigraphError, StorageError
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.storage import (
    LockLost,
    ObjectChanged,
    ObjectExists,
    lease,
    open_storage,
    parse_location,
)
from omnigraph_core.storage.failures import AccessDenied, NoSuchBucket, Unreachable
from omnigraph_core.storage.lease import S3Locks
from omnigraph_core.storage.lease_object import LeaseWatch
from omnigraph_core.storage.s3 import PROBING, Patience, S3ControlStore
from tests.support.fault_proxy import ALWAYS, Fault, FaultProxy, Operation, fault_proxy
from tests.support.s3server import SECRET_KEY, S3Server, environment_of

HASTY = Patience(request_s=0.5, attempts=3, total_s=5.0)

NOT_ARRIVED: list[tuple[Fault, int]] = [
    ("status", 500),
    ("status", 503),
    ("status", 429),
    ("status", 409),
    ("reset", 0),
    ("hang", 0),
]
LANDED: list[tuple[Fault, int]] = [("landed-status", 500), ("landed-reset", 0), ("landed-hang", 0)]
VERBS = ("create", "replace", "put")


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3_server.port) as running:
        yield running


@pytest.fixture
def place(s3_server: S3Server) -> str:
    return s3_server.new_location()


@pytest.fixture
def truth(s3_server: S3Server, place: str) -> S3ControlStore:
    """The same objects, seen without the proxy."""
    return store_at(s3_server.endpoint, place)


@pytest.fixture
def store(proxy: FaultProxy, place: str) -> S3ControlStore:
    opened = store_at(proxy.endpoint, place, HASTY)
    opened.probe()
    return opened


def store_at(endpoint: str, place: str, patience: Patience | None = None) -> S3ControlStore:
    location, settings = parse_location(place, Path("/")), load_settings(environment_of(endpoint))
    return S3ControlStore(location, settings.s3, *([patience] if patience else []))


def write(store: S3ControlStore, verb: str, e_tag: str) -> str:
    if verb == "create":
        return store.create("d/new", b"ours")
    if verb == "replace":
        return store.replace("d/old", b"ours", e_tag)
    return store.put("d/old", b"ours")


def target(verb: str) -> str:
    return "d/new" if verb == "create" else "d/old"


@pytest.mark.parametrize(("fault", "status"), NOT_ARRIVED + LANDED)
@pytest.mark.parametrize("verb", ["create", "replace"])
def test_one_fault_is_overcome(
    proxy: FaultProxy, store: S3ControlStore, truth: S3ControlStore, verb: str, fault: Fault, status: int
) -> None:
    old = truth.put("d/old", b"old")
    rule = proxy.spoil("PUT", "/d/", fault, status=status)
    e_tag = write(store, verb, old)
    assert rule.hits == 1
    found = truth.get(target(verb))
    assert found is not None
    assert (found.data, found.e_tag) == (b"ours", e_tag)


@pytest.mark.parametrize(("fault", "status"), [("status", 503), ("reset", 0), ("hang", 0), ("status", 403)])
@pytest.mark.parametrize("verb", VERBS)
def test_a_write_that_never_arrives_fails_and_changes_nothing(
    proxy: FaultProxy, store: S3ControlStore, truth: S3ControlStore, verb: str, fault: Fault, status: int
) -> None:
    old = truth.put("d/old", b"old")
    rule = proxy.spoil("PUT", "/d/", fault, status=status, times=ALWAYS)
    with pytest.raises(AccessDenied if status == 403 else Unreachable, match=f"cannot {verb} s3://"):
        write(store, verb, old)
    assert rule.hits == (1 if status == 403 else HASTY.attempts)
    assert truth.list("d") == ["old"]
    assert truth.get("d/old") == store.get("d/old")
    found = truth.get("d/old")
    assert found is not None
    assert found.data == b"old"


@pytest.mark.parametrize(("fault", "status"), LANDED)
@pytest.mark.parametrize("verb", VERBS)
def test_a_write_whose_every_answer_is_lost_is_found_to_be_done(
    proxy: FaultProxy, store: S3ControlStore, truth: S3ControlStore, verb: str, fault: Fault, status: int
) -> None:
    old = truth.put("d/old", b"old")
    rule = proxy.spoil("PUT", "/d/", fault, status=status, times=ALWAYS)
    e_tag = write(store, verb, old)
    assert rule.hits == HASTY.attempts
    found = truth.get(target(verb))
    assert found is not None
    assert (found.data, found.e_tag) == (b"ours", e_tag)


@pytest.mark.parametrize("fault", ["status", "reset", "landed-status", "landed-reset"])
@pytest.mark.parametrize("verb", ["create", "replace"])
def test_a_lost_race_is_lost_whatever_else_goes_wrong(
    proxy: FaultProxy, store: S3ControlStore, truth: S3ControlStore, verb: str, fault: Fault
) -> None:
    old = truth.put("d/old", b"old")
    truth.put(target(verb), b"the rival's")
    rule = proxy.spoil("PUT", "/d/", fault)
    with pytest.raises(ObjectExists if verb == "create" else ObjectChanged):
        write(store, verb, old)
    assert rule.hits == 1
    found = truth.get(target(verb))
    assert found is not None
    assert found.data == b"the rival's"


def test_a_rival_with_the_same_bytes_is_a_rival(truth: S3ControlStore) -> None:
    truth.create("a", b"same")
    with pytest.raises(ObjectExists):
        truth.create("a", b"same")


@pytest.mark.parametrize("verb", VERBS)
def test_an_outcome_that_cannot_be_found_out_is_an_error_not_a_conflict(
    proxy: FaultProxy, store: S3ControlStore, truth: S3ControlStore, verb: str
) -> None:
    old = truth.put("d/old", b"old")
    proxy.spoil("PUT", "/d/", "landed-reset", times=ALWAYS)
    proxy.spoil("GET", "/d/", "status", status=503, times=ALWAYS)
    with pytest.raises(Unreachable):
        write(store, verb, old)
    found = truth.get(target(verb))
    assert found is not None
    assert found.data == b"ours"


@pytest.mark.parametrize("verb", ["create", "replace"])
def test_a_write_that_lands_late_harms_nobody(
    proxy: FaultProxy, store: S3ControlStore, truth: S3ControlStore, verb: str
) -> None:
    old = truth.put("d/old", b"old")
    proxy.spoil("PUT", "/d/", "late", delay_s=1.0)
    e_tag = write(store, verb, old)
    truth.replace(target(verb), b"next", e_tag)
    proxy.settle()
    assert proxy.count("PUT", "/d/") == 2
    found = truth.get(target(verb))
    assert found is not None
    assert found.data == b"next"


@pytest.mark.parametrize(("fault", "status"), [("status", 503), ("reset", 0), ("hang", 0)])
def test_reading_and_deleting_overcome_a_fault(
    proxy: FaultProxy, store: S3ControlStore, truth: S3ControlStore, fault: Fault, status: int
) -> None:
    truth.put("d/a", b"four")
    calls: list[tuple[Operation, Callable[[], object], object]] = [
        ("GET", lambda: store.get("d/a"), truth.get("d/a")),
        ("HEAD", lambda: store.size("d/a"), 4),
        ("LIST", lambda: store.list("d"), ["a"]),
        ("LIST", lambda: store.is_empty(), False),
        ("DELETE", lambda: store.delete("d/a"), None),
        ("DELETE", lambda: store.delete_prefix("e"), None),
    ]
    truth.put("e/b", b"x")
    for operation, call, expected in calls:
        rule = proxy.spoil(operation, "", fault, status=status)
        assert call() == expected
        assert rule.hits == 1
    assert truth.is_empty()


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("GET", lambda store: store.get("a")),
        ("HEAD", lambda store: store.exists("a")),
        ("LIST", lambda store: store.list("d")),
        ("LIST", lambda store: store.entries()),
        ("LIST", lambda store: store.is_empty()),
        ("DELETE", lambda store: store.delete("a")),
    ],
)
def test_no_answer_is_never_taken_for_nothing_there(
    proxy: FaultProxy, store: S3ControlStore, operation: Operation, call: Callable[[S3ControlStore], object]
) -> None:
    proxy.spoil(operation, "", "status", status=503, times=ALWAYS)
    with pytest.raises(Unreachable, match="answered 503"):
        call(store)


def test_a_graph_larger_than_a_page_is_removed_whole(store: S3ControlStore, truth: S3ControlStore) -> None:
    for number in range(1001):
        truth.put(f"d/{number}", b"x")
    truth.put("da", b"x")
    assert len(store.list("d")) == 1001
    store.delete_prefix("d")
    assert truth.entries() == ["da"]


# Leases

TTL_S = 3.0
MAIN = layout.branch_lock("main")


@pytest.fixture
def locks(proxy: FaultProxy, place: str) -> S3Locks:
    hasty = store_at(proxy.endpoint, place, Patience(request_s=0.5, attempts=2, total_s=0.5))
    return S3Locks(hasty, actor="alice", timeout_s=10, ttl_s=TTL_S)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Time stands still for those who hold a lease, until it is set."""
    now = 1000.0
    monkeypatch.setattr(lease, "now_s", lambda: now)

    def advance(seconds: float) -> None:
        nonlocal now
        now += seconds

    return advance


def wait_for_renewals(proxy: FaultProxy, path: str, count: int) -> None:
    """So many more attempts: all of them but the last have been answered, or given up."""
    wanted = proxy.count("PUT", path) + count
    while proxy.count("PUT", path) < wanted:
        time.sleep(0.01)


def test_faults_of_single_renewals_do_not_lose_the_lease(
    proxy: FaultProxy, locks: S3Locks, clock: Callable[[float], None]
) -> None:
    """One lease per fault, all at the same time; each is held for more than its ttl."""
    faults = dict.fromkeys([*NOT_ARRIVED, *LANDED, ("late", 0)])
    held = {}
    for number, (fault, status) in enumerate(faults):
        held[fault, status] = locks.lock(f"branch.{number}").acquire()
        proxy.spoil("PUT", rf"/branch\.{number}\.json", fault, status=status, delay_s=0.7)
    for seconds in (0.6 * TTL_S, 0.7 * TTL_S):
        for number in range(len(held)):
            wait_for_renewals(proxy, rf"/branch\.{number}\.json", 3)
        clock(seconds)
    for lock in held.values():
        lock.check()
        assert lock.token == 1
    for number, lock in enumerate(held.values()):
        lock.release()
        with locks.lock(f"branch.{number}").acquire(0) as again:
            assert again.token == 2


def test_a_holder_that_cannot_renew_holds_on_to_the_end_of_its_time_and_no_longer(
    proxy: FaultProxy, locks: S3Locks, clock: Callable[[float], None]
) -> None:
    lock = locks.lock(MAIN).acquire()
    proxy.spoil("PUT", MAIN, "status", status=503, times=ALWAYS)
    wait_for_renewals(proxy, MAIN, 3)
    clock(TTL_S * 0.99)
    lock.check()
    clock(TTL_S * 0.01)
    with pytest.raises(LockLost, match=r"not renewed within 3 s \(.*answered 503"):
        lock.check()
    proxy.heal()
    with pytest.raises(LockLost):
        lock.check()
    lock.release()


@pytest.mark.parametrize(("fault", "status"), [("status", 500), ("reset", 0), ("hang", 0), *LANDED])
def test_an_acquisition_with_a_fault_gives_one_valid_lease(
    proxy: FaultProxy, locks: S3Locks, fault: Fault, status: int
) -> None:
    rule = proxy.spoil("PUT", MAIN, fault, status=status, times=2)
    with locks.lock(MAIN).acquire() as lock:
        assert rule.hits >= 1
        lock.check()
        assert not locks.lock(MAIN).try_acquire()
        token = lock.token
    with locks.lock(MAIN).acquire(0) as again:
        assert again.token == token + 1


def test_an_acquisition_that_landed_unnoticed_is_recognised_as_ours(
    proxy: FaultProxy, locks: S3Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its own lease would have to run out first; here none ever does."""
    monkeypatch.setattr(LeaseWatch, "has_run_out", lambda *_: False)
    proxy.spoil("PUT", MAIN, "landed-reset", times=2)
    settling = proxy.spoil("GET", MAIN, "status", status=503, skip=1, times=2)
    with locks.lock(MAIN).acquire(60) as lock:
        assert settling.hits == 2
        lock.check()


@pytest.mark.parametrize(("fault", "status"), [("status", 500), *LANDED])
def test_a_release_with_a_fault_frees_the_lease(
    proxy: FaultProxy, locks: S3Locks, fault: Fault, status: int
) -> None:
    lock = locks.lock(MAIN).acquire()
    rule = proxy.spoil("PUT", MAIN, fault, status=status)
    lock.release()
    assert rule.hits == 1
    assert locks.lock(MAIN).acquire(0).token == 2


def test_waiting_for_a_lease_on_a_dead_server_says_so(proxy: FaultProxy, locks: S3Locks) -> None:
    locks.lock(MAIN).acquire().release()
    proxy.spoil("GET", MAIN, "status", status=503, times=ALWAYS)
    with pytest.raises(Unreachable):
        locks.lock(MAIN).acquire(0.5)


# What cannot work is said clearly, after few requests, and without secrets.


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests by which a store finds out whether it is there."""
    made: list[str] = []
    first_page = S3ControlStore._first_page

    def counted(store: S3ControlStore, prefix: str | None = None) -> Any:
        made.append(prefix or "")
        return first_page(store, prefix)

    monkeypatch.setattr(S3ControlStore, "_first_page", counted)
    return made


def assert_clear(
    settings: Settings, place: str, expected: type[OmnigraphError], tries: list[str], *says: str
) -> None:
    storage = open_storage(parse_location(place, Path("/")), settings)
    for attempt in (storage.probe, storage.control.is_empty, lambda: storage.locks.lock(MAIN).acquire(0)):
        tries.clear()
        with pytest.raises(expected) as caught:
            attempt()
        assert len(tries) <= (PROBING.attempts if expected is Unreachable else 1)
        assert caught.value.kind is ErrorKind.STORAGE
        shown = "".join(traceback.format_exception(caught.value)) + str(caught.value.hint)
        for text in says:
            assert text in shown
        for secret in (SECRET_KEY, WRONG_SECRET, "AWS4-HMAC"):
            assert secret not in shown + repr(storage) + repr(settings) + repr(caught.value.details())
        if expected is Unreachable:
            break  # the others take as long


WRONG_SECRET = "wrong-secret-that-must-not-be-shown"


@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"])
def test_wrong_credentials(s3_server: S3Server, place: str, variable: str, tries: list[str]) -> None:
    settings = load_settings({**s3_server.environment, variable: WRONG_SECRET})
    assert_clear(
        settings, place, AccessDenied, tries, "does not accept the credentials", "AWS_SECRET_ACCESS_KEY"
    )


def test_a_missing_bucket_is_an_error_and_is_not_created(s3_server: S3Server, tries: list[str]) -> None:
    settings = load_settings(s3_server.environment)
    for _ in range(2):
        assert_clear(
            settings, "s3://no-such-bucket/g", NoSuchBucket, tries, "there is no bucket 'no-such-bucket'"
        )


def test_a_server_that_is_not_there(tries: list[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        settings = load_settings(environment_of(endpoint))
        assert_clear(settings, "s3://bucket/g", Unreachable, tries, f"{endpoint} refused the connection")


def test_a_server_that_never_answers(tries: list[str]) -> None:
    with socket.socket() as black_hole:
        black_hole.bind(("127.0.0.1", 0))
        black_hole.listen()
        endpoint = f"http://127.0.0.1:{black_hole.getsockname()[1]}"
        settings = load_settings(environment_of(endpoint))
        assert_clear(settings, "s3://bucket/g", Unreachable, tries, f"{endpoint} did not answer in time")


def test_a_probe_is_made_once_and_before_everything_else(
    proxy: FaultProxy, place: str, truth: S3ControlStore
) -> None:
    storage = open_storage(parse_location(place, Path("/")), load_settings(environment_of(proxy.endpoint)))
    assert proxy.requests == []
    proxy.spoil("LIST", "", "status", status=403)
    with pytest.raises(StorageError):
        storage.control.put("a", b"x")
    assert [each.operation for each in proxy.requests] == ["LIST"]
    storage.probe()
    storage.control.put("a", b"x")
    storage.probe()
    assert [each.operation for each in proxy.requests] == ["LIST", "LIST", "PUT"]
    assert truth.exists("a")
