"""Schema apply through the library: writers beside it, branches with their own schemas, names used again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import RefusedError, StorageError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.ids import new_ulid
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.load.run import InputsOutdated, Load, Loaded
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.settings import Settings
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.indexes import list_indexes
from omnigraph_core.tables.stage import stage_upsert
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.plan import WritePlan, WriterKind
from tests.support.migrations import (
    BASE,
    COMPANY,
    KNOWS,
    OLD,
    PERSON,
    WANTED,
    WORKS_AT,
    exported,
    load,
    make_graph,
)
from tests.support.writers import check_whole, rows_for

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_graph(tmp_path / "g")
    return tmp_path / "g"


def opened(root: Path, mode: OpenMode = OpenMode.AS_IS) -> Graph:
    return Graph.open(str(root), SETTINGS, mode)


# ---- writers beside an apply ----


def test_rows_planned_before_an_apply_are_planned_again(root: Path) -> None:
    graph, tries = opened(root), []
    renamed = BASE.replace("city: String?", 'town: String? @rename_from("city")')

    def build(attempt: Attempt) -> WritePlan:
        operation_id = new_ulid()
        writable = graph.door.open_for_write(attempt, "node:Person")
        rows = rows_for(writable.table, "late")
        staged = stage_upsert(graph.door.storage, writable.table, rows, operation_id)
        tries.append(writable.table.schema.names)
        if len(tries) == 1:
            assert opened(root).apply_schema(renamed).applied
        written = [writable.planned(graph.door.storage, staged)]
        return WritePlan(operation_id, WriterKind.MUTATION, attempt, "ann", tables=written)

    graph.door.write("main", build)
    assert [("city" in names, "town" in names) for names in tries] == [(True, False), (False, True)]
    assert [line for line in exported(graph) if '"late"' in line and '"town":null' in line]
    check_whole(opened(root, OpenMode.READ_WRITE))


def test_a_change_beside_an_apply_is_checked_against_the_new_schema(root: Path) -> None:
    """Both ways round: each plans on what the other has published."""
    graph = opened(root)
    opened(root).apply_schema(WANTED["type rename"])
    changed = graph.change('query q() { update Firm set { size: 9 } where name = "acme" }')
    assert changed.affected_nodes == 1
    assert graph.apply_schema(WANTED["all together"]).applied
    assert [line for line in exported(graph) if '"Firm"' in line and '"size":9' in line]


def test_a_load_that_was_read_with_another_schema_writes_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = opened(root)
    before = exported(graph)
    file = tmp_path / "more.jsonl"
    file.write_text('{"type": "Company", "data": {"name": "new", "size": 1}}\n')
    publish = Load._publish

    def late(self: Load, *given: Any, **named: Any) -> Loaded:
        opened(root).apply_schema(WANTED["enum only"])
        return publish(self, *given, **named)

    monkeypatch.setattr(Load, "_publish", late)
    with pytest.raises(InputsOutdated):
        graph.load([str(file)], LoadMode.MERGE)
    assert exported(graph) == before
    check_whole(opened(root, OpenMode.READ_WRITE))


def test_a_plan_for_a_table_that_another_has_taken_the_place_of_is_stale(root: Path) -> None:
    """The key, the version and the schema are the same again; the table is another."""
    graph, tries = opened(root), []
    assert graph.apply_schema(BASE + "edge Likes: Person -> Person\n").applied
    with_tag = BASE + "node Tag { name: String @key }\n"
    assert graph.apply_schema(with_tag).applied
    first = graph.snapshot().entry("node:Tag")

    def build(attempt: Attempt) -> WritePlan:
        operation_id = new_ulid()
        writable = graph.door.open_for_write(attempt, "node:Tag")
        rows = rows_for(writable.table, "late")
        staged = stage_upsert(graph.door.storage, writable.table, rows, operation_id)
        if not tries:
            other = opened(root)
            assert other.apply_schema(BASE).applied
            assert other.apply_schema(with_tag).applied
            again = other.snapshot().entry("node:Tag")
            assert (again.table_version, again.row_count) == (first.table_version, first.row_count)
        tries.append(writable.table.ref.path)
        written = [writable.planned(graph.door.storage, staged)]
        return WritePlan(operation_id, WriterKind.MUTATION, attempt, "ann", tables=written)

    graph.door.write("main", build)
    assert len(tries) == 2
    assert tries[0] != tries[1]
    assert [line for line in exported(graph) if "late" in line]
    check_whole(opened(root, OpenMode.READ_WRITE))


# ---- indexes ----


def test_an_index_that_is_wanted_touches_no_table_and_optimize_builds_it(root: Path) -> None:
    """Also one of the branch alone, and one that is no longer wanted: answers never depend on them."""
    graph = opened(root)
    wanted = BASE.replace("city: String?", "city: String? @index").replace("size: I32?", "size: I32? @index")
    asked = 'query q() { match { $p: Person { city: "Rome" } } return { $p.name } }'
    for branch in ("main", "dev"):
        before, answers = graph.snapshot(branch).tables, graph.query(asked, branch=branch).to_pylist()
        done = graph.apply_schema(wanted, branch=branch)
        assert [step.kind for step in done.plan.steps] == ["add_constraint", "add_constraint"]
        assert graph.snapshot(branch).tables == before
        assert "city" not in indexed(graph, branch, "node:Person")
        graph.optimize(branch)
        assert "city" in indexed(graph, branch, "node:Person")
        is_its_own = graph.snapshot(branch).entry("node:Company").table_branch is not None or branch == "main"
        assert ("size" in indexed(graph, branch, "node:Company")) == is_its_own
        assert graph.query(asked, branch=branch).to_pylist() == answers
        built = graph.snapshot(branch).tables
        assert graph.apply_schema(BASE, branch=branch).applied
        assert graph.snapshot(branch).tables == built
        assert graph.query(asked, branch=branch).to_pylist() == answers


def indexed(graph: Graph, branch: str, key: str) -> set[str | None]:
    entry = graph.snapshot(branch).entry(key)
    table = graph.door.tables.open(entry.ref, entry.table_version)
    return {index.column for index in list_indexes(table).values()}


# ---- branches ----


def test_each_branch_has_its_own_schema(root: Path, tmp_path: Path) -> None:
    graph = opened(root)
    old = graph.head("main")
    assert old is not None
    done = graph.apply_schema(WANTED["columns"])
    assert done.differing == ("dev",)
    assert graph.apply_schema(WANTED["all together"], branch="dev").differing == ()
    graph.create_branch("past", old.commit_id)
    load(graph, root, [{"type": "Person", "data": {"name": "pat", "city": "Bern"}}], "past")
    load(graph, root, [{"type": "Person", "data": {"name": "mia", "nick": "m"}}], "main")
    load(graph, root, [{"type": "Tag", "data": {"name": "red"}}], "dev")
    assert [line for line in exported(graph, "past") if '"Bern"' in line]
    assert [line for line in exported(graph, "main") if '"nick":"m"' in line]
    assert [line for line in exported(graph, "dev") if '"Tag"' in line]
    file = tmp_path / "more.jsonl"
    file.write_text('{"type": "Person", "data": {"name": "zoe", "city": "Rome"}}\n')
    loaded = graph.load([str(file)], LoadMode.MERGE, branch="made", source=old.commit_id)
    assert loaded.branch_created
    assert len([line for line in exported(graph, "made") if '"Rome"' in line]) == 2
    check_whole(opened(root, OpenMode.READ_WRITE))


def test_main_and_a_branch_give_one_type_different_columns(root: Path) -> None:
    """In one dataset, so that a merge can tell that it is one type; deleting the branch leaves main's."""
    graph = opened(root)
    assert graph.apply_schema(BASE + "node Tag { name: String @key  hue: I32? }\n", branch="dev").applied
    load(graph, root, [{"type": "Tag", "data": {"name": "red", "hue": 1}}], "dev")
    assert graph.apply_schema(BASE + "node Tag { name: String @key  color: String? }\n").applied
    load(graph, root, [{"type": "Tag", "data": {"name": "red", "color": "r"}}])
    paths = {graph.snapshot(branch).entry("node:Tag").table_path for branch in ("main", "dev")}
    assert paths == {layout.table_path("node", "Tag")}
    graph.delete_branch("dev")
    graph.create_branch("dev")
    assert [line for line in exported(graph, "dev") if '"color":"r"' in line]
    check_whole(opened(root, OpenMode.READ_WRITE))


def test_a_moved_graph_finds_the_forks_of_types_that_are_gone(root: Path, tmp_path: Path) -> None:
    graph = opened(root)
    load(graph, root, [{"type": "Company", "data": {"name": "dev only"}}], "dev")
    before = graph.head("dev")
    assert before is not None
    assert graph.apply_schema(WANTED["drop"], branch="dev").applied
    assert graph.apply_schema(WANTED["drop"]).applied
    moved = tmp_path / "elsewhere"
    root.rename(moved)
    graph = Graph.open(str(moved), SETTINGS)
    graph.relocate()
    assert [line for line in exported(graph, ref=before.commit_id) if "dev only" in line]
    graph.delete_branch("dev")
    graph.create_branch("dev")  # Which clears what the deleted one has left.
    forks = [path for path in moved.glob("*/*/_refs/branches/*.json") if "dev" in path.name]
    assert forks == []


# ---- names ----


def test_a_name_comes_back_and_old_commits_keep_theirs(root: Path) -> None:
    graph = opened(root)
    rename = PERSON + 'node Firm @rename_from("Company") { name: String @key  size: I32? }\n' + KNOWS
    rename += "edge WorksAt: Person -> Firm\n"
    back = PERSON + 'node Company @rename_from("Firm") { name: String @key  size: I32? }\n' + KNOWS + WORKS_AT
    seen = [(graph.head(), exported(graph))]
    for wanted in (rename, back, rename, rename + COMPANY, PERSON + KNOWS, BASE + OLD):
        assert graph.apply_schema(wanted).applied
        seen.append((graph.head(), exported(graph)))
    assert seen[2][1] == seen[0][1]
    assert not [line for line in seen[-1][1] if "acme" in line or "relic" in line]
    fresh = opened(root, OpenMode.READ_WRITE)
    for head, content in seen:
        assert head is not None
        assert exported(fresh, ref=head.commit_id) == content
    check_whole(fresh)


def test_nothing_is_left_of_what_is_refused(root: Path) -> None:
    graph = opened(root)
    before = graph.head()
    refused = BASE.replace("city: String?", "city: String").replace("size: I32?", "size: String?")
    with pytest.raises(RefusedError) as caught:
        graph.apply_schema(refused)
    assert "OG-MF-106" in caught.value.message
    assert graph.head() == before
    assert graph.apply_schema(BASE + "// a comment\n").applied is False
    assert (root / "_schema.pg").read_text() == BASE


# ---- the files in the root ----


def test_an_edited_schema_file_is_offered_and_applied(root: Path) -> None:
    graph = opened(root)
    (root / "_schema.pg").write_text(WANTED["columns"])
    with pytest.raises(StorageError):
        opened(root, OpenMode.READ_WRITE).catalog()
    assert graph.edited_source() == WANTED["columns"]
    assert graph.apply_schema(WANTED["columns"]).applied
    assert graph.edited_source() is None
    assert opened(root, OpenMode.READ_WRITE).catalog().source == WANTED["columns"]


@pytest.mark.parametrize("lost", ["_schema.pg", "_schema.ir.json", "__schema_state.json"])
def test_files_that_are_behind_the_head_follow_it(lost: str, root: Path) -> None:
    """As after a publish whose promotion came half-way, and whose sidecar is gone."""
    names = ["_schema.pg", "_schema.ir.json", "__schema_state.json"]
    old = {name: (root / name).read_bytes() for name in names}
    opened(root).apply_schema(WANTED["all together"])
    new = {name: (root / name).read_bytes() for name in names}
    for name in names[names.index(lost) :]:
        (root / name).write_bytes(old[name])
    behind = opened(root)
    assert behind.catalog().source == WANTED["all together"]
    assert exported(behind)
    opened(root, OpenMode.READ_WRITE)
    assert {name: (root / name).read_bytes() for name in names} == new


@pytest.mark.parametrize(
    "damage", ["deleted", "empty", "cut short", "of another schema", "with a field more"]
)
def test_a_kept_schema_that_is_damaged_is_named_and_nothing_is_built_on_it(damage: str, root: Path) -> None:
    graph = opened(root)
    first, head = graph.log().history("main")[-1], graph.head()
    assert head is not None
    before = exported(graph, ref=head.commit_id)
    other = root / layout.schema_by_hash(first.schema_hash or "")
    kept = root / layout.schema_by_hash(head.schema_hash)
    text = kept.read_text()
    assert kept != other
    damaged = {
        "empty": "",
        "cut short": text[: len(text) // 2],
        "of another schema": other.read_text(),
        "with a field more": text.replace("{", '{"zz": 1,', 1),
    }
    kept.unlink() if damage == "deleted" else kept.write_text(damaged[damage])
    for branch in ("main", "dev"):
        with pytest.raises(StorageError, match=kept.name):
            opened(root).apply_schema(WANTED["columns"], branch=branch)
    kept.write_text(text)
    assert exported(opened(root)) == before
    assert opened(root).apply_schema(WANTED["columns"]).applied


def test_the_lock_branch_of_other_programs_is_cleared_and_never_listed(root: Path) -> None:
    graph = opened(root)
    create_fork(graph.door.tables, manifest_ref("main"), layout.SCHEMA_LOCK_BRANCH, 1, unguarded)
    assert graph.branches() == ["dev", "main"]
    with pytest.raises(RefusedError):
        graph.create_branch(layout.SCHEMA_LOCK_BRANCH)
    assert opened(root, OpenMode.READ_WRITE).door.manifest.branch_ref(layout.SCHEMA_LOCK_BRANCH) is None
    assert opened(root).apply_schema(WANTED["enum only"]).applied
