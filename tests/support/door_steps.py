"""The steps of a write and of a recovery, and what comes of a process that dies at each of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What the next read-write open makes of a write that died."""

    applied: bool
    recovery: str | None
    original_commit: bool


NOTHING = Outcome(applied=False, recovery=None, original_commit=False)


ROLLED_BACK = Outcome(applied=False, recovery="RolledBack", original_commit=False)


ROLLED_FORWARD = Outcome(applied=True, recovery="RolledForward", original_commit=False)


COMPLETED = Outcome(applied=True, recovery="RolledForward", original_commit=True)


DONE = Outcome(applied=True, recovery=None, original_commit=True)


# Every step of the door, in order, and the outcome stated for dying right there.
STEPS = {
    "write.before_a": NOTHING,
    "recovery.sidecar_write": NOTHING,
    "control.create.written": NOTHING,
    "write.after_a": ROLLED_BACK,
    "write.table_committed.1": ROLLED_BACK,
    "write.table_committed.2": ROLLED_BACK,
    "write.table_committed.3": ROLLED_FORWARD,
    "write.after_b": ROLLED_FORWARD,
    "manifest.before_publish": ROLLED_FORWARD,
    "manifest.after_publish": COMPLETED,
    "write.published": COMPLETED,
    "history.actor_recorded": COMPLETED,
    "history.commit_recorded": COMPLETED,
    "write.after_c": COMPLETED,
    "recovery.sidecar_delete": COMPLETED,
    "write.after_d": DONE,
}


FORK_STEPS = {"tables.fork_created": NOTHING, "write.forked": NOTHING}


RECOVERY_STEPS = {
    "write.table_committed.2": [
        "recovery.decided",
        "recovery.table_restored",
        "recovery.restored",
        "manifest.before_publish",
        "manifest.after_publish",
    ],
    "write.after_b": [
        "recovery.decided",
        "recovery.before_publish",
        "manifest.before_publish",
        "manifest.after_publish",
    ],
    "write.published": [
        "recovery.decided",
        "recovery.original_completed",
        "manifest.before_publish",
        "manifest.after_publish",
    ],
}


COMMON_RECOVERY_STEPS = [
    "recovery.deciding",
    "control.replace.visible",
    "recovery.after_publish",
    "history.actor_recorded",
    "history.commit_recorded",
    "recovery.commit_recorded",
    "recovery.audited",
    "recovery.before_forget",
    "control.delete.gone",
]
