"""A writer for the tour: adds one person and one acquaintance in one commit, through the library.

usage: python tour_writer.py GRAPH BRANCH NAME
"""

from __future__ import annotations

import sys

import pyarrow as pa

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.settings import load_settings
from omnigraph_core.tables.stage import stage_upsert
from omnigraph_core.write.plan import WritePlan, WriterKind


def main(place: str, branch: str, name: str) -> None:
    settings = load_settings()
    graph = Graph.open(place, settings, OpenMode.READ_WRITE)
    rows = {
        "node:Person": {"id": name, "name": name, "age": None},
        "edge:Knows": {"id": f"{name}-{name}", "src": name, "dst": name, "since": None},
    }

    def build(base: Snapshot) -> WritePlan:
        operation_id = new_ulid()
        tables = []
        for key, row in rows.items():
            writable = graph.door.open_for_write(base, key)
            table = writable.table
            data = pa.Table.from_pylist([row], schema=table.schema)
            staged = stage_upsert(graph.door.storage, table, data, operation_id)
            tables.append(writable.planned(graph.door.storage, staged))
        return WritePlan(
            operation_id=operation_id,
            kind=WriterKind.MUTATION,
            base=base,
            actor=settings.default_actor,
            schema_hash=graph.catalog().schema_hash,
            tables=tables,
            message=f"add {name}",
        )

    published = graph.door.write(branch, build)
    sys.stdout.write(f"committed {published.commit_id}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
