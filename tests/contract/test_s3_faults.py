"""Tables, publishes and whole writes when S3 misbehaves: exactly done or exactly not done, and said so.

Each fault is met by one writer behind the proxy; what is true is asked of the server
itself, at once and again when everything that was under way has landed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph_core.storage as storage_module
from omnigraph_core.errors import OmnigraphError, StorageError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.request import Publish
from omnigraph_core.settings import S3Settings, Settings, load_settings
from omnigraph_core.storage import (
    Location,
    LockLost,
    Storage,
    StorageOptions,
    open_storage,
    parse_location,
)
from omnigraph_core.storage import s3 as s3_module
from omnigraph_core.storage.s3 import Patience, S3ControlStore
from omnigraph_core.storage.s3_options import lance_options
from omnigraph_core.tables.commit import commit_exact, stage_restore, unguarded
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import CommitUnknown
from omnigraph_core.tables.limits import FRAGMENTS_MAX
from omnigraph_core.tables.stage import stage_append
from omnigraph_core.write.branches import BranchExists
from omnigraph_core.write.creation import GraphExists
from tests.support.fault_proxy import ALWAYS, Fault, FaultProxy, Operation, Rule, fault_proxy
from tests.support.graphs import PERSON, ages, head, new_manifest, operation, people, people_table, update
from tests.support.records import PEOPLE
from tests.support.s3server import SECRET_KEY, S3Server, environment_of
from tests.support.writers import WRITTEN, check_whole, content, write_three

HASTY = Patience(request_s=0.6, attempts=3, total_s=3.0)
LATE_S = 1.6
"""Later than the writer waits."""
A = "node:A"
READING: tuple[Operation, ...] = ("GET", "HEAD", "LIST")


@dataclass(frozen=True)
class Trouble:
    """A fault of some requests."""

    fault: Fault
    status: int = 500
    times: int = 1

    def befall(self, proxy: FaultProxy, kind: Operation, path: str, skip: int = 0) -> Rule:
        return proxy.spoil(
            kind, path, self.fault, status=self.status, times=self.times, delay_s=LATE_S, skip=skip
        )


PASSING = {"500 once": Trouble("status"), "503 once": Trouble("status", 503)}
LANDED = {
    "landed, then 500": Trouble("landed-status"),
    "landed, then reset": Trouble("landed-reset"),
    "landed, then silence": Trouble("landed-hang"),
}
LASTING = {
    "500 for ever": Trouble("status", times=ALWAYS),
    "503 for ever": Trouble("status", 503, times=ALWAYS),
    "reset": Trouble("reset", times=ALWAYS),
    "silence": Trouble("hang", times=ALWAYS),
}
LATE = {"late landing": Trouble("late")}
DONE, OPEN = "done", "open"
OF_ONE_COMMIT = {
    **{name: (trouble, DONE) for name, trouble in {**PASSING, **LANDED}.items()},
    **{name: (trouble, OPEN) for name, trouble in {**LASTING, **LATE}.items()},
}
of_one_commit = pytest.mark.parametrize(
    ("trouble", "expected"), OF_ONE_COMMIT.values(), ids=OF_ONE_COMMIT.keys()
)
# A publish is a commit of the manifest, and a write begins with commits: what differs there by the status
# or by the moment of silence alone is asked of one commit, and of them with `make soak`.
MORE = {"500 once", "503 for ever", "landed, then 500", "silence"}


def soaked(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.soak] if name in MORE else []


of_one_publish = pytest.mark.parametrize(
    ("trouble", "expected"),
    [pytest.param(*each, id=name, marks=soaked(name)) for name, each in OF_ONE_COMMIT.items()],
)


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3_server.port) as running:
        yield running


@pytest.fixture
def place(s3_server: S3Server) -> str:
    return s3_server.new_location()


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both clients give up sooner than they do for people."""

    def hasty_options(location: Location, settings: S3Settings) -> StorageOptions:
        options = lance_options(location, settings)
        options |= {"timeout": "600ms", "client_max_retries": "2", "client_retry_timeout": "2"}
        return options

    def hasty_store(location: Location, settings: S3Settings, patience: Patience = HASTY) -> S3ControlStore:
        return S3ControlStore(location, settings, patience)

    monkeypatch.setattr(storage_module, "lance_options", hasty_options)
    monkeypatch.setattr(s3_module, "S3ControlStore", hasty_store)


def settings_at(endpoint: str) -> Settings:
    return load_settings(
        {**environment_of(endpoint), "OMNIGRAPH_LEASE_TTL": "3", "OMNIGRAPH_LOCK_TIMEOUT": "5"}, Path("/")
    )


@pytest.fixture
def troubled(proxy: FaultProxy, place: str) -> Storage:
    """The place through the proxy."""
    return open_storage(parse_location(place, Path("/")), settings_at(proxy.endpoint))


@pytest.fixture
def truth(s3_server: S3Server, place: str) -> Storage:
    """The place itself."""
    return open_storage(parse_location(place, Path("/")), settings_at(s3_server.endpoint))


# ---- one table ----


def commit_of_a_row(troubled: Storage) -> tuple[Table, Callable[[], Table]]:
    tables = Tables(troubled)
    table = people_table(tables)
    staged = stage_append(troubled, table, people({"new": 1}), operation())
    return table, lambda: commit_exact(tables, staged, unguarded)


@of_one_commit
def test_a_commit_says_what_became_of_it(
    trouble: Trouble, expected: str, proxy: FaultProxy, troubled: Storage, truth: Storage
) -> None:
    table, commit = commit_of_a_row(troubled)
    trouble.befall(proxy, "PUT", "/_versions/")
    if expected == DONE:
        assert ages(commit()) == ages(Tables(truth).open(PERSON)) == ages(table) | {"new": 1}
        return
    with pytest.raises(CommitUnknown, match="has not landed, but still may") as caught:
        commit()
    assert SECRET_KEY not in str(caught.value)
    assert ages(Tables(truth).open(PERSON)) == ages(table)
    proxy.settle()
    landed = ages(table) | ({"new": 1} if trouble.fault == "late" else {})
    assert ages(Tables(truth).open(PERSON)) == landed


def test_a_late_commit_cannot_land_once_its_version_is_taken(
    proxy: FaultProxy, troubled: Storage, truth: Storage
) -> None:
    table, commit = commit_of_a_row(troubled)
    LATE["late landing"].befall(proxy, "PUT", "/_versions/")
    with pytest.raises(CommitUnknown):
        commit()
    healthy = Tables(truth)
    restore = stage_restore(healthy.open(PERSON), table.version, operation(), undoes="late")
    fenced = commit_exact(healthy, restore, unguarded)
    proxy.settle()
    assert healthy.open(PERSON).version == fenced.version
    assert ages(healthy.open(PERSON)) == ages(table)


def test_a_commit_that_landed_and_cannot_be_looked_for_is_open(
    proxy: FaultProxy, troubled: Storage, truth: Storage
) -> None:
    table, commit = commit_of_a_row(troubled)
    landed = proxy.spoil("PUT", "/_versions/", "landed-reset")
    for kind in READING:
        proxy.spoil(kind, "/_versions", "status", times=ALWAYS, after=landed)
    with pytest.raises(CommitUnknown):
        commit()
    proxy.heal()
    assert ages(Tables(truth).open(PERSON)) == ages(table) | {"new": 1}


# ---- one publish ----


@of_one_publish
def test_a_publish_says_what_became_of_it(
    trouble: Trouble, expected: str, proxy: FaultProxy, troubled: Storage, truth: Storage
) -> None:
    manifest = new_manifest(Tables(troubled), A)
    before = manifest.snapshot()
    request = Publish(Branch("main"), head(1), updates=[update(A, 2)], expected_versions={A: 1})
    trouble.befall(proxy, "PUT", "/__manifest/_versions/")
    if expected == DONE:
        after = Publisher(manifest).publish(request, unguarded)
        assert after.head == head(1)
        assert Manifest(Tables(truth)).snapshot() == after
        return
    with pytest.raises(CommitUnknown):
        Publisher(manifest).publish(request, unguarded)
    assert Manifest(Tables(truth)).snapshot() == before
    proxy.settle()
    settled = Manifest(Tables(truth)).snapshot()
    assert settled.head == (head(1) if trouble.fault == "late" else before.head)


@pytest.mark.parametrize("trouble", LANDED.values(), ids=LANDED.keys())
def test_a_compaction_that_landed_keeps_its_files_whatever_was_answered(
    trouble: Trouble, proxy: FaultProxy, troubled: Storage, truth: Storage
) -> None:
    """The client repeats the request, and is told that somebody else has made that version."""
    manifest = new_manifest(Tables(truth), A)
    for number in range(1, FRAGMENTS_MAX + 1):
        Publisher(manifest).publish(
            Publish(Branch("main"), head(number), updates=[update(A, number + 1)]), unguarded
        )
    before = manifest.snapshot()
    trouble.befall(proxy, "PUT", "/__manifest/_versions/")
    with suppress(OmnigraphError):
        Publisher(Manifest(Tables(troubled))).compact("main", operation(), unguarded)
    found = Manifest(Tables(truth))
    assert found.open("main").count_fragments() < FRAGMENTS_MAX, "it has not landed"
    assert found.snapshot().tables == before.tables


# ---- a whole write ----

TABLE_COMMIT = r"/(nodes|edges)/\w+/_versions/\d+"
PUBLISH = r"/__manifest/_versions/\d+"
HISTORY = r"/_graph_commits\.lance/_versions/\d+"
ACTORS = r"/_graph_commit_actors\.lance/_versions/\d+"
DATA = r"/(nodes|edges)/\w+/data/"
SIDECAR = r"/__recovery/"
LEASE = r"/__locks/"

BUSY = {"503 once": PASSING["503 once"]}
RESET = {"reset": Trouble("reset")}
RESETS = {"reset": LASTING["reset"]}
FAILING = {"500 for ever": LASTING["500 for ever"]}
SILENT = {"silence once": Trouble("hang")}
LOST = {"landed, then reset": LANDED["landed, then reset"]}

# Where, which of the requests, and the troubles worth their time there.
WRITES: list[tuple[str, Operation, str, int, dict[str, Trouble]]] = [
    ("second table commit", "PUT", TABLE_COMMIT, 1, {**PASSING, **LANDED, **LATE, **RESET, **FAILING}),
    ("publish", "PUT", PUBLISH, 0, {**PASSING, **LANDED, **LATE, **RESET, **FAILING}),
    ("actor row", "PUT", ACTORS, 0, {**LATE, **RESET}),
    ("commit row", "PUT", HISTORY, 0, {**LATE, **RESET, **LOST}),
    ("data", "PUT", DATA, 1, {**BUSY, **SILENT, **RESETS, **FAILING}),
    ("listing", "LIST", "", 4, {**PASSING, **SILENT, **RESET, **FAILING}),
    ("listing of sidecars", "LIST", SIDECAR, 1, FAILING),
    ("sidecar", "PUT", SIDECAR, 0, {**BUSY, **LANDED, **LATE, **RESETS}),
    ("sidecar's end", "DELETE", "", 0, {**BUSY, **LOST, **RESETS}),
    ("lease", "PUT", LEASE, 0, {**BUSY, **LANDED, **RESETS}),
    ("lease while held", "PUT", LEASE, 1, RESETS),
]
CASES = [
    pytest.param(kind, path, skip, trouble, id=f"{where}: {name}", marks=soaked(name))
    for where, kind, path, skip, troubles in WRITES
    for name, trouble in troubles.items()
]


@pytest.mark.parametrize(("kind", "path", "skip", "trouble"), CASES)
def test_a_write_is_done_or_not_done_and_says_which(
    kind: Operation,
    path: str,
    skip: int,
    trouble: Trouble,
    proxy: FaultProxy,
    place: str,
    s3_server: S3Server,
) -> None:
    healthy = Graph.init(place, PEOPLE, settings_at(s3_server.endpoint), actor="ann")
    write_three(healthy, "first")
    before = content(healthy)
    after = {key: ids | ({"second"} if key in WRITTEN else set()) for key, ids in before.items()}
    writer = Graph.open(place, settings_at(proxy.endpoint))
    rule = trouble.befall(proxy, kind, path, skip)

    def seen() -> dict[str, set[str]]:
        return content(Graph.open(place, settings_at(s3_server.endpoint)))

    allowed = [before, after]
    failure: OmnigraphError | None = None
    try:
        write_three(writer, "second")
        allowed = [after]
    except OmnigraphError as error:
        failure = error
        if not _is_open(error):
            allowed = [before]
    assert rule.hits
    assert seen() in allowed, failure
    proxy.heal()
    proxy.settle()
    assert seen() in allowed, failure
    Graph.open(place, settings_at(s3_server.endpoint), OpenMode.READ_WRITE)
    settled = Graph.open(place, settings_at(s3_server.endpoint), OpenMode.READ_WRITE)
    assert content(settled) in allowed, failure
    check_whole(settled)
    operations = [each.operation_id for each in settled.recoveries()]
    assert len(set(operations)) == len(operations)
    write_three(settled, "third")
    check_whole(settled)
    assert SECRET_KEY not in f"{failure} {failure.hint if failure else ''}"


def _is_open(error: OmnigraphError) -> bool:
    """Does the error leave it open what became of the write?"""
    hint = error.hint or ""
    if hint.startswith("nothing was changed"):
        return False
    return isinstance(error, (CommitUnknown, LockLost)) or "the outcome is unknown" in hint


# ---- a new branch ----

BRANCH_REQUESTS = {
    "twin": r"/_graph_commits\.lance/tree/b/_versions/",
    "twin's ref": r"/_graph_commits\.lance/_refs/branches/b",
    "manifest branch": r"/__manifest/tree/b/_versions/",
    "its ref": r"/__manifest/_refs/branches/b",
}
BRANCH_TROUBLES = {
    "reset, tried again": (LASTING["reset"], True),
    "landed, then reset": (LANDED["landed, then reset"], True),
    "late, tried again before": (LATE["late landing"], False),
    "late, tried again after": (LATE["late landing"], True),
}
BRANCH_CASES = {
    f"{where}: {name}": (path, *trouble)
    for where, path in BRANCH_REQUESTS.items()
    for name, trouble in BRANCH_TROUBLES.items()
    if "ref" in where or trouble[0].fault == "late"
}


@pytest.mark.parametrize(("path", "trouble", "patient"), BRANCH_CASES.values(), ids=BRANCH_CASES.keys())
def test_a_branch_is_made_or_can_be_made_again(
    path: str, trouble: Trouble, patient: bool, proxy: FaultProxy, place: str, s3_server: S3Server
) -> None:
    """A request of the first try that lands during or after the second must not harm it."""
    healthy = Graph.init(place, PEOPLE, settings_at(s3_server.endpoint), actor="ann")
    write_three(healthy, "first")
    writer = Graph.open(place, settings_at(proxy.endpoint))
    rule = trouble.befall(proxy, "PUT", path)
    made = False
    with suppress(StorageError):
        writer.create_branch("b")
        made = True
    assert rule.hits
    assert not made or healthy.branches() == ["b", "main"]
    proxy.heal()
    if patient:
        proxy.settle()
    if not made:
        with suppress(BranchExists):
            healthy.create_branch("b")
    write_three(healthy, "second", "b")
    expected = content(healthy, "b")
    proxy.settle()
    settled = Graph.open(place, settings_at(s3_server.endpoint), OpenMode.READ_WRITE)
    assert content(settled, "b") == expected
    write_three(settled, "third", "b")
    check_whole(settled)
    settled.delete_branch("b")
    settled.create_branch("b")
    check_whole(settled)


# ---- a new graph ----

INIT_REQUESTS = {
    "record": (r"/__staging/", 0),
    "table": (TABLE_COMMIT, 1),
    "schema": (r"/__schema", 0),
    "commits": (HISTORY, 0),
    "manifest": (PUBLISH, 0),
    "its second version": (PUBLISH, 1),
}
INIT_TROUBLES = {**RESETS, **LOST, **LATE}
INITS = [
    pytest.param(
        *request,
        trouble,
        id=f"{where}: {name}",
    )
    for where, request in INIT_REQUESTS.items()
    for name, trouble in INIT_TROUBLES.items()
]


@pytest.mark.parametrize(("path", "skip", "trouble"), INITS)
def test_an_init_makes_a_whole_graph_or_leaves_room_for_one(
    path: str,
    skip: int,
    trouble: Trouble,
    proxy: FaultProxy,
    place: str,
    s3_server: S3Server,
) -> None:
    settings = settings_at(s3_server.endpoint)
    rule = trouble.befall(proxy, "PUT", path, skip)
    made = True
    try:
        Graph.init(place, PEOPLE, settings_at(proxy.endpoint), actor="ann")
    except StorageError:
        made = False
    assert rule.hits
    proxy.heal()
    proxy.settle()
    if not made:
        with suppress(GraphExists):
            Graph.init(place, PEOPLE, settings, actor="bob")
    graph = Graph.open(place, settings, OpenMode.READ_WRITE)
    check_whole(graph)
    write_three(graph, "first")
    check_whole(graph)
