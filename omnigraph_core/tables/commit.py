"""`commit_exact`: move HEAD by exactly our one version, or say precisely why not.

Fault model. The branch lock keeps other OmniGraph writers out, but the lock is never
the proof: a lease can be lost, and Lance itself rebases a commit onto whatever it
finds, even with `max_retries=0`. So HEAD is compared before, and version and
transaction after. Any failure that is not a conflict leaves the outcome unknown (on
object storage the response may have been lost), and is settled by looking for our
operation id in the versions since.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core.errors import StorageError
from omnigraph_core.storage import Guard as Guard
from omnigraph_core.storage import unguarded as unguarded
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import (
    LANCE_RAISES,
    CommitLost,
    CommitUnknown,
    ForeignCommit,
    HeadMoved,
    is_contention,
    raise_if_interrupted,
    short_reason,
    storage_error,
)
from omnigraph_core.tables.staged import OPERATION_PROPERTY, StagedWrite, StageKind, prepare


def commit_exact(tables: Tables, staged: StagedWrite, guard: Guard) -> Table:
    """Commit `staged` as version `read_version + 1`.

    `guard` raises when the lock is no longer held; it is asked last, right before
    the commit. Raises HeadMoved, CommitLost (nothing landed), ForeignCommit (landed,
    but not where planned), CommitUnknown, or a StorageError that means it did not land.
    """
    from lance import LanceDataset

    base = tables.open(staged.ref, staged.read_version)
    head = base.latest_version()
    if head != staged.read_version:
        tables.forget(staged.ref)
        raise HeadMoved(staged.ref.key, staged.read_version, head)
    guard()
    try:
        dataset = LanceDataset.commit(base.lance, staged.transaction, max_retries=0)
    except LANCE_RAISES as error:
        tables.forget(staged.ref)
        if is_contention(error):
            raise CommitLost(f"another commit to table '{staged.ref.key}' came first") from error
        raise_if_interrupted(error)
        return _settle(tables, staged, error)
    landed = _prove(Table(staged.ref, dataset), staged)
    tables.keep(landed)
    return landed


def _prove(landed: Table, staged: StagedWrite) -> Table:
    try:
        transaction = landed.transaction(landed.version)
    except StorageError as error:
        raise CommitUnknown(
            f"cannot tell whose commit is version {landed.version} of table '{staged.ref.key}': {error}"
        ) from error
    if landed.version != staged.read_version + 1 or transaction.uuid != staged.transaction_uuid:
        raise ForeignCommit(
            f"table '{staged.ref.key}': our commit landed as version {landed.version} instead of "
            f"{staged.read_version + 1}; something else writes to this dataset"
        )
    return landed


def _settle(tables: Tables, staged: StagedWrite, error: Exception) -> Table:
    """After an unknown outcome: our version if it landed, else a storage error that says so."""
    try:
        head = tables.open(staged.ref)
        version = find_operation(head, staged.operation_id, since=staged.read_version)
    except Exception as second:
        raise CommitUnknown(
            f"cannot tell whether the commit to table '{staged.ref.key}' landed: {short_reason(error)}"
        ) from second
    if version is None and not tables.storage.location.is_local:
        # A request that timed out may still land; only whoever occupies the version knows.
        raise CommitUnknown(
            f"the commit to table '{staged.ref.key}' has not landed, but still may: {short_reason(error)}"
        ) from error
    if version is None:
        raise storage_error(staged.ref, "committing to", error) from error
    return _prove(tables.open(staged.ref, version), staged)


def find_operation(head: Table, operation_id: str, since: int) -> int | None:
    """The version in (since, HEAD] that carries `operation_id`, if there is one."""
    for version in range(head.version, since, -1):
        if transaction_properties(head, version).get(OPERATION_PROPERTY) == operation_id:
            return version
    return None


def is_all_ours(head: Table, since: int) -> bool:
    """Was every version in (since, HEAD] committed by OmniGraph?"""
    versions = range(since + 1, head.version + 1)
    return all(OPERATION_PROPERTY in transaction_properties(head, version) for version in versions)


def transaction_properties(table: Table, version: int) -> Mapping[str, str]:
    """The properties of the transaction that made `version`."""
    if version == table.version and table.known_properties is not None:
        return table.known_properties
    return table.transaction(version).transaction_properties or {}


def restored_version(head: Table) -> int | None:
    """The version whose content HEAD brought back, if that is all its transaction did."""
    from lance.dataset import LanceOperation

    operation = head.transaction(head.version).operation
    return int(operation.version) if isinstance(operation, LanceOperation.Restore) else None


def restored_by_us(head: Table, version: int) -> int | None:
    """What the transaction of a version did, if it is ours: the version it brought back, or 0 for
    anything else. None if it is not ours, or cannot be read."""
    from lance.dataset import LanceOperation

    try:
        transaction = head.transaction(version)
    except StorageError:
        return None
    if OPERATION_PROPERTY not in (transaction.transaction_properties or {}):
        return None
    operation = transaction.operation
    return int(operation.version) if isinstance(operation, LanceOperation.Restore) else 0


def stage_restore(head: Table, version: int, operation_id: str, undoes: str) -> StagedWrite:
    """A new HEAD with the content of `version`; carries the operation it undoes.

    Committed by `commit_exact` like any other write, because a Restore that has not
    seen an append buries it silently. Every transaction based before it is refused by
    Lance from then on, which is what keeps a paused writer out.
    """
    from lance.dataset import LanceOperation

    operation = LanceOperation.Restore(version)
    return prepare(head.ref, StageKind.RESTORE, head.version, operation, operation_id, undoes=undoes)
