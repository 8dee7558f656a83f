"""Which writes have begun and not ended: one listing, for commands that only want to know that."""

from __future__ import annotations

from omnigraph_core import faults, layout
from omnigraph_core.storage import ControlStore


def pending_operations(control: ControlStore) -> list[str]:
    """Operation ids of all sidecars, oldest first (ULIDs sort by time).

    A listing that fails is loud: it could hide drift.
    """
    faults.hit("recovery.sidecar_list")
    return [
        name.removesuffix(".json")
        for name in sorted(control.list(layout.RECOVERY_DIR))
        if name.endswith(".json")
    ]
