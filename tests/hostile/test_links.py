"""Links inside a graph lead nowhere: nothing outside of it is read as its own, changed or removed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import ErrorKind
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from omnigraph_core.tables.dataset import Tables
from tests.support.dying import die
from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint
from tests.support.verbs import ask_all, refusals
from tests.support.writers import check_whole, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")
PERSON = layout.table_path("node", "Person")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A graph with two writes on main and one on a branch."""
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    write_three(graph, "one")
    graph.create_branch("dev")
    write_three(graph, "two", "dev")
    write_three(graph, "three")
    return tmp_path / "g"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What must stay as it is."""
    folder = tmp_path / "precious"
    (folder / "data").mkdir(parents=True)
    for name in ("a.json", "b.txt", "branch.main.lock", "1.manifest", "data/x.lance"):
        (folder / name).write_text(f"precious {name}")
    return folder


def put_link(root: Path, path: str, target: Path) -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    elif place.exists():
        place.unlink()
    place.symlink_to(target)


LINKED_FOLDERS = [
    layout.STAGING_DIR,
    layout.LOCKS_DIR,
    layout.RECOVERY_DIR,
    layout.TAGS_DIR,
    layout.DELETED_DIR,
    layout.OPERATIONS_DIR,
    layout.BEGUN_OPERATIONS,
    layout.SCHEMA_DIR,
    layout.NODES_DIR,
    PERSON,
    f"{PERSON}/data",
    f"{PERSON}/_versions",
    f"{layout.COMMITS}/tree/fresh",
    f"{layout.COMMITS}/tree",
    f"{layout.MANIFEST}/_refs/branches",
]


@pytest.mark.parametrize("path", LINKED_FOLDERS)
def test_a_linked_folder_leads_nowhere(path: str, root: Path, outside: Path) -> None:
    put_link(root, path, outside)
    before = fingerprint(outside)
    refused = refusals(ask_all(root))
    assert fingerprint(outside) == before
    said = [error for error in refused.values() if error.kind is ErrorKind.STORAGE]
    assert any(path in str(error) and "symbolic link" in str(error) for error in said), refused


LINKED_FILES = [
    f"{layout.LOCKS_DIR}/branch.main.lock",
    f"{layout.LOCKS_DIR}/refs.lock",
    layout.NAMES_RECORD,
    layout.SCHEMA_STATE,
    layout.SCHEMA_SOURCE,
    f"{layout.TAGS_DIR}/t.json",
    f"{layout.RECOVERY_DIR}/01ARZ3NDEKTSV4RRFFQ69G5FAV.json",
    f"{layout.STAGING_DIR}/01ARZ3NDEKTSV4RRFFQ69G5FAV.json",
    f"{layout.DELETED_DIR}/{'0' * 32}.json",
    f"{layout.BEGUN_OPERATIONS}/01ARZ3NDEKTSV4RRFFQ69G5FAV.json",
]


def _link(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "a.json")


def _fifo(place: Path, outside: Path) -> None:
    os.mkfifo(place)


def _socket(place: Path, outside: Path) -> None:
    here = os.getcwd()
    os.chdir(place.parent)  # A socket's path is short.
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(place.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("path", LINKED_FILES)
def test_what_is_no_file_is_refused_without_waiting(path: str, root: Path, outside: Path) -> None:
    place = root / path
    before = fingerprint(outside)
    for make in (_link, _fifo, _socket):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        make(place, outside)
        kind = stat.S_IFMT(place.lstat().st_mode)
        answers = ask_all(root, ["status", "branches", "commits", "change", "cleanup", "doctor"])
        assert fingerprint(outside) == before
        assert stat.S_IFMT(place.lstat().st_mode) == kind
        told = [str(error) for error in refusals(answers).values()]
        told += [f"{finding.where}: {finding.message}" for finding in answers["doctor"]]
        assert any(path in text for text in told), (make, answers)


def test_a_lock_file_that_is_another_file_is_not_written_over(root: Path, omnigraph: Omnigraph) -> None:
    """A second name of a file is no link that could be told from the first."""
    precious = root.parent / "precious.txt"
    precious.write_text("do not write over me\n")
    lock = root / layout.LOCKS_DIR / "branch.main.lock"
    lock.unlink()
    os.link(precious, lock)
    done = omnigraph("change", "-e", 'query q() { insert Company { name: "n" } }', "--store", root)
    assert (done.code, "branch.main.lock" in done.err) == (74, True)
    assert precious.read_text() == "do not write over me\n"


def test_lock_files_of_a_hard_linked_copy_work(root: Path, tmp_path: Path, omnigraph: Omnigraph) -> None:
    """Backups by `cp -al` share their lock files."""
    shutil.copytree(root, tmp_path / "copy", copy_function=os.link)
    done = omnigraph("change", "-e", 'query q() { insert Company { name: "n" } }', "--store", root)
    assert done.code == 0, done.err


def test_the_root_may_be_a_link(root: Path, tmp_path: Path, omnigraph: Omnigraph) -> None:
    """Branches made under one name of the place are used under the other."""
    link = tmp_path / "link"
    link.symlink_to(root)
    above = tmp_path / "above"
    above.symlink_to(tmp_path)
    for number, place in enumerate((root, link, above / "g")):
        graph = open_graph(place, SETTINGS)
        graph.create_branch(f"b{number}", "dev")
        write_three(graph, f"b{number}", f"b{number}")
    for place in (root, link, above / "g"):
        graph = open_graph(place, SETTINGS)
        for branch in graph.branches():
            write_three(graph, f"again-{branch}", branch)
        check_whole(graph)
        assert omnigraph("diff", "main", "b1", "--store", place).code == 0
        assert omnigraph("doctor", "--deep", "--store", place).code == 0
    assert omnigraph("relocate", root).code == 0


def test_a_clone_in_place_of_a_table_is_refused(root: Path, tmp_path: Path, omnigraph: Omnigraph) -> None:
    """On main as on a branch: its rows are in somebody else's files."""
    import lance

    other = Graph.init(str(tmp_path / "other"), PEOPLE, SETTINGS)
    write_three(other, "secret")
    entry = other.snapshot().entry("node:Person")
    source = lance.dataset(Tables(other.door.storage).uri(entry.ref))
    place = root / PERSON
    shutil.rmtree(place)
    made = source.shallow_clone(str(place), source.version)
    published = open_graph(root, SETTINGS).snapshot().entry("node:Person").table_version
    while made.version < published:
        made = lance.write_dataset(made.schema.empty_table(), str(place), mode="append")
    before = fingerprint(tmp_path / "other")
    read = omnigraph("export", "--store", root, "--json")
    assert read.code == 74
    assert (json.loads(read.err)["path"], "secret" in read.out) == (PERSON, False)
    insert = 'query q() { insert Person { name: "n" } }'
    assert omnigraph("change", "-e", insert, "--store", root).code == 74
    omnigraph("cleanup", "--keep", "1", "--force", "--yes", "--store", root)
    assert fingerprint(tmp_path / "other") == before


def test_a_record_that_names_a_linked_table_removes_nothing(
    root: Path, outside: Path, omnigraph: Omnigraph
) -> None:
    """A sidecar says that a write made a table; there is a link in its place."""
    die(root, "write.after_a", more=("register",))
    tag = layout.table_path("node", "Tag")
    put_link(root, tag, outside)
    before = fingerprint(outside)
    assert omnigraph("recovery", "run", "--store", root).code == 74
    assert fingerprint(outside) == before
    assert (root / tag).is_symlink()


def test_doctor_names_what_no_graph_has(root: Path, outside: Path) -> None:
    """At any depth; Lance alone would read a data file through a link."""
    (root / PERSON / "data" / "deep").mkdir()
    for path in ("data/deep/link", "_versions/here"):
        (root / PERSON / path).symlink_to(outside)
    os.mkfifo(root / "pipe")
    found = {each.where for each in Graph.open(str(root), SETTINGS).doctor() if each.code == "foreign-entry"}
    assert found == {f"{PERSON}/data/deep/link", f"{PERSON}/_versions/here", "pipe"}


def test_cleanup_removes_nothing_through_a_link_at_any_depth(root: Path, outside: Path) -> None:
    """Lance follows links when it lists what may go."""
    os.utime(outside / "data/x.lance", (0, 0))
    before = fingerprint(outside)
    graph = open_graph(root, SETTINGS)
    for each in ("four", "five"):
        write_three(graph, each)
    (root / PERSON / "data" / "deep").symlink_to(outside / "data")
    cleaned = graph.cleanup(keep=1, force=True, grace_s=0)
    said = [each.error for each in cleaned.tables if each.table_key == "node:Person" and each.error]
    assert "data/deep is a symbolic link" in said[0]
    assert fingerprint(outside) == before


def test_a_folder_in_place_of_a_record_hides_nothing(root: Path) -> None:
    """A branch whose ref is a folder is not a branch that is gone."""
    ref = root / layout.MANIFEST / "_refs" / "branches" / "dev.json"
    ref.unlink()
    ref.mkdir()
    refused = refusals(ask_all(root, ["branches", "export dev", "change dev", "cleanup"]))
    assert {name for name, error in refused.items() if error.kind is ErrorKind.STORAGE} >= {
        "branches",
        "cleanup",
    }


@pytest.mark.parametrize("dataset", [layout.MANIFEST, layout.COMMITS])
def test_a_ref_whose_name_leads_elsewhere_is_no_branch(dataset: str, root: Path) -> None:
    """One such file must not stop everything else."""
    refs = root / dataset / "_refs" / "branches"
    for name in ("..%2F..%2Fx", "%2Fetc", "a%00b", "..", "fresh%2F..%2F.."):
        (refs / f"{name}.json").write_bytes((refs / "dev.json").read_bytes())
    answers = ask_all(root, ["status", "branches", "export", "change", "branch", "cleanup"])
    assert refusals(answers) == {}
    assert answers["branches"] == ["dev", "main"]
