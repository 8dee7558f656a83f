"""What a query matched, as a picture has it: the nodes and edges behind the rows of its answer."""

from __future__ import annotations

from dataclasses import replace

from omnigraph_core.query.checked import CheckedRead, Column, Direction, EdgeTraversal, NodeUse
from omnigraph_core.read.answer.result import QueryResult
from omnigraph_core.records import dataclass

ROWS_MAX = 1000
"""Nobody sees anything in a picture of more."""
_PREFIX = "#drawn "


@dataclass(frozen=True, slots=True)
class DrawnNode:
    type_name: str
    node_id: str


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """`label` is the edge type, with the hops if there may be several; then it is a path, not an edge."""

    source: DrawnNode
    target: DrawnNode
    label: str
    is_path: bool = False
    is_directed: bool = True


@dataclass(frozen=True, slots=True)
class Picture:
    """In the order in which the rows name them; `is_cut` if there were more rows than are drawn."""

    title: str
    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]
    is_cut: bool = False


def drawing(read: CheckedRead) -> CheckedRead:
    """The read that also returns the id of every node of its match; for groups, that of their members."""
    ids = tuple(Column(_PREFIX + name, NodeUse(name, node), name) for name, node in read.variables)
    limit = ROWS_MAX + 1 if read.grouped or read.limit is None else min(read.limit, ROWS_MAX + 1)
    if read.grouped:
        return replace(read, columns=ids, grouped=False, order=(), ranking=None, limit=limit)
    return replace(read, columns=(*read.columns, *ids), limit=limit)


def drawn(read: CheckedRead, result: QueryResult) -> Picture:
    """The picture of an answer to `drawing(read)`."""
    types = {name: node.name for name, node in read.variables}
    traversals = [each for each in read.clauses if isinstance(each, EdgeTraversal)]
    nodes: dict[DrawnNode, None] = {}
    edges: dict[DrawnEdge, None] = {}
    table = result.to_arrow().select([_PREFIX + name for name in types])
    for row in table.slice(0, ROWS_MAX).to_pylist():
        found = {name: DrawnNode(type_, row[_PREFIX + name]) for name, type_ in types.items()}
        nodes.update(dict.fromkeys(found.values()))
        edges.update(dict.fromkeys(_edge(each, found) for each in traversals))
    return Picture(result.query_name, tuple(nodes), tuple(edges), table.num_rows > ROWS_MAX)


def _edge(traversal: EdgeTraversal, found: dict[str, DrawnNode]) -> DrawnEdge:
    ends = found[traversal.left], found[traversal.right]
    source, target = reversed(ends) if traversal.direction is Direction.BACKWARD else ends
    is_path = (traversal.min_hops, traversal.max_hops) != (1, 1)
    hops = f"{{{traversal.min_hops},{traversal.max_hops}}}" if is_path else ""
    directed = traversal.direction is not Direction.BOTH
    return DrawnEdge(source, target, traversal.edge.name + hops, is_path, directed)
