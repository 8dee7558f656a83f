"""What a power cut or a broken disk makes of the files that make a branch exist.

A create that never finished is no branch, and its name is free. A branch that somebody
was told of never vanishes: what cannot be read is an error, until the next writer has
rebuilt it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError
from omnigraph_core.graph import Graph
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.recoveries import RecoveryKind
from omnigraph_core.ids import new_ulid
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.settings import Settings
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.fork_refs import RefDamaged, ref_path
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.torn import versions_on_disk
from omnigraph_core.write.branches import BranchExists, StartMoved, create_branch
from tests.support.dying import die
from tests.support.processes import Omnigraph
from tests.support.trees import fingerprint
from tests.support.writers import WRITTEN, check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")
MANIFEST, TWIN = manifest_ref("main"), commits_ref("main")
PERSON = TableRef("node:Person", layout.table_path("node", "Person"))


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    graph.create_branch("dev")
    return graph


def again(graph: Graph) -> Graph:
    """The graph as another process would open it to read."""
    return Graph.open(str(graph.location.path), SETTINGS)


def ref_file(graph: Graph, ref: TableRef, name: str = "dev") -> Path:
    return graph.location.path / ref_path(ref, name)


# ---- creates that never finished ----


def _tear(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def _first_version(graph: Graph, ref: TableRef) -> Path:
    fork = ref.on("dev")
    return graph.location.path / manifest_path(fork, versions_on_disk(graph.door.tables, fork)[-1])


UNFINISHED: dict[str, Callable[[Graph, TableRef], object]] = {
    "empty ref": lambda graph, ref: _tear(ref_file(graph, ref), 0),
    "half a ref": lambda graph, ref: _tear(ref_file(graph, ref), 60),
    "no tree": lambda graph, ref: shutil.rmtree(graph.location.path / ref.on("dev").directory),
    "torn tree": lambda graph, ref: _tear(_first_version(graph, ref), 50),
}


def _load_from(graph: Graph) -> None:
    source = graph.location.path.with_name("people.jsonl")
    source.write_text(json.dumps({"type": "Person", "data": {"name": "loaded"}}) + "\n")
    loaded = graph.load([str(source)], LoadMode.MERGE, branch="dev", source="main")
    assert loaded.branch_created


VERBS: dict[str, Callable[[Graph], object]] = {
    "create": lambda graph: graph.create_branch("dev"),
    "delete": lambda graph: graph.delete_branch("dev"),
    "relocate": lambda graph: graph.relocate(),
    "load --from": _load_from,
    "write elsewhere": lambda graph: write_three(graph, "second"),
}


def _nobody_was_told(graph: Graph) -> None:
    """The power went before it was on record that the branch is there."""
    done = graph.location.path / layout.DONE_OPERATIONS
    for record in done.iterdir():
        record.rename(graph.location.path / layout.BEGUN_OPERATIONS / record.name)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("left", UNFINISHED)
def test_a_create_that_a_power_cut_ended_is_no_branch(left: str, verb: str, graph: Graph) -> None:
    _nobody_was_told(graph)
    UNFINISHED[left](graph, MANIFEST)
    assert again(graph).branches() == ["main"]
    with pytest.raises(NotFoundError):
        again(graph).snapshot("dev")
    VERBS[verb](open_graph(graph.location.path, SETTINGS))
    graph = open_graph(graph.location.path, SETTINGS)
    assert graph.branches() == (["dev", "main"] if verb in ("create", "load --from") else ["main"])
    if "dev" not in graph.branches():
        graph.create_branch("dev")
    write_three(graph, "on-dev", "dev")
    assert content(graph, "dev")["node:Person"] >= {"first", "on-dev"}
    graph.delete_branch("dev")
    check_whole(graph)


@pytest.mark.parametrize("left", UNFINISHED)
def test_a_load_that_made_its_branch_when_the_power_went_blocks_nobody(left: str, graph: Graph) -> None:
    """Its staging record names a branch that is none."""
    head = graph.head()
    assert head is not None
    record = {
        "schema_version": 1,
        "operation_id": (operation := new_ulid()),
        "kind": "Load",
        "branch": "dev",
        "actor_id": "ann",
        "started_at": "1",
        "paths": [],
        "pinned": [],
        "made_from": head.commit_id,
        "made_twin": None,
        "lists": None,
    }
    graph.door.storage.control.create(layout.staging_record(operation), json.dumps(record).encode())
    _nobody_was_told(graph)
    UNFINISHED[left](graph, MANIFEST)
    graph = open_graph(graph.location.path, SETTINGS)
    write_three(graph, "second")
    _load_from(graph)
    check_whole(graph)


# ---- forks of tables ----

TORN_FORKS = UNFINISHED | {
    "torn commit": lambda graph, ref: _torn_commit(graph, ref),
    "commit above a torn start": lambda graph, ref: (
        _commit(graph, ref),
        _tear(_first_version(graph, ref), 50),
    ),
    "damaged ref of a moved fork": lambda graph, ref: (_commit(graph, ref), _flip(ref_file(graph, ref), -1)),
}


def _commit(graph: Graph, ref: TableRef) -> None:
    """A commit that nobody published."""
    import pyarrow as pa

    from omnigraph_core.tables.commit import commit_exact, unguarded
    from omnigraph_core.tables.stage import stage_delete

    fork = graph.door.tables.open(ref.on("dev"))
    staged = stage_delete(graph.door.storage, fork, "dead", ids=pa.chunked_array([["first"]]))
    commit_exact(graph.door.tables, staged, unguarded)


def _torn_commit(graph: Graph, ref: TableRef) -> None:
    _commit(graph, ref)
    newest = graph.door.tables.open(ref.on("dev")).version
    _tear(graph.location.path / manifest_path(ref.on("dev"), newest), 30)


@pytest.mark.parametrize("left", TORN_FORKS)
def test_a_table_can_be_written_whatever_is_left_of_its_fork(left: str, graph: Graph) -> None:
    graph.door.open_for_write(graph.door.attempt("dev"), PERSON.key)
    TORN_FORKS[left](graph, PERSON)
    graph = open_graph(graph.location.path, SETTINGS)
    write_three(graph, "on-dev", "dev")
    check_whole(graph)
    assert all(content(graph, "dev")[key] == {"first", "on-dev"} for key in WRITTEN)
    assert all(content(graph)[key] == {"first"} for key in WRITTEN)
    graph.create_branch("child", "dev")
    write_three(graph, "on-child", "child")
    check_whole(graph)


def test_a_moved_fork_that_nobody_published_is_restored_and_keeps_its_identity(graph: Graph) -> None:
    """Deleting it would be wrong on object storage: by then somebody may have published it."""
    graph.door.open_for_write(graph.door.attempt("dev"), PERSON.key)
    before = ref_file(graph, PERSON).read_bytes()
    _commit(graph, PERSON)
    write_three(graph, "on-dev", "dev")
    assert ref_file(graph, PERSON).read_bytes() == before
    entry = graph.snapshot("dev").entry(PERSON.key)
    start = json.loads(before)["parentVersion"]
    assert (entry.table_branch, entry.table_version) == ("dev", start + 3)
    check_whole(graph)


@pytest.mark.parametrize(
    "step", ["write.after_a", "write.table_committed.1", "write.after_b", "write.published"]
)
def test_a_write_on_a_restored_fork_dies_like_any_other(step: str, graph: Graph) -> None:
    """What it was staged on is newer than what is published: recovery must not mix them up."""
    graph.door.open_for_write(graph.door.attempt("dev"), PERSON.key)
    _commit(graph, PERSON)
    die(graph, step, "dead", "dev")
    graph = open_graph(graph.location.path, SETTINGS)
    check_whole(graph)
    applied = step in ("write.after_b", "write.published")
    expected = {"first", "dead"} if applied else {"first"}
    assert all(content(graph, "dev")[key] == expected for key in WRITTEN)
    write_three(graph, "alive", "dev")
    check_whole(graph)
    assert all(content(graph, "dev")[key] == expected | {"alive"} for key in WRITTEN)


def test_a_late_commit_on_a_fork_does_not_touch_the_table_it_was_forked_from(graph: Graph) -> None:
    """Between planning and publishing somebody commits to the fork; main has moved on meanwhile."""
    write_three(graph, "second")
    publish, plans = graph.door.publish, []

    def interrupted(plan):  # type: ignore[no-untyped-def]
        if not plans:
            _commit(graph, PERSON)
        plans.append(plan)
        return publish(plan)

    graph.door.publish = interrupted  # type: ignore[method-assign]
    write_three(graph, "on-dev", "dev")
    assert len(plans) == 2
    assert all(content(graph, "dev")[key] == {"first", "on-dev"} for key in WRITTEN)
    assert all(content(graph)[key] == {"first", "second"} for key in WRITTEN)
    assert [each.recovery_kind for each in graph.recoveries()] == [RecoveryKind.ROLLED_BACK]
    check_whole(graph)


# ---- damaged refs of branches that somebody was told of ----


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x20
    path.write_bytes(bytes(data))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": lambda path: _flip(path, 4),
    "flipped at the end": lambda path: _flip(path, -1),
    "cut": lambda path: _tear(path, 60),
    "emptied": lambda path: _tear(path, 0),
}
KINDS = {"manifest": MANIFEST, "twin": TWIN, "table": PERSON}


@pytest.fixture
def written(graph: Graph) -> Graph:
    """`dev` has a commit of its own, and a child that has one."""
    write_three(graph, "on-dev", "dev")
    graph.create_branch("sub", "dev")
    write_three(graph, "on-sub", "sub")
    return graph


@pytest.mark.parametrize("is_written", [True, False])
def test_a_damaged_ref_is_made_whole_as_the_very_same_branch(graph: Graph, *, is_written: bool) -> None:
    """By its name, if it was renamed: the record of names, tags and commits know it by its identity."""
    graph.rename_branch("dev", "review")
    if is_written:
        write_three(graph, "more", "dev")
    before, on = content(graph, "review"), graph.snapshot("review").on
    ref_file(graph, MANIFEST).write_bytes(b"rubbish")
    healed = open_graph(graph.location.path, SETTINGS)
    assert healed.branches() == ["main", "review"]
    assert (healed.snapshot("review").on, content(healed, "review")) == (on, before)
    healed.undo()
    check_whole(healed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", DAMAGES)
def test_a_branch_with_a_damaged_ref_is_made_whole_by_the_next_writer(
    how: str, kind: str, written: Graph
) -> None:
    before = {branch: content(written, branch) for branch in ("main", "dev", "sub")}
    identity = written.snapshot("sub").on.identity
    DAMAGES[how](ref_file(written, KINDS[kind]))
    reader = again(written)
    assert {branch: content(reader, branch) for branch in ("main", "sub")} == {
        branch: before[branch] for branch in ("main", "sub")
    }
    graph = open_graph(written.location.path, SETTINGS)
    assert graph.branches() == ["dev", "main", "sub"]
    assert {branch: content(graph, branch) for branch in before} == before
    with pytest.raises(BranchExists):
        graph.create_branch("dev")
    graph.create_branch("sub-two", "dev")
    for branch in ("dev", "sub", "sub-two"):
        write_three(graph, "more", branch)
    check_whole(graph)
    assert graph.snapshot("sub").on.identity == identity
    for branch in ("sub-two", "sub", "dev"):
        graph.delete_branch(branch)
    check_whole(graph)
    graph.create_branch("dev/again")
    check_whole(graph)
    assert not ref_file(graph, KINDS[kind]).exists()


def without_locks(files: dict[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in files.items() if layout.LOCKS_DIR not in name}


@pytest.mark.parametrize("how", DAMAGES)
def test_until_then_nobody_takes_it_for_absent(how: str, written: Graph, omnigraph: Omnigraph) -> None:
    path = ref_file(written, MANIFEST)
    DAMAGES[how](path)
    before = fingerprint(written.location.path)
    reader = again(written)
    for attempt in (
        reader.branches,
        lambda: reader.snapshot("dev"),
        lambda: reader.create_branch("dev"),
        lambda: reader.create_branch("dev/sub"),
        lambda: reader.create_branch("other", "dev"),
        lambda: reader.delete_branch("dev"),
    ):
        with pytest.raises(RefDamaged, match=r"dev\.json"):
            attempt()
    left = {
        name: entry for name, entry in fingerprint(written.location.path).items() if "__locks" not in name
    }
    assert left == {name: entry for name, entry in before.items() if "__locks" not in name}
    listed = omnigraph("branch", "list", written.location.path)
    assert (listed.code, "__manifest/_refs/branches/dev.json" in listed.err) == (74, True)
    assert omnigraph("snapshot", written.location.path).code == 0
    created = omnigraph("branch", "create", "dev", "--store", written.location.path)
    assert created.code == 3
    assert omnigraph("branch", "list", written.location.path).out.split() == ["dev", "main", "sub"]


@pytest.mark.parametrize("kind", ["twin", "table"])
def test_what_a_dead_delete_left_goes_also_with_a_damaged_ref(kind: str, graph: Graph) -> None:
    """The branch is gone; whatever cannot be read of its forks does not keep the name."""
    write_three(graph, "on-dev", "dev")
    graph.delete_branch("dev")
    shutil.rmtree(graph.location.path / layout.DELETED_DIR)
    _tear(ref_file(graph, KINDS[kind]), 60)
    graph = open_graph(graph.location.path, SETTINGS)
    graph.create_branch("dev")
    write_three(graph, "again", "dev")
    assert content(graph, "dev")["node:Person"] == {"first", "again"}
    check_whole(graph)


def test_a_damaged_ref_of_a_moved_graph_is_relocated_and_rebuilt(written: Graph, tmp_path: Path) -> None:
    before = {branch: content(written, branch) for branch in ("main", "dev", "sub")}
    for ref in KINDS.values():
        _flip(ref_file(written, ref), -1)
    written.location.path.rename(tmp_path / "moved")
    assert Graph.open(str(tmp_path / "moved"), SETTINGS).relocate()
    graph = open_graph(tmp_path / "moved", SETTINGS)
    assert {branch: content(graph, branch) for branch in before} == before
    write_three(graph, "more", "sub")
    graph.create_branch(
        "fresh", "dev"
    )  # The ref of a table is rebuilt by the first write that forks from it.
    write_three(graph, "more", "fresh")
    check_whole(graph)


@pytest.mark.parametrize("step", ["write.table_committed.1", "write.after_b", "write.published"])
def test_a_write_that_died_on_a_branch_with_a_damaged_ref_is_recovered(step: str, graph: Graph) -> None:
    """Under a new identity it would look like the write of a branch that is gone."""
    write_three(graph, "on-dev", "dev")
    identity = graph.snapshot("dev").on.identity
    die(graph, step, "dead", "dev")
    _tear(ref_file(graph, MANIFEST), 0)
    graph = open_graph(graph.location.path, SETTINGS)
    assert graph.snapshot("dev").on.identity == identity
    kind = "RolledBack" if step == "write.table_committed.1" else "RolledForward"
    assert [(each.branch, each.recovery_kind) for each in graph.recoveries()] == [("dev", kind)]
    assert ("dead" in content(graph, "dev")["node:Person"]) is (kind == "RolledForward")
    check_whole(graph)


# ---- where a branch starts ----


def test_a_start_whose_branch_was_replaced_meanwhile_is_refused(graph: Graph) -> None:
    """The commit was looked up without a lock; its place is another branch's by now."""
    write_three(graph, "on-dev", "dev")
    start = graph.commit("dev")
    rival = open_graph(graph.location.path, SETTINGS)
    rival.delete_branch("dev")
    with pytest.raises(StartMoved):
        create_branch(graph.door, "copy", start)
    rival.create_branch("dev")
    for number in range(3):
        write_three(rival, f"other-{number}", "dev")
    with pytest.raises(StartMoved):
        create_branch(graph.door, "copy", start)
    assert graph.branches() == ["dev", "main"]
    check_whole(graph)
