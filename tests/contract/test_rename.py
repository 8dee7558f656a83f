"""A branch with another name is the same branch: nothing that it has or that hangs on it is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, OmnigraphError, RefusedError, UsageError
from omnigraph_core.graph import Graph
from omnigraph_core.history.names import NamesDamaged
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.maintenance import maintain
from omnigraph_core.manifest.reader import BranchNotFound
from omnigraph_core.merge.undo import CannotUndo
from omnigraph_core.settings import Settings
from omnigraph_core.write.naming import BranchExists
from omnigraph_core.write.undelete import NothingToUndelete
from tests.support.records import exported, node, nodes, write_jsonl
from tests.support.writers import check_log, check_whole

SETTINGS = Settings(fsync=False, actor="ann")
SCHEMA = "node Item { k: String @key  a: I64? }\n"


def put(graph: Graph, branch: str, **values: int) -> None:
    rows = [node("Item", k=key, a=value) for key, value in values.items()]
    graph.load([write_jsonl(graph.location.path.parent / "rows", rows)], LoadMode.MERGE, branch=branch)


def values(graph: Graph, branch: str) -> dict[str, int]:
    return {key: row["a"] for key, row in nodes(graph, "Item", branch).items()}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """dev has a commit, a tag on it, a child that inherits what it forked, and one that has written."""
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)
    put(graph, "main", p=1)
    graph.create_branch("dev")
    put(graph, "dev", q=2)
    graph.create_tag("v1", "dev")
    graph.create_branch("lazy", "dev")
    graph.create_branch("child", "dev")
    put(graph, "child", r=3)
    put(graph, "dev", q=4)
    return graph


def test_everything_of_the_branch_has_the_new_name(graph: Graph) -> None:
    on, head = graph.snapshot("dev").on, graph.log().heads["dev"]
    ids = [each.commit_id for each in graph.log().history("dev")]
    graph.rename_branch("dev", "review")
    graph = Graph.open(graph.location.uri, SETTINGS)
    assert graph.branches() == ["child", "lazy", "main", "review"]
    assert (graph.snapshot("review").on, graph.log().heads["review"]) == (on, head)
    assert [each.commit_id for each in graph.log().history("review")] == ids
    assert graph.commit("review").shown_branch == "review"
    assert values(graph, "review") == {"p": 1, "q": 4}
    assert {key: row["a"] for key, row in nodes_at(graph, "review~1").items()} == {"p": 1, "q": 2}
    assert graph.commit("tag:v1").commit_id == graph.commit("review~1").commit_id
    assert [tag.branch for tag in graph.tags()] == ["review"]
    assert values(graph, "lazy") == {"p": 1, "q": 2}
    assert values(graph, "child") == {"p": 1, "q": 2, "r": 3}
    assert graph.snapshot_of("review~1").shown_branch == "review"
    assert (
        graph.query("query q() { match { $i: Item } return { $i.k } }", branch="review").target.branch
        == "review"
    )
    assert graph.create_tag("v2", "review").branch == "review"
    assert (graph.optimize("review").branch, graph.repair("review").branch) == ("review", "review")
    assert graph.apply_schema(SCHEMA, branch="review").snapshot.shown_branch == "review"
    put(graph, "review", s=5)
    put(graph, "lazy", t=6)
    graph.merge("child", "review")
    graph.merge("review")
    assert values(graph, "main") == {"p": 1, "q": 4, "r": 3, "s": 5}
    assert graph.operations(1)[0].after is not None
    check_whole(graph)
    check_log(graph)


def nodes_at(graph: Graph, ref: str) -> dict[str, dict[str, int]]:
    lines = [json.loads(line)["data"] for line in b"".join(graph.export(ref)).splitlines()]
    return {row["k"]: row for row in lines}


VERBS: dict[str, Callable[[Graph], object]] = {
    "snapshot": lambda graph: graph.snapshot("dev"),
    "query": lambda graph: exported(graph, "dev"),
    "ref": lambda graph: graph.commit("dev~1"),
    "load": lambda graph: put(graph, "dev", x=1),
    "change": lambda graph: graph.change('query q() { delete Item where k = "p" }', branch="dev"),
    "merge": lambda graph: graph.merge("dev"),
    "merge into": lambda graph: graph.merge("main", "dev"),
    "reset": lambda graph: graph.reset_branch("dev", "main"),
    "revert": lambda graph: graph.revert("main", "dev"),
    "delete": lambda graph: graph.delete_branch("dev"),
    "rename": lambda graph: graph.rename_branch("dev", "other"),
    "optimize": lambda graph: graph.optimize("dev"),
    "apply": lambda graph: graph.apply_schema(SCHEMA, branch="dev"),
    "create": lambda graph: graph.create_branch("new", "dev"),
    "undelete": lambda graph: graph.undelete_branch("dev"),
}


def test_the_old_name_means_nothing_any_more(graph: Graph) -> None:
    graph.rename_branch("dev", "review")
    before = {name: exported(graph, name) for name in graph.branches()}
    for name, verb in VERBS.items():
        with pytest.raises(NotFoundError) as raised:
            verb(graph)
        assert "dev" in str(raised.value), name
    assert {name: exported(graph, name) for name in graph.branches()} == before


def test_the_old_name_is_free(graph: Graph) -> None:
    graph.rename_branch("dev", "review")
    graph.create_branch("dev")
    put(graph, "dev", z=9)
    assert values(graph, "dev") == {"p": 1, "z": 9}
    assert values(graph, "review") == {"p": 1, "q": 4}
    graph.create_branch("sub", "dev")
    with pytest.raises(BranchExists):
        graph.create_branch("dev")
    with pytest.raises(RefusedError):
        graph.create_branch("dev/sub")
    with pytest.raises(BranchExists):
        graph.rename_branch("review", "dev")
    graph.delete_branch("sub")
    graph.delete_branch("dev")
    graph.undelete_branch("dev")
    assert values(graph, "dev") == {"p": 1, "z": 9}
    graph.delete_branch("dev")
    graph.rename_branch("review", "dev")
    assert values(graph, "dev") == {"p": 1, "q": 4}
    assert graph.commit("dev").shown_branch == "dev"
    check_whole(graph)
    check_log(graph)


def test_names_that_no_branch_may_get(graph: Graph) -> None:
    for old, new, error in (
        ("main", "other", RefusedError),
        ("dev", "main", RefusedError),
        ("dev", "child", BranchExists),
        ("dev", "dev", BranchExists),
        ("dev", "child/x", RefusedError),
        ("dev", "a..b", RefusedError),
        ("nope", "other", BranchNotFound),
    ):
        with pytest.raises(error):
            graph.rename_branch(old, new)
    for wrong in (3, None):
        with pytest.raises(UsageError):
            graph.rename_branch("dev", wrong)  # type: ignore[arg-type]
    assert graph.branches() == ["child", "dev", "lazy", "main"]
    assert not (graph.location.path / layout.NAMES_RECORD).exists()


def test_a_renamed_branch_is_deleted_and_brought_back_under_its_name(graph: Graph) -> None:
    graph.delete_branch("lazy")
    graph.delete_branch("child")
    graph.rename_branch("dev", "review")
    graph.delete_branch("review")
    with pytest.raises(NothingToUndelete):
        graph.undelete_branch("dev")
    # Its place is not given up for a branch of its old name.
    graph.create_branch("dev")
    graph.undelete_branch("review")
    assert graph.branches() == ["dev", "main", "review"]
    assert values(graph, "review") == {"p": 1, "q": 4}
    check_whole(graph)
    check_log(graph)


def test_undo_and_redo_of_renames(graph: Graph) -> None:
    on = graph.snapshot("dev").on
    graph.rename_branch("dev", "review", actor="bob", message="clearer")
    done = graph.operations(1)[0]
    assert (done.kind, done.actor_id, done.message) == ("branchrename", "bob", "clearer")
    assert done.before is not None
    assert done.after is not None
    assert (done.before.name, done.after.name) == ("dev", "review")
    put(graph, "review", s=5)
    graph.undo(done.operation_id)
    assert graph.snapshot("dev").on == on
    assert values(graph, "dev") == {"p": 1, "q": 4, "s": 5}
    graph.undo()
    assert graph.branches() == ["child", "lazy", "main", "review"]
    graph.rename_branch("review", "third")
    with pytest.raises(CannotUndo, match="'third' by now"):
        graph.undo(done.operation_id)
    graph.undo()
    graph.create_branch("dev")
    with pytest.raises(BranchExists):
        graph.undo(done.operation_id)
    check_whole(graph)
    check_log(graph)


def test_cleanup_keeps_what_a_renamed_branch_needs(graph: Graph) -> None:
    graph.rename_branch("dev", "review")
    for number in range(4):
        put(graph, "review", q=number)
    graph.cleanup(keep=1, grace_s=0.0, force=True)
    assert values(graph, "review") == {"p": 1, "q": 3}
    assert values(graph, "lazy") == {"p": 1, "q": 2}
    assert graph.at("tag:v1").snapshot.head is not None
    graph.merge("lazy", "review")
    check_whole(graph)
    check_log(graph)


def test_maintenance_calls_a_renamed_branch_by_its_name(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.rename_branch("dev", "review")
    graph.create_branch("gone")
    graph.rename_branch("gone", "lost")
    graph.delete_branch("lost")
    for number in range(4):
        put(graph, "review", q=number)
    monkeypatch.setattr(maintain, "NEEDED_VERSIONS", 1)
    monkeypatch.setattr(maintain, "NEEDED_FRAGMENTS", 2)
    planned = graph.cleanup(keep=3, grace_s=0.0, dry_run=True)
    done = graph.maintain(keep=3, grace_s=0.0, if_needed=True)
    assert done.cleaned is not None
    assert [each.branch for each in done.optimized] == ["child", "review", "lazy", "main"]
    assert done.cleaned.branches_purged == planned.branches_purged == ("lost",)
    for cleaned in (planned, done.cleaned):
        shown = {each.branch for each in cleaned.tables}
        assert ({"review", "lost"} - shown, {"dev", "gone"} & shown) == (set(), set())
    said = " ".join(done.reasons)
    assert ("on review" in said, "branch lost is past" in said) == (True, True)
    assert ("on dev" in said, "branch gone" in said) == (False, False)
    assert graph.optimize("review").branch == "review"


def test_maintain_names_the_renamed_branch_that_it_could_not_do(graph: Graph) -> None:
    graph.rename_branch("dev", "review")
    entry = graph.snapshot("review").entry("node:Item")
    newest = min((graph.location.path / entry.ref.directory / "_versions").glob("*.manifest"))
    newest.write_bytes(b"")
    done = graph.maintain(keep=3, grace_s=0.0)
    assert [each.branch for each in done.failures] == ["review"]


def test_a_record_of_names_that_cannot_be_read_is_damage(graph: Graph) -> None:
    graph.rename_branch("dev", "review")
    record = graph.location.path / layout.NAMES_RECORD
    whole = record.read_bytes()
    forged = [whole.replace(b'"schema_version": 1', b'"schema_version": 2'), whole.replace(b'"review"', b"3")]
    for data in (b"", b"{}", b"[]", whole[:-9], *forged):
        record.write_bytes(data)
        for verb in (graph.branches, lambda: graph.snapshot("review"), lambda: graph.create_branch("x")):
            with pytest.raises(NamesDamaged):
                verb()
        assert values(graph, "main") == {"p": 1}
    record.write_bytes(whole)
    assert values(graph, "review") == {"p": 1, "q": 4}
    with pytest.raises(OmnigraphError):
        graph.create_branch("review")
