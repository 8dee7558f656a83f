"""What grows with history rather than with data: versions on disk, and rows of the manifest."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, warning
from omnigraph_core.maintenance.limits import FRAGMENTS_MANY, SUPERSEDED_ROWS_MANY, VERSIONS_MANY
from omnigraph_core.tables.refs import TableRef

_FIX = "omnigraph maintain"


def check_growth(seen: Examination) -> Iterator[Finding]:
    for place in seen.places:
        for branch, times in place.times.items():
            where = _where(place.ref, branch)
            if len(times.written) > VERSIONS_MANY:
                yield warning("versions", where, f"{len(times.written):,} versions", _FIX)
            if place.is_control and times.written:
                fragments = seen.open_log(place.ref.on(branch)).count_fragments()
                if fragments > FRAGMENTS_MANY:
                    yield warning("fragments", where, f"{fragments:,} fragments", _FIX)
    for name, head in seen.heads.items():
        rows = seen.manifest.open_for_read(name).count_rows()
        superseded = rows - 2 * len(head.tables)
        if superseded > SUPERSEDED_ROWS_MANY:
            text = f"{superseded:,} rows of its manifest are superseded"
            yield warning("superseded-rows", name, text, _FIX)


def _where(ref: TableRef, branch: str | None) -> str:
    return ref.key if branch is None else f"{ref.key} on {branch}"
