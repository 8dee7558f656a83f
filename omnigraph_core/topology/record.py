"""What is known of a topology index: its files, and the fragments of the tables it was made from.

One record is one index of a graph: the ids of its node types, and the edge types between them. A node is
its position in the list of ids that the record names, so arrays of two records are never mixed. The
record is written last: what it names is there, whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from omnigraph_core.jsontext import parse_json
from omnigraph_core.records import dataclass
from omnigraph_core.tables.physical import Stretch

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The name of a file beside the record, and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class StoredStretch:
    """A fragment that was read: its data files, its rows with the deleted ones, and what listed those."""

    file: str
    rows: int
    deletion: str | None

    @property
    def known_by(self) -> tuple[str, int]:
        return self.file, self.rows


@dataclass(frozen=True, slots=True)
class StoredNodes:
    """The ids of one node type."""

    path: str
    stretches: tuple[StoredStretch, ...]
    count: int
    ids: StoredFile

    @property
    def files(self) -> tuple[StoredFile, ...]:
        return (self.ids,)


@dataclass(frozen=True, slots=True)
class StoredEdges:
    """The edges of one type; `near` and `far` are the paths of the tables that `from` and `to` lead to."""

    path: str
    near: str
    far: str
    stretches: tuple[StoredStretch, ...]
    dangling: int
    """Edges that were left out, because an end of theirs was no node."""
    out: StoredFile
    into: StoredFile
    ends: StoredFile

    @property
    def files(self) -> tuple[StoredFile, ...]:
        return (self.out, self.into, self.ends)


@dataclass(frozen=True, slots=True)
class TopologyRecord:
    """One index. Its name tells when it was begun: it is a ULID."""

    name: str
    nodes: Mapping[str, StoredNodes] = field(default_factory=dict)
    edges: Mapping[str, StoredEdges] = field(default_factory=dict)

    def part(self, path: str) -> StoredNodes | StoredEdges | None:
        """What there is of the table at a path."""
        return self.nodes.get(path) or self.edges.get(path)

    @property
    def parts(self) -> tuple[StoredNodes | StoredEdges, ...]:
        return (*self.nodes.values(), *self.edges.values())

    @property
    def file_names(self) -> frozenset[str]:
        return frozenset(file.name for part in self.parts for file in part.files)

    def to_json(self) -> bytes:
        text = {
            "format": _FORMAT,
            "nodes": [[each.path, _listed(each), each.count, _sizes(each)] for each in self.nodes.values()],
            "edges": [
                [each.path, each.near, each.far, _listed(each), each.dangling, _sizes(each)]
                for each in self.edges.values()
            ],
        }
        return json.dumps(text, separators=(",", ":")).encode()


def stored_stretches(stretches: Iterable[Stretch]) -> tuple[StoredStretch, ...]:
    return tuple(StoredStretch(each.file, each.rows, each.deletion) for each in stretches)


def record_from(name: str, data: bytes) -> TopologyRecord | None:
    """The record; None if it is none that this program can read, which is as good as no index."""
    try:
        text = parse_json(data)
        if text["format"] != _FORMAT:
            return None
        nodes = [_nodes(*each) for each in text["nodes"]]
        edges = [_edges(*each) for each in text["edges"]]
    except (KeyError, TypeError, ValueError):
        return None
    return TopologyRecord(name, {each.path: each for each in nodes}, {each.path: each for each in edges})


def _nodes(path: str, listed: Any, count: int, files: Any) -> StoredNodes:
    (ids,) = _files(files)
    return StoredNodes(_text(path), _stretches(listed), _number(count), ids)


def _edges(path: str, near: str, far: str, listed: Any, dangling: int, files: Any) -> StoredEdges:
    out, into, ends = _files(files)
    return StoredEdges(
        _text(path), _text(near), _text(far), _stretches(listed), _number(dangling), out, into, ends
    )


def _listed(part: StoredNodes | StoredEdges) -> list[list[object]]:
    return [[each.file, each.rows, each.deletion] for each in part.stretches]


def _sizes(part: StoredNodes | StoredEdges) -> list[list[object]]:
    return [[each.name, each.size] for each in part.files]


def _stretches(listed: Any) -> tuple[StoredStretch, ...]:
    return tuple(
        StoredStretch(_text(file), _number(rows), None if deletion is None else _text(deletion))
        for file, rows, deletion in listed
    )


def _files(listed: Any) -> list[StoredFile]:
    """Names of files beside the record, not paths that lead elsewhere."""
    files = [StoredFile(_text(name), _number(size)) for name, size in listed]
    if any("/" in each.name or each.name.startswith(".") for each in files):
        raise ValueError("not a name")
    return files


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise ValueError("not a number")
    return value
