"""What is to be done about a recovery case. Looks and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core.errors import StorageError
from omnigraph_core.history.log import GraphCommit, read_branch_log
from omnigraph_core.history.recoveries import TableOutcome, read_recoveries
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.write.case import RecoveryCase
from omnigraph_core.write.classify import Finding, TableClass, examine, files_are_whole
from omnigraph_core.write.sidecar_record import Decision, DecisionKind, Sidecar, SidecarTable


class HeadBehindManifest(StorageError):
    """A table is older than what was published of it: no rule of ours explains that."""


def is_audited(tables: Tables, sidecar: Sidecar) -> bool:
    """Was the write recovered? The audit row is the last thing a recovery writes, and it is synced."""
    return any(each.operation_id == sidecar.operation_id for each in read_recoveries(tables))


def past_commits(manifest: Manifest, case: RecoveryCase) -> Mapping[str, GraphCommit]:
    """Everything below the head of the branch, by id.

    Nobody writes on a branch before its sidecars are settled. So a write whose commit, or
    whose recovery, has later commits on top was settled, and only its file is back.
    """
    log = read_branch_log(manifest.tables, manifest, case.branch)
    found = {each.commit_id: each for each in log.history(case.branch)}
    found.pop(case.head_commit_id or "", None)
    return found


def is_published(manifest: Manifest, case: RecoveryCase) -> bool:
    """Do the manifest's rows carry the write: its head row, or the rows of its versions?"""
    head, sidecar = case.state.head, case.sidecar
    # Recovery's own head rows name the operation too, but never the commit.
    if (
        head is not None
        and head.commit_id == sidecar.head.commit_id
        and head.operation_id == sidecar.operation_id
    ):
        return True
    return any(_carries(manifest, sidecar, table) for table in sidecar.tables)


def _carries(manifest: Manifest, sidecar: Sidecar, table: SidecarTable) -> bool:
    metadata = manifest.version_metadata(sidecar.branch, table.table_key, table.post_commit_pin)
    return metadata is not None and metadata.commit_id == sidecar.head.commit_id


def decide(manifest: Manifest, case: RecoveryCase, *, sync_failed: bool) -> Decision:
    """`sync_failed`: what the write did may be lost although every read shows it."""
    tables, sidecar, token = manifest.tables, case.sidecar, case.lock.token
    if is_published(manifest, case):
        return Decision(DecisionKind.PUBLISHED, tuple(map(_published_outcome, sidecar.tables)), token)
    findings = examined(tables, case)
    if (
        all(each.classification is TableClass.ROLLED_PAST_EXPECTED for each in findings)
        and not sync_failed
        and case.head_commit_id == sidecar.base_head
        and files_are_whole(tables.storage, sidecar)
    ):
        return Decision(DecisionKind.ROLL_FORWARD, tuple(map(_forward_outcome, findings)), token)
    return Decision(DecisionKind.ROLL_BACK, tuple(map(_back_outcome, findings)), token)


def examined(tables: Tables, case: RecoveryCase) -> list[Finding]:
    """The tables of the write; raises if one of them lost what was published of it."""
    findings = examine(tables, case.sidecar, case.state)
    for finding in findings:
        if finding.classification is TableClass.INVARIANT_VIOLATION:
            at = "is missing" if finding.head is None else f"is at version {finding.head.version}"
            raise HeadBehindManifest(
                f"table '{finding.table.table_key}' {at}, but version {finding.published_version} "
                f"is published; {case.sidecar.path} is kept",
                hint="the dataset lost versions; restore it from a backup",
            )
    return findings


def _published_outcome(table: SidecarTable) -> TableOutcome:
    return TableOutcome(table.table_key, table.expected_version, table.post_commit_pin, "Published")


def _forward_outcome(finding: Finding) -> TableOutcome:
    table = finding.table
    return TableOutcome(
        table.table_key, table.expected_version, table.post_commit_pin, finding.classification.value
    )


def _back_outcome(finding: Finding) -> TableOutcome:
    return TableOutcome(
        finding.table.table_key,
        finding.head_version,
        finding.published_version,
        finding.classification.value,
    )
