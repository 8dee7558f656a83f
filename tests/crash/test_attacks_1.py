"""What a hostile review found at the seams between the pieces: each was a wrong answer, or an error
that told of damage where there was none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import faults, layout
from omnigraph_core.errors import ConflictError, NotFoundError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings
from omnigraph_core.storage.local import LocalControlStore
from omnigraph_core.storage.sync import Syncer
from omnigraph_core.tables.dataset import Table, Tables
from tests.support.records import PEOPLE
from tests.support.writers import check_whole, content, write_three

SETTINGS = Settings(fsync=False, actor="ann")

# ---- readers beside the deletion of a branch ----


class Interrupted:
    """Runs an action of somebody else at the nth time that a reader turns to the storage."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left = 0
        self._act: Callable[[], None] = lambda: None
        for where, name in (
            (LocalControlStore, "get"),
            (LocalControlStore, "list"),
            (Tables, "open"),
            (Table, "scan"),
        ):
            monkeypatch.setattr(where, name, self._counted(getattr(where, name)))

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self._act()
            return real(*arguments, **more)

        return call

    def run(self, nth: int, act: Callable[[], None], read: Callable[[], object]) -> object | None:
        """What was read, None if that was refused; `IndexError` when it was done before."""
        self._left, self._act = nth, act
        try:
            found = read()
        except (NotFoundError, ConflictError):
            found = None
        if self._left > 0:
            raise IndexError
        self._left = 0
        return found


READERS: dict[str, Callable[[Graph], object]] = {
    "commits": lambda graph: sorted(each.message or "" for each in graph.log().commits.values()),
    "rows": lambda graph: [b"old" in line or b"new" in line for line in graph.export(branch="a")],
    "branches": lambda graph: graph.branches(),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("again", [False, True])
def test_a_reader_beside_a_deletion_sees_the_branch_or_none(
    reader: str, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the branch goes, and even if another of its name comes: no word of damage, and what is
    read is of the one or of the other."""
    place = str(tmp_path / "g")
    Graph.init(place, PEOPLE, SETTINGS)
    writer = Graph.open(place, SETTINGS, OpenMode.READ_WRITE)
    writer.create_branch("a")
    write_three(writer, "old", "a")
    seen = [READERS[reader](Graph.open(place, SETTINGS))]

    def delete() -> None:
        writer.delete_branch("a")
        if again:
            writer.create_branch("a")
            write_three(writer, "new", "a")

    interrupted, nth = Interrupted(monkeypatch), 0
    while True:
        nth += 1
        graph = Graph.open(place, SETTINGS)
        try:
            found = interrupted.run(nth, delete, lambda graph=graph: READERS[reader](graph))
        except IndexError:
            break
        if not again:
            writer.create_branch("a")
            write_three(writer, "old", "a")
        if nth == 1:
            seen += [found]
        assert found is None or found in seen, nth
    assert nth > 3


class Died(BaseException):
    """The end of a process, as far as its own code can tell."""


def test_a_ref_that_goes_while_it_is_looked_at_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its twin is still there and tells of writes; but the ref itself went first."""
    place = str(tmp_path / "g")
    Graph.init(place, PEOPLE, SETTINGS)
    writer = Graph.open(place, SETTINGS, OpenMode.READ_WRITE)
    writer.create_branch("a")
    write_three(writer, "old", "a")
    reader = Graph.open(place, SETTINGS)
    get = LocalControlStore.get

    def read(self: LocalControlStore, path: str) -> Any:
        found = get(self, path)
        if path.endswith("__manifest/_refs/branches/a.json"):
            monkeypatch.setattr(LocalControlStore, "get", get)
            writer.delete_branch("a")
            with dying_at("branch.fork_to_delete", monkeypatch):
                writer.create_branch("a")
        return found

    monkeypatch.setattr(LocalControlStore, "get", read)
    assert reader.branches() == ["main"]
    assert LocalControlStore.get is get, "the branch was not deleted meanwhile"


# ---- a decision of recovery, and a power cut right after it ----


class Disk:
    """Which files of a graph were written and not synced: a power cut may tear these."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._before = self._files()
        self._synced: set[Path] = set()
        flush, copy = Syncer.flush, Syncer._replace_by_copy

        def flushed(syncer: Syncer, descriptor: int, path: Path | str) -> None:
            flush(syncer, descriptor, path)
            self._synced.add(Path(path))

        def copied(syncer: Syncer, path: Path) -> None:
            copy(syncer, path)
            self._synced.add(path)

        monkeypatch.setattr(Syncer, "flush", flushed)
        monkeypatch.setattr(Syncer, "_replace_by_copy", copied)

    def _files(self) -> set[Path]:
        return {path for path in self._root.rglob("*.manifest") if path.is_file()}

    def cut(self, dataset: str) -> list[str]:
        """Tear every unsynced version below a directory."""
        torn = [path for path in self._files() - self._before - self._synced if dataset in str(path)]
        for path in torn:
            path.write_bytes(path.read_bytes()[:20])
        return [str(path.relative_to(self._root)) for path in torn]


# Where the writer dies, and what the cut may take of what it had not synced.
UNSYNCED = [
    ("write.table_committed.3", ("edges/", "nodes/")),
    ("history.commit_recorded", ("__manifest", layout.COMMIT_ACTORS)),
    ("history.commit_recorded", ("__manifest", layout.COMMITS)),
]


@pytest.mark.parametrize(("dies_at", "torn"), UNSYNCED)
def test_a_power_cut_after_the_decision_of_a_recovery(
    dies_at: str, torn: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer is killed, its recovery decides and is killed, and the power fails: what the decision was
    made upon must not be lost, as the decision is not."""
    place = tmp_path / "g"
    settings = Settings(fsync=True, actor="ann")
    Graph.init(str(place), PEOPLE, settings)
    write_three(Graph.open(str(place), settings, OpenMode.READ_WRITE), "acknowledged")
    disk = Disk(place, monkeypatch)

    def opened() -> Graph:
        return Graph.open(str(place), settings, OpenMode.READ_WRITE)

    with dying_at(dies_at, monkeypatch):
        write_three(opened(), "open")
    with dying_at("recovery.decided", monkeypatch):
        opened()
    for dataset in torn:
        disk.cut(dataset)
    graph = opened()
    write_three(graph, "next")
    assert content(graph)["node:Person"] == content(graph)["edge:Knows"]
    assert {"acknowledged", "open", "next"} == content(graph)["node:Person"]
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledForward"]
    check_whole(graph)


@contextmanager
def dying_at(failpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    hit = faults.hit

    def die(name: str) -> None:
        if name == failpoint:
            raise Died
        hit(name)

    monkeypatch.setattr(faults, "hit", die)
    with pytest.raises(Died):
        yield
    monkeypatch.setattr(faults, "hit", hit)
