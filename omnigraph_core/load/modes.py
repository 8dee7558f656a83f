"""The modes of a load. The command line asks for one before anything is loaded."""

from __future__ import annotations

from enum import StrEnum


class LoadMode(StrEnum):
    """What a load does with entities that exist already; the value is the name users write."""

    OVERWRITE = "overwrite"
    APPEND = "append"
    MERGE = "merge"
