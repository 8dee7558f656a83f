"""What two lineages of one dataset have in common: the versions before they parted.

Row ids, field ids and version numbers are handed out by each lineage for itself. Two tables
mean the same by one of them only if it was handed out before the lineages parted.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import VersionNotFound
from omnigraph_core.tables.fork_refs import read_fork


@dataclass(frozen=True, slots=True)
class Parting:
    """The last version that both have: its number, and how many forks lead to the lineage it is on."""

    version: int
    depth: int


def parting(tables: Tables, a: Table, b: Table) -> Parting:
    """The newest version that both descend from (or are); version 0 if nobody can tell any more."""
    one, other = _line(tables, a), _line(tables, b)
    found = Parting(0, 0)
    for depth, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine[0] != theirs[0]:
            break
        found = Parting(min(mine[1], theirs[1]), depth)
    return found


def _line(tables: Tables, table: Table) -> list[tuple[str, int]]:
    """Each lineage it descends from, by identity, with the version up to which it does; main first."""
    branch = table.ref.branch
    if branch is None:
        return [("", table.version)]
    fork = read_fork(tables, table.ref, branch)
    if fork is None:
        return []
    identities = ("", *fork.ancestors, fork.identity)
    return list(zip(identities, (*fork.forked_at, table.version), strict=True))


def common_columns(tables: Tables, a: Table, b: Table) -> tuple[tuple[str, str], ...]:
    """Columns of `a` with what they are called in `b`: by field identity, or else by name.

    A column that was renamed keeps its field id. One whose type was widened, or that was dropped
    and made again, has another and keeps its name.
    """
    ours, theirs = _fields(a), _fields(b)
    if ours == theirs:
        return tuple((name, name) for name in ours)
    known = _ids_before(tables, a, b)
    by_id = {id_: name for name, id_ in theirs.items() if id_ in known}
    pairs = {name: by_id[id_] for name, id_ in ours.items() if id_ in by_id}
    left = theirs.keys() - set(pairs.values())
    pairs |= {name: name for name in ours if name not in pairs and name in left}
    return tuple((name, pairs[name]) for name in ours if name in pairs)


def keep_their_values(
    tables: Tables, a: Table, b: Table, pairs: Iterable[tuple[str | None, str | None]]
) -> bool:
    """Has a row that nobody wrote since the lineages parted the same in each pair of columns?

    It has if both are a column from before, or if both were made since, without values. Of a column
    that only one of them has, nobody can tell.
    """
    ours, theirs = _fields(a), _fields(b)
    known = _ids_before(tables, a, b)
    if not known:
        return False
    found = []
    for was, now in pairs:
        if was is None or now is None:
            return False
        found.append((ours[was], theirs[now]))
    return all(one == other if {one, other} & known else True for one, other in found)


def _fields(table: Table) -> dict[str, int]:
    return {field.name(): field.id() for field in table.lance.lance_schema.fields()}


def _ids_before(tables: Tables, a: Table, b: Table) -> set[int]:
    """The field ids that mean the same in both: those handed out before the lineages parted."""
    if a.ref.branch == b.ref.branch:
        return set(_fields(a).values())
    parted = parting(tables, a, b)
    names = _names(tables, a)
    if not parted.version or parted.depth >= len(names):
        return set()
    try:
        return set(_fields(tables.open(a.ref.on(names[parted.depth]), parted.version)).values())
    except VersionNotFound:
        return set()


def _names(tables: Tables, table: Table) -> list[str | None]:
    """The branches it descends from, main first and its own last; none if one of them is gone."""
    names, current = [table.ref.branch], table.ref.branch
    while current is not None:
        fork = read_fork(tables, table.ref, current)
        if fork is None:
            return []
        current = fork.parent
        names.append(current)
    return names[::-1]
