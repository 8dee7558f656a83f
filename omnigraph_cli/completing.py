"""Names for the shell to complete: branches, tags, commits, types, queries.

A person waits for the answer at every Tab, so nothing here imports a data library: a few small files
are read, and whatever goes wrong means that there is nothing to offer. What is offered is only a
proposal; the command looks it up properly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from omnigraph_cli.addressing import find_graph
from omnigraph_cli.limits import SHORT_ID_CHARACTERS

if TYPE_CHECKING:
    from omnigraph_core.storage import Storage

_COMMIT_FILES_MAX = 40
_COMMIT_ID = re.compile(rb"01[0-9A-HJKMNP-TV-Z]{24}")
_QUERY = re.compile(r"^\s*query\s+(\w+)", re.MULTILINE)


def complete_branch(incomplete: str) -> list[str]:
    return _offered(incomplete, branch_names)


def complete_other_branch(incomplete: str) -> list[str]:
    """Branches that can be deleted, renamed or brought back: not main."""
    from omnigraph_core import layout

    return [name for name in complete_branch(incomplete) if name != layout.MAIN_BRANCH]


def complete_tag(incomplete: str) -> list[str]:
    return _offered(incomplete, _tag_names)


def complete_ref(incomplete: str) -> list[str]:
    """Branches, tags as `tag:NAME`, and the ends of the ids of recent commits."""
    found = complete_branch(incomplete)
    found += _offered(incomplete, lambda storage: [f"tag:{name}" for name in _tag_names(storage)])
    return found + _offered(incomplete, _recent_commits)


def complete_type(incomplete: str) -> list[str]:
    return _offered(incomplete, _type_names)


def complete_query(ctx: object, incomplete: str) -> list[str]:
    """The queries of the file that the command line names."""
    try:
        with open(str(getattr(ctx, "params", {})["query"]), encoding="utf-8") as file:
            names = _QUERY.findall(file.read(1 << 20))
    except Exception:
        return []
    return [name for name in names if name.startswith(incomplete)]


def one_of(*values: str) -> Callable[[str], list[str]]:
    """Completion of an option that takes one of a few words."""

    def complete(incomplete: str) -> list[str]:
        return [each for each in values if each.startswith(incomplete)]

    return complete


def _offered(incomplete: str, names: Callable[[Storage], Iterable[str]]) -> list[str]:
    try:
        from omnigraph_core.settings import load_settings
        from omnigraph_core.storage import open_storage, parse_location

        settings = load_settings()
        location = parse_location(find_graph(None, settings).place, settings.working_directory)
        if not location.is_local:  # nobody waits for a network at a Tab
            return []
        return [name for name in names(open_storage(location, settings)) if name.startswith(incomplete)]
    except Exception:
        return []


def branch_names(storage: Storage) -> list[str]:
    from omnigraph_core import layout
    from omnigraph_core.history.names import read_names
    from omnigraph_core.manifest.branch import Branch
    from omnigraph_core.manifest.reader import manifest_ref
    from omnigraph_core.tables.dataset import Tables
    from omnigraph_core.tables.fork_refs import list_forks

    forks = list_forks(Tables(storage), manifest_ref(layout.MAIN_BRANCH))
    names = read_names(storage.control)
    called = {names.of(Branch(each.name, each.identity)) for each in forks.values()}
    return [layout.MAIN_BRANCH, *sorted(called - {layout.SCHEMA_LOCK_BRANCH})]


def _tag_names(storage: Storage) -> list[str]:
    from omnigraph_core.history.tags import tag_names

    return tag_names(storage.control)


def _type_names(storage: Storage) -> list[str]:
    from omnigraph_core import layout

    found = storage.control.get(layout.SCHEMA_COMPILED)
    content = json.loads(found.data) if found is not None else {"nodes": [], "edges": []}
    return sorted({each["name"] for kind in ("nodes", "edges") for each in content[kind]})


def _recent_commits(storage: Storage) -> list[str]:
    """What looks like a commit id in the newest files of the commit log, newest first.

    Reading them properly would take Lance, and that a second. Parents stand there, too: also commits.
    """
    from omnigraph_core import layout

    folder = storage.location.path / layout.COMMITS / "data"
    newest = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    found: set[bytes] = set()
    for path in newest[:_COMMIT_FILES_MAX]:
        with path.open("rb") as file:
            found.update(_COMMIT_ID.findall(file.read(1 << 20)))
    named = sorted((each for each in found if not each.isdigit()), reverse=True)  # file names are digits
    return [each.decode()[-SHORT_ID_CHARACTERS:] for each in named]
