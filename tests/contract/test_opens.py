"""How often one write opens each dataset: a table once before it has the lock, a log once under it,
and none at all that the write before it in this process has left open.

Every open reads a manifest, and on object storage takes requests; they creep in unseen, one
helper at a time. So do listings of branches, of which there may be a thousand. So the numbers
are exact. A graph that was opened anew knows as much as a new process does: everything that is
remembered belongs to it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.storage.control import Names
from omnigraph_core.storage.local import LocalControlStore
from omnigraph_core.storage.s3 import S3ControlStore
from omnigraph_core.tables.limits import FRAGMENTS_MAX, METADATA_CACHE_SHARE

SCHEMA = "node Person { name: String @key }\nnode Place { name: String @key }"
SETTINGS = Settings(fsync=False, actor="ann")
PERSON = layout.table_path("node", "Person")

Opens = dict[str, int]


class Counted:
    """The opens of one graph, without and with the lock of a branch."""

    def __init__(self, root: Path, branch: str, patch: pytest.MonkeyPatch) -> None:
        self.outside: Counter[str] = Counter()
        self.locked: Counter[str] = Counter()
        self._branch = branch
        self._locks = open_storage(parse_location(str(root), root), SETTINGS).locks
        original = lance.dataset

        def opened(uri: str, **options: Any) -> lance.LanceDataset:
            counted = self.locked if self._is_locked() else self.outside
            counted[Path(uri).relative_to(root).as_posix()] += 1
            return original(uri, **options)

        patch.setattr(lance, "dataset", opened)
        self.graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)

    def _is_locked(self) -> bool:
        return self._locks.read_holder(layout.branch_lock(self._branch)) is not None

    def insert(self, name: str) -> tuple[Opens, Opens]:
        """Insert one row; what it opened outside and under the lock, opening the graph included."""
        self.graph.change(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=self._branch)
        counts = dict(self.outside), dict(self.locked)
        self.outside.clear()
        self.locked.clear()
        return counts


@pytest.fixture
def root(tmp_path: Path) -> Path:
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)
    graph.create_branch("dev")
    return tmp_path / "g"


def test_the_first_write_of_a_process(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it planned on is `__manifest` as it was opened first, if that is still HEAD under the lock."""
    counted = Counted(root, "main", monkeypatch)
    outside, locked = counted.insert("ann")
    assert outside == {"__manifest": 1, "_graph_commits.lance": 1, PERSON: 1}
    assert locked == {"_graph_commits.lance": 1, "_graph_commit_actors.lance": 1}


def test_the_second_write_of_a_process(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows what it published, and that no log is torn; and all that it needs is open."""
    counted = Counted(root, "main", monkeypatch)
    counted.insert("ann")
    assert counted.insert("bob") == ({}, {})


def test_a_write_after_that_of_another_process(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(root, "main", monkeypatch)
    counted.insert("ann")
    other = Graph.open(str(root), SETTINGS)
    other.change('query q() { insert Person { name: "eve" } }')
    counted.outside.clear()
    counted.locked.clear()
    outside, locked = counted.insert("bob")
    assert outside == {"__manifest": 1, PERSON: 1}
    assert locked == {"_graph_commits.lance": 1, "_graph_commit_actors.lance": 1}


def test_a_write_after_one_to_another_branch(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was published here, but a log that all branches append to has moved."""
    counted = Counted(root, "main", monkeypatch)
    counted.insert("ann")
    other = Graph.open(str(root), SETTINGS)
    other.change('query q() { insert Person { name: "eve" } }', branch="dev")
    counted.outside.clear()
    counted.locked.clear()
    assert counted.insert("bob") == ({}, {"_graph_commit_actors.lance": 1})


def test_writes_on_a_branch(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first forks the table, under the lock; from then on a branch is like main."""
    counted = Counted(root, "dev", monkeypatch)
    manifest, commits, fork = (f"{path}/tree/dev" for path in ("__manifest", "_graph_commits.lance", PERSON))
    outside, locked = counted.insert("ann")
    assert outside == {"__manifest": 1, "_graph_commits.lance": 1, manifest: 1, commits: 1}
    forking = {PERSON: 1, fork: 1}
    assert locked == Counter({commits: 1, "_graph_commit_actors.lance": 1, fork: 1}) + Counter(forking)
    assert counted.insert("bob") == ({}, {})


def test_a_compaction_opens_the_manifest_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it is due is known from what was committed, not by looking; where its rows are then is read."""
    counted = Counted(root, "main", monkeypatch)
    counted.insert("first")
    for number in range(20):
        outside, locked = counted.insert(f"p{number}")
        assert {**outside, **locked} in ({}, {"__manifest": 1}), (number, outside, locked)
    assert len(counted.graph.door.manifest.open("main").fragment_rows()) < FRAGMENTS_MAX


def test_a_merge_opens_each_version_once_to_plan(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `Person` the base, ours and theirs; `Place` as the base has it, to see that it can be read."""
    graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    for branch in ("main", "dev"):
        graph.change(f'query q() {{ insert Person {{ name: "{branch}" }} }}', branch=branch)
    counted = Counted(root, "main", monkeypatch)
    counted.outside.clear()
    counted.graph.merge("dev")
    place = layout.table_path("node", "Place")
    tables = {path: times for path, times in counted.outside.items() if path.startswith(("nodes/", PERSON))}
    assert tables == {PERSON: 2, f"{PERSON}/tree/dev": 1, place: 1}
    assert not counted.locked[PERSON]


def test_creating_a_branch_lists_the_others_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And once those that have a twin: a leftover of one may be in the way."""
    graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    original, listed = LocalControlStore.list, Counter[str]()

    def counted(store: LocalControlStore, prefix: str) -> Names:
        listed[prefix] += 1
        return original(store, prefix)

    monkeypatch.setattr(LocalControlStore, "list", counted)
    graph.create_branch("review/one")
    assert listed["__manifest/_refs/branches"] == 1
    assert listed["_graph_commits.lance/_refs/branches"] == 1


def test_what_is_kept_of_manifests_and_indexes_does_not_grow_with_the_commits(tmp_path: Path) -> None:
    """Lance keeps some 90 KB of each commit, up to a gigabyte unless it is told otherwise."""
    settings = Settings(fsync=False, actor="ann", memory_limit_bytes=16 << 20)
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, settings)
    for number in range(60):
        graph.change(f'query q() {{ insert Person {{ name: "p{number}" }} }}')
    assert 0 < graph._tables._session.size_bytes() < 2 * settings.memory_limit_bytes // METADATA_CACHE_SHARE


REFS = "__manifest/_refs/branches/"


def test_a_query_reads_no_ref_and_opening_to_write_each_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On object storage each is a request, and there may be a thousand."""
    read: list[str] = []
    get = LocalControlStore.get

    def counting(store: LocalControlStore, path: str) -> Any:
        if path.startswith(REFS):
            read.append(path)
        return get(store, path)

    monkeypatch.setattr(LocalControlStore, "get", counting)
    graph = Graph.open(str(root), SETTINGS)
    graph.query("query q() { match { $p: Person } return { $p.name } }")
    graph.catalog()
    assert not read
    Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    assert read.count(f"{REFS}dev.json") == 1


def test_refs_of_a_graph_on_s3_are_read_side_by_side(
    s3_environment: dict[str, str], s3_location: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, place = load_settings({**s3_environment, "OMNIGRAPH_ACTOR": "ann"}), s3_location()
    graph = Graph.init(place, SCHEMA, settings)
    for name in ("b", "a"):
        graph.create_branch(name)
    together, get = threading.Barrier(2, timeout=60), S3ControlStore.get

    def meeting(store: S3ControlStore, path: str) -> Any:
        if path.startswith(REFS):
            together.wait()
        return get(store, path)

    monkeypatch.setattr(S3ControlStore, "get", meeting)
    assert Graph.open(place, settings).branches() == ["a", "b", "main"]
