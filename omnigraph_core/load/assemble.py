"""The modes of a load, and which types have ids of their own making."""

from __future__ import annotations

from enum import StrEnum

from omnigraph_core.change.changeset import Verb
from omnigraph_core.schema import EntityType, NodeType


class LoadMode(StrEnum):
    """What records mean for entities that are there already; the text is the option's."""

    OVERWRITE = "overwrite"
    APPEND = "append"
    MERGE = "merge"


VERBS = {LoadMode.OVERWRITE: Verb.REPLACE, LoadMode.APPEND: Verb.INSERT, LoadMode.MERGE: Verb.UPSERT}


def is_keyed(entity: EntityType) -> bool:
    return isinstance(entity, NodeType) and entity.key is not None
