"""What tasks report about their splits: small JSON with all that the front needs to continue.

Lines are counted from the beginning of a split until the front knows how many lines the
splits before it have.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omnigraph_core import errors
from omnigraph_core.errors import InternalError, OmnigraphError, StorageError
from omnigraph_core.load.formats.compressed import DamagedInput
from omnigraph_core.load.formats.source import LineTooLong
from omnigraph_core.records import dataclass
from omnigraph_core.rules.violations import InvalidRecords, Violation
from omnigraph_core.spark.splits import Split
from omnigraph_core.storage import Storage

Json = dict[str, Any]


class JobAborted(StorageError):
    """Spark gave up; the reason, if known, is in its log."""


@dataclass(frozen=True, slots=True)
class NewFragment:
    """A fragment that a task has written, with the files that are part of it."""

    fragment: str
    rows: int
    files: tuple[tuple[str, int, str | None], ...]
    """Path, size and digest of each."""
    first_line: int
    """Where lines follow each other, and where all ids were given or none was, this is all there is
    to say about where rows were; else it is in the file `places` of the staging folder."""
    given_ids: int
    places: str | None


@dataclass(frozen=True, slots=True)
class TypeOutcome:
    """The rows of one type in one part."""

    given_ids: int = 0
    """How many came with an id; the others got a new one."""
    dropped: int = 0
    """How many were rejected for their values, and are in no fragment."""
    key_bytes: int = 0
    """What the columns that rules look at take in memory."""
    fragments: tuple[NewFragment, ...] = ()
    pieces: tuple[str, ...] = ()
    """Files of rows for the front."""


@dataclass(frozen=True, slots=True)
class SplitOutcome:
    """One part, read."""

    split: int
    lines: int
    """How many lines it has; 0 where rows are numbered from the beginning of the file anyway."""
    types: Mapping[str, TypeOutcome]
    violations: tuple[Violation, ...] = ()
    total: int = 0
    """How many violations there are; the first are in `violations`, all when they are rejected."""
    failure: Json | None = None
    """Why reading ended here; the same would happen again."""

    def encode(self) -> Json:
        return {
            "split": self.split,
            "lines": self.lines,
            "types": {key: _encode_type(each) for key, each in self.types.items()},
            "violations": [encode_violation(each) for each in self.violations],
            "total": self.total,
            "failure": self.failure,
        }


def _encode_type(found: TypeOutcome) -> Json:
    fragments = [
        [each.fragment, each.rows, each.files, each.first_line, each.given_ids, each.places]
        for each in found.fragments
    ]
    return {
        "given_ids": found.given_ids,
        "dropped": found.dropped,
        "key_bytes": found.key_bytes,
        "fragments": fragments,
        "pieces": found.pieces,
    }


def decode_outcome(content: Json) -> SplitOutcome:
    types = {
        key: TypeOutcome(
            each["given_ids"],
            each["dropped"],
            each["key_bytes"],
            tuple(
                NewFragment(text, rows, tuple(map(tuple, files)), first, given, places)
                for text, rows, files, first, given, places in each["fragments"]
            ),
            tuple(each["pieces"]),
        )
        for key, each in content["types"].items()
    }
    violations = tuple(decode_violation(each) for each in content["violations"])
    return SplitOutcome(
        content["split"], content["lines"], types, violations, content["total"], content["failure"]
    )


def encode_violation(violation: Violation) -> Json:
    record = violation.record
    return {
        **violation.details(),
        "record": None if record is None else base64.b64encode(record).decode(),
        "row": violation.row,
    }


def decode_violation(content: Json) -> Violation:
    record, row = content["record"], content["row"]
    return Violation(
        content["message"],
        content["file"],
        content["line"],
        content["type"],
        content["property"],
        None if record is None else base64.b64decode(record),
        None if row is None else (row[0], row[1]),
    )


def encode_failure(error: OmnigraphError) -> Json:
    """An error that another process is to raise: by its kind, or as itself where that says more."""
    content: Json = {"kind": type(error).kind.value, "message": error.message, "hint": error.hint}
    if isinstance(error, InvalidRecords):
        content["violations"] = [encode_violation(each) for each in error.violations]
        content["total"] = error.total
    elif isinstance(error, LineTooLong):
        content["line_too_long"] = [error.source, error.line, error.limit]
    elif isinstance(error, JobAborted):
        content["aborted"] = True
    elif isinstance(error, DamagedInput):
        content["damaged"] = [error.source, error.problem]
    return content


def decode_failure(content: Json, lines_before: int = 0) -> OmnigraphError:
    if "violations" in content:
        found = tuple(_shifted(decode_violation(each), lines_before) for each in content["violations"])
        return InvalidRecords(found, content["total"])
    if "line_too_long" in content:
        source, line, limit = content["line_too_long"]
        return LineTooLong(source, line + lines_before, limit)
    if "aborted" in content:
        return JobAborted(content["message"], hint=content["hint"])
    if "damaged" in content:
        return DamagedInput(*content["damaged"])
    kinds = {each.kind.value: each for each in vars(errors).values() if _is_kind(each)}
    error: OmnigraphError = kinds.get(content["kind"], InternalError)(
        content["message"], hint=content["hint"]
    )
    return error


def _is_kind(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, OmnigraphError) and value is not OmnigraphError


def _shifted(violation: Violation, by: int) -> Violation:
    return violation if violation.line is None else replace(violation, line=violation.line + by)


@dataclass(frozen=True, slots=True)
class Parsed:
    """All splits, read."""

    splits: tuple[Split, ...]
    outcomes: tuple[SplitOutcome, ...]
    lines_before: tuple[int, ...]
    """How many lines of the same input come before each part."""

    @classmethod
    def of(cls, splits: Sequence[Split], outcomes: Sequence[SplitOutcome]) -> Parsed:
        before: list[int] = []
        lines = 0
        for split, outcome in zip(splits, outcomes, strict=True):
            lines = lines if split.start else 0
            before.append(lines)
            lines += outcome.lines
        return cls(tuple(splits), tuple(outcomes), tuple(before))

    def raise_failure(self) -> None:
        """Raise what ended the reading, the first in the order of the input."""
        for outcome, before in zip(self.outcomes, self.lines_before, strict=True):
            if outcome.failure is not None:
                raise decode_failure(outcome.failure, before)

    @property
    def is_bad(self) -> bool:
        """Has reading found anything that the load fails of?"""
        return any(each.failure is not None or each.total for each in self.outcomes)

    def violations_of(self, number: int) -> list[Violation]:
        """Those kept of one part, by line, with the lines of the file."""
        found = [_shifted(each, self.lines_before[number]) for each in self.outcomes[number].violations]
        return sorted(found, key=lambda violation: violation.line or 0)

    @property
    def keys(self) -> list[str]:
        """The types there are anything of."""
        return sorted({key for outcome in self.outcomes for key in outcome.types})

    @property
    def used_files(self) -> set[str]:
        """Every file of a fragment that counts; whatever else was written is nobody's."""
        return {
            path
            for outcome in self.outcomes
            for found in outcome.types.values()
            for fragment in found.fragments
            for path, *_ in fragment.files
        }


def write_result(storage: Storage, folder: str, outcomes: Sequence[Json], more: Mapping[str, Any]) -> None:
    content = {"outcomes": list(outcomes), **more}
    storage.control.put(f"{folder}/result.json", json.dumps(content).encode())


def write_failed(storage: Storage, folder: str, error: OmnigraphError) -> None:
    storage.control.put(f"{folder}/result.json", json.dumps({"failed": encode_failure(error)}).encode())


def read_result(storage: Storage, folder: str) -> Json | None:
    """What the job wrote at its end, or None if it never got there; raises what it failed of."""
    found = storage.control.get(f"{folder}/result.json")
    if found is None:
        return None
    content: Json = json.loads(found.data)
    if "failed" in content:
        raise decode_failure(content["failed"])
    return content
