"""Deleted branches: the ref of each, put aside under its identity until it is purged.

The ref file of `__manifest` is what makes a branch exist. Deleting a branch moves it here;
the twin, the forks and all files stay, so the same bytes back at their place are the same branch
again: same identity, head and history. The record comes before the ref goes, and goes after
the ref is back. So a record whose branch is there says nothing, and is passed over.

Cleanup keeps what these branches need, or purges them: their forks keep their refs, but nothing
in `__manifest` protects the version they were forked at.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core import layout
from omnigraph_core.errors import StorageError
from omnigraph_core.fields import Fields
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.sealed import seal, unseal
from omnigraph_core.manifest.branch import Branch, branch_name
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.records import dataclass
from omnigraph_core.storage import ControlStore
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.fork_refs import Fork, decode_ref, is_identity, read_fork, ref_path

_VERSION = 1
_SUFFIX = ".json"


class DeletedDamaged(StorageError):
    """A record of a deleted branch that cannot be read: nobody knows what has to be kept for it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read as a deleted branch: {reason}",
            hint="restore the file from a backup, or remove it to give up the deleted branch",
        )
        self.path = path

    def details(self) -> Mapping[str, object]:
        return {"path": self.path}


@dataclass(frozen=True, slots=True)
class DeletedBranch:
    """A branch that was deleted, and everything that is needed to have it back."""

    fork: Fork
    """Its name, identity and descent, as the ref says."""
    ref: bytes
    """The ref file of `__manifest`, to the byte."""
    twin: str | None
    """Identity of its twin on the commit table: what is in its directories is its own while it has it."""
    head: str | None
    """The commit it was at."""
    manifest_version: int
    """The HEAD of its manifest."""
    actor_id: str
    deleted_at: int
    """Microseconds since the epoch."""
    revision: str
    """Another one each time: an e-tag may be a hash of the bytes."""

    @property
    def name(self) -> str:
        return self.fork.name

    @property
    def on(self) -> Branch:
        return Branch(self.fork.name, self.fork.identity)

    @property
    def path(self) -> str:
        return layout.deleted_branch(self.fork.identity)

    def encode(self) -> bytes:
        content = {
            "schema_version": _VERSION,
            "branch": self.name,
            "branch_identity": self.fork.identity,
            "ref": self.ref.decode(),
            "twin": self.twin,
            "head": self.head,
            "manifest_version": self.manifest_version,
            "actor_id": self.actor_id,
            "deleted_at": self.deleted_at,
            "revision": self.revision,
        }
        return seal(content)


def read_deleted(control: ControlStore) -> list[DeletedBranch]:
    """All deleted branches that are not purged, the one deleted first comes first."""
    found = (read_gone(control, each) for each in deleted_identities(control))
    gone = [each for each in found if each is not None]
    return sorted(gone, key=lambda each: (each.deleted_at, each.fork.identity))


def deleted_identities(control: ControlStore) -> list[str]:
    """Of all records, readable or not."""
    names = (
        file.removesuffix(_SUFFIX) for file in control.list(layout.DELETED_DIR) if file.endswith(_SUFFIX)
    )
    return [name for name in names if is_identity(name)]


def read_gone(control: ControlStore, identity: str) -> DeletedBranch | None:
    """The record of this identity, None if its branch is there."""
    record = read_record(control, identity)
    return None if record is None or _is_live(control, record) else record


def read_record(control: ControlStore, identity: str) -> DeletedBranch | None:
    """The record of this identity, whether its branch is back or not."""
    path = layout.deleted_branch(identity)
    found = control.get(path)
    if found is None:
        return None
    try:
        return _from_json(identity, unseal(found.data, _VERSION))
    except ValueError as error:
        raise DeletedDamaged(path, str(error)) from error


def find_aside(tables: Tables, branch: Branch) -> DeletedBranch | None:
    """The record of exactly this branch, if it is deleted and what is in its directories is its own.

    Another branch of its name may have been there since; but that takes the record away first.
    """
    record = None if branch.identity is None else read_record(tables.storage.control, branch.identity)
    return None if record is None or record.on != branch or not has_its_files(tables, record) else record


def has_its_files(tables: Tables, record: DeletedBranch) -> bool:
    """Is the twin still the one that the branch had when it was deleted?"""
    twin = read_fork(tables, commits_ref(layout.MAIN_BRANCH), record.name)
    return (None if twin is None else twin.identity) == record.twin


def _is_live(control: ControlStore, record: DeletedBranch) -> bool:
    found = control.get(ref_path(manifest_ref(layout.MAIN_BRANCH), record.name))
    fork = None if found is None else decode_ref(record.name, found.data)
    return fork is not None and fork.identity == record.fork.identity


def _from_json(identity: str, content: Fields) -> DeletedBranch:
    ref = content.text("ref").encode()
    fork = decode_ref(branch_name(content, "branch"), ref)
    if fork is None or fork.identity != identity or content.text("branch_identity") != identity:
        raise ValueError("its ref is not that of the branch it is named after")
    record = DeletedBranch(
        fork=fork,
        ref=ref,
        twin=content.optional_text("twin"),
        head=content.optional_text("head"),
        manifest_version=content.whole("manifest_version"),
        actor_id=content.text("actor_id"),
        deleted_at=content.moment("deleted_at"),
        revision=content.text("revision"),
    )
    content.end()
    return record
