"""The part of the facade that keeps a graph fast, small and sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph_core import arguments, layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.merging import GraphMerges
from omnigraph_core.progress import Progress, silent

if TYPE_CHECKING:
    from omnigraph_core.history.removed import Removals
    from omnigraph_core.indexes.topology import TopologyBuilt
    from omnigraph_core.maintenance.adoption.found import Adopted
    from omnigraph_core.maintenance.cleaned import Cleaned
    from omnigraph_core.maintenance.findings import Finding
    from omnigraph_core.maintenance.maintain import Maintained
    from omnigraph_core.maintenance.optimize import Optimizer
    from omnigraph_core.maintenance.optimized import Optimized
    from omnigraph_core.maintenance.repair import Repaired
    from omnigraph_core.write.actors import Signature
    from omnigraph_core.write.door import Door


class GraphMaintenance(GraphMerges):
    """An open graph that can be looked after."""

    def optimize(
        self,
        branch: str = layout.MAIN_BRANCH,
        *,
        types: Sequence[str] = (),
        actor: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
    ) -> Optimized:
        """Join small fragments, drop deleted rows, bring indexes up to date; answers stay the same."""
        arguments.texts(branch=branch)
        arguments.optional_texts(actor=actor, message=message)
        arguments.flags(dry_run=dry_run)
        arguments.called("progress", progress)
        from omnigraph_core.export.jsonl import chosen_types

        arguments.text_lists(types=types)
        chosen_types(list(self._schema_of(self.snapshot(branch)).types()), types)
        if not dry_run:
            self._storage.require_writable()
        door, signature = self._door_for(dry_run=dry_run), self._maintaining(actor, message)
        optimizer = self._optimizer(door, self._line(branch), signature, progress)
        done = optimizer.preview(types) if dry_run else optimizer.run(types)
        return replace(done, branch=branch)

    def build_topology(
        self, branch: str = layout.MAIN_BRANCH, *, progress: Progress = silent
    ) -> list[TopologyBuilt]:
        """Build the topology index of a branch, if the one there is has fallen behind."""
        arguments.texts(branch=branch)
        arguments.called("progress", progress)
        from omnigraph_core.indexes.topology import TopologyBuilder

        self._storage.require_writable()
        tables, snapshot = self.door.tables, self.snapshot(branch)
        builder = TopologyBuilder(tables, self.settings.memory_limit_bytes, progress)
        return builder.build(snapshot, self._schema_of(snapshot))

    def _optimizer(self, door: Door, line: str, signature: Signature, progress: Progress) -> Optimizer:
        from omnigraph_core.maintenance.optimize import Optimizer

        return Optimizer(
            door,
            line,
            signature,
            memory_bytes=self.settings.memory_limit_bytes,
            tables_at_once=self.settings.maintenance_concurrency,
            progress=progress,
        )

    def maintain(
        self,
        *,
        keep: int | None = None,
        grace_s: float | None = None,
        if_needed: bool = False,
        actor: str | None = None,
        message: str | None = None,
        progress: Progress = silent,
    ) -> Maintained:
        """Optimize every branch, then clean up; with `if_needed` only if enough has piled up."""
        arguments.optional_texts(actor=actor, message=message)
        arguments.count("keep", keep)
        arguments.seconds("grace_s", grace_s)
        arguments.flags(if_needed=if_needed)
        arguments.called("progress", progress)
        from omnigraph_core.maintenance.keep import checked_policy
        from omnigraph_core.maintenance.maintain import maintain

        policy = checked_policy(keep, None, grace_s, force=False)
        signature = self._maintaining(actor, message)
        self._storage.require_writable()
        door = self.door
        return maintain(
            door,
            lambda line: self._optimizer(door, line, signature, progress),
            lambda: self.cleanup(keep=keep, grace_s=grace_s, actor=actor, progress=progress),
            policy,
            called=self._called(),
            if_needed=if_needed,
        )

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than_s: float | None = None,
        grace_s: float | None = None,
        force: bool = False,
        actor: str | None = None,
        dry_run: bool = False,
        progress: Progress = silent,
    ) -> Cleaned:
        """Remove commits beyond the policy, and whatever else nothing can reach any more.

        Without a policy the newest ten commits of every branch stay. The history stays listed.
        """
        arguments.optional_texts(actor=actor)
        arguments.count("keep", keep)
        arguments.seconds("older_than_s", older_than_s)
        arguments.seconds("grace_s", grace_s)
        arguments.flags(force=force, dry_run=dry_run)
        arguments.called("progress", progress)
        from omnigraph_core.maintenance.cleanup import Cleanup
        from omnigraph_core.maintenance.keep import checked_policy
        from omnigraph_core.write.actors import MAINTENANCE_ACTOR

        policy = checked_policy(keep, older_than_s, grace_s, force=force)
        signed = self._maintaining(actor, None).actor or MAINTENANCE_ACTOR
        if not dry_run:
            self._storage.require_writable()
        called, door = self._called(), self._door_for(dry_run=dry_run)
        done = Cleanup(door, policy, signed, dry_run=dry_run, progress=progress).run()
        return replace(
            done,
            tables=tuple(replace(each, branch=called(each.branch)) for each in done.tables),
            branches_purged=tuple(map(called, done.branches_purged)),
            branches_spared=tuple(map(called, done.branches_spared)),
        )

    def _called(self) -> Callable[[str], str]:
        """What the branch of a line is called, or was when it was deleted; else the line itself."""
        names = self._names()
        if not names.entries:
            return str
        from omnigraph_core.history.deleted import read_deleted

        branches = [*(each.on for each in read_deleted(self._storage.control)), *self._live()]
        found = {each.name: names.of(each) for each in branches}
        return lambda line: found.get(line, line)

    def doctor(self, *, deep: bool = False, progress: Progress = silent) -> list[Finding]:
        """Look for whatever is not as it must be; writes nothing. A deep look reads every file."""
        arguments.flags(deep=deep)
        arguments.called("progress", progress)
        from omnigraph_core.maintenance.doctor import examine

        memory_bytes = self.settings.memory_limit_bytes
        found = examine(self._unchecked_door, self.catalog, memory_bytes, deep=deep, progress=progress)
        called = self._called_if_known()
        return [
            replace(each, where=_about(each.where, called), branch=each.branch and called(each.branch))
            for each in found
        ]

    def _called_if_known(self) -> Callable[[str], str]:
        """The same where records may be damaged; then lines are what there is to call branches by."""
        try:
            return self._called()
        except OmnigraphError:
            return str

    def removals(self) -> Removals:
        """Which commits are listed, and can no longer be read because cleanup has removed them."""
        from omnigraph_core.history.removed import read_removals

        return read_removals(self._storage.control)

    def repair(
        self,
        branch: str = layout.MAIN_BRANCH,
        *,
        confirm: bool = False,
        force: bool = False,
        message: str | None = None,
    ) -> Repaired:
        """Look for versions that another program made, and with `confirm` adopt them."""
        arguments.texts(branch=branch)
        arguments.optional_texts(message=message)
        arguments.flags(confirm=confirm, force=force)
        from omnigraph_core.maintenance.repair import repair

        self._storage.require_writable()
        memory = self.settings.memory_limit_bytes
        done = repair(self.door, self._line(branch), memory, confirm=confirm, force=force, message=message)
        called = self._called()
        return replace(done, branch=branch, breaks=tuple(_about(each, called) for each in done.breaks))

    def _maintaining(self, actor: str | None, message: str | None) -> Signature:
        """Maintenance that nobody signs is signed by OmniGraph itself."""
        from omnigraph_core.write.actors import MAINTENANCE_ACTOR, Signature

        named = actor or self.settings.named_actor
        if named is None:
            return Signature(MAINTENANCE_ACTOR, message, is_own=True)
        return Signature(self._signed(named), message)

    def adopt(
        self, *, actor: str | None = None, message: str | None = None, dry_run: bool = False
    ) -> Adopted:
        """Make a graph of the Rust original ours, with its history and branches; in one commit."""
        arguments.optional_texts(actor=actor, message=message)
        arguments.flags(dry_run=dry_run)
        from omnigraph_core.maintenance.adoption.run import Adoption
        from omnigraph_core.write.actors import Signature

        adoption = Adoption(self._storage, Signature(self._signed(actor), message))
        if dry_run:
            return adoption.preview()
        self._refuse_read_only()
        self._storage.require_writable()
        done = adoption.run()
        self._start_anew()
        return done

    def relocate(self) -> int:
        """Make a moved or copied graph refer to this place; returns how many files changed."""
        from omnigraph_core.maintenance.relocate import relocate
        from omnigraph_core.original.recognition import refuse_original

        self._refuse_read_only()
        refuse_original(self._manifest)
        return relocate(self._manifest)


def _about(text: str, called: Callable[[str], str]) -> str:
    """A text that begins with the line of a branch, with what the branch is called."""
    line, space, rest = text.partition(" ")
    return f"{called(line)}{space}{rest}"
