"""Which writes have begun and not ended: one listing, for commands that only want to know that."""

from __future__ import annotations

from omnigraph_core import faults, layout
from omnigraph_core.fields import is_ulid
from omnigraph_core.storage import ControlStore


def pending_operations(control: ControlStore) -> list[str]:
    """Operation ids of all sidecars, oldest first (ULIDs sort by time).

    A listing that fails is loud: it could hide drift.
    """
    faults.hit("recovery.sidecar_list")
    return record_ids(control, layout.RECOVERY_DIR)


def record_ids(control: ControlStore, folder: str) -> list[str]:
    """The operations that have a record in a folder; what else is there, by an editor say, is none."""
    names = sorted(control.list(folder))
    found = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return [each for each in found if is_ulid(each)]
