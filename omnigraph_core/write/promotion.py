"""The schema files in the root: a projection of main's head, made after the publish that changed it.

The head row's hash is what readers and writers go by. The files follow while the lock of main is
still held, and before the sidecar goes; after a crash recovery puts them in place, or, where there
is no sidecar to do it from, the next read-write open.
"""

from __future__ import annotations

from omnigraph_core import layout
from omnigraph_core.catalog.files import (
    Catalog,
    is_outstanding,
    project_schema,
    published_catalog,
    schema_at,
)
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.storage import ControlStore
from omnigraph_core.tables.commit import Guard
from omnigraph_core.write.sidecar_record import Sidecar


def promote_schema(control: ControlStore, sidecar: Sidecar, guard: Guard) -> None:
    """Put the files of a published change of main's schema in place; doing it again changes nothing."""
    if sidecar.schema is None or sidecar.branch != layout.MAIN_BRANCH:
        return
    accepted = sidecar.schema.schema_hash
    catalog = Catalog(schema_at(control, accepted), accepted, sidecar.schema.source)
    project_schema(control, catalog, guard)


def promotion_is_outstanding(manifest: Manifest) -> bool:
    """Do the files in the root tell of another schema than main's head?"""
    head = manifest.snapshot(layout.MAIN_BRANCH).head
    return head is not None and is_outstanding(manifest.tables.storage.control, head.schema_hash)


def promote_head(manifest: Manifest, guard: Guard) -> None:
    """The same without a sidecar, under the lock of main: the source text may be lost, its meaning is not."""
    control = manifest.tables.storage.control
    head = manifest.snapshot(layout.MAIN_BRANCH).head
    if head is not None and is_outstanding(control, head.schema_hash):
        project_schema(control, published_catalog(control, head.schema_hash), guard)
