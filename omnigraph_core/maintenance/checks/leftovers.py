"""What nothing refers to: forks without a branch, datasets that no branch had, files of no version.

A killed command may leave any of these, and cleanup removes them in time: they are notes while they
are young, and warnings when nobody seems to clean up. A branch or a table that is being made looks the
same; it is made under the refs lock, and is known when that is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import time

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, StorageError
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, attempt, counted_files, failed, note, warning
from omnigraph_core.maintenance.limits import UNREFERENCED_GRACE_S, VERSIONS_READ_MAX
from omnigraph_core.maintenance.lineages import Place
from omnigraph_core.tables.collect import VersionTimes, version_times
from omnigraph_core.tables.referenced import named_files, referenced_names
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.torn import is_torn
from omnigraph_core.write.sidecar import read_pending
from omnigraph_core.write.staging import read_record, staged_operations
from omnigraph_core.write.staging_record import listed_files

_FIX = "omnigraph maintain"


def check_leftovers(seen: Examination) -> Iterator[Finding]:
    places = seen.places
    for path, problem in seen.place_failures.items():
        yield failed("dataset-unreadable", path, problem)
    if seen.holder(layout.REFS_LOCK) is None:
        yield from _unknown(seen, places)
    if sum(len(times.written) for place in places for times in place.times.values()) <= VERSIONS_READ_MAX:
        yield from check_files(seen)
    else:
        text = f"more than {VERSIONS_READ_MAX:,} versions: only a deep look compares files with them"
        yield note("files-not-compared", ".", text)


def _unknown(seen: Examination, places: list[Place]) -> Iterator[Finding]:
    """The branches are read after the datasets, and after the lock was found free."""
    manifest = seen.manifest
    if not seen.knows_deleted:  # Any of them may be of a branch that was deleted.
        return
    live = {layout.MAIN_BRANCH, *(found.name for found in manifest.branch_refs())}
    names = live | {each.name for each in seen.deleted}
    known = {path for name in seen.heads if name in live for path in manifest.paths(name)}
    for each in seen.deleted:
        known |= manifest.paths_of(each.on).keys()
    for place in places:
        for name in sorted(set(place.refs) - names):
            text = f"a fork '{name}' that no branch has"
            yield _leftover("fork-left", place.path, text, _age_s(place, name))
        if not place.is_control and place.path not in known and not seen.head_failures:
            text = "no branch has or had this table"
            yield _leftover("dataset-left", place.path, text, _age_s(place, None))


def _leftover(code: str, where: str, text: str, age_s: float) -> Finding:
    return (warning if age_s > UNREFERENCED_GRACE_S else note)(code, where, text, _FIX)


def _age_s(place: Place, branch: str | None) -> float:
    times = place.times.get(branch)
    return time() - max(times.written.values(), default=0.0) if times is not None else 0.0


def check_files(seen: Examination) -> Iterator[Finding]:
    """Files of datasets that no version and no write under way refers to, counted per dataset."""
    spoken_for = _staged(seen)
    for place in seen.places:
        if place.path == layout.MANIFEST and not seen.knows_deleted:
            continue
        yield from attempt("dataset-unreadable", place.path, _files, seen, place, spoken_for)


def _staged(seen: Examination) -> set[str]:
    found = {
        file for sidecar in read_pending(seen.control) for table in sidecar.tables for file in _paths(table)
    }
    for operation_id in staged_operations(seen.storage):
        record = read_record(seen.storage, operation_id)
        if record is not None:
            found |= {*record.paths, *listed_files(seen.control, operation_id, record.lists)}
    return found


def _paths(table: object) -> list[str]:
    return [file.path for file in getattr(table, "files", ())]


def _files(seen: Examination, place: Place, spoken_for: set[str]) -> Iterator[Finding]:
    """The files are listed before the versions: what is committed meanwhile is referred to."""
    control = seen.control
    listed = control.list_prefix(place.path)
    times: dict[str | None, VersionTimes] = {**place.times, **_aside(seen, place)}
    lines = [place.ref.on(branch) for branch in times]
    files = {path: name for line in lines for path, name in named_files(listed, line).items()}
    known = {files[path] for path in spoken_for & files.keys()}
    for line in lines:
        for version in sorted(times[line.branch].written):
            known.update(_referenced(seen, line, version))
    left = [path for path, name in files.items() if name not in known]
    left = sorted([*left, *_of_no_line(place.ref, lines, listed)])
    if left:
        size = sum(control.size(path) or 0 for path in left)
        ages = [time() - _written_s(seen, path) for path in left]
        text = f"no version refers to {counted_files(left, size)}"
        yield _leftover("files-left", place.path, text, min(ages))


def _referenced(seen: Examination, ref: TableRef, version: int) -> list[str]:
    """What a version refers to: nothing if a power cut tore it, and the next writer sets it aside.

    Nor if it has gone since it was listed, by a cleanup or with its branch. A version that is needed
    is missed elsewhere.
    """
    try:
        return list(referenced_names(seen.tables.open(ref, version)))
    except NotFoundError:
        return []
    except StorageError:
        if seen.storage.location.is_local and is_torn(seen.tables, ref, version):
            return []
        raise


def _aside(seen: Examination, place: Place) -> dict[str | None, VersionTimes]:
    """The manifests of deleted branches: their refs are put aside, and all else is where it was."""
    names = {each.name for each in seen.deleted} - place.times.keys() if place.path == layout.MANIFEST else ()
    return {name: version_times(seen.tables, place.ref.on(name)) for name in names}


def _of_no_line(ref: TableRef, lines: Sequence[TableRef], listed: Sequence[str]) -> list[str]:
    """Files below `tree` that are of no fork: a delete that died had removed the ref."""
    folders = tuple(f"{line.directory}/" for line in lines if line.branch is not None)
    trees = f"{ref.on(None).directory}/tree/"
    return [path for path in listed if path.startswith(trees) and not path.startswith(folders)]


def _written_s(seen: Examination, path: str) -> float:
    folder, name = path.rsplit("/", 1)
    return seen.control.written_at(folder).get(name, time())
