"""Rebuilding a damaged ref file from what it stood for.

The tree of a fork knows nearly everything its ref said: the transaction of its first
version names the parent and the parent's version. What is not written there is the
fork's uuid, which others may know it by (sidecars, forks made from it). So the uuid is
looked for in the damaged bytes and in the refs of its children, and taken from the
caller, before a new one is made up.
"""

from __future__ import annotations

import json
import re
import uuid
from contextlib import suppress

from omnigraph_core import faults
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.ids import now_us
from omnigraph_core.jsontext import parse_json
from omnigraph_core.storage import ObjectExists
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.fork_refs import (
    Fork,
    ForkRef,
    RefState,
    clone_of,
    decode_ref,
    find_ref,
    list_refs,
    missing_ref,
)
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.torn import versions_on_disk

_IDENTITY = re.compile(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")

_Line = list[tuple[int, str]]
"""Version and uuid of every fork on the way from main, the last one included."""


def heal_ref(tables: Tables, ref: TableRef, name: str, guard: Guard) -> ForkRef | None:
    """The ref of a fork; rebuilt first if it is damaged."""
    found = find_ref(tables, ref, name)
    if found is None or found.state is not RefState.DAMAGED:
        return found
    rebuild_ref(tables, ref, found, guard)
    return find_ref(tables, ref, name)


def require_ref(tables: Tables, ref: TableRef, name: str, guard: Guard) -> ForkRef:
    """The ref of a fork that others know to be there; rebuilt first if it is damaged or missing."""
    found = heal_ref(tables, ref, name, guard)
    if found is None:
        rebuild_ref(tables, ref, missing_ref(ref, name), guard)
        found = find_ref(tables, ref, name)
    return found or missing_ref(ref, name)


def rebuild_ref(
    tables: Tables, ref: TableRef, damaged: ForkRef, guard: Guard, identity: str | None = None
) -> Fork:
    """Write the ref anew over the damaged bytes that were read, or where it is missing; `RefDamaged` if
    it cannot be done.

    `identity` is what a write that knew the fork says. The parent is rebuilt first where
    it needs to be. Replacing goes by e-tag, so rivals that do the same harm nobody.
    """
    origin = _origin(tables, ref, damaged)
    if origin is None:
        raise damaged.damage()
    parent, version = origin
    above = _line_of_parent(tables, ref, parent, guard)
    found = identity or _identity_in(damaged.data, above) or _identity_in_children(tables, ref, damaged.name)
    data = _encode(tables, ref, parent, [*above, (version, found or uuid.uuid4().hex)])
    fork = decode_ref(damaged.name, data)
    if fork is None:
        raise damaged.damage()
    faults.hit("tables.ref_rebuilt")
    guard()
    if damaged.is_missing:
        with suppress(ObjectExists):  # A rival has just made it.
            tables.storage.control.create(damaged.path, data)
    else:
        tables.storage.control.replace(damaged.path, data, damaged.e_tag)
    return fork


def _origin(tables: Tables, ref: TableRef, damaged: ForkRef) -> tuple[str | None, int] | None:
    """Parent and version, as the first version of the tree tells."""
    tree = ref.on(damaged.name)
    versions = versions_on_disk(tables, tree)
    try:
        return clone_of(tables, tree, versions[-1]) if versions else None
    except OmnigraphError as error:
        raise damaged.damage() from error


def _line_of_parent(tables: Tables, ref: TableRef, parent: str | None, guard: Guard) -> _Line:
    if parent is None:
        return []
    found = heal_ref(tables, ref, parent, guard)
    if found is None or found.fork is None:
        return []
    return [
        (version, identity) for version, identity in parse_json(found.data)["identifier"]["version_mapping"]
    ]


def _identity_in(data: bytes, above: _Line) -> str | None:
    """The one uuid in the damaged bytes that is not an ancestor's."""
    ancestors = {identity for _, identity in above}
    found = {match.decode() for match in _IDENTITY.findall(data)} - ancestors
    return found.pop() if len(found) == 1 else None


def _identity_in_children(tables: Tables, ref: TableRef, name: str) -> str | None:
    """Forks made from this one carry its uuid right before their own."""
    forks = [found.fork for found in list_refs(tables, ref) if found.fork is not None]
    return next((fork.ancestors[-1] for fork in forks if fork.parent == name), None)


def _encode(tables: Tables, ref: TableRef, parent: str | None, line: _Line) -> bytes:
    """A ref as Lance writes it; it insists on every field but the last."""
    version = line[-1][0]
    size = tables.storage.control.size(manifest_path(ref.on(parent), version))
    content = {
        "parentBranch": parent,
        "identifier": {"version_mapping": line},
        "parentVersion": version,
        "createAt": now_us() // 1_000_000,
        "manifestSize": size or 0,
        "metadata": {},
    }
    return json.dumps(content, indent=2).encode()
