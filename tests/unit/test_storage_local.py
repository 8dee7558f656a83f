"""Control objects on a local disk: e-tags, temporary files, kills and failing disks."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph_core import faults
from omnigraph_core.errors import ErrorKind
from omnigraph_core.storage.control import InvalidObjectPath, ObjectChanged
from omnigraph_core.storage.failures import StorageFailure
from omnigraph_core.storage.folder_lock import FolderBusy
from omnigraph_core.storage.local import LocalControlStore
from omnigraph_core.storage.sync import Syncer


@pytest.fixture
def store(tmp_path: Path) -> LocalControlStore:
    return LocalControlStore(tmp_path / "graph", Syncer(enabled=False))


def test_the_same_bytes_written_again_have_another_e_tag(store: LocalControlStore) -> None:
    tags = [store.put("a", b"same") for _ in range(300)]
    assert len(set(tags)) == 300
    with pytest.raises(ObjectChanged):
        store.replace("a", b"new", tags[0])


def test_an_e_tag_stays_fresh_when_the_clock_was_ahead(store: LocalControlStore, tmp_path: Path) -> None:
    store.put("a", b"same")
    future_ns = 4_000_000_000_000_000_000
    os.utime(tmp_path / "graph" / "a", ns=(future_ns, future_ns))
    store.put("a", b"same")
    assert (tmp_path / "graph" / "a").stat().st_mtime_ns == future_ns + 1


def test_temporary_files_are_never_listed_nor_addressed(store: LocalControlStore, tmp_path: Path) -> None:
    store.put("d/a", b"x")
    for folder in ("graph", "graph/d"):
        (tmp_path / folder / ".og-tmp.0123456789abcdef").write_bytes(b"half")
    assert store.list("d") == ["a"]
    assert store.entries() == ["d"]
    with pytest.raises(InvalidObjectPath):
        store.get("d/.og-tmp.0123456789abcdef")


@pytest.mark.parametrize("step", ["written", "synced"])
@pytest.mark.parametrize("verb", ["create", "put", "replace"])
def test_a_failing_write_leaves_the_old_bytes_and_no_temporary_file(
    store: LocalControlStore, tmp_path: Path, verb: str, step: str
) -> None:
    e_tag = store.put("d/old", b"old")
    faults.arm(f"control.{verb}.{step}=error")
    try:
        with pytest.raises(faults.InjectedFault):
            _write(store, verb, e_tag)
    finally:
        faults.arm("")
    assert os.listdir(tmp_path / "graph" / "d") == ["old"]
    found = store.get("d/old")
    assert found is not None
    assert (found.data, found.e_tag) == (b"old", e_tag)


KILLED_WRITER = """
import sys
from pathlib import Path
from omnigraph_core import faults
from omnigraph_core.storage.local import LocalControlStore
from omnigraph_core.storage.sync import Syncer
root, verb, step, e_tag = sys.argv[1:]
store = LocalControlStore(Path(root), Syncer(enabled=True))
faults.arm(f"control.{verb}.{step}=kill")
if verb == "create":
    store.create("d/new", b"new")
elif verb == "put":
    store.put("d/old", b"new")
else:
    store.replace("d/old", b"new", e_tag)
"""


@pytest.mark.parametrize("step", ["written", "synced", "visible"])
@pytest.mark.parametrize("verb", ["create", "put", "replace"])
def test_a_killed_writer_leaves_the_old_or_the_new_bytes(
    store: LocalControlStore, tmp_path: Path, verb: str, step: str
) -> None:
    e_tag = store.put("d/old", b"old")
    arguments = [str(tmp_path / "graph"), verb, step, e_tag]
    process = subprocess.run([sys.executable, "-c", KILLED_WRITER, *arguments], check=False)
    assert process.returncode == -signal.SIGKILL
    landed = step == "visible"
    target = "d/new" if verb == "create" else "d/old"
    before = None if verb == "create" else b"old"
    found = store.get(target)
    assert (found.data if found else None) == (b"new" if landed else before)
    assert store.list("d") == (["new", "old"] if verb == "create" and landed else ["old"])
    # The dead writer holds nothing: the next one gets through.
    store.put(target, b"next")
    assert found is None or store.get(target) != found


@pytest.mark.parametrize("verb", ["put", "replace", "delete"])
def test_a_folder_that_another_holds_is_waited_for_in_vain_and_named(verb: str, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    store = LocalControlStore(root, Syncer(enabled=False), timeout_s=0.0)
    e_tag = store.put("d/old", b"old")
    stopped = os.open(root / "d", os.O_RDONLY)
    try:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        with pytest.raises(FolderBusy) as caught:
            store.delete("d/old") if verb == "delete" else _write(store, verb, e_tag)
    finally:
        os.close(stopped)
    assert caught.value.kind is ErrorKind.BUSY
    assert f"process {os.getpid()} is replacing a file in {root / 'd'}" in caught.value.message
    found = store.get("d/old")
    assert found is not None
    assert (found.data, found.e_tag) == (b"old", e_tag)
    _write(store, "replace", e_tag)


@pytest.mark.parametrize("verb", ["create", "put"])
def test_a_file_where_a_folder_should_be(store: LocalControlStore, tmp_path: Path, verb: str) -> None:
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "d").write_bytes(b"not a folder")
    with pytest.raises(StorageFailure) as caught:
        _write(store, verb, "")
    assert caught.value.kind is ErrorKind.STORAGE
    assert caught.value.details()["errno"] == "ENOTDIR"
    assert str(caught.value.details()["path"]).startswith(str(tmp_path / "graph" / "d"))
    # It hides whatever should be there: that is not the same as nothing.
    for ask in (lambda: store.get("d/old"), lambda: store.list("d"), lambda: store.delete("d/old")):
        with pytest.raises(StorageFailure):
            ask()
    assert (tmp_path / "graph" / "d").read_bytes() == b"not a folder"


def test_a_root_that_is_a_file_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "graph").write_bytes(b"")
    store = LocalControlStore(tmp_path / "graph", Syncer(enabled=False))
    with pytest.raises(StorageFailure, match="not a directory"):
        store.is_empty()


def test_a_folder_in_the_place_of_an_object_is_an_error(store: LocalControlStore) -> None:
    store.put("d/a", b"x")
    with pytest.raises(StorageFailure) as caught:
        store.get("d")
    assert caught.value.details()["errno"] == "EISDIR"
    with pytest.raises(StorageFailure):
        store.delete("d")
    assert store.list("d") == ["a"]


def _write(store: LocalControlStore, verb: str, e_tag: str) -> None:
    if verb == "create":
        store.create("d/new", b"new")
    elif verb == "put":
        store.put("d/old", b"new")
    else:
        store.replace("d/old", b"new", e_tag)
