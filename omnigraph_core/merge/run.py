"""Merging, reverting and resetting branches: three ways to choose base and theirs, one way to apply.

What a merge does is a write like any other: planned against one snapshot of the branch, staged,
and published through the door. It always changes the branch's own lineage by differences; no
table ever points to another branch's data, whose deletion would take it along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from omnigraph_core.change.plan import Intent, plan_changes
from omnigraph_core.diff.graph import State
from omnigraph_core.errors import ConflictError, NotFoundError, RefusedError, StorageError
from omnigraph_core.history.bases import ancestors, find_bases
from omnigraph_core.history.carry import carry_commits, unknown_to
from omnigraph_core.history.log import CommitLog, GraphCommit, read_branch_log, read_log
from omnigraph_core.merge.conflicts import Conflict, ConflictKind, Heads, Take, in_order, shown
from omnigraph_core.merge.engine import MergedTable, ValuesDoNotFit, merge_tables
from omnigraph_core.merge.ground import Ground, common_ground, differing
from omnigraph_core.merge.judge import broken_rules, change_set
from omnigraph_core.merge.lost import lost_edits
from omnigraph_core.merge.resolve import Resolution
from omnigraph_core.merge.rows import Preference
from omnigraph_core.merge.settle import settle_orphans, settle_rows
from omnigraph_core.merge.sides import Sides
from omnigraph_core.merge.states import States
from omnigraph_core.merge.with_schema import planned_with_schema, write_under_refs
from omnigraph_core.records import dataclass
from omnigraph_core.rules.committed import Committed
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.values.shown import one_line
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.freshness import StalePlan, check_head
from omnigraph_core.write.moves import shown_name
from omnigraph_core.write.on_record import FilesOnRecord
from omnigraph_core.write.phases import Published
from omnigraph_core.write.plan import WritePlan


class Outcome(StrEnum):
    """How a merge ended; the text is part of the JSON answer."""

    UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"


@dataclass(frozen=True, slots=True)
class TypeCounts:
    """What a merge does to one type."""

    table_key: str
    upserted: int
    removed: int


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge, a revert or a reset did, or would do."""

    outcome: Outcome
    commit_id: str | None
    heads: Heads
    """What was merged; conflicts that are written down say it too."""
    counts: tuple[TypeCounts, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    """Of a dry run; otherwise they are raised."""
    bases: tuple[str, ...] = ()
    source_commit_id: str | None = None
    warnings: tuple[str, ...] = ()
    schema_changes: tuple[str, ...] = ()
    """The steps that the schema of the branch takes, in words."""


class MergeConflicts(ConflictError):
    """Both sides changed the same, and not alike; or together they break a rule. Nothing was changed."""

    has_lines = True

    def __init__(self, conflicts: Sequence[Conflict], target: str, heads: Heads) -> None:
        lines = [one_line(shown(each)) for each in conflicts[:_SHOWN_MAX]]
        if len(conflicts) > _SHOWN_MAX:
            lines.append(f"…and {len(conflicts) - _SHOWN_MAX} more")
        noun = "conflict" if len(conflicts) == 1 else "conflicts"
        super().__init__("\n".join([f"{len(conflicts)} {noun}; '{target}' is unchanged", *lines]))
        self.conflicts = tuple(conflicts)
        self.heads = heads

    def details(self) -> Mapping[str, object]:
        return {"merge_conflicts": [each.as_json() for each in self.conflicts]}


_SHOWN_MAX = 20


class _NeedsRefs(Exception):
    """The merge changes the schema of the branch, and the refs lock is not held."""


@dataclass(frozen=True, slots=True)
class _Found:
    """One try: what is to be done, or why not."""

    outcome: Outcome
    heads: Heads
    tables: tuple[MergedTable, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    bases: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    ground: Ground | None = None

    @property
    def changes_nothing(self) -> bool:
        """Neither rows nor the schema; and nothing stands in the way."""
        assert self.ground is not None
        return not (self.conflicts or self.counts or self.ground.plan)

    @property
    def counts(self) -> tuple[TypeCounts, ...]:
        return tuple(
            TypeCounts(each.entity.table_key, each.rows.upserts.num_rows, len(each.rows.removed))
            for each in self.tables
            if not each.change.is_empty
        )


class Merge:
    """One merge into one branch."""

    def __init__(
        self,
        door: Door,
        intent: Intent,
        *,
        prefer: Preference | None = None,
        resolution: Resolution | None = None,
        dry_run: bool = False,
    ) -> None:
        self._door = door
        self._intent = intent
        self._prefer = prefer
        self._resolution = resolution
        self._dry_run = dry_run
        self._on_record: FilesOnRecord | None = None

    def branch(self, source: str, target: str) -> Merged:
        """Merge a branch into another. `SchemasDiffer` or `MergeConflicts` leave everything as it was."""
        if source == target:
            raise RefusedError(f"branch '{self._called(source)}' cannot be merged into itself")
        found: _Found | None = None
        tip: GraphCommit | None = None

        def build(attempt: Attempt) -> WritePlan | None:
            nonlocal found, tip
            check_head(self._intent.if_commit, attempt.snapshot)
            log, tip = self._logs(source, target)
            states = States(self._door, log, self._door.tables_of(attempt))
            try:
                found = self._merged(attempt, states, tip, source)
            except (NotFoundError, StorageError):
                states.prove()  # What was read may have gone meanwhile; then it is another merge.
                raise
            if found.outcome is Outcome.UP_TO_DATE:
                return None
            plan = self._planned(attempt, found)
            if plan is None:
                return None
            carried = unknown_to(log, tip, attempt.head.commit_id)

            def before_a(tables: Tables, guard: Guard) -> None:
                states.prove()
                self._check_head(attempt)
                carry_commits(tables, target, carried, plan.operation_id, guard)

            return replace(plan, merged_parent_commit_id=tip.commit_id, before_a=before_a)

        published = self._write(target, build)
        assert found is not None
        assert tip is not None
        return _outcome(found, published.commit_id, tip.commit_id, published.warnings)

    def revert(self, commit: GraphCommit, target: str, *, records_head: bool = False) -> Merged:
        """Take back what one commit did, whatever has happened since; up to date if nothing of it is left.

        With `records_head`, a head that changed nothing is taken back on record, too.
        """
        if commit.parent_commit_id is None:
            raise RefusedError(f"commit {commit.commit_id} is the first one; there is nothing before it")
        parent = self._parent(commit, commit.parent_commit_id)
        return self._apply(target, commit, parent, commit, records_head=records_head)

    def _parent(self, commit: GraphCommit, parent_id: str) -> GraphCommit:
        """The commit before another, which the log of the same branch has, or that of a live one."""
        tables, manifest = self._door.tables, self._door.manifest
        if not commit.branch_is_gone:
            found = read_branch_log(tables, manifest, commit.branch).commits.get(parent_id)
            if found is not None:
                return found
        found = read_log(tables, manifest).commits.get(parent_id)
        if found is None:
            raise NotFoundError(f"commit {parent_id} is no longer on record")
        return found

    def reset(self, target: str, commit: GraphCommit) -> Merged:
        """Make a branch what it was, or another was, at a commit. No commit if it is that already."""
        return self._apply(target, None, commit, commit)

    def _apply(
        self,
        target: str,
        base: GraphCommit | None,
        theirs: GraphCommit,
        about: GraphCommit,
        *,
        records_head: bool = False,
    ) -> Merged:
        """Apply the way from a base (ours, if None) to another state."""
        found: _Found | None = None

        def build(attempt: Attempt) -> WritePlan | None:
            nonlocal found
            check_head(self._intent.if_commit, attempt.snapshot)
            states = States(self._door, CommitLog({}, {}))
            heads = Heads(attempt.head.commit_id, about.commit_id)
            if base is None and theirs.commit_id == attempt.head.commit_id:
                found = _Found(Outcome.UP_TO_DATE, heads)
                return None
            ours = State(attempt.snapshot, attempt.schema)
            base_state = ours if base is None else states.of(base)
            sides = Sides(
                {"base": base_state}, ours, states.of(theirs), {}, lambda _: base_state, takes_back=True
            )
            named = f"commit {about.commit_id}" if base is None else f"before commit {about.commit_id}"
            found = self._judged(attempt, sides, _Found(Outcome.MERGED, heads), named)
            if found.changes_nothing and not (records_head and about.commit_id == heads.ours):
                found = replace(found, outcome=Outcome.UP_TO_DATE)
                return None
            plan = self._planned(attempt, found)
            return None if plan is None else replace(plan, before_a=lambda *_: states.prove())

        published = self._write(target, build)
        assert found is not None
        return _outcome(found, published.commit_id, None, published.warnings)

    def _called(self, line: str) -> str:
        """What people call the branch of a line."""
        return shown_name(self._door, line, self._door.manifest.branch(line).identity)

    def _check_head(self, attempt: Attempt) -> None:
        """Under the branch's lock: its head must be the one that the bases were found for.

        Another merge may have moved it, and no table.
        """
        head = self._door.manifest.snapshot(attempt.branch).head
        if head is None or head.commit_id != attempt.head.commit_id:
            raise StalePlan("graph_head", attempt.snapshot.manifest_version, 0)

    def _logs(self, source: str, target: str) -> tuple[CommitLog, GraphCommit]:
        """The commits of both branches, and the head of the source."""
        tables, manifest = self._door.tables, self._door.manifest
        theirs = read_branch_log(tables, manifest, source, with_actors=False)
        ours = read_branch_log(tables, manifest, target, with_actors=False)
        if source not in theirs.heads:
            raise RefusedError(
                f"branch '{self._called(source)}' has no head row: another program made this graph"
            )
        both = CommitLog({**theirs.commits, **ours.commits}, {**theirs.heads, **ours.heads})
        return both, theirs.commits[theirs.heads[source]]

    def _merged(self, attempt: Attempt, states: States, tip: GraphCommit, source: str) -> _Found:
        ours_id, parents = attempt.head.commit_id, states.parents
        if tip.commit_id in ancestors(parents, [ours_id]):
            return _Found(Outcome.UP_TO_DATE, Heads(ours_id, tip.commit_id))
        bases = find_bases(parents, tip.commit_id, ours_id, states.is_readable)
        is_forward = bases.commit_ids == (ours_id,)
        sides = Sides(
            bases={id_: states.at(id_) for id_ in bases.commit_ids},
            ours=State(attempt.snapshot, attempt.schema),
            theirs=states.of(tip),
            parents=parents,
            state_at=states.at,
            is_readable=states.is_readable,
        )
        outcome = Outcome.FAST_FORWARD if is_forward else Outcome.MERGED
        found = _Found(outcome, Heads(ours_id, tip.commit_id))
        found = self._judged(attempt, sides, replace(found, bases=bases.commit_ids), self._called(source))
        return replace(found, unreadable=tuple(sorted(states.passed_over)))

    def _judged(self, attempt: Attempt, sides: Sides, found: _Found, named: str) -> _Found:
        """Merge all tables and ask the rules; all conflicts are found before any is raised."""
        called = self._called(attempt.branch)
        ground = common_ground(self._door.tables_of(attempt), sides, named, called)
        lost = lost_edits(ground)
        if lost:
            raise differing(ground.tables, sides, named, called, lost)
        if self._resolution is not None:
            self._resolution.check_heads(found.heads)
        prefer = self._prefer if self._resolution is None else None
        try:
            tables = tuple(merge_tables(ground.tables, ground, prefer))
        except ValuesDoNotFit as error:
            raise differing(ground.tables, sides, named, called, [str(error)]) from None
        conflicts = [conflict for each in tables for conflict in each.conflicts]
        conflicts += broken_rules(ground, tables)
        if self._resolution is not None:
            tables, conflicts = self._resolved(ground, self._resolution, tables, conflicts)
        return replace(found, tables=tables, conflicts=tuple(in_order(conflicts)), ground=ground)

    def _resolved(
        self,
        ground: Ground,
        resolution: Resolution,
        tables: tuple[MergedTable, ...],
        conflicts: list[Conflict],
    ) -> tuple[tuple[MergedTable, ...], list[Conflict]]:
        """The merge with the choices in it, and the conflicts that are left.

        A choice may leave more edges without their node; those are chosen for like the first ones.
        """
        choices = resolution.complete(conflicts, None if self._prefer is None else Take(self._prefer.value))
        seen = {each.identity for each in conflicts}
        tables = tuple(settle_rows(each, choices) for each in tables)
        done: set[object] = set()
        while True:
            left = broken_rules(ground, tables)
            seen |= {each.identity for each in left}
            orphans = [
                each
                for each in left
                if each.kind is ConflictKind.ORPHAN_EDGE
                and each.identity in resolution.choices
                and each.identity not in done
            ]
            if not orphans:
                resolution.check_known(seen)
                return tables, left
            done |= {each.identity for each in orphans}
            tables = settle_orphans(tables, orphans, resolution.choices, ground)

    def _planned(self, attempt: Attempt, found: _Found) -> WritePlan | None:
        if self._dry_run:
            return None
        if found.conflicts:
            raise MergeConflicts(found.conflicts, self._called(attempt.branch), found.heads)
        assert found.ground is not None
        changes = change_set(found.ground.schema, found.tables)
        if found.ground.plan is not None:
            if self._on_record is None:
                raise _NeedsRefs
            return planned_with_schema(
                self._door, attempt, found.ground, changes, self._intent, self._on_record
            )
        committed = Committed(self._door.tables_of(attempt), attempt.snapshot)
        for entity in attempt.schema.types():
            committed.reads[entity.table_key] = attempt.snapshot.entry(entity.table_key).table_version
        return plan_changes(self._door, attempt, changes, committed, self._intent)

    def _write(self, target: str, build: Callable[[Attempt], WritePlan | None]) -> Published:
        """Plan and publish; a change of the schema under the locks that a schema apply holds."""
        try:
            return self._door.write(target, build)
        except _NeedsRefs:
            pass

        def under_refs(attempt: Attempt, on_record: FilesOnRecord) -> WritePlan | None:
            self._on_record = on_record
            return build(attempt)

        try:
            return write_under_refs(self._door, target, under_refs, self._intent.actor)
        finally:
            self._on_record = None


def _outcome(found: _Found, commit_id: str | None, source: str | None, warnings: tuple[str, ...]) -> Merged:
    passed = tuple(
        f"commit {id_} would have been a base of this merge, but can no longer be read"
        for id_ in found.unreadable
    )
    return Merged(
        found.outcome,
        commit_id,
        found.heads,
        found.counts,
        found.conflicts,
        found.bases,
        source,
        (*warnings, *passed),
        () if found.ground is None else found.ground.steps,
    )
