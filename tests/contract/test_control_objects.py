"""What every `ControlStore` promises; a new backend joins by a new branch in `location`."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core.errors import StorageError
from omnigraph_core.settings import load_settings
from omnigraph_core.storage import (
    ControlStore,
    Location,
    ObjectChanged,
    ObjectExists,
    open_storage,
    parse_location,
)
from omnigraph_core.storage.control import InvalidObjectPath
from tests.support import warm
from tests.support.processes import clean_environment
from tests.support.s3server import S3Server

THREADS = 8
PROCESSES = 4


@pytest.fixture(params=["local", "s3"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def rounds(kind: str) -> int:
    """Rivals for one key cost a second a round on SeaweedFS, whoever wins."""
    return 10 if kind == "local" else 2


@pytest.fixture
def environment(kind: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """What leads to the place; syncing stays on, because its cost is part of the races."""
    if kind == "local":
        return {}
    server: S3Server = request.getfixturevalue("s3_server")
    return server.environment


@pytest.fixture
def location(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Location:
    if kind == "local":
        return parse_location("graph", tmp_path)
    server: S3Server = request.getfixturevalue("s3_server")
    return parse_location(server.new_location(), tmp_path)


@pytest.fixture
def store(location: Location, environment: dict[str, str]) -> ControlStore:
    return open_storage(location, load_settings(environment)).control


def test_what_was_created_is_read_back_with_its_e_tag(store: ControlStore) -> None:
    e_tag = store.create("__recovery/a.json", b"one")
    found = store.get("__recovery/a.json")
    assert found is not None
    assert (found.data, found.e_tag) == (b"one", e_tag)


def test_an_empty_object_is_an_object(store: ControlStore) -> None:
    store.create("a", b"")
    found = store.get("a")
    assert found is not None
    assert found.data == b""
    assert store.exists("a")
    assert store.size("a") == 0


def test_nothing_is_read_where_nothing_is(store: ControlStore) -> None:
    assert store.get("__recovery/a.json") is None
    assert not store.exists("__recovery/a.json")
    assert store.size("__recovery/a.json") is None
    assert store.list("__recovery") == []
    assert store.is_empty()


def test_creating_twice_keeps_the_first(store: ControlStore) -> None:
    store.create("a", b"first")
    with pytest.raises(ObjectExists) as caught:
        store.create("a", b"second")
    assert caught.value.details() == {"path": "a"}
    assert _data(store, "a") == b"first"


def test_replace_needs_the_current_e_tag(store: ControlStore) -> None:
    old = store.create("a", b"v1")
    new = store.replace("a", b"v2", old)
    assert new != old
    with pytest.raises(ObjectChanged) as caught:
        store.replace("a", b"v3", old)
    assert caught.value.details() == {"path": "a"}
    assert _data(store, "a") == b"v2"
    store.replace("a", b"v3", new)
    assert _data(store, "a") == b"v3"


def test_a_copy_has_the_same_bytes_and_leaves_its_source(store: ControlStore) -> None:
    store.create("folder/a", b"bytes")
    store.copy("folder/a", "folder/b")
    assert (_data(store, "folder/a"), _data(store, "folder/b")) == (b"bytes", b"bytes")
    with pytest.raises(StorageError):
        store.copy("folder/absent", "folder/c")
    assert store.list("folder") == ["a", "b"]


@pytest.mark.parametrize("path", ["a", "no/such/folder/a"])
def test_replace_of_something_absent_creates_nothing(store: ControlStore, path: str) -> None:
    e_tag = store.create("other", b"v1")
    with pytest.raises(ObjectChanged):
        store.replace(path, b"v2", e_tag)
    assert store.get(path) is None


def test_replace_after_delete_and_create_is_stale(store: ControlStore) -> None:
    old = store.create("a", b"v1")
    store.delete("a")
    store.create("a", b"v2")
    with pytest.raises(ObjectChanged):
        store.replace("a", b"v3", old)
    assert _data(store, "a") == b"v2"


def test_put_writes_over_anything_and_makes_e_tags_stale(store: ControlStore) -> None:
    store.put("f/a", b"v1")
    old = store.get("f/a")
    assert old is not None
    new = store.put("f/a", b"v2")
    assert _data(store, "f/a") == b"v2"
    with pytest.raises(ObjectChanged):
        store.replace("f/a", b"v3", old.e_tag)
    store.replace("f/a", b"v4", new)


def test_list_names_the_objects_directly_below_in_order(store: ControlStore) -> None:
    for path in ("d/b", "d/a", "d/sub/c", "top"):
        store.create(path, b"x")
    assert store.list("d") == ["a", "b"]
    assert store.list("d/sub") == ["c"]
    assert store.list("") == ["top"]


def test_entries_show_everything_in_the_root(store: ControlStore) -> None:
    store.create("d/a", b"x")
    store.create("top", b"x")
    assert store.entries() == ["d", "top"]
    assert not store.is_empty()


def test_delete_is_idempotent(store: ControlStore) -> None:
    store.create("d/a", b"x")
    store.delete("d/a")
    assert store.get("d/a") is None
    assert store.list("d") == []
    store.delete("d/a")
    store.delete("no/such/folder/a")
    store.create("d/a", b"y")
    assert _data(store, "d/a") == b"y"


def test_delete_prefix_removes_what_is_below_and_nothing_else(store: ControlStore) -> None:
    for path in ("d/a", "d/sub/b", "da", "e/a"):
        store.create(path, b"x")
    store.delete_prefix("d")
    store.delete_prefix("d")
    assert store.get("d/a") is None
    assert store.get("d/sub/b") is None
    assert store.exists("da")
    assert store.exists("e/a")
    store.create("d/a", b"y")
    assert _data(store, "d/a") == b"y"


def test_list_prefix_names_everything_below_by_its_path(store: ControlStore) -> None:
    for path in ("d/b", "d/a", "d/sub/deep/c", "da", "e/a"):
        store.create(path, b"x")
    assert store.list_prefix("d") == ["d/a", "d/b", "d/sub/deep/c"]
    assert store.list_prefix("d/sub") == ["d/sub/deep/c"]
    assert store.list_prefix("nothing") == []


def test_a_listing_has_sizes_and_times(store: ControlStore) -> None:
    for path, data in (("d/b", b"four"), ("d/sub/c", b""), ("e/a", b"x")):
        store.create(path, data)
    found = store.listing("d")
    assert {path: each.size for path, each in found.items()} == {"d/b": 4, "d/sub/c": 0}
    names = store.written_at("d")
    assert found["d/b"].written_s == pytest.approx(names["b"], abs=1.0)
    assert store.listing("nothing") == {}
    assert store.temporaries() == {}


def test_half_written_files_are_seen_only_by_who_asks_for_them(tmp_path: Path) -> None:
    store = open_storage(parse_location("g", tmp_path), load_settings({})).control
    store.create("d/a", b"x")
    left = tmp_path / "g" / "d" / ".og-tmp.0011223344556677"
    left.write_bytes(b"half")
    assert [(path, each.size) for path, each in store.temporaries().items()] == [
        ("d/.og-tmp.0011223344556677", 4)
    ]
    assert store.list("d") == ["a"]
    assert list(store.listing("d")) == ["d/a"]
    for wrong in ("d/a", "../.og-tmp.1", "/.og-tmp.1"):
        with pytest.raises(InvalidObjectPath):
            store.delete_temporary(wrong)
    store.delete_temporary("d/.og-tmp.0011223344556677")
    store.delete_temporary("d/.og-tmp.0011223344556677")
    assert not left.exists()


def test_delete_many_removes_exactly_what_it_is_told(store: ControlStore) -> None:
    paths = [f"d/sub/{number:03}" for number in range(120)]
    for path in (*paths, "d/sub/late", "e/a"):
        store.put(path, b"x")
    store.delete_many(paths)
    assert store.list_prefix("d") == ["d/sub/late"]
    store.delete_many([*paths, "d/sub/late", "no/such/folder/a"])
    store.delete_many([])
    assert store.list_prefix("d") == []
    assert "d" not in store.entries()
    assert store.exists("e/a")
    store.create("d/sub/000", b"y")
    assert _data(store, "d/sub/000") == b"y"


def test_a_folder_is_not_an_object(store: ControlStore) -> None:
    store.create("d/a", b"four")
    assert not store.exists("d")
    assert store.size("d") is None
    assert store.size("d/a") == 4


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../a", "a/../../b", "a//b", "./a", "a/", "a\0b"])
def test_a_path_out_of_the_graph_is_refused(store: ControlStore, path: str) -> None:
    for call in (store.get, store.delete, store.delete_prefix, store.list_prefix, store.size):
        with pytest.raises(InvalidObjectPath):
            call(path)
    with pytest.raises(InvalidObjectPath):
        store.put(path, b"x")
    store.create("here", b"x")
    with pytest.raises(InvalidObjectPath):
        store.delete_many(["here", path])
    assert store.exists("here")


def test_of_racing_creators_one_wins(store: ControlStore, rounds: int) -> None:
    for round_number in range(rounds):
        path = f"race/{round_number}"
        won = _race(lambda me, path=path: bool(store.create(path, b"by %d" % me)), ObjectExists)
        assert len(won) == 1
        assert _data(store, path) == b"by %d" % won[0]


def test_of_racing_replacers_with_one_e_tag_one_wins(store: ControlStore, rounds: int) -> None:
    e_tag = store.create("race", b"start")
    for round_number in range(rounds):
        body = b"round %d by " % round_number
        won = _race(
            lambda me, body=body, e_tag=e_tag: bool(store.replace("race", body + b"%d" % me, e_tag)),
            ObjectChanged,
        )
        assert len(won) == 1
        found = store.get("race")
        assert found is not None
        assert found.data == body + b"%d" % won[0]
        e_tag = found.e_tag


CREATE_RACE = """
for n in range(30):
    try:
        store.create(f"race/{n}", me.encode())
        won.append(n)
    except ObjectExists:
        pass
"""

COUNT_RACE = """
for n in range(25):
    while True:
        old = store.get("count")
        try:
            store.replace("count", f"{int(old.data.split()[0]) + 1} {me}.{n}".encode(), old.e_tag)
            break
        except ObjectChanged:
            pass
    won.append(n)
"""

WRITE_RACE = """
for n in range(60):
    store.put("text", (me * 5000).encode())
    won.append(n)
"""


def test_processes_racing_to_create_have_one_winner_each(
    location: Location, environment: dict[str, str], store: ControlStore
) -> None:
    won = _race_processes(location, environment, CREATE_RACE)
    for n in range(30):
        winners = [me for me, rounds in won.items() if n in rounds]
        assert [_data(store, f"race/{n}").decode()] == winners


def test_processes_counting_with_replace_lose_no_count(
    location: Location, environment: dict[str, str], store: ControlStore
) -> None:
    store.create("count", b"0 start")
    _race_processes(location, environment, COUNT_RACE)
    assert _data(store, "count").split()[0] == b"%d" % (25 * PROCESSES)


def test_readers_never_see_half_an_object(
    location: Location, environment: dict[str, str], store: ControlStore
) -> None:
    store.create("text", b"0" * 5000)
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(_data(store, "text"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        _race_processes(location, environment, WRITE_RACE)
    finally:
        done.set()
        reader.join()
    assert len(seen) > 1
    assert {(len(text), len(set(text))) for text in seen} == {(5000, 1)}


def _data(store: ControlStore, path: str) -> bytes:
    found = store.get(path)
    assert found is not None
    return found.data


def _race(attempt: Callable[[int], bool], loses_with: type[Exception]) -> list[int]:
    """Let the threads attempt at once; return who did not lose. Other errors fail the test."""
    start = threading.Barrier(THREADS)
    won: list[int] = []
    errors: list[Exception] = []

    def run(me: int) -> None:
        start.wait()
        try:
            if attempt(me):
                won.append(me)
        except loses_with:
            pass
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(me,)) for me in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return won


_PROLOGUE = """
import json, sys
from pathlib import Path
from omnigraph_core.settings import load_settings
from omnigraph_core.storage import ObjectChanged, ObjectExists, open_storage, parse_location
uri, me = sys.argv[1:]
store = open_storage(parse_location(uri, Path("/")), load_settings()).control
won = []
print("ready", flush=True)
sys.stdin.readline()
"""


def _race_processes(location: Location, environment: dict[str, str], script: str) -> dict[str, list[int]]:
    """Run the script in several processes that start together; return `won` of each."""
    text = _PROLOGUE + script + "\nprint(*won)\n"
    processes = {
        str(me): warm.Popen(
            [sys.executable, "-c", text, location.uri, str(me)],
            env=clean_environment(OMNIGRAPH_FSYNC="on", **environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for me in range(PROCESSES)
    }
    for process in processes.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = {me: process.communicate(timeout=240)[0] for me, process in processes.items()}
    assert [process.returncode for process in processes.values()] == [0] * PROCESSES
    return {me: [int(n) for n in output.split()] for me, output in outputs.items()}
