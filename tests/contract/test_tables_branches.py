"""Lance branches of one dataset, and what a crash can leave of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from urllib.parse import quote

import pytest

from omnigraph_core import faults
from omnigraph_core.errors import RefusedError
from omnigraph_core.faults import InjectedFault
from omnigraph_core.storage import LockLost, Storage
from omnigraph_core.tables import branches
from omnigraph_core.tables.branches import (
    ForkExists,
    ForkReplaced,
    clear_leftovers,
    create_fork,
    delete_fork,
)
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.failures import TableLost, TableNotFound
from omnigraph_core.tables.fork_refs import Fork, RefDamaged, RefState, find_ref, list_forks, read_fork
from omnigraph_core.tables.ref_repair import heal_ref
from omnigraph_core.tables.stage import stage_append, stage_delete, stage_upsert
from tests.support.graphs import (
    PERSON,
    ages,
    commit,
    file_tree,
    ids,
    only_local,
    operation,
    people,
    people_table,
    write_raw,
)


def ref_file(name: str) -> str:
    return f"{PERSON.path}/_refs/branches/{quote(name, safe='')}.json"


def remove(tables: Tables, name: str) -> None:
    """Delete a fork by what is found of it now."""
    found = find_ref(tables, PERSON, name)
    if found is None:
        clear_leftovers(tables, PERSON, name, unguarded)
    else:
        delete_fork(tables, PERSON, found, unguarded)


def grow(tables: Tables, table: Table, **new: int) -> Table:
    return commit(tables, stage_append(tables.storage, table, people(new), operation()))


# ---- what a fork is ----


@pytest.mark.parametrize("name", ["dev", "team/ann/x", "größe", "a.b-c_d", "v1.0"])
def test_a_fork_has_the_content_of_its_parent_and_goes_its_own_way(name: str, tables: Tables) -> None:
    main = people_table(tables)
    fork = create_fork(tables, PERSON, name, main.version, unguarded)
    assert fork.ref == PERSON.on(name)
    assert (fork.version, ages(fork)) == (main.version, ages(main))
    on_fork = grow(tables, fork, x=1)
    on_main = grow(tables, main, y=2)
    assert on_fork.version == on_main.version == main.version + 1
    assert ages(tables.open(PERSON.on(name))) == ages(main) | {"x": 1}
    assert ages(tables.open(PERSON)) == ages(main) | {"y": 2}
    found = read_fork(tables, PERSON, name)
    assert found is not None
    assert (found.name, found.parent, found.parent_version) == (name, None, main.version)
    assert list_forks(tables, PERSON) == {name: found}


def test_a_fork_can_start_at_an_old_version_and_from_a_fork(tables: Tables) -> None:
    main = people_table(tables)
    old = create_fork(tables, PERSON, "old", 1, unguarded)
    assert ages(old) == {"ann": 1, "bob": 2, "cid": 3}
    old = grow(tables, old, x=1)
    child = create_fork(tables, old.ref, "child", old.version, unguarded)
    grandchild = create_fork(tables, child.ref, "grandchild", child.version, unguarded)
    assert ages(grandchild) == ages(old)
    forks = list_forks(tables, PERSON)
    assert {name: (fork.parent, fork.parent_version) for name, fork in forks.items()} == {
        "old": (None, 1),
        "child": ("old", 2),
        "grandchild": ("child", 2),
    }
    assert len({fork.identity for fork in forks.values()}) == 3
    assert ages(tables.open(PERSON)) == ages(main)


def test_a_name_can_be_taken_once(tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    create_fork(tables, PERSON, "dev", main.version, unguarded)
    before = file_tree(storage)
    with pytest.raises(ForkExists):
        create_fork(tables, PERSON, "dev", main.version - 1, unguarded)
    assert file_tree(storage) == before


def test_a_fork_of_what_is_not_there_is_refused(tables: Tables) -> None:
    with pytest.raises(TableLost):
        create_fork(tables, PERSON, "dev", 1, unguarded)
    main = people_table(tables)
    with pytest.raises(TableLost):
        create_fork(tables, PERSON, "dev", main.version + 1, unguarded)
    assert list_forks(tables, PERSON) == {}
    assert find_ref(tables, PERSON, "dev") is None


def test_deleting_removes_every_file_of_the_fork_and_no_other(tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    create_fork(tables, PERSON, "keep", main.version, unguarded)
    before = file_tree(storage)
    fork = create_fork(tables, PERSON, "dev", main.version, unguarded)
    fork = grow(tables, fork, x=1)
    commit(tables, stage_delete(storage, fork, operation(), ids=ids("ann")))
    remove(tables, "dev")
    assert file_tree(storage) == before
    assert read_fork(tables, PERSON, "dev") is None
    with pytest.raises(TableNotFound):
        tables.open(PERSON.on("dev"))
    assert find_ref(tables, PERSON, "dev") is None


def test_a_reused_name_is_another_branch(tables: Tables, storage: Storage) -> None:
    """Same name, same versions, other content: neither identity nor cached pages may be mixed up."""
    main = people_table(tables)
    identities: list[str] = []
    for number in range(3):
        fork = create_fork(tables, PERSON, "dev", main.version, unguarded)
        fork = commit(
            tables, stage_upsert(storage, fork, people({"ann": number, "new": number}), operation())
        )
        fork = commit(
            tables, stage_delete(storage, fork, operation(), ids=ids(["bob", "cid", "eva"][number]))
        )
        expected = {n: a for n, a in ages(main).items() if n != ["bob", "cid", "eva"][number]}
        expected |= {"ann": number, "new": number}
        for version in (None, fork.version):
            reopened = tables.open(PERSON.on("dev"), version)
            assert ages(reopened) == expected
            assert reopened.read(["age"], "id = 'ann'").to_pylist() == [{"age": number}]
        found = read_fork(tables, PERSON, "dev")
        assert found is not None
        identities.append(found.identity)
        remove(tables, "dev")
    assert len(set(identities)) == 3


# ---- rules between branches ----


@pytest.mark.parametrize(("live", "new"), [("a", "a/b"), ("a/b", "a"), ("a", "a/b/c"), ("a", "a/data")])
def test_names_that_are_path_prefixes_of_each_other_are_refused(
    live: str, new: str, tables: Tables, storage: Storage
) -> None:
    main = people_table(tables)
    create_fork(tables, PERSON, live, main.version, unguarded)
    before = file_tree(storage)
    with pytest.raises(RefusedError, match=live):
        create_fork(tables, PERSON, new, main.version, unguarded)
    assert file_tree(storage) == before
    assert ages(tables.open(PERSON.on(live))) == ages(main)
    create_fork(tables, PERSON, live + "b", main.version, unguarded)


def test_a_branch_with_branches_of_its_own_stays(tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    parent = grow(tables, create_fork(tables, PERSON, "parent", main.version, unguarded), x=1)
    child = create_fork(tables, parent.ref, "child", parent.version, unguarded)
    before = file_tree(storage)
    with pytest.raises(RefusedError, match="child"):
        remove(tables, "parent")
    assert file_tree(storage) == before
    assert ages(child) == ages(main) | {"x": 1}
    remove(tables, "child")
    remove(tables, "parent")
    assert list_forks(tables, PERSON) == {}


# ---- crashes ----


def test_a_tree_without_a_ref_is_cleared_by_the_next_create(tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    dead = grow(tables, create_fork(tables, PERSON, "dev", main.version, unguarded), ghost=1)
    storage.control.delete(ref_file("dev"))
    assert list_forks(tables, PERSON) == {}
    stale = file_tree(storage).keys()
    fork = create_fork(tables, PERSON, "dev", main.version, unguarded)
    assert (fork.version, ages(fork)) == (main.version, ages(main))
    assert ages(grow(tables, fork, x=1)) == ages(main) | {"x": 1}
    leftovers = {path for path in stale if path.startswith(dead.ref.directory + "/data/")}
    assert leftovers
    assert not leftovers & file_tree(storage).keys()


def test_a_tree_without_a_ref_is_removed_by_delete(tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    before = file_tree(storage)
    grow(tables, create_fork(tables, PERSON, "dev", main.version, unguarded), ghost=1)
    storage.control.delete(ref_file("dev"))
    remove(tables, "dev")
    assert file_tree(storage) == before


@pytest.mark.parametrize("finish", ["create", "delete"])
def test_a_tree_that_lost_its_versions_already_is_cleared_too(
    finish: str, tables: Tables, storage: Storage
) -> None:
    """A killed delete removes files in any order; the manifests may be the first to go."""
    main = people_table(tables)
    before = file_tree(storage)
    dead = grow(tables, create_fork(tables, PERSON, "dev", main.version, unguarded), ghost=1)
    storage.control.delete(ref_file("dev"))
    storage.control.delete_prefix(dead.ref.directory + "/_versions")
    if finish == "create":
        create_fork(tables, PERSON, "dev", main.version, unguarded)
    remove(tables, "dev")
    assert file_tree(storage) == before


# ---- refs that cannot be read ----


def break_ref(storage: Storage, name: str, how: str) -> None:
    """What a power cut or a broken disk makes of a ref file."""
    found = storage.control.get(ref_file(name))
    assert found is not None
    whole = found.data
    write_raw(storage, ref_file(name), BREAKS[how](whole))


BREAKS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "cut in a key": lambda whole: whole[:20],
    "cut in null": lambda whole: whole[: whole.index(b'"parentBranch": ') + 18],
    "cut in the identity": lambda whole: whole[: whole.index(b'"identifier"') + 70],
    "cut at the end": lambda whole: whole[:-1],
    "zeros": lambda whole: bytes(len(whole)),
    "cut, then zeros": lambda whole: whole[:50] + bytes(len(whole) - 50),
    "a flipped quote": lambda whole: whole.replace(b'"metadata"', b'"metadata\xa2'),
    "a flipped brace": lambda whole: whole[:-1] + b"]",
    "not UTF-8": lambda whole: whole.replace(b"parent", b"p\xe1rent", 1),
    "another version": lambda whole: whole.replace(b'"parentVersion": ', b'"parentVersion": 1'),
    "a lost field": lambda whole: whole.replace(b"manifestSize", b"manifestsize"),
    "a list": lambda whole: b"[]",
    "garbage": lambda whole: b"\x00\xff\x00garbage",
}
CUTS = [how for how in BREAKS if how.startswith(("empty", "cut", "zeros"))]
WITH_IDENTITY = ["cut at the end", *(how for how in BREAKS if how not in (*CUTS, "a list", "garbage"))]


@only_local
@pytest.mark.parametrize("how", CUTS)
def test_a_ref_that_a_power_cut_tore_is_no_branch_and_makes_room(
    how: str, tables: Tables, storage: Storage
) -> None:
    """On S3 an object is whole or absent."""
    main = people_table(tables)
    create_fork(tables, PERSON, "dev", main.version, unguarded)
    break_ref(storage, "dev", how)
    assert read_fork(tables, PERSON, "dev") is None
    assert list_forks(tables, PERSON) == {}
    fork = create_fork(tables, PERSON, "dev", main.version, unguarded)
    assert ages(grow(tables, fork, x=1)) == ages(main) | {"x": 1}
    assert list(list_forks(tables, PERSON)) == ["dev"]


@only_local
@pytest.mark.parametrize(
    "left", ["nothing", "an empty first version", "a cut first version", "a transaction"]
)
def test_a_ref_whose_tree_a_power_cut_took_is_no_branch_and_makes_room(
    left: str, tables: Tables, storage: Storage
) -> None:
    main = people_table(tables)
    fork = create_fork(tables, PERSON, "dev", main.version, unguarded)
    version = storage.location.path / manifest_path(fork.ref, fork.version)
    whole = version.read_bytes()
    shutil.rmtree(storage.location.path / fork.ref.directory)
    if "version" in left:
        write_raw(storage, manifest_path(fork.ref, fork.version), whole[:100] if "cut" in left else b"")
    elif left == "a transaction":
        write_raw(storage, f"{fork.ref.directory}/_transactions/1-x.txn", b"x")
    tables = Tables(storage)
    assert list_forks(tables, PERSON) == {}
    fork = create_fork(tables, PERSON, "dev", main.version, unguarded)
    assert ages(grow(tables, fork, x=1)) == ages(main) | {"x": 1}


UNEXPLAINED = [(how, True) for how in BREAKS] + [(how, False) for how in BREAKS if how not in CUTS]


@pytest.mark.parametrize(("how", "written"), UNEXPLAINED)
@pytest.mark.once_remotely
def test_an_unreadable_ref_is_never_taken_for_absence(
    how: str, written: bool, tables: Tables, storage: Storage
) -> None:
    """Unless a power cut explains it, and nothing was written. Nothing of the fork may go."""
    main = people_table(tables)
    fork = create_fork(tables, PERSON, "dev", main.version, unguarded)
    fork = grow(tables, fork, x=1) if written else fork
    break_ref(storage, "dev", how)
    before = file_tree(storage)
    for attempt in (
        lambda: read_fork(tables, PERSON, "dev"),
        lambda: list_forks(tables, PERSON),
        lambda: create_fork(tables, PERSON, "dev", main.version, unguarded),
        lambda: clear_leftovers(tables, PERSON, "dev", unguarded),
        lambda: create_fork(tables, PERSON, "dev/sub", main.version, unguarded),
        lambda: create_fork(tables, PERSON.on("dev"), "child", fork.version, unguarded),
    ):
        with pytest.raises(RefDamaged, match=ref_file("dev")):
            attempt()
    assert file_tree(storage) == before


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.once_remotely
def test_a_damaged_ref_is_rebuilt_from_its_tree(how: str, tables: Tables, storage: Storage) -> None:
    """Lance lists it again, and forks of it can be made and stay its children."""
    main = people_table(tables)
    parent = grow(tables, create_fork(tables, PERSON, "parent", main.version, unguarded), x=1)
    dev = grow(tables, create_fork(tables, parent.ref, "dev", parent.version, unguarded), y=2)
    original = read_fork(tables, PERSON, "dev")
    assert original is not None
    break_ref(storage, "dev", how)
    found = heal_ref(tables, PERSON, "dev", unguarded)
    assert found is not None
    assert found.state is RefState.WHOLE
    rebuilt = read_fork(tables, PERSON, "dev")
    assert rebuilt is not None
    assert (rebuilt.parent, rebuilt.parent_version) == ("parent", parent.version)
    assert rebuilt.ancestors == original.ancestors
    assert (rebuilt.identity == original.identity) is (how in WITH_IDENTITY)
    listed = tables.open(PERSON).lance.branches.list()
    assert (listed["dev"]["parent_branch"], listed["dev"]["parent_version"]) == ("parent", parent.version)
    child = grow(tables, create_fork(tables, dev.ref, "child", dev.version, unguarded), z=3)
    assert ages(child) == ages(main) | {"x": 1, "y": 2, "z": 3}
    with pytest.raises(RefusedError, match="child"):
        remove(tables, "dev")
    for name in ("child", "dev", "parent"):
        remove(tables, name)
    assert list_forks(tables, PERSON) == {}


def test_a_damaged_parent_is_rebuilt_first_and_known_by_its_children(
    tables: Tables, storage: Storage
) -> None:
    main = people_table(tables)
    parent = grow(tables, create_fork(tables, PERSON, "parent", main.version, unguarded), x=1)
    grow(tables, create_fork(tables, parent.ref, "dev", parent.version, unguarded), y=2)
    grow(tables, create_fork(tables, parent.ref, "other", parent.version, unguarded), y=2)
    before = list_forks(tables, PERSON)
    break_ref(storage, "parent", "empty")
    break_ref(storage, "dev", "a flipped brace")
    heal_ref(tables, PERSON, "dev", unguarded)
    assert list_forks(tables, PERSON) == before


@pytest.mark.parametrize("how", ["empty", "a flipped brace"])
def test_a_ref_that_cannot_be_read_does_not_stand_in_the_way_of_other_branches(
    how: str, tables: Tables, storage: Storage
) -> None:
    main = people_table(tables)
    grow(tables, create_fork(tables, PERSON, "broken", main.version, unguarded), ghost=1)
    break_ref(storage, "broken", how)
    fork = grow(tables, create_fork(tables, PERSON, "dev", main.version, unguarded), x=1)
    assert ages(fork) == ages(main) | {"x": 1}
    child = create_fork(tables, fork.ref, "child", fork.version, unguarded)
    assert ages(grow(tables, child, y=1))["y"] == 1
    found = read_fork(tables, PERSON, "child")
    assert found is not None
    assert found.parent == "dev"


# ---- deleting by identity ----


class Guarded:
    """A lock that is lost at the nth question."""

    def __init__(self, lost_at: int) -> None:
        self.asked, self._lost_at = 0, lost_at

    def __call__(self) -> None:
        self.asked += 1
        if self.asked >= self._lost_at:
            raise LockLost("branch.dev", "it was taken over")


def test_a_fork_made_anew_is_not_deleted_by_who_knew_the_old_one(tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    create_fork(tables, PERSON, "dev", main.version, unguarded)
    old = find_ref(tables, PERSON, "dev")
    assert old is not None
    remove(tables, "dev")
    grow(tables, create_fork(tables, PERSON, "dev", main.version, unguarded), new=1)
    before = file_tree(storage)
    with pytest.raises(ForkReplaced):
        delete_fork(tables, PERSON, old, unguarded)
    assert file_tree(storage) == before
    remove(tables, "dev")
    with pytest.raises(ForkReplaced):
        delete_fork(tables, PERSON, old, unguarded)


def test_without_the_lock_nothing_is_deleted_or_made(tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    grow(tables, create_fork(tables, PERSON, "dev", main.version, unguarded), x=1)
    grow(tables, create_fork(tables, PERSON, "left", main.version, unguarded), ghost=1)
    storage.control.delete(ref_file("left"))
    before = file_tree(storage)
    found = find_ref(tables, PERSON, "dev")
    assert found is not None
    with pytest.raises(LockLost):
        delete_fork(tables, PERSON, found, Guarded(1))
    for name in ("left", "new"):
        with pytest.raises(LockLost):
            create_fork(tables, PERSON, name, main.version, Guarded(1))
    assert file_tree(storage) == before


STEPS = ["tables.fork_listed", "tables.fork_checked", "tables.fork_ref_deleted", "tables.fork_files_deleted"]


@pytest.mark.parametrize("step", STEPS)
def test_a_delete_that_sleeps_removes_nothing_of_a_fork_made_meanwhile(
    step: str, tables: Tables, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes up when the lock is another's, who has finished the delete and used the name again."""
    monkeypatch.setattr(branches, "_DELETED_AT_ONCE", 1)
    main = people_table(tables)
    grow(tables, create_fork(tables, PERSON, "dev", main.version, unguarded), old=1)
    found = find_ref(tables, PERSON, "dev")
    assert found is not None
    is_lost = False
    after: dict[str, str] = {}

    def sleep(name: str) -> None:
        nonlocal is_lost, after
        if name == step and not is_lost:
            is_lost = True
            other = Tables(storage)
            remove(other, "dev")
            grow(other, create_fork(other, PERSON, "dev", main.version, unguarded), new=1)
            after = file_tree(storage)

    def guard() -> None:
        if is_lost:
            raise LockLost("branch.dev", "it was taken over")

    with monkeypatch.context() as patch:
        patch.setattr(faults, "hit", sleep)
        with pytest.raises((LockLost, ForkReplaced)):
            delete_fork(tables, PERSON, found, guard)
    assert after
    assert file_tree(storage) == after


# ---- deletes that died ----


@pytest.mark.parametrize("again", ["create", "delete"])
def test_a_delete_that_died_half_way_can_be_finished(again: str, tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    before = file_tree(storage)
    old = create_fork(tables, PERSON, "dev", main.version, unguarded)
    grow(tables, old, ghost=1)
    identity = read_fork(tables, PERSON, "dev")
    faults.arm("tables.fork_ref_deleted=error")
    with pytest.raises(InjectedFault):
        remove(tables, "dev")
    faults.arm("")
    assert list_forks(tables, PERSON) == {}
    if again == "create":
        fork = create_fork(tables, PERSON, "dev", main.version, unguarded)
        assert ages(fork) == ages(main)
        assert isinstance(identity, Fork)
        reborn = read_fork(tables, PERSON, "dev")
        assert reborn is not None
        assert reborn.identity != identity.identity
    remove(tables, "dev")
    assert file_tree(storage) == before


def test_a_create_that_died_after_lance_is_a_live_branch(tables: Tables) -> None:
    main = people_table(tables)
    faults.arm("tables.fork_created=error")
    with pytest.raises(InjectedFault):
        create_fork(tables, PERSON, "dev", main.version, unguarded)
    faults.arm("")
    assert list(list_forks(tables, PERSON)) == ["dev"]
    assert ages(tables.open(PERSON.on("dev"))) == ages(main)
    with pytest.raises(ForkExists):
        create_fork(tables, PERSON, "dev", main.version, unguarded)
    remove(tables, "dev")


def test_leftovers_of_one_branch_are_not_cleared_over_a_live_one(tables: Tables, storage: Storage) -> None:
    """`a` was deleted half way; `a/b` came to live in its directory through Lance. Nothing may go."""
    main = people_table(tables)
    create_fork(tables, PERSON, "a", main.version, unguarded)
    storage.control.delete(ref_file("a"))
    main.lance.create_branch("a/b", main.version)
    with pytest.raises(RefusedError):
        create_fork(tables, PERSON, "a", main.version, unguarded)
    with pytest.raises(RefusedError):
        remove(tables, "a")
    assert ages(tables.open(PERSON.on("a/b"))) == ages(main)
