"""Merges beside others: what happens to the source, the target and the bases while one is prepared."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omnigraph_core import faults
from omnigraph_core.errors import NotFoundError
from omnigraph_core.graph import Graph
from omnigraph_core.history.sealed import seal
from omnigraph_core.manifest.reader import BranchReplaced
from omnigraph_core.merge import engine
from omnigraph_core.settings import Settings
from omnigraph_core.write.freshness import CommitPreconditionFailed
from tests.support.records import nodes

SETTINGS = Settings(fsync=False, actor="ann")


def insert(name: str, age: int = 1) -> str:
    return f'query q() {{ insert Person {{ name: "{name}", age: {age} }} }}'


def set_age(name: str, age: int) -> str:
    return f'query q() {{ update Person set {{ age: {age} }} where name = "{name}" }}'


@pytest.fixture
def graph(graph: Graph) -> Graph:
    """dev has Dee, main has Max; both know Ann."""
    graph.change(insert("Ann"))
    graph.create_branch("dev")
    graph.change(insert("Dee"), branch="dev")
    graph.change(insert("Max"))
    return graph


def other(graph: Graph) -> Graph:
    """Another process, as far as the library can tell."""
    return Graph.open(str(graph.location.path), SETTINGS)


def once_staged(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], *, is_read: bool = True) -> None:
    """Do something once, when the merge has read everything, or nothing but heads; no lock is taken yet."""
    original, done = engine.merge_tables, []

    def merge_tables(*arguments: object) -> object:
        found = list(original(*arguments)) if is_read or done else None  # type: ignore[arg-type]
        if not done:
            done.append(True)
            act()
        return iter(list(original(*arguments)) if found is None else found)  # type: ignore[arg-type]

    monkeypatch.setattr("omnigraph_core.merge.run.merge_tables", merge_tables)


def test_a_source_that_moves_on_is_merged_as_it_was(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    tip = graph.head("dev")
    assert tip is not None
    once_staged(monkeypatch, lambda: other(graph).change(insert("Eve"), branch="dev"))
    made = graph.merge("dev")
    assert graph.commit(made.commit_id or "").merged_parent_commit_id == tip.commit_id
    assert set(nodes(graph, "Person")) == {"Ann", "Dee", "Max"}
    assert graph.merge("dev").outcome == "merged"
    assert set(nodes(graph, "Person")) == {"Ann", "Dee", "Eve", "Max"}


def test_a_source_that_is_replaced_is_not_merged(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another branch of the name has tables of the same names and versions of the same numbers."""

    def replace() -> None:
        rival = other(graph)
        rival.delete_branch("dev")
        rival.create_branch("dev", "main~1")
        rival.change(insert("Fay"), branch="dev")

    once_staged(monkeypatch, replace)
    with pytest.raises((BranchReplaced, NotFoundError)):
        graph.merge("dev")
    assert set(nodes(graph, "Person")) == {"Ann", "Max"}
    graph.merge("dev")
    assert set(nodes(graph, "Person")) == {"Ann", "Fay", "Max"}


def test_a_target_that_moves_is_merged_again(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    once_staged(monkeypatch, lambda: other(graph).change(set_age("Max", 7)))
    made = graph.merge("dev")
    assert set(nodes(graph, "Person")) == {"Ann", "Dee", "Max"}
    assert nodes(graph, "Person")["Max"]["age"] == 7
    history = list(graph.log().first_parents(made.commit_id or ""))
    assert history[0].operation == "branchmerge"
    assert history[1].operation == "mutation"


def test_a_head_that_moves_without_a_table_makes_the_bases_stale(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody merges the same meanwhile: the second one has nothing to do any more."""
    graph.create_branch("same")
    graph.change(set_age("Ann", 5), branch="same")
    graph.change(set_age("Ann", 5))
    once_staged(monkeypatch, lambda: other(graph).merge("same"))
    made = graph.merge("same")
    assert (made.outcome, made.commit_id) == ("already_up_to_date", None)


def test_a_merge_only_of_the_head_that_was_meant(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    head = graph.head("main")
    assert head is not None
    once_staged(monkeypatch, lambda: other(graph).change(set_age("Max", 7)))
    with pytest.raises(CommitPreconditionFailed):
        graph.merge("dev", if_commit=head.commit_id)
    assert set(nodes(graph, "Person")) == {"Ann", "Max"}


def test_a_source_that_moved_on_is_not_deleted(graph: Graph) -> None:
    made = graph.merge("dev")
    other(graph).change(insert("Eve"), branch="dev")
    with pytest.raises(CommitPreconditionFailed):
        graph.delete_branch("dev", only_at=made.source_commit_id)
    assert "Eve" in nodes(graph, "Person", "dev")


def test_a_merge_that_fails_leaves_nothing(graph: Graph) -> None:
    before = graph.head("main")
    faults.arm("write.before_a=error")
    try:
        with pytest.raises(faults.InjectedFault):
            graph.merge("dev")
    finally:
        faults.arm("")
    assert graph.head("main") == before
    graph.merge("dev")
    assert set(nodes(graph, "Person")) == {"Ann", "Dee", "Max"}


def test_what_a_deleted_branch_brought_to_both_is_no_conflict(graph: Graph) -> None:
    """Its commit is the base. It can no longer be read; a fast-forward to it holds the same."""
    graph.create_branch("s", "main~1")
    graph.create_branch("f", "main~1")
    graph.change(set_age("Ann", 2), branch="s")
    assert graph.merge("s", "f").outcome == "fast_forward"
    graph.merge("s")
    graph.delete_branch("s")
    graph.change(set_age("Ann", 1))
    graph.change(insert("Fay"), branch="f")
    made = graph.merge("f")
    assert made.warnings == ()
    assert nodes(graph, "Person")["Ann"]["age"] == 1


def taken_back_since(graph: Graph) -> None:
    """s brought Ann's age to main and f, by merges that are no fast-forward; main took it back."""
    graph.create_branch("f", "main~1")
    graph.change(insert("Flo"), branch="f")
    graph.create_branch("s", "main~1")
    graph.change(set_age("Ann", 2), branch="s")
    graph.merge("s")
    assert graph.merge("s", "f").outcome == "merged"
    graph.delete_branch("s")
    graph.change(set_age("Ann", 1))
    graph.change(insert("Fay"), branch="f")


def test_a_base_is_read_from_a_branch_that_is_put_aside(graph: Graph) -> None:
    taken_back_since(graph)
    made = graph.merge("f")
    assert made.warnings == ()
    assert nodes(graph, "Person")["Ann"]["age"] == 1
    assert {"Flo", "Fay"} <= set(nodes(graph, "Person"))


def test_a_base_that_was_given_up_is_passed_over_and_said(graph: Graph) -> None:
    taken_back_since(graph)
    (aside,) = graph.deleted_branches()
    graph.create_branch("s")
    graph.change(insert("Sue"), branch="s")
    made = graph.merge("f", dry_run=True)
    assert [warning.split()[1] for warning in made.warnings] == [aside.head]


@pytest.mark.parametrize("is_read", [True, False])
def test_a_base_that_is_given_up_while_it_is_read_is_passed_over(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, *, is_read: bool
) -> None:
    """The files of another branch are at its place by then, with versions of the same numbers."""
    taken_back_since(graph)

    def replace() -> None:
        rival = other(graph)
        rival.create_branch("s")
        rival.change(insert("Sue"), branch="s")

    once_staged(monkeypatch, replace, is_read=is_read)
    made = graph.merge("f")
    assert len(made.warnings) == 1
    assert made.bases != ()
    assert {"Flo", "Fay"} <= set(nodes(graph, "Person"))


@pytest.mark.parametrize("is_read", [True, False])
def test_a_base_on_a_deleted_branch_outlives_a_cleanup_while_it_is_read(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, *, is_read: bool
) -> None:
    taken_back_since(graph)
    once_staged(monkeypatch, lambda: other(graph).cleanup(keep=3, grace_s=0), is_read=is_read)
    made = graph.merge("f")
    assert made.warnings == ()
    assert nodes(graph, "Person")["Ann"]["age"] == 1
    assert {"Flo", "Fay"} <= set(nodes(graph, "Person"))


def criss_cross(graph: Graph) -> list[int]:
    """main and dev have merged each other's older commits. Returns the version of the one on main."""
    for name, source in (("x", "main"), ("y", "dev")):
        graph.create_branch(name, source)
    version = graph.snapshot().manifest_version
    graph.merge("y")
    graph.merge("x", "dev")
    graph.change(set_age("Ann", 9), branch="dev")
    for name in ("x", "y"):
        graph.delete_branch(name)
    return [version]


def test_cleanup_keeps_the_bases_of_bases(graph: Graph) -> None:
    criss_cross(graph)
    for age in range(5):
        graph.change(set_age("Max", age))
        graph.change(set_age("Dee", age), branch="dev")
    graph.cleanup(keep=1, grace_s=0, force=True)
    made = graph.merge("dev")
    assert (len(made.bases), made.warnings) == (2, ())
    assert nodes(graph, "Person")["Ann"]["age"] == 9


def test_a_base_of_bases_that_is_passed_over_is_said_too(graph: Graph) -> None:
    """Two bases are joined by what they have in common, which may be gone as well."""
    first = graph.commit("main~1")
    kept = criss_cross(graph)
    assert graph.merge("dev", dry_run=True).warnings == ()
    pretend_removed(graph, [*kept, graph.snapshot().manifest_version])
    made = graph.merge("dev")
    assert len(made.bases) == 2
    assert first.commit_id in [warning.split()[1] for warning in made.warnings]


def pretend_removed(graph: Graph, kept: list[int]) -> None:
    """As if a cleanup had left only these versions of main."""
    floor = {"floor": 1_000, "kept": kept, "removed_at": "1", "actor_id": "x"}
    record = {"branch": "main", "identity": None, **floor}
    content = {"schema_version": 1, "revision": "R", "branches": [record]}
    (graph.location.path / "__cleanup.json").write_bytes(seal(content))


def test_without_any_base_all_of_theirs_is_new(graph: Graph) -> None:
    """Nobody removes all of them, but a record may say so. Then no row of theirs is passed over."""
    graph.change(set_age("Ann", 3), branch="dev")
    pretend_removed(graph, [graph.snapshot().manifest_version])
    found = graph.merge("dev", dry_run=True)
    assert found.bases == ()
    assert [(each.kind, each.entity_id) for each in found.conflicts] == [("divergent_insert", "Ann")]
    graph.merge("dev", strategy="theirs")
    ages = {name: row["age"] for name, row in nodes(graph, "Person").items()}
    assert ages == {"Ann": 3, "Dee": 1, "Max": 1}


def test_rows_are_merged_in_parts(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts of two rows: the outcome and the order of conflicts are as if all were one."""
    monkeypatch.setattr(engine, "ROWS_AT_ONCE", 2)
    for name in ("Bea", "Cal", "Eli", "Flo"):
        graph.change(insert(name, 1))
        graph.change(insert(name, 2), branch="dev")
    graph.change(set_age("Ann", 3), branch="dev")
    found = graph.merge("dev", dry_run=True)
    assert [each.entity_id for each in found.conflicts] == ["Bea", "Cal", "Eli", "Flo"]
    graph.merge("dev", strategy="theirs")
    ages = {name: row["age"] for name, row in nodes(graph, "Person").items()}
    assert ages == {"Ann": 3, "Bea": 2, "Cal": 2, "Dee": 1, "Eli": 2, "Flo": 2, "Max": 1}
