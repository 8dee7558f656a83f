"""Levelling: rows that were written in versions nobody can read any more need not be told apart.

Lance keeps for every row in which version it was created and last updated, as runs in the manifest of
every version. Where each commit writes one row that is 22 bytes a row, written anew with every commit:
the cost of a write grows with history. So a compaction raises the versions of such rows to the
oldest version on disk that has the row as it is.

Comparisons stay right. The raised version is not above the one that is compacted, so two rows with the
same row id and the same version of their last update have seen the same updates, raised or not.
Blame finds the oldest state that has the row, and says that nobody can tell what was before.
A row that was ever replaced still says so (`indexes.py` asks).
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from omnigraph_core.tables.limits import LEVELLED_ROWS_MIN, ROW_VERSION_RUNS_MAX
from omnigraph_core.tables.wire import encoded, encoded_varint, fields, varint

Run = tuple[int, int]
"""So many rows in a row, and the version they have."""
_Pair = tuple[int, int, int]
"""So many rows, the version they were created in, and that of their last update."""

_SPAN, _VERSION = 1, 2  # Fields of a run.
_RANGE = 1  # A span that is a range; the others are never written for versions.
_START, _END = 1, 2  # Fields of a range.
_RUN = 1  # The field of a sequence.
_LENGTH, _NUMBER = 2, 0  # Wire types.


def level(fragments: Sequence[Any], versions: Collection[int]) -> Sequence[Any]:
    """New fragments, given fewer different row versions; `versions` are those on disk.

    Whatever is not understood stays as it is, and so do long runs: a row keeps its level, so
    that it need not be read when a later state is compared with this one.
    """
    ordered = sorted(versions)
    for fragment in fragments if ordered else ():
        pairs = _pairs(fragment)
        if pairs is not None and len(pairs) > ROW_VERSION_RUNS_MAX:
            levelled = [_levelled(pair, ordered) for pair in pairs]
            fragment.created_at_version_meta = _meta((rows, created) for rows, created, _ in levelled)
            fragment.last_updated_at_version_meta = _meta((rows, updated) for rows, _, updated in levelled)
    return fragments


def _levelled(pair: _Pair, ordered: Sequence[int]) -> _Pair:
    rows, created, updated = pair
    at = bisect_left(ordered, updated)
    if rows >= LEVELLED_ROWS_MIN or at == len(ordered):
        return pair
    level = ordered[at]
    if created == updated:
        return rows, level, level
    return rows, min(ordered[bisect_left(ordered, created)], level - 1), level


def _pairs(fragment: Any) -> list[_Pair] | None:
    """Both versions of all rows of a fragment, in order; None if they cannot be told."""
    created, updated = _runs(fragment.created_at_version_meta), _runs(fragment.last_updated_at_version_meta)
    expected = fragment.physical_rows
    if any(runs is None or sum(rows for rows, _ in runs) != expected for runs in (created, updated)):
        return None
    return list(_zipped(created or [], updated or []))


def _zipped(created: Sequence[Run], updated: Sequence[Run]) -> Iterator[_Pair]:
    left = [list(run) for run in created]
    at = 0
    for rows, version in updated:
        while rows:
            taken = min(rows, left[at][0])
            yield taken, left[at][1], version
            rows -= taken
            left[at][0] -= taken
            at += not left[at][0]


def _runs(meta: Any) -> list[Run] | None:
    """What a sequence says; None if it is not there, in a file, or of another kind."""
    if meta is None:
        return None
    inline = json.loads(meta.json()).get("inline")
    try:
        return None if inline is None else [_run(run) for _, _, run in fields(bytes(inline))]
    except (ValueError, IndexError, KeyError):
        return None


def _run(message: bytes) -> Run:
    parts = {number: payload for number, _, payload in fields(message)}
    span = {number: payload for number, _, payload in fields(parts[_SPAN])}
    ends = {number: varint(payload, 0)[0] for number, _, payload in fields(span[_RANGE])}
    if ends.get(_START):
        raise ValueError("a span that does not start at 0")
    return ends[_END], varint(parts[_VERSION], 0)[0]


def _meta(runs: Iterable[Run]) -> Any:
    """Neighbours of one version become one run."""
    from lance.fragment import RowDatasetVersionMeta

    content = b"".join(
        _encoded_run(sum(rows for rows, _ in group), version)
        for version, group in groupby(runs, key=lambda run: run[1])
    )
    return RowDatasetVersionMeta.from_json(json.dumps({"inline": list(content)}))


def _encoded_run(rows: int, version: int) -> bytes:
    span = encoded((_RANGE, _LENGTH, encoded((_END, _NUMBER, encoded_varint(rows)))))
    run = encoded((_SPAN, _LENGTH, span)) + encoded((_VERSION, _NUMBER, encoded_varint(version)))
    return encoded((_RUN, _LENGTH, run))
