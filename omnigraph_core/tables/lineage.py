"""What two lineages of one dataset have in common: the versions before they parted.

Row ids, field ids and version numbers are handed out by each lineage for itself. Two tables
mean the same by one of them only if it was handed out before the lineages parted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from omnigraph_core.records import dataclass
from omnigraph_core.tables.columns import field_roots
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


def common_columns(
    tables: Tables, a: Table, b: Table, *, strictly: bool = False
) -> tuple[tuple[str, str], ...]:
    """Columns of `a` with what they are called in `b`: by field identity, or else by name.

    A column that was renamed, or widened, is what it was. One that was dropped and made again has
    its name only: `strictly`, it is another one. What both lineages made since they parted has
    nothing but its name to be told by.
    """
    ours, theirs = field_roots(a), field_roots(b)
    if ours == theirs:
        return tuple((name, name) for name in ours)
    if a.is_foreign or b.is_foreign:
        # The original writes a table anew to change its columns, and numbers them anew.
        return tuple((name, name) for name in ours if name in theirs)
    known = _roots_before(tables, a, b)
    by_root = {root: name for name, root in theirs.items() if root in known}
    pairs = {name: by_root[root] for name, root in ours.items() if root in by_root}
    left = theirs.keys() - set(pairs.values())
    if strictly:
        left = {name for name in left if theirs[name] not in known}
    for name, root in ours.items():
        if name not in pairs and name in left and not (strictly and root in known):
            pairs[name] = name
    return tuple((name, pairs[name]) for name in ours if name in pairs)


def lasting_root(tables: Tables, table: Table, other: Table, name: str) -> int | None:
    """The first id of a column of `other`, if it means the same in `table`."""
    root = field_roots(other)[name]
    return root if root in _roots_before(tables, other, table) else None


def keep_their_values(
    tables: Tables, a: Table, b: Table, pairs: Iterable[tuple[str | None, str | None]]
) -> bool:
    """Has a row that nobody wrote since the lineages parted the same in each pair of columns?

    It has if both are a column from before, or if both were made since, without values. Of a column
    that only one of them has, nobody can tell.
    """
    ours, theirs = _fields(a), _fields(b)
    known = set(_before(tables, a, b, _fields).values())
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


def _roots_before(tables: Tables, a: Table, b: Table) -> set[int]:
    """The first ids of columns that mean the same in both: those made before the lineages parted."""
    return set(_before(tables, a, b, field_roots).values())


def _before(tables: Tables, a: Table, b: Table, of: Callable[[Table], dict[str, int]]) -> dict[str, int]:
    """The columns with ids that were handed out before the lineages parted; none if nobody can tell."""
    if a.ref.branch == b.ref.branch:
        return of(a)
    parted = parting(tables, a, b)
    names = _names(tables, a)
    if not parted.version or parted.depth >= len(names):
        return {}
    try:
        return of(tables.open(a.ref.on(names[parted.depth]), parted.version))
    except VersionNotFound:
        return {}


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
