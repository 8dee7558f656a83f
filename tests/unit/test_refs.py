"""How refs are read, on a history made by hand."""

from __future__ import annotations

import pytest

from omnigraph_core.errors import UsageError
from omnigraph_core.history.log import CommitLog, GraphCommit
from omnigraph_core.history.refs import CommitNotFound, parse_time_us, resolve
from omnigraph_core.history.tags import TagNotFound
from omnigraph_core.manifest.branch import MAIN
from omnigraph_core.manifest.commit import Commit

DAY_US = 86_400_000_000


def commit(number: int, parent: int | None) -> GraphCommit:
    made = Commit(
        commit_id=commit_id(number),
        parent_commit_id=None if parent is None else commit_id(parent),
        merged_parent_commit_id=None,
        actor_id="ann",
        created_at=number * DAY_US,
        operation="load",
        schema_hash=None,
    )
    return GraphCommit(made, MAIN, number)


def commit_id(number: int) -> str:
    return f"01HX{number:022d}"


LAST = 3000
LOG = CommitLog(
    commits={commit_id(n): commit(n, n - 1 if n else None) for n in range(LAST + 1)},
    heads={"main": commit_id(LAST), "old": commit_id(5), "00000007": commit_id(9)},
)


@pytest.mark.parametrize(
    ("ref", "number"),
    [
        ("main", LAST),
        ("old", 5),
        ("main~", LAST - 1),
        ("main~~", LAST - 2),
        ("main~2~3", LAST - 5),
        ("main~0", LAST),
        ("main~" + "0" * 900 + "3", LAST - 3),
        ("main" + "~" * 900, LAST - 900),
        ("main~3000", 0),
        ("old~5", 0),
        (commit_id(17), 17),
        (commit_id(17).lower(), 17),
        (commit_id(17)[-8:], 17),
        (commit_id(17) + "~7", 10),
        ("main@{1970-01-11}", 10),
        ("main@{1970-01-11}~2", 8),
        ("main~2000@{1970-01-11T12:00:00}", 10),
        ("main@{1970-01-11T00:00:00+01:00}", 9),
        ("main@{1970-01-11}@{1970-01-05}~", 3),
        ("00000007", 9),
    ],
)
def test_what_a_ref_names(ref: str, number: int) -> None:
    """`00000007` is a branch that looks like the end of a commit id: the branch wins."""
    assert resolve(LOG, ref).commit_id == commit_id(number)


@pytest.mark.parametrize(
    "ref",
    [
        "nope",
        "tag:x",
        "~",
        "@{}",
        "main~3001",
        "old~6",
        "main~" + "9" * 900,
        "old" + "~" * 900,
        "0000017",
        "1" * 26,
        "main@{1969-12-31}",
        "main~x",
        "main~٣",
        "",
    ],
)
def test_refs_of_nothing(ref: str) -> None:
    with pytest.raises((CommitNotFound, TagNotFound)):
        resolve(LOG, ref)


@pytest.mark.parametrize(
    ("ref", "says"),
    [
        ("main@{yesterday}", "not an ISO time"),
        ("main@{}", "not an ISO time"),
        ("01HX0000", "could be any of"),
        ("main~" + "9" * 5000, "too long"),
        ("main" + "~" * 2000, "too long"),
        ("main" + "@{1970-01-11}" * 200, "too long"),
    ],
)
def test_refs_that_cannot_be_meant(ref: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        resolve(LOG, ref)
    assert len(str(caught.value)) < 300


def test_times() -> None:
    assert parse_time_us("1970-01-01") == 0
    assert parse_time_us(" 1970-01-01T01:00:00+01:00 ") == 0
    assert parse_time_us("1970-01-01T00:00:00.000001Z") == 1
    assert parse_time_us("0001-01-01T00:00:00+23:59") < 0
