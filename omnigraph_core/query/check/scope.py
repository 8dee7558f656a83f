"""Which variables are bound at a point of a match, and to what."""

from __future__ import annotations

from itertools import count

from omnigraph_core.query.check.setting import Setting
from omnigraph_core.query.errors import QueryTypeError
from omnigraph_core.query.syntax import Variable
from omnigraph_core.schema import EdgeType, NodeType


class Scope:
    """Variables in order of appearance; grows as the clauses of a match are checked.

    A negation gets a scope inside: it sees the variables around it, what it binds
    itself stays inside, and `outer_used` says which of those around it it spoke of.
    """

    __slots__ = ("_around", "_numbers", "_outer", "edges", "nodes", "outer_used", "setting")

    def __init__(self, setting: Setting, around: Scope | None = None) -> None:
        self.setting = setting
        self.nodes: dict[str, NodeType] = {} if around is None else dict(around.nodes)
        self.edges: dict[str, EdgeType] = {} if around is None else dict(around.edges)
        self.outer_used: dict[str, None] = {}
        self._around = around
        self._outer = frozenset(self.nodes) | frozenset(self.edges)
        self._numbers: count[int] = count(1) if around is None else around._numbers

    def inside(self) -> Scope:
        return Scope(self.setting, self)

    def name_of(self, variable: Variable) -> str:
        """The name to bind under; each `$_` gets one that nobody can write."""
        return f"#{next(self._numbers)}" if variable.is_anonymous else variable.name

    def find_node(self, variable: Variable) -> NodeType | None:
        self._note(variable.name)
        return self.nodes.get(variable.name)

    def find_edge(self, variable: Variable) -> EdgeType | None:
        self._note(variable.name)
        return self.edges.get(variable.name)

    def check_can_be_node(self, variable: Variable) -> None:
        """A variable of another kind cannot also be a node."""
        if variable.name in self.edges:
            reason = f"edge variable `{variable}` cannot be used as a node"
            raise self.setting.error(variable.span, "T23", reason)
        if variable.name in self.setting.parameters:
            reason = f"`{variable}` is a parameter and cannot be bound to a node"
            raise self.setting.error(variable.span, None, reason)

    def not_bound(self, variable: Variable, code: str | None = None) -> QueryTypeError:
        names = ", ".join(
            f"${name}" for name in (*self.nodes, *self.edges, *self.setting.parameters) if name[0] != "#"
        )
        reason = f"variable `{variable}` is not bound"
        return self.setting.error(variable.span, code, reason, hint=f"bound here are: {names or 'none'}")

    def _note(self, name: str) -> None:
        if name in self._outer:
            self.outer_used[name] = None
        if self._around is not None:
            self._around._note(name)
