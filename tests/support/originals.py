"""Graphs that the Rust original 0.6.2 made, with what it answered about them (`tests/originals`)."""

from __future__ import annotations

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.relocation import relocate_forks

PLACE = Path(__file__).parent.parent / "originals"
NAMES = sorted(path.name.removesuffix(".tar.gz") for path in PLACE.glob("*.tar.gz"))
SETTINGS = Settings(fsync=False, actor="ann")


@cache
def said(name: str) -> dict[str, Any]:
    """What the original said about a graph."""
    content: dict[str, Any] = json.loads((PLACE / f"{name}.json").read_text())
    return content


def unpack(name: str, into: Path) -> Path:
    """A graph as it is after a move: it was made elsewhere."""
    with tarfile.open(PLACE / f"{name}.tar.gz") as archive:
        archive.extractall(into, filter="data")
    return into / f"{name}.omni"


def unpack_in_place(name: str, into: Path) -> Path:
    """The same as if the original had made it here: its forks refer to this place."""
    root = unpack(name, into)
    tables = Tables(open_storage(parse_location(str(root), into), SETTINGS))
    for path in (layout.MANIFEST, layout.COMMITS, *datasets(root)):
        relocate_forks(tables, TableRef(path, path), unguarded)
    return root


def datasets(root: Path) -> list[str]:
    """The places of the tables."""
    return [f"{kind}/{each.name}" for kind in ("nodes", "edges") for each in sorted((root / kind).iterdir())]


def tree(root: Path) -> dict[str, bytes | None]:
    """Everything below a directory; directories too."""
    found = {str(path.relative_to(root)): path for path in root.rglob("*")}
    return {name: path.read_bytes() if path.is_file() else None for name, path in sorted(found.items())}


def exported(graph: Graph, branch: str | None = None, ref: str | None = None) -> list[Any]:
    blocks = graph.export(ref, branch=branch or layout.MAIN_BRANCH)
    return in_order(json.loads(line) for line in b"".join(blocks).splitlines())


def in_order(records: Any) -> list[Any]:
    return sorted(records, key=lambda each: json.dumps(each, sort_keys=True))


def commits(graph: Graph, branch: str) -> dict[str, dict[str, Any]]:
    """The commits that a branch descends from, as the original lists them."""
    return {
        each.commit_id: {
            "graph_commit_id": each.commit_id,
            "manifest_branch": each.on.lineage,
            "manifest_version": each.manifest_version,
            "parent_commit_id": each.parent_commit_id,
            "merged_parent_commit_id": each.merged_parent_commit_id,
            "actor_id": each.actor_id,
            "created_at": each.created_at,
        }
        for each in graph.commits(branch).commits
        if each.operation is None
    }
