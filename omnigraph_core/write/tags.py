"""Making and deleting tags.

Under the refs lock, which cleanup and branch deletion hold too: whoever removes what a tag
would name has either read the tag, or has removed it before the tag is made.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core import faults, layout
from omnigraph_core.errors import ConflictError, RefusedError
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.history.moves import Move, MoveKind
from omnigraph_core.history.tags import Tag, TagDamaged, TagNotFound, decode_tag, has_room, read_tag
from omnigraph_core.history.travel import snapshot_at
from omnigraph_core.ids import new_ulid, now_us
from omnigraph_core.storage import ObjectExists
from omnigraph_core.tables.durability import sync_ref_removed
from omnigraph_core.write.door import Door
from omnigraph_core.write.moves import Note, logged
from omnigraph_core.write.naming import check_name


class TagExists(ConflictError):
    """Another tag has the name."""

    def __init__(self, found: Tag) -> None:
        super().__init__(
            f"tag '{found.name}' already exists: it names commit {found.commit_id}",
            hint=f"delete it first: `omnigraph tag delete {found.name}`",
        )
        self.name, self.commit_id = found.name, found.commit_id

    def details(self) -> Mapping[str, object]:
        return {"tag": self.name, "commit_id": self.commit_id}


class TagReplaced(ConflictError):
    """The tag that was to be deleted is gone, or another one has its name."""

    retryable = True


def create_tag(door: Door, name: str, commit: GraphCommit, note: Note, message: str | None) -> Tag:
    """Give a commit a name; durable when it returns. Of any number of rivals one wins."""
    name = check_name(name, "tag")
    if not has_room(name):
        raise RefusedError(f"'{name}' is too long for a tag name")
    with door.storage.locks.lock_all([layout.REFS_LOCK], doing=f"tag create {name}") as held:
        faults.hit("tag.create_locked")
        # The commit was looked up without a lock: is it still at its place?
        found = snapshot_at(door.manifest, commit)
        tag = Tag(
            name=name,
            commit_id=commit.commit_id,
            on=found.on,
            manifest_version=commit.manifest_version,
            actor_id=note.actor,
            message=message,
            created_at=now_us(),
            revision=new_ulid(),
        )
        move = note.move(MoveKind.TAG_CREATE, name, identity=tag.revision, commit_id=tag.commit_id)
        with logged(door, move, held):
            try:
                door.storage.control.create(layout.tag(name), tag.encode(), held.check)
            except ObjectExists:
                raise TagExists(read_tag(door.storage.control, name)) from None
            faults.hit("tag.created")
    return tag


def delete_tag(door: Door, name: str, note: Note, *, revision: str | None = None) -> Tag | None:
    """Delete a tag, durably; returns what it was, None if nobody could read it.

    With `revision`, only if it is this very tag.
    """
    name = name.strip()
    control, path = door.storage.control, layout.tag(name)
    with door.storage.locks.lock_all([layout.REFS_LOCK], doing=f"tag delete {name}") as held:
        found = control.get(path) if has_room(name) else None
        if found is None:
            raise TagNotFound(name)
        try:
            tag = decode_tag(name, found.data)
        except TagDamaged:
            tag = None  # Its name was all that could be said of it.
        if revision is not None and (tag is None or tag.revision != revision):
            raise TagReplaced(f"tag '{name}' has been replaced in the meantime")
        faults.hit("tag.delete_found")
        with logged(door, _deletion(name, tag, note), held):
            now = control.get(path)
            if now is None or now.e_tag != found.e_tag:
                raise TagReplaced(f"tag '{name}' was replaced or deleted in the meantime")
            control.delete(path, held.check)
            sync_ref_removed(door.storage, path)
            faults.hit("tag.deleted")
    return tag


def _deletion(name: str, tag: Tag | None, note: Note) -> Move:
    if tag is None:
        return note.move(MoveKind.TAG_DELETE, name)
    return note.move(
        MoveKind.TAG_DELETE,
        name,
        identity=tag.revision,
        commit_id=tag.commit_id,
        tag=tag.encode().decode(),
    )
