"""A graph against dictionaries: random writes, branches, rivals, deaths, recoveries, time travel.

The oracle knows what every branch holds, what every commit held, and what must become
of a write that dies at a given step (the table of the crash matrix). Everything is
compared after every step. A death is an exception that nothing in the library
catches, raised at a failpoint: what the process had written stays, its locks are
freed, and its handle is never used again. (Real `kill -9` is `tests/crash/`.)
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from omnigraph_core import faults
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.history.removed import CommitRemoved
from omnigraph_core.maintenance import control
from omnigraph_core.manifest import reader
from omnigraph_core.manifest.request import ExpectedVersionMismatch
from omnigraph_core.settings import Settings
from omnigraph_core.tables import control_rewrite
from omnigraph_core.write.branches import BranchExists, BranchHasDescendants
from omnigraph_core.write.freshness import CommitPreconditionFailed
from tests.support.door_steps import (
    COMMON_RECOVERY_STEPS,
    RECOVERY_STEPS,
    ROLLED_BACK,
    ROLLED_FORWARD,
    STEPS,
    Outcome,
)
from tests.support.examples import NEW
from tests.support.plans import TABLES, Change, Changes, IdTaken, State, read_entry, write_changes
from tests.support.records import PEOPLE
from tests.support.writers import check_whole

# Rows come through the door without the rules of a schema: edges of nobody, one name for many.
pytestmark = pytest.mark.forged

SETTINGS = Settings(fsync=False, actor="ann")
MAIN = "main"
NAMES = ("dev", "exp", "fix/one")
IDS = ("ann", "bob", "it's", "dan", "ümit")

FORK_STEPS = ("tables.fork_created", "write.forked")
WRITE_STEPS = [step for step in STEPS if not step.startswith("write.table_committed")]
# Each write of these tests has its own number of tables; phase B is where outcomes part.
SOME_TABLES, ALL_TABLES = "after some tables", "after all tables"
DEATHS = [*WRITE_STEPS, SOME_TABLES, SOME_TABLES, SOME_TABLES, ALL_TABLES]
# A step that fails in a process that lives on: settled by it at once, or left for the next write.
FAILING_STEPS = [step for step in WRITE_STEPS if step != "write.after_d"]
LEFT_PENDING = {"write.after_a", "recovery.sidecar_delete"}
CREATE_STEPS = {"tables.fork_created": False, "branch.twin_created": False, "branch.manifest_created": True}
DELETE_STEPS = ("tables.fork_ref_deleted", "branch.manifest_deleted")
OPTIMIZE_STEPS = (
    "optimize.staged",
    "write.after_a",
    "write.table_committed.1",
    "write.after_b",
    "write.published",
    "optimize.manifest_rewritten",
    "optimize.logs_rewritten",
)
CLEANUP_STEPS = (
    "cleanup.decided",
    "cleanup.recorded",
    "cleanup.collected",
    "cleanup.pruned",
    "cleanup.fork_removed",
    "branch.given_up",
)
IN_RECOVERY = sorted({*COMMON_RECOVERY_STEPS, *(step for steps in RECOVERY_STEPS.values() for step in steps)})


class Killed(BaseException):
    """The process is dead: no handler of the library may run on this."""


class Failpoints:
    """Stands in for `faults.hit`: at one step, once, this process dies or a storage call fails."""

    def __init__(self) -> None:
        self._armed: tuple[str, BaseException] | None = None

    def arm(self, step: str, error: BaseException) -> Callable[[], None]:
        """An action that arms the step; nothing happens before it is called."""

        def act() -> None:
            self._armed = (step, error)

        return act

    def disarm(self) -> bool:
        """Was the step never reached?"""
        waiting, self._armed = self._armed is not None, None
        return waiting

    def hit(self, name: str) -> None:
        if self._armed is not None and self._armed[0] == name:
            _, error = self._armed
            self._armed = None
            raise error


@dataclass(eq=False)
class Commit:
    """A commit of the oracle. Its id and its pins are learnt when it is first seen."""

    parent: Commit | None
    state: State
    branch: Branch
    by_recovery: bool = False
    id: str = ""
    pins: object = None
    removed: bool = False
    """By cleanup: it is listed, and cannot be read."""


@dataclass(eq=False)
class Branch:
    """One life of a branch name."""

    name: str
    head: Commit = field(init=False)
    parent: Branch | None = None
    pending: tuple[Outcome, State] | None = None
    """A dead write: what recovery must make of it, and what it wrote."""

    @property
    def state(self) -> State:
        return self.head.state

    def chain(self) -> list[Commit]:
        """The history, newest first."""
        found: list[Commit] = []
        commit: Commit | None = self.head
        while commit is not None:
            found.append(commit)
            commit = commit.parent
        return found

    def add(self, state: State, *, by_recovery: bool = False) -> None:
        self.head = Commit(self.head, state, self, by_recovery)

    def die(self, outcome: Outcome, after: State) -> None:
        """A write died. Where it was published, everybody sees it before recovery."""
        if outcome.original_commit:
            self.add(after)
        if outcome.recovery is not None:
            self.pending = (outcome, after)

    def recover(self) -> str | None:
        """What the next writer does first; the kind of the audit row."""
        if self.pending is None:
            return None
        (outcome, after), self.pending = self.pending, None
        self.add(after if outcome.applied else self.state, by_recovery=True)
        return outcome.recovery


numbers = st.dictionaries(st.sampled_from(IDS), st.integers(0, 9), min_size=1, max_size=3)
removals = st.frozensets(st.sampled_from(IDS), min_size=1, max_size=3)
table_changes = st.one_of(
    st.builds(Change, numbers),
    st.builds(Change, numbers, only_new=st.just(True)),
    st.builds(Change, st.just({}), removals),
    st.builds(Change, numbers, removals),
)
changes_of_a_write = st.dictionaries(st.sampled_from(TABLES), table_changes, min_size=1, max_size=4)
upserts = st.dictionaries(st.sampled_from(TABLES), st.builds(Change, numbers), min_size=2, max_size=3)
some = st.integers(0, 999)
"""An index into whatever there is to choose from at that moment."""


class GraphModel(RuleBasedStateMachine):
    """The rules; `_check` compares everything after each of them."""

    template: Path
    seen: Counter[str]
    """What happened in all examples together; a run that saw too little proves too little."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="omnigraph-model-"))
        self.root = self.folder / "g"
        shutil.copytree(self.template, self.root)
        self.patch = pytest.MonkeyPatch()
        self.failpoints = Failpoints()
        self.patch.setattr(faults, "hit", self.failpoints.hit)
        # Control tables are compacted within the few commits an example has.
        self.patch.setattr(control_rewrite, "FRAGMENTS_MAX", 4)
        self.patch.setattr(reader, "FRAGMENTS_MAX", 4)
        self.patch.setattr(control, "SUPERSEDED_ROWS_MAX", 2)
        self.patch.setattr(control, "MANIFEST_DELETED_MAX", 2)
        self.patch.setattr(control, "CONTROL_FRAGMENTS_MAX", 2)
        self.handles = [self._open(), self._open()]
        self.branches: dict[str, Branch] = {MAIN: Branch(MAIN)}
        genesis = Commit(None, {key: {} for key in TABLES}, self.branches[MAIN])
        self.branches[MAIN].head = genesis
        self.audits: Counter[str] = Counter()
        self.deleted: set[str] = set()
        self.turn = 0

    def teardown(self) -> None:
        try:
            if hasattr(self, "branches"):
                self._reopen()
                check_whole(self.handles[0])
                for commit in self._commits():
                    self._check_rows(commit)
                self.seen.update(self.audits)
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- writes ----

    @rule(branch=some, handle=st.integers(0, 1), changes=changes_of_a_write)
    def write(self, branch: int, handle: int, changes: Changes) -> None:
        target = self._branch(branch)
        self._recover_all()
        if any(change.conflicts(target.state[key]) for key, change in changes.items()):
            with pytest.raises(IdTaken):
                write_changes(self.handles[handle], target.name, changes)
            return
        published = write_changes(self.handles[handle], target.name, changes)
        assert published.warnings == ()
        target.add(_after(target.state, changes))

    @rule(branch=some, changes=upserts, commit=some)
    def write_if_the_head_is(self, branch: int, changes: Changes, commit: int) -> None:
        """`--if-commit`: of the newest three commits, only the head will do."""
        self._reopen()
        target = self._branch(branch)
        named = target.chain()[: min(3, len(target.chain()))][commit % min(3, len(target.chain()))]
        if named is not target.head:
            with pytest.raises(CommitPreconditionFailed):
                write_changes(self.handles[0], target.name, changes, if_commit=named.id)
            return
        write_changes(self.handles[0], target.name, changes, if_commit=named.id)
        target.add(_after(target.state, changes))

    @rule(branch=some, handle=st.integers(0, 1), mine=upserts, theirs=upserts, strict=st.booleans())
    def write_against_a_rival(
        self, branch: int, handle: int, mine: Changes, theirs: Changes, strict: bool
    ) -> None:
        """A rival publishes on the branch between our plan and our publish."""
        target = self._branch(branch)
        self._recover_all()
        self._forget_rivals(handle)
        rival = Once(lambda: write_changes(self.handles[1 - handle], target.name, theirs))
        write = self.handles[handle], target.name, mine
        target.add(_after(target.state, theirs))
        if strict and mine.keys() & theirs.keys():
            with pytest.raises(ExpectedVersionMismatch):
                write_changes(*write, strict=True, on_planned=rival)
            return
        write_changes(*write, strict=strict, on_planned=rival)
        target.add(_after(target.state, mine))

    @rule(
        branch=some, handle=st.integers(0, 1), mine=upserts, theirs=upserts, step=st.sampled_from(WRITE_STEPS)
    )
    def write_while_a_rival_dies(
        self, branch: int, handle: int, mine: Changes, theirs: Changes, step: str
    ) -> None:
        """Our planning began before the rival's sidecar was there; it is found under the lock."""
        target = self._branch(branch)
        self._recover_all()
        self._forget_rivals(handle)
        rival = Once(lambda: self._die_writing(1 - handle, target, theirs, step))
        write_changes(self.handles[handle], target.name, mine, on_planned=rival)
        self._recover(target)
        target.add(_after(target.state, mine))

    # ---- deaths and recoveries ----

    @rule(branch=some, handle=st.integers(0, 1), changes=upserts, step=st.sampled_from(DEATHS))
    def die_writing(self, branch: int, handle: int, changes: Changes, step: str) -> None:
        self._recover_all()
        self._die_writing(handle, self._branch(branch), changes, step)

    @rule(branch=some, handle=st.integers(0, 1), changes=upserts, step=st.sampled_from(FORK_STEPS))
    def die_forking(self, branch: int, handle: int, changes: Changes, step: str) -> None:
        """Where nothing is left to fork, the write goes through."""
        target = self._branch(branch)
        self._recover_all()
        with self._maybe_dies(handle) as reached:
            arm = self.failpoints.arm(step, Killed(step))
            write_changes(self.handles[handle], target.name, changes, on_planning=arm)
        if not reached():
            target.add(_after(target.state, changes))

    @rule(branch=some, handle=st.integers(0, 1), changes=upserts, step=st.sampled_from(FAILING_STEPS))
    def fail_writing(self, branch: int, handle: int, changes: Changes, step: str) -> None:
        """A storage call fails and the process lives: the caller is told the truth."""
        target = self._branch(branch)
        self._recover_all()
        outcome, after = STEPS[step], _after(target.state, changes)
        error = faults.InjectedFault(step)
        arm = self.failpoints.arm(step, error)
        returned = False
        with suppress(faults.InjectedFault):
            published = write_changes(self.handles[handle], target.name, changes, on_planned=arm)
            returned = True
            assert len(published.warnings) == 1
        assert not self.failpoints.disarm(), f"{step} was not reached"
        assert returned is outcome.applied, f"{step}: acknowledged {returned}, but {outcome}"
        target.die(outcome, after)
        if step not in LEFT_PENDING:
            self._recover(target)

    @precondition(lambda self: any(branch.pending for branch in self.branches.values()))
    @rule(step=st.none() | st.sampled_from(IN_RECOVERY))
    def reopen(self, step: str | None) -> None:
        """A new process recovers, or dies at it as well; then the next one comes to the same end."""
        if step is not None:
            with self._maybe_dies(0) as reached:
                self.failpoints.arm(step, Killed(step))()
                self.handles[0] = self._open(OpenMode.READ_WRITE)
            self.seen["died in recovery"] += reached()
        self._reopen()

    # ---- branches ----

    @rule(name=st.sampled_from(NAMES), source=some, handle=st.integers(0, 1), old=st.booleans())
    def create_branch(self, name: str, source: int, handle: int, old: bool) -> None:
        """From the head of a branch, or from any commit there is."""
        commits = self._commits()
        start = commits[source % len(commits)] if old else self._branch(source).head
        ref = start.id if old else self._branch(source).name
        if start.removed:
            self._reopen()
            with pytest.raises((BranchExists, CommitRemoved)):
                self.handles[handle].create_branch(name, ref)
            return
        if name in self.branches:
            with pytest.raises(BranchExists):
                self.handles[handle].create_branch(name, ref)
        else:
            made = self.handles[handle].create_branch(name, ref)
            assert made.commit_id == start.id
        # The lock it took is of the branch that the commit was made on.
        self._recover(start.branch)
        if name not in self.branches:
            self._remember(name, start)

    @rule(name=st.sampled_from(NAMES), source=some, step=st.sampled_from(sorted(CREATE_STEPS)))
    def die_creating_a_branch(self, name: str, source: int, step: str) -> None:
        self._reopen()
        start = self._branch(source).head
        if name in self.branches:
            return
        with self._maybe_dies(0) as reached:
            self.failpoints.arm(step, Killed(step))()
            self.handles[0].create_branch(name, start.id)
        assert reached()
        if CREATE_STEPS[step]:
            self._remember(name, start)

    @precondition(lambda self: len(self.branches) > 1)
    @rule(branch=some, handle=st.integers(0, 1), step=st.none() | st.sampled_from(DELETE_STEPS))
    def delete_branch(self, branch: int, handle: int, step: str | None) -> None:
        target = self._other_branch(branch)
        if any(other.parent is target for other in self.branches.values()):
            with pytest.raises(BranchHasDescendants):
                self.handles[handle].delete_branch(target.name)
            return
        self.seen["reused name"] += target.name in self.deleted
        self.deleted.add(target.name)
        if target.pending is not None:
            step = None
        with self._maybe_dies(handle) as reached:
            if step is not None:
                self.failpoints.arm(step, Killed(step))()
            self.handles[handle].delete_branch(target.name)
        assert reached() is (step is not None)
        self._recover(target)
        del self.branches[target.name]

    # ---- everything is compared ----

    @invariant()
    def _check(self) -> None:
        """Through each handle in turn: branches, their content, their history, every old commit."""
        self.turn += 1
        graph = self.handles[self.turn % 2]
        assert graph.branches() == sorted(self.branches)
        self._check_history(graph)
        for branch in self.branches.values():
            snapshot = graph.snapshot(branch.name)
            found = {key: read_entry(graph, entry) for key, entry in snapshot.tables.items()}
            assert found == branch.state, branch.name
        commits = self._commits()
        for number, commit in enumerate(commits):
            if commit.pins is None or number == self.turn % len(commits):
                self._check_rows(commit)
        assert Counter(each.recovery_kind for each in graph.recoveries()) == self.audits
        assert graph.has_pending() is any(branch.pending for branch in self.branches.values())

    def _check_history(self, graph: Graph) -> None:
        """Every head and every chain of parents; ids of new commits are learnt here, and only new ones."""
        log = graph.log()
        assert sorted(log.heads) == sorted(self.branches)
        for branch in self.branches.values():
            chain, found = branch.chain(), list(log.first_parents(log.heads[branch.name]))
            assert len(found) == len(chain), f"{branch.name}: the length of its history"
            assert found == log.history(branch.name)
            for commit, row in zip(chain, found, strict=True):
                commit.id = commit.id or row.commit_id
                assert row.commit_id == commit.id, f"{branch.name}: history changed"
                assert row.branch == commit.branch.name
                assert (row.actor_id == "omnigraph:recovery") is commit.by_recovery, (branch.name, row)
                assert row.merged_parent_commit_id is None
            times = [row.created_at for row in found]
            assert times == sorted(set(times), reverse=True)
        ids = [commit.id for commit in self._commits()]
        assert len(set(ids)) == len(ids), "two commits have one id"

    def _check_rows(self, commit: Commit) -> None:
        """Time travel: what the commit pins, and the rows of it."""
        graph = self.handles[self.turn % 2]
        if commit.removed:
            with pytest.raises(CommitRemoved):
                graph.snapshot_of(commit.id)
            return
        snapshot = graph.snapshot_of(commit.id)
        assert snapshot.head is not None
        assert snapshot.head.commit_id == commit.id
        pins = dict(snapshot.tables)
        assert commit.pins in (None, pins), "an old commit pins something else now"
        commit.pins = pins
        assert {key: read_entry(graph, entry) for key, entry in pins.items()} == commit.state

    def _forget_rivals(self, handle: int) -> None:
        """A process that has met others on a branch plans under its lock; a new one does not."""
        self.handles[handle] = self._open()

    # ---- the oracle's side ----

    def _branch(self, index: int) -> Branch:
        return self.branches[sorted(self.branches)[index % len(self.branches)]]

    def _other_branch(self, index: int) -> Branch:
        others = sorted(name for name in self.branches if name != MAIN)
        return self.branches[others[index % len(others)]]

    def _commits(self) -> list[Commit]:
        """Every commit there is, each once, in the order of the branches."""
        return list(
            dict.fromkeys(commit for _, branch in sorted(self.branches.items()) for commit in branch.chain())
        )

    def _remember(self, name: str, start: Commit) -> None:
        branch = Branch(name, parent=start.branch)
        branch.head = start
        self.branches[name] = branch

    def _recover(self, branch: Branch) -> None:
        kind = branch.recover()
        if kind is not None:
            self.audits[kind] += 1

    def _recover_all(self) -> None:
        """What every write does when it begins, and every open for writing."""
        for branch in self.branches.values():
            self._recover(branch)

    # ---- the graph's side ----

    def _open(self, mode: OpenMode = OpenMode.AS_IS) -> Graph:
        return Graph.open(str(self.root), SETTINGS, mode)

    def _reopen(self) -> None:
        """A new process recovers; and the ids of what is new are learnt."""
        left = any(branch.pending for branch in self.branches.values())
        self.handles[0] = self._open(OpenMode.READ_WRITE)
        self._recover_all()
        if left:
            check_whole(self.handles[0])
        self._check_history(self.handles[0])

    def _die_writing(self, handle: int, target: Branch, changes: Changes, step: str) -> None:
        after = _after(target.state, changes)
        self.seen[step] += 1
        if step in (SOME_TABLES, ALL_TABLES):
            step = f"write.table_committed.{len(changes) - (step == SOME_TABLES)}"
        with self._maybe_dies(handle) as reached:
            arm = self.failpoints.arm(step, Killed(step))
            write_changes(self.handles[handle], target.name, changes, on_planned=arm)
        assert reached(), f"{step} was not reached"
        target.die(_outcome(step, len(changes)), after)

    @contextmanager
    def _maybe_dies(self, handle: int) -> Iterator[Callable[[], bool]]:
        """The block may end in a death; then its handle is replaced by one that has seen nothing."""
        died = False
        try:
            yield lambda: died
        except Killed:
            died = True
            self.handles[handle] = self._open()
        finally:
            self.failpoints.disarm()


class MaintainedGraphModel(GraphModel):
    """The same, with optimize and cleanup among the rules."""

    # ---- maintenance: it changes no answer ----

    @rule(branch=some, handle=st.integers(0, 1), step=st.none() | st.sampled_from(OPTIMIZE_STEPS))
    def optimize(self, branch: int, handle: int, step: str | None) -> None:
        self._reopen()
        target = self._branch(branch)
        before = len(self.handles[0].log().history(target.name))
        with self._maybe_dies(handle) as reached:
            if step is not None:
                self.failpoints.arm(step, Killed(step))()
            self.handles[handle].optimize(target.name)
        self.seen["died in optimize"] += reached()
        # What was published before it died stays; what was not is rolled forward or was never there.
        self.handles[0] = self._open(OpenMode.READ_WRITE)
        self.audits = Counter(each.recovery_kind for each in self.handles[0].recoveries())
        found = self.handles[0].log().history(target.name)
        for row in reversed(found[: len(found) - before]):
            target.add(target.state, by_recovery=row.actor_id == "omnigraph:recovery")
        self.seen["optimized"] += len(found) > before

    @rule(handle=st.integers(0, 1), keep=st.integers(1, 4), step=st.none() | st.sampled_from(CLEANUP_STEPS))
    def cleanup(self, handle: int, keep: int, step: str | None) -> None:
        """The newest commits of every branch stay; killed or not, what is kept can be read."""
        self._reopen()
        with self._maybe_dies(handle) as reached:
            if step is not None:
                self.failpoints.arm(step, Killed(step))()
            done = self.handles[handle].cleanup(keep=keep, grace_s=0.0, force=True)
            assert not done.has_failed, done
        self.seen["died in cleanup"] += reached()
        removals, log = self.handles[handle].removals(), self.handles[handle].log()
        kept = [commit for each in self.branches.values() for commit in each.chain()[:keep]]
        for commit in self._commits():
            is_removed = removals.removed_at(log.commits[commit.id]) is not None
            assert is_removed or not commit.removed, "a removed commit is back"
            assert not (is_removed and commit in kept and not commit.removed), "too much was removed"
            self.seen["removed"] += is_removed and not commit.removed
            commit.removed = is_removed


class Once:
    """Does something the first time it is called, and then never again."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action

    def __call__(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()


def _after(before: State, changes: Changes) -> State:
    return {key: changes[key].apply(rows) if key in changes else rows for key, rows in before.items()}


def _outcome(step: str, tables: int) -> Outcome:
    """The crash matrix writes three tables; here the last one decides."""
    if step.startswith("write.table_committed."):
        return ROLLED_FORWARD if step.endswith(f".{tables}") else ROLLED_BACK
    return STEPS[step]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("model") / "g"
    Graph.init(str(root), PEOPLE, SETTINGS)
    return root


def run(
    template: Path,
    examples: int,
    steps: int,
    model: type[GraphModel] = GraphModel,
    base: settings | None = None,
    **more: Any,
) -> Counter[str]:
    """Run the examples; says what happened in them."""
    seen: Counter[str] = Counter()
    machine = type("GraphModelHere", (model,), {"template": template, "seen": seen})
    run_state_machine_as_test(
        machine,
        settings=settings(
            base,
            max_examples=examples,
            stateful_step_count=steps,
            report_multiple_bugs=False,
            **more,
        ),
    )
    return seen


def run_the_same(
    template: Path, examples: int, steps: int, model: type[GraphModel] = GraphModel
) -> Counter[str]:
    return run(template, examples, steps, model, phases=(Phase.generate,))


def test_a_graph_agrees_with_dictionaries(template: Path) -> None:
    """The same examples every time. Printed as found: shrinking takes minutes."""
    seen = run_the_same(template, 20, 20)
    least = {SOME_TABLES: 1, "RolledBack": 3, "RolledForward": 10, "reused name": 1}
    assert {each: seen[each] for each in least if seen[each] < least[each]} == {}, dict(seen)
    assert len([each for each in set(DEATHS) if seen[each]]) > len(set(DEATHS)) / 3, dict(seen)


def test_maintenance_changes_no_answer(template: Path) -> None:
    seen = run_the_same(template, 8, 16, MaintainedGraphModel)
    least = {"optimized": 1, "removed": 1}
    assert {each: seen[each] for each in least if seen[each] < least[each]} == {}, dict(seen)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_maintenance_changes_no_answer_for_long(template: Path) -> None:
    run(template, 200, 40, MaintainedGraphModel, NEW)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_graph_agrees_with_dictionaries_for_long(template: Path) -> None:
    """New examples every time; a failing one is kept in `.hypothesis` and tried first."""
    run(template, 400, 40, base=NEW)
