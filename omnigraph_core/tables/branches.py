"""Lance branches of one dataset ("forks"): create, list, delete, and what a crash leaves of them.

Lance keeps a fork in two places: its files under `tree/<name>`, and a ref file that
makes it exist. Create writes the tree first, delete removes the ref first, so a tree
without a ref is garbage of a crash, and a ref with a torn body never came to be.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from omnigraph_core import faults
from omnigraph_core.errors import ConflictError, NotFoundError, RefusedError
from omnigraph_core.jsontext import parse_json
from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.refs import TableRef

# Where Lance keeps the files of a lineage; `_indices` holds only directories.
_TREE_FOLDERS = ("_versions", "_transactions", "data", "_deletions")


@dataclass(frozen=True, slots=True)
class Fork:
    """A live Lance branch. `identity` tells two branches apart that used the same name."""

    name: str
    parent: str | None
    parent_version: int
    identity: str


class ForkExists(ConflictError):
    """The dataset already has a branch of this name."""


def list_forks(tables: Tables, ref: TableRef) -> dict[str, Fork]:
    """All live branches of the dataset, by name; read from the ref files, without Lance."""
    directory = _refs_directory(ref)
    forks: dict[str, Fork] = {}
    for file_name in sorted(tables.storage.control.list(directory)):
        if not file_name.endswith(".json"):
            continue
        fork = read_fork(tables, ref, unquote(file_name.removesuffix(".json")))
        if fork is not None:
            forks[fork.name] = fork
    return forks


def read_fork(tables: Tables, ref: TableRef, name: str) -> Fork | None:
    """The branch `name`, or None if there is none (a torn ref file counts as none)."""
    found = tables.storage.control.get(_ref_file(ref, name))
    if found is None:
        return None
    try:
        body = parse_json(found.data)
        return Fork(
            name=name,
            parent=body["parentBranch"],
            parent_version=int(body["parentVersion"]),
            identity=str(body["identifier"]["version_mapping"][-1][1]),
        )
    except (ValueError, KeyError, IndexError, TypeError):
        return None


def create_fork(tables: Tables, source: TableRef, name: str, version: int) -> Table:
    """Fork `source` at `version` under `name`; leftovers of a crashed create are cleared first."""
    if read_fork(tables, source, name) is not None:
        raise ForkExists(f"table '{source.key}' already has a branch '{name}'")
    _clear_leftovers(tables, source, name)
    base = tables.open(source, version)
    with lance_failures(source, f"creating branch '{name}' of"):
        base.lance.create_branch(name, (source.branch or "main", version))
    faults.hit("tables.fork_created")
    return tables.open(source.on(name))


def delete_fork(tables: Tables, ref: TableRef, name: str) -> None:
    """Remove the branch, ref first; finishing a half-done delete is not an error."""
    control = tables.storage.control
    fork = read_fork(tables, ref, name)
    if fork is None and control.get(_ref_file(ref, name)) is None and not _has_tree(tables, ref, name):
        raise NotFoundError(f"table '{ref.key}' has no branch '{name}'")
    children = [other.name for other in list_forks(tables, ref).values() if other.parent == name]
    if children:
        raise RefusedError(
            f"branch '{name}' of table '{ref.key}' has branches of its own: {', '.join(children)}",
            hint="delete those first",
        )
    _refuse_shared_directory(tables, ref, name)
    control.delete(_ref_file(ref, name))
    faults.hit("tables.fork_ref_deleted")
    control.delete_prefix(ref.on(name).directory)


def _clear_leftovers(tables: Tables, ref: TableRef, name: str) -> None:
    """Remove a tree without a (readable) ref, as a crash of create or delete leaves it."""
    _refuse_shared_directory(tables, ref, name)
    tables.storage.control.delete(_ref_file(ref, name))
    tables.storage.control.delete_prefix(ref.on(name).directory)


def _refuse_shared_directory(tables: Tables, ref: TableRef, name: str) -> None:
    """`a` and `a/b` share a directory, so clearing one would destroy the other."""
    for other in list_forks(tables, ref):
        if other.startswith(name + "/") or name.startswith(other + "/"):
            raise RefusedError(
                f"branch '{name}' overlaps with the live branch '{other}' of table '{ref.key}'",
                hint="branch names must not be path prefixes of each other",
            )


def _has_tree(tables: Tables, ref: TableRef, name: str) -> bool:
    """Is any file left? A killed delete removes them in any order, manifests first or last."""
    directory = ref.on(name).directory
    return any(tables.storage.control.list(f"{directory}/{folder}") for folder in _TREE_FOLDERS)


def _refs_directory(ref: TableRef) -> str:
    return f"{ref.path}/_refs/branches"


def _ref_file(ref: TableRef, name: str) -> str:
    return f"{_refs_directory(ref)}/{quote(name, safe='')}.json"
