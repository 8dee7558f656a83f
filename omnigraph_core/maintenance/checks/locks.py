"""Locks: each can be read, and none has been held for longer than anything should take."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core import layout
from omnigraph_core.ids import now_us
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, attempt, note
from omnigraph_core.maintenance.limits import LOCK_HELD_LONG_S


def check_locks(seen: Examination) -> Iterator[Finding]:
    for file in seen.control.list(layout.LOCKS_DIR):
        name = file.rsplit(".", 1)[0]
        path = f"{layout.LOCKS_DIR}/{file}"
        yield from attempt("lock-unreadable", path, _lock, seen, name, path)


def _lock(seen: Examination, name: str, path: str) -> Iterator[Finding]:
    holder = seen.holder(name)
    if holder is not None and now_us() - holder.since_us > LOCK_HELD_LONG_S * 1_000_000:
        yield note("lock-held-long", path, f"held by {holder}")
