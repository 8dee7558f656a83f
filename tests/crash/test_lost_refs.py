"""Refs that are removed as a whole, by a wrong `rm` or a restore that forgot them.

A twin or a tree without a ref is what a create that died leaves, or a deleted branch. What was done is
on record, and tells a branch that is lost from these: it never vanishes and is never written over.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError
from omnigraph_core.graph import Graph
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.settings import Settings
from omnigraph_core.storage.local import LocalControlStore
from omnigraph_core.tables.fork_refs import RefDamaged, ref_path
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.branches import BranchExists
from tests.support.originals import exported, unpack_in_place
from tests.support.processes import Omnigraph
from tests.support.writers import check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")
MANIFEST, TWIN = manifest_ref("main"), commits_ref("main")
PERSON = TableRef("node:Person", layout.table_path("node", "Person"))


def again(graph: Graph) -> Graph:
    """The graph as another process would open it to read."""
    return Graph.open(str(graph.location.path), SETTINGS)


def ref_file(graph: Graph, ref: TableRef, name: str = "dev") -> Path:
    return graph.location.path / ref_path(ref, name)


def codes(graph: Graph) -> set[tuple[str, str]]:
    return {(each.code, each.where) for each in again(graph).doctor() if each.counts}


def _load(graph: Graph) -> None:
    source = graph.location.path.with_name("people.jsonl")
    source.write_text(json.dumps({"type": "Person", "data": {"name": "loaded"}}) + "\n")
    graph.load([str(source)], LoadMode.MERGE, branch="dev", source="main")


def _undeleted(graph: Graph) -> None:
    graph.create_branch("dev")
    write_three(graph, "on-dev", "dev")
    graph.delete_branch("dev")
    graph.undelete_branch("dev")


def _written(graph: Graph) -> None:
    graph.create_branch("dev")
    write_three(graph, "on-dev", "dev")


def _made_again_by_a_load(graph: Graph) -> None:
    """The log of operations has only what became of the first one."""
    _written(graph)
    graph.merge("dev")
    graph.delete_branch("dev")
    _load(graph)


def _cleaned(graph: Graph) -> None:
    graph.create_branch("dev")
    for number in range(3):
        write_three(graph, f"on-dev-{number}", "dev")
    graph.cleanup(keep=1, grace_s=0, force=True)


def _renamed(graph: Graph) -> None:
    graph.create_branch("dev")
    graph.rename_branch("dev", "review")


MADE: dict[str, Callable[[Graph], object]] = {
    "by create": lambda graph: graph.create_branch("dev"),
    "and written": _written,
    "by a load": _load,
    "again by a load": _made_again_by_a_load,
    "and cleaned": _cleaned,
    "and brought back": _undeleted,
    "and renamed": _renamed,
}


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    return graph


@pytest.mark.parametrize("made", MADE)
def test_a_branch_whose_ref_is_removed_is_damage_until_the_next_writer_rebuilds_it(
    made: str, graph: Graph
) -> None:
    MADE[made](graph)
    name = "review" if made == "and renamed" else "dev"
    before, on, history = content(graph, name), graph.snapshot(name).on, graph.log().history("main")
    on_main = content(graph, "main")
    ref_file(graph, MANIFEST).unlink()
    reader = again(graph)
    for ask in (reader.branches, reader.log, lambda: reader.snapshot(name), lambda: reader.export(name)):
        with pytest.raises(RefDamaged, match=r"__manifest/_refs/branches/dev\.json is missing"):
            ask()
    assert content(reader, "main") == on_main
    assert ("branch-ref-missing", ref_path(MANIFEST, "dev")) in codes(graph)
    healed = open_graph(graph.location.path, SETTINGS)
    assert healed.branches() == sorted(["main", name])
    assert (healed.snapshot(name).on, content(healed, name)) == (on, before)
    assert healed.log().history("main") == history
    write_three(healed, "more", "dev")
    check_whole(healed)
    assert not codes(healed)


@pytest.mark.parametrize("name", ["side", "lazy", "feat/x"])
def test_a_branch_that_came_with_a_graph_of_the_original_does_not_vanish(name: str, tmp_path: Path) -> None:
    root = unpack_in_place("branches", tmp_path)
    Graph.open(str(root), SETTINGS).adopt()
    graph = open_graph(root, SETTINGS)
    names, before, on = graph.branches(), exported(graph, name), graph.snapshot(name).on
    ref_file(graph, MANIFEST, name).unlink()
    with pytest.raises(RefDamaged, match="is missing"):
        again(graph).branches()
    assert ("branch-ref-missing", ref_path(MANIFEST, name)) in codes(graph)
    healed = open_graph(root, SETTINGS)
    assert (healed.branches(), healed.snapshot(name).on, exported(healed, name)) == (names, on, before)
    healed.delete_branch(name)
    assert again(graph).branches() == sorted({*names} - {name})
    assert not codes(graph)


def test_the_command_names_the_file(graph: Graph, omnigraph: Omnigraph) -> None:
    _written(graph)
    ref_file(graph, MANIFEST).unlink()
    listed = omnigraph("branch", "list", graph.location.path)
    assert (listed.code, "__manifest/_refs/branches/dev.json is missing" in listed.err) == (74, True)
    assert "omnigraph recovery run" in listed.err
    assert omnigraph("recovery", "run", graph.location.path).code == 0
    assert omnigraph("branch", "list", graph.location.path).out.split() == ["dev", "main"]


def test_without_its_twin_as_well_it_is_no_free_name(graph: Graph) -> None:
    """Nothing but its files tell of it: who makes a branch of the name looks for them."""
    _written(graph)
    before, on = content(graph, "dev"), graph.snapshot("dev").on
    for ref in (MANIFEST, TWIN, PERSON):
        ref_file(graph, ref).unlink()
    with pytest.raises(RefDamaged, match="dev"):
        again(graph).snapshot("dev")
    assert ("branch-ref-missing", ref_path(MANIFEST, "dev")) in codes(graph)
    with pytest.raises(BranchExists):
        open_graph(graph.location.path, SETTINGS).create_branch("dev")
    healed = open_graph(graph.location.path, SETTINGS)
    assert (healed.snapshot("dev").on, content(healed, "dev")) == (on, before)
    assert all(ref_file(graph, ref).exists() for ref in (MANIFEST, TWIN, PERSON))
    check_whole(healed)


@pytest.mark.parametrize("left", ["empty", "zero", "gone"])
def test_a_branch_that_was_made_to_its_end_is_not_taken_for_one_that_was_not(left: str, graph: Graph) -> None:
    """Its only version: a power cut may tear that before anybody is told, and not afterwards."""
    graph.create_branch("dev")
    (version,) = (graph.location.path / MANIFEST.on("dev").directory / "_versions").glob("*.manifest")
    size = version.stat().st_size
    version.write_bytes(bytes(size if left == "zero" else 0))
    if left == "gone":
        version.unlink()
    with pytest.raises(RefDamaged, match="dev"):
        again(graph).branches()
    assert ("branch-ref-damaged", ref_path(MANIFEST, "dev")) in codes(graph)


@pytest.mark.parametrize("made", ["by create", "and written", "and renamed"])
def test_a_ref_that_says_another_identity_is_found_and_mended(made: str, graph: Graph) -> None:
    """One letter of it: it still can be read, and is another branch for names, tags and commits."""
    MADE[made](graph)
    before, names = ref_file(graph, MANIFEST).read_bytes(), graph.branches()
    identity = json.loads(before)["identifier"]["version_mapping"][-1][1]
    other = ("0" if identity[0] != "0" else "1") + identity[1:]
    ref_file(graph, MANIFEST).write_bytes(before.replace(identity.encode(), other.encode()))
    assert ("branch-ref-damaged", ref_path(MANIFEST, "dev")) in codes(graph)
    healed = again(graph)
    healed.prepare_for_writing(thorough=True)
    (name,) = set(names) - {"main"}
    assert (healed.snapshot(name).on.identity, healed.branches()) == (identity, names)
    assert not codes(healed)
    check_whole(healed)


def test_a_branch_of_which_nothing_is_left_is_said_and_its_name_is_free(graph: Graph) -> None:
    _written(graph)
    ref_file(graph, MANIFEST).unlink()
    shutil.rmtree(graph.location.path / MANIFEST.on("dev").directory)
    assert ("branch-lost", ref_path(MANIFEST, "dev")) in codes(graph)
    graph = open_graph(graph.location.path, SETTINGS)
    graph.create_branch("dev")
    assert content(graph, "dev")["node:Person"] == {"first"}
    assert not codes(graph)


@pytest.mark.parametrize("ref", [TWIN, PERSON], ids=["twin", "table"])
def test_a_missing_ref_of_a_fork_is_found_and_rebuilt(ref: TableRef, graph: Graph) -> None:
    _written(graph)
    identity = json.loads(ref_file(graph, ref).read_bytes())["identifier"]["version_mapping"][-1][1]
    ref_file(graph, ref).unlink()
    assert codes(graph) == {("fork-ref-missing", ref_path(ref, "dev"))}
    healed = again(graph)
    healed.prepare_for_writing(thorough=True)
    assert not codes(graph)
    found = json.loads(ref_file(graph, ref).read_bytes())["identifier"]["version_mapping"][-1][1]
    assert (found == identity) is (ref is TWIN)


@pytest.mark.parametrize("ref", [TWIN, PERSON], ids=["twin", "table"])
def test_a_branch_is_made_from_one_whose_fork_has_no_ref(ref: TableRef, graph: Graph) -> None:
    _written(graph)
    before = content(graph, "dev")
    ref_file(graph, ref).unlink()
    graph = open_graph(graph.location.path, SETTINGS)
    graph.create_branch("sub", "dev")
    write_three(graph, "on-sub", "sub")
    assert content(graph, "dev") == before
    assert content(graph, "sub")["node:Person"] == {"first", "on-dev", "on-sub"}
    check_whole(graph)


@pytest.mark.parametrize("ref", [TWIN, PERSON], ids=["twin", "table"])
def test_cleanup_removes_nothing_that_a_fork_without_a_ref_reads(ref: TableRef, graph: Graph) -> None:
    """It still reads files of main that the base of the next merge does not: nobody else says so."""
    write_three(graph, "second")
    _written(graph)
    graph.optimize()
    write_three(graph, "third")
    graph.merge("main", into="dev")
    before = content(graph, "dev"), len(graph.log().history("dev"))
    graph.change('query q() { delete Person where name = "first" }')
    for number in range(3):
        write_three(graph, f"more-{number}")
    ref_file(graph, ref).unlink()
    open_graph(graph.location.path, SETTINGS).cleanup(keep=1, grace_s=0, force=True)
    after = again(graph)
    assert (content(after, "dev"), len(after.log().history("dev"))) == before
    check_whole(after)


def test_what_was_deleted_or_never_made_is_not_lost(graph: Graph) -> None:
    _written(graph)
    graph.delete_branch("dev")
    assert again(graph).branches() == ["main"]
    (record,) = (graph.location.path / layout.DELETED_DIR).iterdir()
    record.unlink()
    assert again(graph).branches() == ["main"], "the log of operations has its deletion"
    with pytest.raises(NotFoundError):
        again(graph).snapshot("dev")
    graph = open_graph(graph.location.path, SETTINGS)
    graph.create_branch("dev")
    assert content(graph, "dev")["node:Person"] == {"first"}
    check_whole(graph)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock of this process so many seconds ahead."""
    ns, seconds, ahead = time.time_ns, time.time, [0.0]
    monkeypatch.setattr(time, "time_ns", lambda: ns() + int(ahead[0] * 1e9))
    monkeypatch.setattr(time, "time", lambda: seconds() + ahead[0])

    def set_ahead(by: float) -> None:
        ahead[0] = by

    return set_ahead


@pytest.mark.parametrize("used_again", ["its name", "by a load", "its directory", "by nobody"])
def test_a_branch_that_a_clock_has_deleted_before_it_was_made_is_deleted(
    used_again: str, graph: Graph, clock: Callable[[float], None]
) -> None:
    """Clocks of hosts differ, and are set back: what came first is no question of times."""
    clock(3600)
    _written(graph)
    clock(0)
    graph.delete_branch("dev")
    if used_again == "by nobody":
        graph.cleanup(keep=1, grace_s=0, force=True)
    elif used_again == "by a load":
        _load(graph)
    else:
        graph.create_branch("dev" if used_again == "its name" else "dev/sub")
    names, made = graph.branches(), [graph.snapshot(name).on for name in graph.branches()]
    assert not codes(graph)
    open_graph(graph.location.path, SETTINGS).prepare_for_writing(thorough=True)
    healed = again(graph)
    assert (healed.branches(), [healed.snapshot(name).on for name in names]) == (names, made)
    assert not codes(graph)
    check_whole(healed)


def test_deleted_branches_cost_a_process_one_look_each(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their twins have no ref of a branch beside them, like those of lost ones."""
    for number in range(5):
        graph.create_branch(f"b{number}")
        graph.delete_branch(f"b{number}")
    looked_at: Counter[str] = Counter()
    get = LocalControlStore.get

    def counting(store: LocalControlStore, path: str) -> object:
        looked_at[path.partition("/")[0]] += path.startswith((layout.DELETED_DIR, layout.DONE_OPERATIONS))
        return get(store, path)

    monkeypatch.setattr(LocalControlStore, "get", counting)
    reader = again(graph)
    for _ in range(3):
        assert reader.branches() == ["main"]
    assert +looked_at == {layout.DELETED_DIR: 5}
