"""Lance branches of one dataset ("forks"): create, list, delete, and what a crash leaves of them.

Lance keeps a fork in two places: its files under `tree/<name>`, and a ref file that
makes it exist. Create writes the tree first, delete removes the ref first, so a tree
without a ref is garbage of a crash.

Names are used again, so nothing here is deleted by name. A fork is deleted by the ref
file that was read: its bytes carry a uuid, and whoever deletes reads them again right
before. The guard, which says that the lock is still held, is asked last. Files go by
the exact list made before the ref went, versions first: only their names could be used
again by a fork made anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph_core import faults
from omnigraph_core.errors import ConflictError, RefusedError
from omnigraph_core.storage.control import Names
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import sync_ref_removed
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.fork_refs import (
    ForkRef,
    RefState,
    find_ref,
    fork_names_near,
    list_refs,
    names_above,
    read_fork,
    ref_path,
)
from omnigraph_core.tables.refs import TableRef

_DELETED_AT_ONCE = 100
"""Files between two questions whether the lock is still ours."""


class ForkExists(ConflictError):
    """The dataset already has a branch of this name."""


class ForkReplaced(ConflictError):
    """The fork that was to be deleted is gone, or another one has its name."""

    retryable = True


def create_fork(tables: Tables, source: TableRef, name: str, version: int, guard: Guard) -> Table:
    """Fork `source` at `version` under `name`; leftovers of a create that died are cleared first."""
    found = find_ref(tables, source, name)
    if found is not None and found.state is RefState.WHOLE:
        guard()  # Whoever holds the lock is not surprised by a fork; that is worth saying first.
        raise ForkExists(f"table '{source.key}' already has a branch '{name}'")
    if source.branch is not None:
        read_fork(tables, source, source.branch)  # Lance reads it too, and says less when it is damaged.
    base = tables.open(source, version)
    clear_leftovers(tables, source, name, guard)
    faults.hit("tables.fork_cleared")
    guard()
    with lance_failures(source, f"creating branch '{name}' of"):
        base.lance.create_branch(name, (source.branch or "main", version))
    faults.hit("tables.fork_created")
    return tables.open(source.on(name))


def delete_fork(tables: Tables, ref: TableRef, found: ForkRef, guard: Guard) -> None:
    """Remove the fork whose ref was read, and no other: the ref first, then its files."""
    delete_files(tables, unlink_fork(tables, ref, found, guard), guard)


def unlink_fork(tables: Tables, ref: TableRef, found: ForkRef, guard: Guard) -> Names:
    """Remove the ref, durably; returns the files of the fork, which are garbage from then on."""
    _refuse_children(tables, ref, found)
    files = _files(tables, ref, found.name)
    _refuse_shared_directory(tables, ref, found.name, files)
    faults.hit("tables.fork_listed")
    remove_ref(tables, ref, found, guard)
    return files


def delete_files(tables: Tables, files: Sequence[str], guard: Guard) -> None:
    """Remove exactly these files of a fork whose ref is gone."""
    for start in range(0, len(files), _DELETED_AT_ONCE):
        tables.storage.control.delete_many(files[start : start + _DELETED_AT_ONCE], guard)
        faults.hit("tables.fork_files_deleted")


def clear_leftovers(tables: Tables, ref: TableRef, name: str, guard: Guard) -> None:
    """Remove what a create or a delete that died left of `name`; what may be a fork is refused."""
    files = _files(tables, ref, name)
    found = find_ref(tables, ref, name)
    _refuse_shared_directory(tables, ref, name, files)
    if found is not None:
        if found.state is RefState.WHOLE:
            raise ForkExists(f"table '{ref.key}' already has a branch '{name}'")
        found.fork_or_none()
        remove_ref(tables, ref, found, guard)
    delete_files(tables, files, guard)


def remove_ref(tables: Tables, ref: TableRef, found: ForkRef, guard: Guard) -> None:
    """Remove the ref if it still is the file that was read.

    On object storage a request that is on its way when the lease runs out can be late:
    the store offers no deletion on condition. That is all that is left to chance.
    """
    control = tables.storage.control
    path = ref_path(ref, found.name)
    now = control.get(path)
    if now is None or now.e_tag != found.e_tag:
        raise ForkReplaced(
            f"branch '{found.name}' of table '{ref.key}' was replaced or removed in the meantime"
        )
    faults.hit("tables.fork_checked")
    control.delete(path, guard)
    sync_ref_removed(tables.storage, path)
    faults.hit("tables.fork_ref_deleted")


def _refuse_children(tables: Tables, ref: TableRef, found: ForkRef) -> None:
    children = [other.name for other in children_of(tables, ref, found)]
    if children:
        raise RefusedError(
            f"branch '{found.name}' of table '{ref.key}' has branches of its own: {', '.join(children)}",
            hint="delete those first",
        )


def children_of(tables: Tables, ref: TableRef, found: ForkRef) -> list[ForkRef]:
    return [other for other in list_refs(tables, ref) if descends(other, found)]


def descends(other: ForkRef, found: ForkRef) -> bool:
    """Was it made from this one? By its name, or by its identity in the line of descent."""
    if other.name == found.name or (fork := other.fork_or_none()) is None:
        return False
    identity = found.fork.identity if found.fork is not None else None
    return fork.parent == found.name or identity in fork.ancestors


def _refuse_shared_directory(tables: Tables, ref: TableRef, name: str, files: Sequence[str]) -> None:
    """`a` and `a/b` share a directory, so clearing one would destroy the other.

    Its `files` are those of the names below, too. Without any there is none of these, on a local disk,
    where a ref whose files are missing is no fork; so not all refs have to be listed.
    """
    none_below = not files and tables.storage.location.is_local
    for other in names_above(name) if none_below else fork_names_near(tables, ref, name):
        if other != name and read_fork(tables, ref, other) is not None:
            raise RefusedError(
                f"branch '{name}' overlaps with the live branch '{other}' of table '{ref.key}'",
                hint="branch names must not be path prefixes of each other; "
                f"make a branch with another name from '{name}', and write to that",
            )


def _files(tables: Tables, ref: TableRef, name: str) -> Names:
    """The files of a fork; manifests first, whose names a fork made anew would use again."""
    directory = ref.on(name).directory
    found = tables.storage.control.list_prefix(directory)
    return sorted(found, key=lambda path: not path.startswith(f"{directory}/_versions/"))
