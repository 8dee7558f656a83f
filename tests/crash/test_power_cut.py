"""Power cuts during a publish: every state a disk may show is exactly before or exactly after."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, GraphNotFound
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.settings import Settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.torn import set_aside_torn
from tests.support.power_cut_programs import publish_people
from tests.support.powercut import Operation, Survival, cuts, record
from tests.support.processes import OMNIGRAPH, REPOSITORY, clean_environment
from tests.support.programs import require_program
from tests.support.records import PEOPLE
from tests.support.writers import WRITTEN, check_whole, content, open_graph, write_three

# Two tables written, committed and published by a process of its own, in the order of the write protocol.
WRITER = """
import sys
from pathlib import Path
from tests.support.power_cut_programs import publish_people
publish_people(Path(sys.argv[1]), fsync=sys.argv[2] == "on", name=sys.argv[3])
"""


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    root = tmp_path / "g"
    Graph.init(str(root), PEOPLE, Settings(fsync=False, actor="ann", working_directory=tmp_path))
    publish_people(root, fsync=False, name="first")
    return root


def trace(root: Path, tmp_path: Path, *, fsync: bool) -> list[Operation]:
    require_program("strace")
    command = [sys.executable, "-c", WRITER, str(root), "on" if fsync else "off", "second"]
    return record(command, root, clean_environment(PYTHONPATH=str(REPOSITORY)), tmp_path / "strace.log")


def read_people(root: Path) -> tuple[str, set[str], set[str]]:
    """The head commit, the people and the acquaintances, as any reader sees them."""
    tables = Tables(open_storage(parse_location(str(root), root), Settings(fsync=False)))
    snapshot = Manifest(tables).snapshot()
    assert snapshot.head is not None
    found = []
    for key in ("node:Person", "edge:Knows"):
        entry = snapshot.entry(key)
        rows = tables.open(entry.ref, entry.table_version).read(["id"])
        assert rows.num_rows == entry.row_count
        found.append(set(rows.column("id").to_pylist()))
    return snapshot.head.commit_id, found[0], found[1]


BEFORE = ("commit-first", {"first"}, {"first-first"})
AFTER = ("commit-second", {"first", "second"}, {"first-first", "second-second"})


@pytest.fixture
def pristine(graph: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "pristine"
    shutil.copytree(graph, copy)
    return copy


def states(
    graph: Path, pristine: Path, operations: list[Operation], every: int
) -> Iterator[tuple[int, Survival, object]]:
    """Each state in turn, laid out where the graph was (Lance records absolute paths)."""
    for count, survival, _ in cuts(pristine, operations, graph, every):
        yield count, survival, read_people(graph)


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_every_state_is_before_or_after(every: int, graph: Path, pristine: Path, tmp_path: Path) -> None:
    operations = trace(graph, tmp_path, fsync=True)
    assert {each.call for each in operations} >= {"open", "write", "sync", "rename", "link", "unlink"}
    seen = {survival: [] for survival in Survival}
    for count, survival, people in states(graph, pristine, operations, every):
        assert people in (BEFORE, AFTER), f"after {count} of {len(operations)} operations, {survival.value}"
        seen[survival].append(people == AFTER)
    for survival, landed in seen.items():
        assert landed == sorted(landed), f"{survival.value}: a later cut shows an earlier state"
        assert landed[0] is False
        assert landed[-1] is True, f"{survival.value}: the acknowledged publish is lost"


@pytest.mark.parametrize("every", [11, pytest.param(2, marks=pytest.mark.soak)])
def test_every_state_can_be_written_again(every: int, graph: Path, pristine: Path, tmp_path: Path) -> None:
    """Torn HEADs are set aside; only drift (committed, whole, not published) waits for recovery."""
    operations = trace(graph, tmp_path, fsync=True)
    written = 0
    for count, survival, _ in cuts(pristine, operations, graph, every):
        tables = Tables(open_storage(parse_location(str(graph), graph), Settings(fsync=False)))
        snapshot = Manifest(tables).snapshot()
        for entry in snapshot.tables.values():
            set_aside_torn(tables, entry.ref, entry.table_version, lambda: None)
            head = tables.open(entry.ref)
            assert head.version in (entry.table_version, entry.table_version + 1), (count, survival)
            assert head.read(["id"]).num_rows == head.count_rows()
        if all(tables.open(entry.ref).version == entry.table_version for entry in snapshot.tables.values()):
            publish_people(graph, fsync=False, name="third")
            assert read_people(graph)[1] >= {"first", "third"}
            written += 1
    assert written > len(operations) / every


def test_without_syncing_the_publish_is_lost(graph: Path, pristine: Path, tmp_path: Path) -> None:
    """The same replay notices a writer that does not sync: otherwise it would prove nothing."""
    operations = trace(graph, tmp_path, fsync=False)
    assert not [each for each in operations if each.call == "sync"]
    every = len(operations)
    *_, last = (
        people
        for _, survival, people in states(graph, pristine, operations, every)
        if survival is Survival.DROPPED
    )
    assert last == BEFORE


def door_states(root: Path, tmp_path: Path, every: int) -> Iterator[Survival]:
    """Each state in which a power cut may leave a write through the door, laid out at `root`."""
    require_program("strace")
    before = tmp_path / "before"
    shutil.copytree(root, before)
    command = [sys.executable, "-m", "tests.support.writers", str(root), "main", "second"]
    environment = clean_environment(OMNIGRAPH_FSYNC="on", PYTHONPATH=str(REPOSITORY))
    operations = record(command, root, environment, tmp_path / "door.log")
    for _, survival, _ in cuts(before, operations, root, every):
        yield survival


def settled(root: Path) -> set[str]:
    """Open it for writing, as the next command would, and see who is there."""
    graph = open_graph(root, Settings(fsync=False, actor="ann"))
    check_whole(graph)
    found = content(graph)
    people = {key: found[key] & {"second"} for key in WRITTEN}
    assert len({frozenset(names) for names in people.values()}) == 1, "half a commit"
    return found["node:Person"]


@pytest.mark.parametrize("every", [36, pytest.param(1, marks=pytest.mark.soak)])
def test_a_write_through_the_door_survives_a_power_cut_at_any_moment(every: int, tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = Graph.init(str(root), PEOPLE, Settings(fsync=False, actor="ann", working_directory=tmp_path))
    for number in range(16):
        write_three(graph, f"w{number}")
    last: dict[Survival, set[str]] = {}
    for survival in door_states(root, tmp_path, every):
        last[survival] = settled(root)
    for survival, people in last.items():
        assert "second" in people, f"{survival.value}: the acknowledged write is lost"


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.soak)])
def test_a_power_cut_during_init_leaves_a_graph_or_nothing(every: int, tmp_path: Path) -> None:
    require_program("strace")
    root = tmp_path / "home" / "g"
    root.parent.mkdir()
    (tmp_path / "people.pg").write_text(PEOPLE)
    (tmp_path / "before").mkdir()
    command = [str(OMNIGRAPH), "init", "--schema", str(tmp_path / "people.pg"), str(root)]
    environment = clean_environment(OMNIGRAPH_FSYNC="on")
    operations = record(command, root.parent, environment, tmp_path / "init.log")
    settings = Settings(fsync=False, actor="ann", working_directory=tmp_path)
    exists = {}
    for count, survival, _ in cuts(tmp_path / "before", operations, root.parent, every):
        try:
            graph = Graph.open(str(root), settings)
            assert len(graph.snapshot().tables) == 4
            exists[survival] = True
        except GraphNotFound:
            Graph.init(str(root), PEOPLE, settings)
            assert not exists.get(survival), f"{survival.value} after {count}: it was there before"
        assert set(content(open_graph(root, settings))) == {*WRITTEN, "edge:WorksAt"}
    assert exists == dict.fromkeys(Survival, True)
