"""Doctor: each thing that can be wrong, planted by itself, is found under its code; nothing is written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph_core import layout
from omnigraph_core.catalog.files import keep_schema
from omnigraph_core.graph import Graph
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.tags import Tag, read_tag
from omnigraph_core.maintenance.checks import growth, leftovers, rows, tables
from omnigraph_core.schema import compile_schema
from omnigraph_core.settings import Settings
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.durability import manifest_path, own_files
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.staging import staging
from omnigraph_core.write.staging_record import StagingRecord
from tests.support.dying import die
from tests.support.processes import REPOSITORY
from tests.support.readable import PERSON
from tests.support.trees import fingerprint
from tests.support.writers import TAG_SCHEMA, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")
SCHEMA = """\
node Person { name: String @key  age: I32?  mail: String?  @unique(mail) }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)
    write_three(graph, "first")
    graph.create_branch("side")
    write_three(graph, "second", "side")
    return graph


def codes(graph: Graph, *, deep: bool = False) -> set[str]:
    """What a process of its own finds; it must change nothing."""
    root = graph.location.path
    before = fingerprint(root)
    found = Graph.open(str(root), SETTINGS).doctor(deep=deep)
    assert fingerprint(root) == before
    assert all(each.where and each.message for each in found)
    return {each.code for each in found}


def test_columns_of_every_kind_are_those_of_their_type(tmp_path: Path) -> None:
    """Whatever Arrow calls them: a blob is stored under a type of Lance's own."""
    root = str(tmp_path / "kinds")
    first = "node P { k: String @key  b: Blob?  v: Vector(2)?  l: [I32]?  d: DateTime?  e: enum(x, y)? }"
    made = Graph.init(root, first, SETTINGS)
    made.change('query q() { insert P { k: "a" } }')
    made.apply_schema(first.replace("b: Blob?", "b: Blob?  c: Blob?"))
    assert "columns" not in codes(made)


def smuggle(graph: Graph, key: str, rows: list[dict[str, object]], branch: str = "main") -> None:
    """Rows that no rule has seen, adopted by repair."""
    entry = graph.snapshot(branch).entry(key)
    table = graph.door.tables.open(entry.ref)
    table.lance.insert(pa.Table.from_pylist(rows, schema=table.schema))
    graph.repair(branch, confirm=True, force=True)


def test_a_branch_that_starts_at_an_old_commit_is_sound(graph: Graph) -> None:
    """Its log has rows of later commits; they are its parent's, and nobody gave them up."""
    old = graph.commit("main")
    write_three(graph, "later")
    graph.create_branch("back", old.commit_id)
    assert codes(graph) == set()


def test_a_renamed_branch_is_called_what_it_is_called_now(graph: Graph) -> None:
    """The command that doctor names can be run as it is."""
    graph.rename_branch("side", "review")
    smuggle(graph, "edge:Knows", [{"id": "k", "src": "nobody", "dst": "second"}], "review")
    graph.door.tables.open(graph.snapshot("review").entry(PERSON).ref).lance.optimize.compact_files()
    graph.door.tables.open(graph.snapshot("review").entry(PERSON).ref).lance.update_config({"a": "b"})
    found = {each.code: each for each in graph.doctor() if each.counts}
    assert {code: each.where for code, each in found.items()} == {
        "drift": f"review {PERSON}",
        "dangling-edge": "review edge:Knows",
    }
    assert found["drift"].branch == "review"
    assert graph.repair("review").breaks[0].startswith("review edge:Knows: ")


def test_a_sound_graph(graph: Graph) -> None:
    assert codes(graph, deep=True) == set()
    graph.create_tag("v1", "side")
    graph.cleanup(keep=1, grace_s=0.0, force=True)
    graph.optimize()
    assert codes(graph, deep=True) == set()


def test_rows_that_break_rules(graph: Graph) -> None:
    smuggle(graph, PERSON, [{"id": "a", "name": "a", "mail": "m"}, {"id": "b", "name": "b", "mail": "m"}])
    assert codes(graph) == {"duplicate-unique"}
    smuggle(graph, PERSON, [{"id": "a", "name": "a"}])
    assert codes(graph) == {"duplicate-unique", "duplicate-id", "duplicate-key"}
    smuggle(graph, "edge:Knows", [{"id": "e", "src": "a", "dst": "nobody"}], "side")
    found = {each.code: each for each in graph.doctor()}
    assert found["dangling-edge"].where == "side edge:Knows"
    assert "'nobody'" in found["dangling-edge"].message


def test_memory_asks_for_several_passes(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same is found when only a few hashes fit."""
    smuggle(graph, PERSON, [{"id": f"p{n % 90}", "name": f"p{n}"} for n in range(100)])
    smuggle(graph, "edge:Knows", [{"id": f"e{n}", "src": f"p{n}", "dst": f"p{n}"} for n in range(100)])
    whole = [(each.code, each.message) for each in graph.doctor()]
    assert {code for code, _ in whole} == {"duplicate-id", "dangling-edge"}
    monkeypatch.setattr(rows, "_HASH_SHARE", SETTINGS.memory_limit_bytes // 100)
    again = [(each.code, each.message) for each in graph.doctor()]
    assert [code for code, _ in again] == [code for code, _ in whole]
    assert again[0] == whole[0]
    assert again[1][1].startswith("10 edges")


def test_drift_and_counts(graph: Graph) -> None:
    entry = graph.snapshot("side").entry(PERSON)
    graph.door.tables.open(entry.ref).lance.delete("id = 'second'")
    found = [each for each in graph.doctor() if each.code == "drift"]
    assert [(each.fix, each.branch) for each in found] == [("omnigraph repair", "side")]
    graph.repair("side", confirm=True, force=True)
    assert codes(graph) == {"dangling-edge"}


def test_a_dead_writer(graph: Graph) -> None:
    die(graph, "write.after_a")
    assert codes(graph) == {"write-unfinished"}
    open_graph(graph.location.path, SETTINGS)
    assert codes(graph) <= {"files-left"}


def test_a_sidecar_that_cannot_be_read_does_not_hide_the_rest(graph: Graph) -> None:
    root = graph.location.path
    (root / layout.RECOVERY_DIR).mkdir(exist_ok=True)
    (root / layout.sidecar("0" * 26)).write_text("{")
    (root / layout.STAGING_DIR).mkdir(exist_ok=True)
    (root / layout.staging_record("0" * 26)).write_text("{")
    (root / layout.CLEANUP_RECORD).write_text("{")
    found = codes(graph)
    assert {"write-unreadable", "staging-unreadable", "cleanup-record-damaged"} <= found


def test_staging_of_the_dead_and_of_the_living(graph: Graph) -> None:
    record = StagingRecord("01ARZ3NDEKTSV4RRFFQ69G5FAV", "Load", "main", "ann")
    with staging(graph.door.storage, record) as kept:
        assert codes(graph) == set()
        kept.stays = True
    assert codes(graph) == {"staging-left"}


def test_schema_files(graph: Graph) -> None:
    root = graph.location.path
    compiled = next((root / layout.SCHEMA_DIR).glob("*.json"))
    text = compiled.read_text()
    compiled.write_text(text.replace("Company", "Companz"))
    assert codes(graph) == {"schema-damaged"}
    compiled.write_text(text)
    (root / layout.SCHEMA_SOURCE).write_text("node Other { x: I32 }\n")
    assert codes(graph) == {"schema-files-disagree"}


def test_a_schema_that_only_old_commits_have(tmp_path: Path) -> None:
    """It is needed as long as such a commit can be read, and no longer."""
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)
    head = graph.snapshot().head
    assert head is not None
    graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32? city: String?"))
    for path in (layout.schema_by_hash(head.schema_hash), layout.schema_source_by_hash(head.schema_hash)):
        (graph.location.path / path).unlink()
    assert codes(graph) == {"schema-damaged"}
    graph.cleanup(keep=1, grace_s=0, force=True)
    assert codes(graph) == set()


@pytest.mark.parametrize("ending", [".json", ".pg"])
def test_half_of_a_schema_that_no_commit_has(ending: str, graph: Graph) -> None:
    """An apply that died in between leaves one of the two files."""
    other = SCHEMA.replace("age: I32?", "age: I64?")
    hash_ = keep_schema(graph.door.storage.control, other, compile_schema(other))
    gone = layout.schema_by_hash(hash_) if ending == ".pg" else layout.schema_source_by_hash(hash_)
    (graph.location.path / gone).unlink()
    assert codes(graph) == set()


def test_schema_files_that_lag_behind(graph: Graph) -> None:
    kept = {
        name: (graph.location.path / name).read_bytes()
        for name in (layout.SCHEMA_SOURCE, layout.SCHEMA_COMPILED, layout.SCHEMA_STATE)
    }
    graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32? city: String?"))
    for name, data in kept.items():
        (graph.location.path / name).write_bytes(data)
    assert codes(graph) == {"schema-behind"}
    open_graph(graph.location.path, SETTINGS)
    assert codes(graph) == set()


def test_history(graph: Graph) -> None:
    root = graph.location.path
    log = graph.door.tables.open(commits_ref("side"))
    (root / manifest_path(log.ref, log.version)).unlink()
    assert codes(graph) == {"head-row-missing", "files-left"}
    write_three(open_graph(root, SETTINGS), "third", "side")
    assert codes(graph) <= {"files-left"}
    oldest = sorted(own_files(graph.door.tables.open(commits_ref("main"))))
    for path in oldest:
        (root / path).unlink()
    assert "history-damaged" in codes(graph)


def test_a_commit_whose_version_is_gone(graph: Graph) -> None:
    commit = graph.commit("main~1")
    (graph.location.path / manifest_path(TableRef("m", layout.MANIFEST), commit.manifest_version)).unlink()
    found = [each for each in graph.doctor() if each.code == "commit-unreadable"]
    assert [each.where for each in found] == [commit.commit_id]


def test_tags_and_deleted_branches(graph: Graph) -> None:
    graph.create_tag("v1", "main")
    tag = read_tag(graph.door.storage.control, "v1")
    graph.delete_branch("side")
    assert codes(graph) == {"branch-put-aside"}
    other = Tag(
        **{
            name: getattr(tag, name)
            for name in ("name", "on", "manifest_version", "actor_id", "message", "created_at", "revision")
        },
        commit_id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
    )
    (graph.location.path / layout.tag("v1")).write_bytes(other.encode())
    assert codes(graph) == {"branch-put-aside", "tag-commit-gone"}
    (graph.location.path / layout.tag("v1")).write_text("{")
    assert codes(graph) == {"branch-put-aside", "tag-damaged"}
    next((graph.location.path / layout.DELETED_DIR).iterdir()).write_text("{")
    assert codes(graph) == {"deleted-damaged", "tag-damaged"}


def test_records_whose_digest_is_wrong(graph: Graph) -> None:
    """They can be parsed, and say something else than was written: that is damage, and nothing else is."""
    graph.create_tag("v1", "side")
    graph.create_branch("other")
    for name in ("other", "side"):
        graph.delete_branch(name)
    root = graph.location.path
    one = next(path for path in (root / layout.DELETED_DIR).iterdir() if b'"side"' in path.read_bytes())
    one.write_bytes(one.read_bytes().replace(b'"actor_id": "ann"', b'"actor_id": "eve"'))
    found = graph.doctor()
    assert {(each.code, each.where) for each in found} == {
        ("deleted-damaged", f"{layout.DELETED_DIR}/{one.name}"),
        ("branch-put-aside", "other"),
    }
    assert all("changed after it was written" in each.message for each in found if each.counts)
    tag = root / layout.tag("v1")
    tag.write_bytes(tag.read_bytes().replace(b'"actor_id": "ann"', b'"actor_id": "eve"'))
    assert codes(graph) == {"deleted-damaged", "branch-put-aside", "tag-damaged"}


def test_forks_and_tables_of_a_deleted_branch_are_no_leftovers(graph: Graph) -> None:
    """However old, as long as it can be had back; and a branch may be called like a folder of Lance's."""
    graph.apply_schema(SCHEMA + "node Extra { name: String @key }\n", branch="side")
    graph.create_branch("data", "side")
    write_three(graph, "third", "data")
    assert codes(graph, deep=True) == set()
    for name in ("data", "side"):
        graph.delete_branch(name)
    for path in graph.location.path.rglob("*"):
        os.utime(path, (0, 0))
    assert codes(graph, deep=True) == {"branch-put-aside"}
    for name in ("side", "data"):
        graph.undelete_branch(name)
    assert codes(graph, deep=True) == set()


def test_names_and_operations_that_cannot_be_read(graph: Graph) -> None:
    graph.rename_branch("side", "aside")
    assert codes(graph) == set()
    names = graph.location.path / layout.NAMES_RECORD
    whole = names.read_bytes()
    names.write_bytes(whole[:-5])
    assert codes(graph) == {"names-damaged"}
    names.write_bytes(whole)
    done = min((graph.location.path / layout.DONE_OPERATIONS).iterdir())
    done.write_bytes(b"{}")
    begun = graph.location.path / layout.begun_operation("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    begun.parent.mkdir(exist_ok=True)
    begun.write_bytes(b"")
    found = [each for each in graph.doctor() if each.counts]
    assert [each.code for each in found] == ["operation-unreadable"] * 2
    assert [each.where.rsplit("/", 1)[1] for each in found] == [begun.name, done.name]
    assert all(each.fix for each in found)


def test_what_nothing_refers_to(graph: Graph) -> None:
    root, found = graph.location.path, graph.snapshot().entry(PERSON)
    create_fork(graph.door.tables, found.ref, "ghost", found.table_version, unguarded)
    stray = TableRef("node:Stray", layout.table_path("node", "Stray"))
    create_table(graph.door.tables, stray, TAG_SCHEMA, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    (root / found.table_path / "data" / "stray.lance").write_bytes(b"x" * 10)
    seen = {each.code: each for each in graph.doctor()}
    assert seen.keys() == {"fork-left", "dataset-left", "files-left"}
    assert not any(each.counts for each in seen.values())
    assert "no version refers to 1 file of 10 bytes, " in seen["files-left"].message


def test_leftovers_that_nobody_cleans_up(graph: Graph) -> None:
    """By the clock of the store: a week later the same are warnings."""
    path = graph.location.path / graph.snapshot().entry(PERSON).table_path / "data" / "stray.lance"
    path.write_bytes(b"x")
    os.utime(path, (0, 0))
    assert [(each.code, each.counts) for each in graph.doctor()] == [("files-left", True)]


def test_files_that_are_short_or_gone(graph: Graph) -> None:
    root = graph.location.path
    entry = graph.snapshot("side").entry(PERSON)
    mine = sorted(own_files(graph.door.tables.open(entry.ref, entry.table_version)))
    data = (root / mine[0]).read_bytes()
    (root / mine[0]).write_bytes(data[:-1])
    assert "file-short" in codes(graph)
    (root / mine[0]).write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert "file-changed" in codes(graph, deep=True)
    (root / mine[0]).unlink()
    assert {"file-short", "file-missing"} <= codes(graph, deep=True)


def test_files_of_the_parent_that_a_branch_reads(graph: Graph) -> None:
    """A fork refers to its parent's files; they are told to be missing even if main has moved on."""
    entry = graph.snapshot().entry(PERSON)
    mine = sorted(own_files(graph.door.tables.open(entry.ref, entry.table_version)))
    graph.optimize()
    (graph.location.path / mine[0]).unlink()
    assert "file-short" in codes(graph)


def test_costs_that_have_grown(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (growth, tables):
        monkeypatch.setattr(module, "FRAGMENTS_MANY", 1)
    write_three(graph, "third")
    monkeypatch.setattr(growth, "VERSIONS_MANY", 1)
    monkeypatch.setattr(growth, "SUPERSEDED_ROWS_MANY", -1)
    monkeypatch.setattr(tables, "UNINDEXED_ROWS_MAX", 1)
    monkeypatch.setattr(leftovers, "VERSIONS_READ_MAX", 1)
    expected = {"fragments", "versions", "superseded-rows", "index-behind", "files-not-compared"}
    assert {each.code for each in graph.doctor()} == expected


def test_a_lock_that_is_held_for_hours(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph_core.maintenance.checks import locks

    with graph.door.storage.locks.lock(layout.branch_lock("main"), doing="load").acquire():
        assert codes(graph) == set()
        monkeypatch.setattr(locks, "LOCK_HELD_LONG_S", -1.0)
        assert codes(graph) == {"lock-held-long"}


def test_a_branch_that_cannot_be_read_does_not_hide_the_others(graph: Graph) -> None:
    """Damage of one branch, and of one table of the other: both are said."""
    root = graph.location.path
    for file in (root / layout.MANIFEST / "tree" / "side").rglob("*.lance"):
        file.write_bytes(b"")
    entry = graph.snapshot().entry("node:Company")
    for path in own_files(graph.door.tables.open(entry.ref, entry.table_version)):
        (root / path).write_bytes(b"")
    assert {"branch-unreadable", "file-short", "rows-unreadable"} <= codes(graph)


def _codes_in_source() -> Iterator[str]:
    for path in sorted((REPOSITORY / "omnigraph_core" / "maintenance").rglob("*.py")):
        for found in re.finditer(
            r'\b(?:error|warning|note|failed|attempt|_leftover|Finding)\(\s*"([a-z-]+)"', path.read_text()
        ):
            yield found[1]
        yield from (found[1] for found in re.finditer(r'\("(duplicate-[a-z]+)"', path.read_text()))


def test_the_page_lists_every_code() -> None:
    page = (REPOSITORY / "docs" / "doctor.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \|", page.split("## Codes")[1], re.MULTILINE)
    assert sorted(listed) == sorted(set(_codes_in_source()))
