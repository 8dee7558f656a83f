"""Seals: a commit that says by itself whether it is what it was.

`seal` in the details of a commit is a digest of everything else it says, its actor among it, and of
its parent's seal; `state` is a digest of the tables it published. Bytes that rot in a file of the
history or of `__manifest` are found by them when doctor looks deep. They protect from disks and not
from people: who changes a commit can seal it anew. Commits without a seal are of an older or another writer.

128 bits: a seal is kept for every commit that ever was, and does not compress.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from omnigraph_core.errors import StorageError
from omnigraph_core.manifest.commit import Commit

SEAL = "seal"
STATE = "state"
_DIGITS = 32
# The commit row of a commit without an actor says so in its details; its head row does not.
_OUTSIDE = (SEAL, "actor")

TableState = tuple[str, str, str | None, int, int]
"""Key, path, lineage, version and rows of a table."""


def sealed(commit: Commit, parent: Commit | None, tables: Iterable[TableState] | None = None) -> Commit:
    """The commit with its seal; with a digest of the tables it publishes, if they are given."""
    details = details_of(commit)
    if tables is not None:
        details[STATE] = state_digest(tables)
    stated = replace(commit, details=_compact(details))
    details[SEAL] = seal_for(stated, None if parent is None else seal_of(parent))
    return replace(commit, details=_compact(details))


def seal_of(commit: Commit) -> str | None:
    """The seal that a commit has."""
    found = details_of(commit).get(SEAL)
    return found if isinstance(found, str) else None


def state_of(commit: Commit) -> str | None:
    """The digest of the tables that a commit published, if it has one."""
    found = details_of(commit).get(STATE)
    return found if isinstance(found, str) else None


def seal_for(commit: Commit, parent_seal: str | None) -> str:
    """The seal that a commit should have."""
    details = {key: value for key, value in details_of(commit).items() if key not in _OUTSIDE}
    facts = [
        commit.commit_id,
        commit.parent_commit_id,
        commit.merged_parent_commit_id,
        commit.actor_id,
        commit.created_at,
        commit.operation,
        commit.schema_hash,
        commit.message,
        details,
        parent_seal,
    ]
    return _digest(facts)


def state_digest(tables: Iterable[TableState]) -> str:
    return _digest(sorted(tables, key=lambda table: table[0]))


def details_of(commit: Commit) -> dict[str, Any]:
    """What its details say."""
    try:
        content = json.loads(commit.details) if commit.details else {}
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise StorageError(
            f"the details of commit {commit.commit_id} are damaged: they are not a JSON object",
            hint="restore __manifest and the history of commits from a backup",
        )
    return content


def _digest(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _compact(details: dict[str, object]) -> str:
    return json.dumps(details, ensure_ascii=False, separators=(",", ":"))
