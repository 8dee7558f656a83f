"""A graph branch: its name, its identity, and the Lance lineage it writes to."""

from __future__ import annotations

from omnigraph_core import layout
from omnigraph_core.fields import Fields
from omnigraph_core.patterns import pattern
from omnigraph_core.records import dataclass

# Each part of a name is a directory of its own: `.` and `..` are none.
_PART = pattern(r"(?!\.)[A-Za-z0-9._-]+")


def lineage_of(name: str) -> str | None:
    """The Lance branch of a graph branch; the graph's main is Lance's main, which has no name."""
    return None if name == layout.MAIN_BRANCH else name


def name_of(lineage: str | None) -> str:
    """The graph branch of a Lance branch: what `lineage_of` undoes."""
    return lineage or layout.MAIN_BRANCH


def is_branch_name(name: str) -> bool:
    """Can a branch have it? It becomes a path, so one that was read from a record is not believed."""
    return ".." not in name and all(_PART.fullmatch(part) for part in name.split("/"))


def branch_name(record: Fields, key: str) -> str:
    """The member of a record that names a branch, or a line of versions."""
    name = record.text(key)
    if not is_branch_name(name):
        raise record.refuse(key, "the name of a branch")
    return name


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch, told from others that used its name before."""

    name: str
    identity: str | None = None
    """From its ref file. Main has none: it is never deleted. Old commit rows do not say it either."""

    @property
    def lineage(self) -> str | None:
        return lineage_of(self.name)

    @property
    def is_main(self) -> bool:
        return self.name == layout.MAIN_BRANCH

    def may_be(self, other: Branch) -> bool:
        """Is it the other one, as far as both say who they are?"""
        unknown = self.identity is None or other.identity is None
        return self.name == other.name and (unknown or self.identity == other.identity)


MAIN = Branch(layout.MAIN_BRANCH)
