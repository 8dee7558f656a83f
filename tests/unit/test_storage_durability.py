"""What reaches the disk and in which order, seen by strace; and what a failing disk does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.programs import require_program
from tests.support.tracing import whole_calls

PROLOGUE = """
import json, sys
from pathlib import Path
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.storage.local import LocalControlStore
from omnigraph_core.storage.sync import Syncer
root = Path(sys.argv[1])
syncer = Syncer(enabled=sys.argv[2] == "on")
store = LocalControlStore(root, syncer)
answer = {}
try:
%s
except OmnigraphError as error:
    answer = {"type": type(error).__name__, "message": error.message, "hint": error.hint} | error.details()
print(json.dumps(answer))
"""

CALLS = "mkdir,mkdirat,fsync,fdatasync,link,linkat,rename,renameat,renameat2,unlink,unlinkat"
LINE = re.compile(r"^\d+ +(\w+)\((.*)\) += (.*)$")


@dataclass(frozen=True, slots=True)
class Call:
    """One finished system call: `fsync /graph/d`, or the name a call gave or took."""

    name: str
    target: str
    result: str


def run_traced(
    tmp_path: Path, script: str, *, fsync: str = "on", inject: str | None = None
) -> tuple[list[Call], Mapping[str, object]]:
    """Run the script on `tmp_path/graph` under strace; return its disk calls and its answer."""
    trace = tmp_path / "trace"
    body = "\n".join("    " + line for line in script.strip().splitlines())
    traced = CALLS + (",write" if inject and inject.startswith("write") else "")
    command = [require_program("strace"), "-f", "-y", "-qq", "-o", str(trace), "-e", f"trace={traced}"]
    if inject:
        command += ["-e", f"inject={inject}"]
    command += [sys.executable, "-B", "-c", PROLOGUE % body, str(tmp_path / "graph"), fsync]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    calls = [call for call in map(parse_call, whole_calls(trace.read_text())) if call is not None]
    return [call for call in calls if str(tmp_path) in call.target], json.loads(done.stdout)


def parse_call(line: str) -> Call | None:
    """The path a call is about: the descriptor's for a sync, the last name for the others."""
    match = LINE.match(line)
    if match is None:
        return None
    name, arguments, result = match.groups()
    if "sync" in name or name == "write":
        found = re.search(r"^\d+<(.*?)>", arguments)
        return Call(name, found[1] if found else "", result)
    parts = re.findall(r'(?:\d+<([^>]*)>, )?"([^"]*)"', arguments)
    folder, last = parts[-1]
    return Call(name, f"{folder}/{last}" if folder else last, result)


def steps(calls: list[Call], tmp_path: Path) -> list[str]:
    """The calls as short words, with the random part of temporary names cut off."""
    words = []
    for call in calls:
        path = call.target.replace(str(tmp_path), "")
        path = re.sub(r"(\.og-tmp\.)[0-9a-f]+", r"\1X", path)
        verb = re.sub(r"(at2?)$", "", call.name)
        words.append(f"{verb} {path}")
    return words


def test_create_syncs_the_bytes_before_the_name_and_the_folder_after(tmp_path: Path) -> None:
    (tmp_path / "graph" / "d").mkdir(parents=True)
    calls, _ = run_traced(tmp_path, 'store.create("d/a", b"x")')
    assert steps(calls, tmp_path) == [
        "fsync /graph",
        "fsync /graph/d/.og-tmp.X",
        "link /graph/d/a",
        "unlink /graph/d/.og-tmp.X",
        "fsync /graph/d",
    ]


@pytest.mark.parametrize("verb", ['put("d/a", b"y")', 'replace("d/a", b"y", store.get("d/a").e_tag)'])
def test_writing_over_syncs_the_bytes_before_the_name_and_the_folder_after(tmp_path: Path, verb: str) -> None:
    (tmp_path / "graph" / "d").mkdir(parents=True)
    (tmp_path / "graph" / "d" / "a").write_bytes(b"x")
    calls, _ = run_traced(tmp_path, f"store.{verb}")
    words = [word for word in steps(calls, tmp_path) if word != "fsync /graph"]
    assert words[:3] == ["fsync /graph/d/.og-tmp.X", "rename /graph/d/a", "unlink /graph/d/.og-tmp.X"]
    assert words[3:] == ["fsync /graph/d"]


def test_new_folders_are_synced_into_their_parents(tmp_path: Path) -> None:
    calls, _ = run_traced(tmp_path, 'store.create("d/e/a", b"x")')
    words = steps(calls, tmp_path)
    for folder, parent in (("/graph", ""), ("/graph/d", "/graph"), ("/graph/d/e", "/graph/d")):
        made = words.index(f"mkdir {folder}")
        assert words[made + 1] == f"fsync {parent}"
    assert words.index("mkdir /graph/d/e") < words.index("link /graph/d/e/a")


def test_the_second_write_pays_for_two_syncs_only(tmp_path: Path) -> None:
    calls, _ = run_traced(tmp_path, 'store.create("d/a", b"x")\nstore.create("d/b", b"x")')
    words = steps(calls, tmp_path)
    second = words[words.index("link /graph/d/a") + 3 :]
    assert [word for word in second if word.startswith("fsync")] == [
        "fsync /graph/d/.og-tmp.X",
        "fsync /graph/d",
    ]


def test_with_syncing_off_nothing_is_synced(tmp_path: Path) -> None:
    script = """
tag = store.create("d/a", b"x")
store.replace("d/a", b"y", tag)
store.put("d/b", b"z")
answer = {"files": syncer.sync_tree(root).files}
"""
    calls, answer = run_traced(tmp_path, script, fsync="off")
    assert answer == {"files": 0}
    assert [call for call in calls if "link" in call.name or "rename" in call.name]
    assert [call for call in calls if "sync" in call.name] == []


def test_a_barrier_syncs_each_path_once_and_folders_last(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    (folder / "sub").mkdir(parents=True)
    for n in range(20):
        (folder / f"f{n}").write_bytes(b"x")
    script = """
files = [root / f"f{n}" for n in range(20)]
report = syncer.barrier(files + files, [root, root / "sub", root / "sub" / ".."])
answer = {"files": report.files, "directories": report.directories}
"""
    calls, answer = run_traced(tmp_path, script)
    assert answer == {"files": 20, "directories": 2}
    words = steps(calls, tmp_path)
    assert sorted(words[:20]) == sorted(f"fsync /graph/f{n}" for n in range(20))
    assert sorted(words[20:]) == ["fsync /graph", "fsync /graph/sub"]


def test_a_new_tree_is_synced_whole_with_its_name(tmp_path: Path) -> None:
    dataset = tmp_path / "graph" / "nodes" / "t"
    (dataset / "data").mkdir(parents=True)
    (dataset / "data" / "a.lance").write_bytes(b"x")
    (dataset / "head").write_bytes(b"x")
    (dataset / "data" / "pointer").symlink_to("/dev/full")
    calls, _ = run_traced(tmp_path, 'syncer.sync_tree(root / "nodes" / "t")')
    below = "fsync /graph/nodes"
    words = steps(calls, tmp_path)
    assert sorted(words[:2]) == [f"{below}/t/data/a.lance", f"{below}/t/head"]
    assert sorted(words[2:]) == [below, f"{below}/t", f"{below}/t/data"]


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "graph").mkdir()
    _, answer = run_traced(tmp_path, 'store.create("a", b"x")', inject="write:error=ENOSPC:when=1")
    assert answer["type"] == "NoSpaceLeft"
    assert answer["path"] == str(tmp_path / "graph" / "a")
    assert "no space left" in str(answer["message"])
    assert answer["hint"]
    assert list((tmp_path / "graph").iterdir()) == []


@pytest.mark.parametrize(
    ("inject", "says"),
    [("mkdir:error=EROFS", "read-only"), ("mkdir:error=EACCES", "permission denied")],
)
def test_a_disk_that_may_not_be_written_is_named(tmp_path: Path, inject: str, says: str) -> None:
    _, answer = run_traced(tmp_path, 'store.create("a", b"x")', inject=inject)
    assert answer["type"] == "AccessDenied"
    assert answer["path"] == str(tmp_path / "graph")
    assert says in str(answer["message"])
    assert answer["hint"]


@pytest.mark.parametrize(("failing", "landed"), [(1, False), (2, True)])
def test_a_failed_sync_is_reported_and_never_retried(tmp_path: Path, failing: int, landed: bool) -> None:
    (tmp_path / "graph").mkdir()
    calls, answer = run_traced(tmp_path, 'store.create("a", b"x")', inject=f"fsync:error=EIO:when={failing}")
    assert answer["type"] == "SyncFailed"
    assert answer["errno"] == "EIO"
    syncs = [call for call in calls if call.name == "fsync"]
    assert len(syncs) == failing
    assert syncs[-1].result.startswith("-1 EIO")
    assert (tmp_path / "graph" / "a").exists() is landed
    assert [path.name for path in (tmp_path / "graph").iterdir() if path.name != "a"] == []


def test_a_barrier_with_a_failed_sync_fails_without_syncing_the_folders(tmp_path: Path) -> None:
    (tmp_path / "graph").mkdir()
    for n in range(8):
        (tmp_path / "graph" / f"f{n}").write_bytes(b"x")
    script = 'syncer.barrier([root / f"f{n}" for n in range(8)], [root])'
    # strace counts calls per thread: every thread fails its first one.
    calls, answer = run_traced(tmp_path, script, inject="fsync:error=EIO:when=1")
    assert answer["type"] == "SyncFailed"
    words = steps(calls, tmp_path)
    assert sorted(words) == sorted(f"fsync /graph/f{n}" for n in range(8))


def test_what_is_written_anew_is_a_synced_copy_under_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "graph").mkdir()
    old = tmp_path / "graph" / "a"
    old.write_bytes(b"x" * 3_000_000)
    old.chmod(0o640)
    before = old.stat()
    calls, _ = run_traced(tmp_path, 'syncer.write_anew([root / "a"])')
    after = old.stat()
    assert old.read_bytes() == b"x" * 3_000_000
    assert (after.st_ino != before.st_ino, after.st_mode) == (True, before.st_mode)
    synced = [call for call in steps(calls, tmp_path) if call.startswith("fsync")]
    assert len(synced) == 2
    assert "/graph/.og-tmp." in synced[0]
    assert synced[1] == "fsync /graph"
    assert [path.name for path in (tmp_path / "graph").iterdir()] == ["a"]


def test_what_cannot_be_written_anew_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "a").write_bytes(b"x")
    inode = (tmp_path / "graph" / "a").stat().st_ino
    _, answer = run_traced(tmp_path, 'syncer.write_anew([root / "a"])', inject="fsync:error=EIO:when=1")
    assert answer["type"] == "SyncFailed"
    assert (tmp_path / "graph" / "a").stat().st_ino == inode
    assert [path.name for path in (tmp_path / "graph").iterdir()] == ["a"]


def test_syncing_something_that_is_gone_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "graph").mkdir()
    _, answer = run_traced(tmp_path, 'syncer.barrier([root / "gone"])')
    assert answer["type"] == "StorageFailure"
    assert answer["path"] == str(tmp_path / "graph" / "gone")


TAKE_LOCK = """
from omnigraph_core.storage.flock import LocalLocks
with LocalLocks(root, syncer, actor="me", timeout_s=0).lock("refs") as lock:
    answer = {"token": lock.token}
"""


def test_the_token_of_a_lock_is_synced_and_first_the_name_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "graph" / "__locks").mkdir(parents=True)
    # A first holder that dies before it has written a token leaves an empty file.
    (tmp_path / "graph" / "__locks" / "refs.lock").touch()
    calls, answer = run_traced(tmp_path, TAKE_LOCK)
    assert answer == {"token": 1}
    assert steps(calls, tmp_path) == [
        "fsync /graph/__locks",
        "fsync /graph",
        "fsync /graph/__locks/refs.lock",
    ]
    calls, answer = run_traced(tmp_path, TAKE_LOCK)
    assert answer == {"token": 2}
    assert steps(calls, tmp_path) == ["fsync /graph/__locks/refs.lock"]


def test_a_lock_whose_token_cannot_be_synced_is_not_taken(tmp_path: Path) -> None:
    run_traced(tmp_path, TAKE_LOCK)
    _, answer = run_traced(tmp_path, TAKE_LOCK, inject="fsync:error=EIO:when=1")
    assert answer["type"] == "SyncFailed"
    _, answer = run_traced(tmp_path, TAKE_LOCK)
    assert answer == {"token": 3}
