"""`maintain`: optimize every branch, then clean up; or only say that neither is needed.

What cannot be done on one branch stops nothing else: it is for cron, and the next run comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.deleted import read_deleted
from omnigraph_core.history.tags import read_tags
from omnigraph_core.ids import now_us
from omnigraph_core.maintenance.cleaned import Cleaned
from omnigraph_core.maintenance.decision import Decider
from omnigraph_core.maintenance.keep import Policy
from omnigraph_core.maintenance.limits import NEEDED_FRAGMENTS, NEEDED_VERSIONS
from omnigraph_core.maintenance.lineages import dataset_refs, look_at
from omnigraph_core.maintenance.optimize import Optimizer
from omnigraph_core.maintenance.optimized import Optimized, OptimizedTable
from omnigraph_core.maintenance.put_aside import spared
from omnigraph_core.manifest.branch import name_of
from omnigraph_core.manifest.reader import BranchNotFound
from omnigraph_core.records import dataclass
from omnigraph_core.write.door import Door


@dataclass(frozen=True, slots=True)
class Failure:
    """A branch that could not be optimized, and why."""

    branch: str
    error: str


@dataclass(frozen=True, slots=True)
class Maintained:
    """One run. Without a reason to, nothing was done."""

    reasons: tuple[str, ...]
    """Why it was needed; none are looked for unless asked to."""
    optimized: tuple[Optimized, ...] = ()
    cleaned: Cleaned | None = None
    failures: tuple[Failure, ...] = ()

    @property
    def has_failed(self) -> bool:
        return bool(self.failures) or (self.cleaned is not None and self.cleaned.has_failed)


def maintain(
    door: Door,
    make_optimizer: Callable[[str], Optimizer],
    clean: Callable[[], Cleaned],
    policy: Policy,
    *,
    called: Callable[[str], str],
    if_needed: bool,
) -> Maintained:
    """`called` says what people call the branch of a line."""
    reasons = tuple(find_needs(door, make_optimizer, policy, called)) if if_needed else ()
    if if_needed and not reasons:
        return Maintained(())
    optimized: list[Optimized] = []
    failures: list[Failure] = []
    for branch in door.manifest.branch_names():
        try:
            optimized.append(replace(make_optimizer(branch).run(), branch=called(branch)))
        except BranchNotFound:  # Deleted since it was listed: nothing is left to do.
            continue
        except OmnigraphError as error:
            failures.append(Failure(called(branch), str(error)))
    return Maintained(reasons, tuple(optimized), clean(), tuple(failures))


def find_needs(
    door: Door, make_optimizer: Callable[[str], Optimizer], policy: Policy, called: Callable[[str], str]
) -> Iterator[str]:
    """Every reason to maintain the graph; reads listings and manifests, and writes nothing."""
    for branch in door.manifest.branch_names():
        for table in make_optimizer(branch).look():
            yield from _needs_of(called(branch), table)
    most = policy.keep + NEEDED_VERSIONS
    for ref in dataset_refs(door.manifest):
        for line, times in look_at(door.tables, ref).times.items():
            if len(times.written) > most:
                yield f"{ref.key} on {called(name_of(line))} has {len(times.written)} versions"
    control = door.storage.control
    deleted = read_deleted(control)
    tagged = {tag.on for tag in read_tags(control)}
    if len(spared(deleted, tagged, now_us(), policy.grace_s)) < len(deleted):
        # Some may have a base of a merge; finding out takes the whole history.
        doomed = Decider(door, policy, "", dry_run=True).decide().kept.doomed
        yield from (f"the deleted branch {called(each.name)} is past its grace" for each in doomed)


def _needs_of(branch: str, table: OptimizedTable) -> Iterator[str]:
    subject = f"{table.table_key} on {branch}"
    if table.fragments - table.fragments_after >= NEEDED_FRAGMENTS:
        yield f"{subject} has {table.fragments} fragments where {table.fragments_after} would do"
    if table.indexes:
        yield f"{subject} lacks rows in indexes: {', '.join(table.indexes)}"
