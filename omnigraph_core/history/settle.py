"""Before history is appended to: is it what it must be?

A newest version that a power cut tore is set aside, after proof that nothing is lost with
it: what remains must have everything the manifest knows of (`history/damage.py`), but for
writes that are still to be recovered and will write their rows again. And the rows of the
head are written again if they are gone: the head row has all of them.

Only on a local disk: on object storage a PUT is whole or absent.
"""

from __future__ import annotations

from contextlib import suppress

from omnigraph_core import layout
from omnigraph_core.history.commits import commits_ref, commits_schema, complete_commit
from omnigraph_core.history.damage import has_row
from omnigraph_core.history.log import read_branch_log, read_log
from omnigraph_core.history.recorded import newest_recorded
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.failures import TableNotFound
from omnigraph_core.tables.refs import TableRef, control_table
from omnigraph_core.tables.torn import (
    NoWholeVersion,
    is_torn,
    open_newest_whole,
    set_aside_torn,
    versions_on_disk,
)

_ACTORS = control_table(layout.COMMIT_ACTORS)
_SHARED = (_ACTORS, control_table(layout.RECOVERIES))


def settle_history(tables: Tables, manifest: Manifest, snapshot: Snapshot, guard: Guard) -> None:
    """Under the branch's lock, with nothing pending on it: no torn tail, and the head has its rows."""
    if not tables.storage.location.is_local:
        return
    is_first = _ACTORS not in tables.proven_whole
    settle_torn(tables, manifest, snapshot.branch, guard)
    head = snapshot.head
    if head is not None and not _has_rows(tables, head, snapshot.branch, with_actor=is_first):
        complete_commit(tables, head, snapshot.on, snapshot.manifest_version, guard)


def _has_rows(tables: Tables, head: GraphHead, branch: str, *, with_actor: bool) -> bool:
    """The commit's row is known by its mark. The actor's has to be looked up: once a process is enough."""
    recorded = newest_recorded(tables, branch)
    is_marked = recorded is not None and recorded.commit_id == head.commit_id
    if not is_marked and not has_row(tables, commits_ref(branch), head.commit_id):
        return False
    return not (with_actor and head.actor_id) or has_row(tables, _ACTORS, head.commit_id)


def settle_torn(tables: Tables, manifest: Manifest, branch: str, guard: Guard) -> None:
    """Under the branch's lock: set aside torn versions of its commit table and of the shared ones.

    Asked once in the life of a process, which no power cut happens in.
    """
    logs = [ref for ref in (commits_ref(branch), *_SHARED) if ref not in tables.proven_whole]
    if not logs or not tables.storage.location.is_local:
        return
    torn = [ref for ref in logs if _has_torn_tail(tables, ref)]
    if any(ref in _SHARED for ref in torn):
        read_log(tables, manifest)
    elif torn:
        read_branch_log(tables, manifest, branch)
    for ref in torn:
        _set_aside(tables, ref, guard)
    if commits_ref(branch) in logs:
        _check_columns(tables, commits_ref(branch))
    tables.proven_whole.update(logs)


def _check_columns(tables: Tables, ref: TableRef) -> None:
    """Damage to its columns is found before a write begins, not after its publish."""
    with suppress(TableNotFound):
        tables.open(ref).check_columns(commits_schema().names)


def _set_aside(tables: Tables, ref: TableRef, guard: Guard) -> None:
    """Under a lock of its own, taken last and briefly: the shared logs have appenders on every branch,
    and what one has set aside another may have written anew under the same number."""
    lock = tables.storage.locks.lock(layout.LOGS_LOCK, doing="set aside a torn version")
    with lock.acquire():
        set_aside_torn(tables, ref, _newest_whole(tables, ref), guard)


def _newest_whole(tables: Tables, ref: TableRef) -> int:
    """0 when even the first version is torn: the dataset then counts as not made yet."""
    try:
        return open_newest_whole(tables, ref).version
    except NoWholeVersion:
        return 0


def _has_torn_tail(tables: Tables, ref: TableRef) -> bool:
    """A live appender's version is whole before it has a name, so a torn one is a dead one's."""
    newest = next(iter(versions_on_disk(tables, ref)), None)
    return newest is not None and is_torn(tables, ref, newest)
