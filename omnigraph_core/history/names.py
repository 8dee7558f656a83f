"""The names of branches that were given another one: `__names.json`.

A branch is a line of versions in every dataset, which Lance calls by the name it was made with, and
cannot call otherwise. So a rename changes what people call it, and nothing else: the line keeps
its name, and with it identity, history, locks, forks and those made from it. The record has one
entry per line whose branch is called otherwise. It is replaced by its e-tag, under the refs lock.

An entry counts for the branch whose identity it has. A line that was made only because its
branch's name is another line's has a name of its own that is never used again, and no identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph_core import layout
from omnigraph_core.errors import StorageError
from omnigraph_core.fields import Fields
from omnigraph_core.history.sealed import seal, unseal
from omnigraph_core.manifest.branch import Branch, branch_name
from omnigraph_core.records import dataclass
from omnigraph_core.storage import ControlStore

_VERSION = 1


class NamesDamaged(StorageError):
    """Nobody can tell which branch is meant by a name."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{layout.NAMES_RECORD} cannot be read: {reason}",
            hint="restore it from a backup; without it, renamed branches go by their first names",
        )

    def details(self) -> Mapping[str, object]:
        return {"path": layout.NAMES_RECORD}


@dataclass(frozen=True, slots=True)
class NameEntry:
    """What the branch of one line is called."""

    lineage: str
    identity: str | None
    name: str
    revision: str
    """The operation that gave it the name."""

    def is_of(self, branch: Branch) -> bool:
        """As far as both say who they are."""
        unknown = self.identity is None or branch.identity is None
        return self.lineage == branch.name and (unknown or self.identity == branch.identity)


@dataclass(frozen=True, slots=True)
class BranchNames:
    """The record as it was read; without an e-tag there is none."""

    entries: tuple[NameEntry, ...] = ()
    e_tag: str | None = None

    def of(self, branch: Branch) -> str:
        """What a branch is called."""
        found = self.entry(branch)
        return branch.name if found is None else found.name

    def entry(self, branch: Branch) -> NameEntry | None:
        return next((each for each in self.entries if each.is_of(branch)), None)

    def lines(self, name: str) -> list[str]:
        """Where a branch that is called so may be: nowhere else than here."""
        return [*(each.lineage for each in self.entries if each.name == name), name]


def read_names(control: ControlStore) -> BranchNames:
    found = control.get(layout.NAMES_RECORD)
    if found is None:
        return BranchNames()
    try:
        return BranchNames(tuple(_entries(unseal(found.data, _VERSION))), found.e_tag)
    except ValueError as error:
        raise NamesDamaged(str(error)) from error


def write_names(control: ControlStore, entries: Sequence[NameEntry], known: BranchNames) -> None:
    """Replace the record that was read; `ObjectChanged` or `ObjectExists` if it is another by now."""
    content = {
        "schema_version": _VERSION,
        "branches": [
            {
                "lineage": each.lineage,
                "identity": each.identity,
                "name": each.name,
                "revision": each.revision,
            }
            for each in entries
        ],
    }
    if known.e_tag is None:
        control.create(layout.NAMES_RECORD, seal(content))
    else:
        control.replace(layout.NAMES_RECORD, seal(content), known.e_tag)


def _entries(content: Fields) -> list[NameEntry]:
    found = [_entry(each) for each in content.objects("branches")]
    content.end()
    if len({each.lineage for each in found}) != len(found):
        raise ValueError("a line has two names")
    return found


def _entry(each: Fields) -> NameEntry:
    entry = NameEntry(
        lineage=branch_name(each, "lineage"),
        identity=each.optional_text("identity"),
        name=branch_name(each, "name"),
        revision=each.text("revision"),
    )
    each.end()
    return entry
