"""Who may sign a commit."""

from __future__ import annotations

from omnigraph_core.errors import RefusedError
from omnigraph_core.records import dataclass

RESERVED_ACTORS = "omnigraph:"
"""How the names of our own actors begin. Repairs are found by them, so nobody else may use them."""


MAINTENANCE_ACTOR = f"{RESERVED_ACTORS}maintenance"
REPAIR_ACTOR = f"{RESERVED_ACTORS}repair"
FORCED_REPAIR_ACTOR = f"{REPAIR_ACTOR}:force"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a commit says of who made it and why. `is_own`: the actor is one of ours."""

    actor: str | None
    message: str | None = None
    is_own: bool = False


def check_actor(actor: str | None) -> None:
    """Refuse a name under which only OmniGraph itself commits."""
    if actor is not None and actor.strip().casefold().startswith(RESERVED_ACTORS):
        raise RefusedError(
            f"the actor '{actor}' is reserved: only OmniGraph itself signs as '{RESERVED_ACTORS}…'"
        )
