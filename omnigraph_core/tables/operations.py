"""What a version of a table did to its rows, told by its transaction."""

from __future__ import annotations

from typing import Any

from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import lance_failures


def keeps_rows(tables: Tables, head: Table, version: int) -> bool:
    """Did this version only lay the same rows out anew, or nothing at all?

    A compaction does the former. It also reserves fragment ids, in a version of its own whose
    operation pylance does not name: one that leaves fragments and columns as they were.
    """
    from lance.dataset import LanceOperation

    operation = head.transaction(version).operation
    if type(operation) is LanceOperation.BaseOperation:
        return _content(tables.open(head.ref, version)) == _content(tables.open(head.ref, version - 1))
    return isinstance(operation, LanceOperation.Rewrite)


def operation_name(head: Table, version: int) -> str:
    """What Lance calls the operation. pylance does not name the one that reserves fragment ids."""
    name = type(head.transaction(version).operation).__name__
    return "ReserveFragments" if name == "BaseOperation" else name


def _content(table: Table) -> tuple[Any, list[Any]]:
    with lance_failures(table.ref, "reading the fragments of"):
        return table.schema, [fragment.metadata.to_json() for fragment in table.lance.get_fragments()]
