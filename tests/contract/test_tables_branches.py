"""Lance branches of one dataset, and what a crash can leave of them."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from omnigraph_core import faults
from omnigraph_core.errors import NotFoundError, RefusedError
from omnigraph_core.faults import InjectedFault
from omnigraph_core.storage import Storage
from omnigraph_core.tables.branches import (
    Fork,
    ForkExists,
    create_fork,
    delete_fork,
    list_forks,
    read_fork,
)
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import TableNotFound, VersionNotFound
from omnigraph_core.tables.stage import stage_append, stage_delete, stage_upsert
from tests.contract.graphs import (
    PERSON,
    ages,
    commit,
    file_tree,
    ids,
    operation,
    people,
    people_table,
    write_raw,
)

TORN = {
    "empty": b"",
    "garbage": b"\x00\xff\x00garbage",
    "cut": b'{"parentBranch":null,"parentVer',
    "list": b"[]",
}

torn = pytest.mark.parametrize("body", TORN.values(), ids=TORN.keys())


def ref_file(name: str) -> str:
    return f"{PERSON.path}/_refs/branches/{quote(name, safe='')}.json"


def grow(tables: Tables, table: Table, **new: int) -> Table:
    return commit(tables, stage_append(tables.storage, table, people(new), operation()))


# ---- what a fork is ----


@pytest.mark.parametrize("name", ["dev", "team/ann/x", "größe", "a.b-c_d", "v1.0"])
def test_a_fork_has_the_content_of_its_parent_and_goes_its_own_way(name: str, tables: Tables) -> None:
    main = people_table(tables)
    fork = create_fork(tables, PERSON, name, main.version)
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
    old = create_fork(tables, PERSON, "old", 1)
    assert ages(old) == {"ann": 1, "bob": 2, "cid": 3}
    old = grow(tables, old, x=1)
    child = create_fork(tables, old.ref, "child", old.version)
    grandchild = create_fork(tables, child.ref, "grandchild", child.version)
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
    create_fork(tables, PERSON, "dev", main.version)
    before = file_tree(storage)
    with pytest.raises(ForkExists):
        create_fork(tables, PERSON, "dev", main.version - 1)
    assert file_tree(storage) == before


def test_a_fork_of_what_is_not_there_is_refused(tables: Tables) -> None:
    with pytest.raises(TableNotFound):
        create_fork(tables, PERSON, "dev", 1)
    main = people_table(tables)
    with pytest.raises(VersionNotFound):
        create_fork(tables, PERSON, "dev", main.version + 1)
    assert list_forks(tables, PERSON) == {}
    with pytest.raises(NotFoundError):
        delete_fork(tables, PERSON, "dev")


def test_deleting_removes_every_file_of_the_fork_and_no_other(tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    create_fork(tables, PERSON, "keep", main.version)
    before = file_tree(storage)
    fork = create_fork(tables, PERSON, "dev", main.version)
    fork = grow(tables, fork, x=1)
    commit(tables, stage_delete(storage, fork, operation(), ids=ids("ann")))
    delete_fork(tables, PERSON, "dev")
    assert file_tree(storage) == before
    assert read_fork(tables, PERSON, "dev") is None
    with pytest.raises(TableNotFound):
        tables.open(PERSON.on("dev"))
    with pytest.raises(NotFoundError):
        delete_fork(tables, PERSON, "dev")


def test_a_reused_name_is_another_branch(tables: Tables, storage: Storage) -> None:
    """Same name, same versions, other content: neither identity nor cached pages may be mixed up."""
    main = people_table(tables)
    identities: list[str] = []
    for number in range(3):
        fork = create_fork(tables, PERSON, "dev", main.version)
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
        delete_fork(tables, PERSON, "dev")
    assert len(set(identities)) == 3


# ---- rules between branches ----


@pytest.mark.parametrize(("live", "new"), [("a", "a/b"), ("a/b", "a"), ("a", "a/b/c"), ("a", "a/data")])
def test_names_that_are_path_prefixes_of_each_other_are_refused(
    live: str, new: str, tables: Tables, storage: Storage
) -> None:
    main = people_table(tables)
    create_fork(tables, PERSON, live, main.version)
    before = file_tree(storage)
    with pytest.raises(RefusedError, match=live):
        create_fork(tables, PERSON, new, main.version)
    assert file_tree(storage) == before
    assert ages(tables.open(PERSON.on(live))) == ages(main)
    create_fork(tables, PERSON, live + "b", main.version)


def test_a_branch_with_branches_of_its_own_stays(tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    parent = grow(tables, create_fork(tables, PERSON, "parent", main.version), x=1)
    child = create_fork(tables, parent.ref, "child", parent.version)
    before = file_tree(storage)
    with pytest.raises(RefusedError, match="child"):
        delete_fork(tables, PERSON, "parent")
    assert file_tree(storage) == before
    assert ages(child) == ages(main) | {"x": 1}
    delete_fork(tables, PERSON, "child")
    delete_fork(tables, PERSON, "parent")
    assert list_forks(tables, PERSON) == {}


# ---- crashes ----


def test_a_tree_without_a_ref_is_cleared_by_the_next_create(tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    dead = grow(tables, create_fork(tables, PERSON, "dev", main.version), ghost=1)
    storage.control.delete(ref_file("dev"))
    assert list_forks(tables, PERSON) == {}
    stale = file_tree(storage).keys()
    fork = create_fork(tables, PERSON, "dev", main.version)
    assert (fork.version, ages(fork)) == (main.version, ages(main))
    assert ages(grow(tables, fork, x=1)) == ages(main) | {"x": 1}
    leftovers = {path for path in stale if path.startswith(dead.ref.directory + "/data/")}
    assert leftovers
    assert not leftovers & file_tree(storage).keys()


def test_a_tree_without_a_ref_is_removed_by_delete(tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    before = file_tree(storage)
    grow(tables, create_fork(tables, PERSON, "dev", main.version), ghost=1)
    storage.control.delete(ref_file("dev"))
    delete_fork(tables, PERSON, "dev")
    assert file_tree(storage) == before


@pytest.mark.parametrize("finish", ["create", "delete"])
def test_a_tree_that_lost_its_versions_already_is_cleared_too(
    finish: str, tables: Tables, storage: Storage
) -> None:
    """A killed delete removes files in any order; the manifests may be the first to go."""
    main = people_table(tables)
    before = file_tree(storage)
    dead = grow(tables, create_fork(tables, PERSON, "dev", main.version), ghost=1)
    storage.control.delete(ref_file("dev"))
    storage.control.delete_prefix(dead.ref.directory + "/_versions")
    if finish == "create":
        create_fork(tables, PERSON, "dev", main.version)
    delete_fork(tables, PERSON, "dev")
    assert file_tree(storage) == before


@torn
def test_a_torn_ref_is_no_branch_and_the_next_create_repairs_it(
    body: bytes, tables: Tables, storage: Storage
) -> None:
    main = people_table(tables)
    grow(tables, create_fork(tables, PERSON, "dev", main.version), ghost=1)
    write_raw(storage, ref_file("dev"), body)
    assert read_fork(tables, PERSON, "dev") is None
    assert list_forks(tables, PERSON) == {}
    fork = create_fork(tables, PERSON, "dev", main.version)
    assert ages(fork) == ages(main)
    assert list(list_forks(tables, PERSON)) == ["dev"]


@torn
@pytest.mark.parametrize("with_tree", [True, False], ids=["tree", "no tree"])
def test_a_torn_ref_is_removed_by_delete(
    body: bytes, with_tree: bool, tables: Tables, storage: Storage
) -> None:
    main = people_table(tables)
    before = file_tree(storage)
    if with_tree:
        create_fork(tables, PERSON, "dev", main.version)
    write_raw(storage, ref_file("dev"), body)
    delete_fork(tables, PERSON, "dev")
    assert file_tree(storage) == before


@torn
def test_a_torn_ref_does_not_stand_in_the_way_of_other_branches(
    body: bytes, tables: Tables, storage: Storage
) -> None:
    main = people_table(tables)
    create_fork(tables, PERSON, "broken", main.version)
    write_raw(storage, ref_file("broken"), body)
    fork = grow(tables, create_fork(tables, PERSON, "dev", main.version), x=1)
    assert ages(fork) == ages(main) | {"x": 1}
    child = create_fork(tables, fork.ref, "child", fork.version)
    assert ages(grow(tables, child, y=1))["y"] == 1
    assert list(list_forks(tables, PERSON)) == ["child", "dev"]
    delete_fork(tables, PERSON, "child")
    delete_fork(tables, PERSON, "dev")
    assert list_forks(tables, PERSON) == {}


@pytest.mark.parametrize("again", ["create", "delete"])
def test_a_delete_that_died_half_way_can_be_finished(again: str, tables: Tables, storage: Storage) -> None:
    main = people_table(tables)
    before = file_tree(storage)
    old = create_fork(tables, PERSON, "dev", main.version)
    grow(tables, old, ghost=1)
    identity = read_fork(tables, PERSON, "dev")
    faults.arm("tables.fork_ref_deleted=error")
    with pytest.raises(InjectedFault):
        delete_fork(tables, PERSON, "dev")
    faults.arm("")
    assert list_forks(tables, PERSON) == {}
    if again == "create":
        fork = create_fork(tables, PERSON, "dev", main.version)
        assert ages(fork) == ages(main)
        assert isinstance(identity, Fork)
        reborn = read_fork(tables, PERSON, "dev")
        assert reborn is not None
        assert reborn.identity != identity.identity
    delete_fork(tables, PERSON, "dev")
    assert file_tree(storage) == before


def test_a_create_that_died_after_lance_is_a_live_branch(tables: Tables) -> None:
    main = people_table(tables)
    faults.arm("tables.fork_created=error")
    with pytest.raises(InjectedFault):
        create_fork(tables, PERSON, "dev", main.version)
    faults.arm("")
    assert list(list_forks(tables, PERSON)) == ["dev"]
    assert ages(tables.open(PERSON.on("dev"))) == ages(main)
    with pytest.raises(ForkExists):
        create_fork(tables, PERSON, "dev", main.version)
    delete_fork(tables, PERSON, "dev")


def test_leftovers_of_one_branch_are_not_cleared_over_a_live_one(tables: Tables, storage: Storage) -> None:
    """`a` was deleted half way; `a/b` came to live in its directory through Lance. Nothing may go."""
    main = people_table(tables)
    create_fork(tables, PERSON, "a", main.version)
    storage.control.delete(ref_file("a"))
    main.lance.create_branch("a/b", main.version)
    with pytest.raises(RefusedError):
        create_fork(tables, PERSON, "a", main.version)
    with pytest.raises(RefusedError):
        delete_fork(tables, PERSON, "a")
    assert ages(tables.open(PERSON.on("a/b"))) == ages(main)
