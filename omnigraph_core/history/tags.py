"""Tags: names that people give to commits, one control object each.

A tag names its commit by id, and the place where it was made: a branch with its identity, and a
manifest version there. What it names is kept: cleanup and `branch create` ask for all tags.
So a tag that cannot be read is damage; it is never taken for one that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, StorageError
from omnigraph_core.fields import Fields
from omnigraph_core.history.limits import TAG_PATH_CHARACTERS_MAX
from omnigraph_core.history.sealed import seal, unseal
from omnigraph_core.manifest.branch import Branch, branch_name, is_branch_name
from omnigraph_core.records import dataclass
from omnigraph_core.storage import ControlStore

TAG_PREFIX = "tag:"
"""How a ref says that it is a tag. No branch and no commit id has a colon."""

_VERSION = 1
_SUFFIX = ".json"


class TagNotFound(NotFoundError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no tag '{name}'", hint="`omnigraph tag list` shows what there is")
        self.name = name

    def details(self) -> Mapping[str, object]:
        return {"tag": self.name}


class TagDamaged(StorageError):
    """A tag that cannot be read: nobody knows what has to be kept for it."""

    def __init__(self, name: str, path: str, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read as tag '{name}': {reason}",
            hint=f"restore the file from a backup, or delete the tag: `omnigraph tag delete {name}`",
        )
        self.name, self.path = name, path

    def details(self) -> Mapping[str, object]:
        return {"tag": self.name, "path": self.path}


@dataclass(frozen=True, slots=True)
class Tag:
    """One tag, and the commit it names."""

    name: str
    commit_id: str
    on: Branch
    manifest_version: int
    actor_id: str
    message: str | None
    created_at: int
    """Microseconds since the epoch."""
    revision: str
    """Tells it from other tags that had the name: an e-tag may be a hash of the bytes."""

    @property
    def branch(self) -> str:
        return self.on.name

    def encode(self) -> bytes:
        content = {
            "schema_version": _VERSION,
            "name": self.name,
            "commit_id": self.commit_id,
            "branch": self.on.name,
            "branch_identity": self.on.identity,
            "manifest_version": self.manifest_version,
            "actor_id": self.actor_id,
            "message": self.message,
            "created_at": self.created_at,
            "revision": self.revision,
        }
        return seal(content)


def tag_names(control: ControlStore) -> list[str]:
    """The names of all tags, readable or not."""
    found = control.list(layout.TAGS_DIR)
    names = (unquote(file.removesuffix(_SUFFIX)) for file in found if file.endswith(_SUFFIX))
    return sorted(name for name in names if is_branch_name(name))


def read_tags(control: ControlStore) -> list[Tag]:
    """All tags by name; `TagDamaged` if one of them cannot be read."""
    found = (_read(control, name) for name in tag_names(control))
    return [tag for tag in found if tag is not None]


def read_tag(control: ControlStore, name: str) -> Tag:
    """The tag of this name."""
    found = _read(control, name)
    if found is None:
        raise TagNotFound(name)
    return found


def has_room(name: str) -> bool:
    """Can a file have the name? Some characters take three bytes of it."""
    return len(layout.tag(name)) <= TAG_PATH_CHARACTERS_MAX


def _read(control: ControlStore, name: str) -> Tag | None:
    found = control.get(layout.tag(name)) if has_room(name) else None
    return None if found is None else decode_tag(name, found.data)


def decode_tag(name: str, data: bytes) -> Tag:
    """What the object of a tag says; `TagDamaged` unless all of it is as expected."""
    try:
        return _from_json(name, unseal(data, _VERSION))
    except ValueError as error:
        raise TagDamaged(name, layout.tag(name), str(error)) from error


def _from_json(name: str, content: Fields) -> Tag:
    if content.text("name") != name:
        raise content.refuse("name", "that of its file")
    tag = Tag(
        name=name,
        commit_id=content.ulid("commit_id"),
        on=Branch(branch_name(content, "branch"), content.optional_text("branch_identity")),
        manifest_version=content.whole("manifest_version"),
        actor_id=content.text("actor_id"),
        message=content.optional_text("message"),
        created_at=content.moment("created_at"),
        revision=content.text("revision"),
    )
    content.end()
    return tag
