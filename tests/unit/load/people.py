"""A schema for inputs, and the names that are read of them."""

from __future__ import annotations

from omnigraph_core.load.inputs import Input, read_inputs
from omnigraph_core.rules.violations import Violations
from omnigraph_core.schema import compile_schema

SCHEMA = compile_schema("""
node Person { name: String @key  age: I32? }
node Both { name: String @key }
edge Knows: Person -> Person
edge Both: Person -> Person
""")


def names(inputs: list[Input]) -> list[str]:
    found = Violations()
    rows = [
        name for piece in read_inputs(inputs, SCHEMA, found) for name in piece.rows.column("name").to_pylist()
    ]
    found.raise_if_any()
    return rows
