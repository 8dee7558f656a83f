"""Forged records: every kind, field by field, with values of every wrong type; then every verb.

Whatever a record says, a verb answers or raises one of our errors, the file stays unless it was a
record in every respect, nothing outside of the graph is touched, and what was committed is there.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import ErrorKind, OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.history.sealed import seal
from tests.support.dying import die
from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint
from tests.support.verbs import READS, SETTINGS, WRITES, ask, ask_all, refusals
from tests.support.writers import open_graph, write_three

SEED = 20261118
FEW = 2
"""Forgeries per kind of record in a plain run; a soak tries all of them."""

WRONG: list[Any] = [
    None,
    True,
    7,
    -1,
    2**70,
    1.5,
    "",
    "x",
    "nodes",
    "../../precious",
    "/etc/passwd",
    "\ud800",
    "a\x00b",
    [],
    ["nodes"],
    [[]],
    {},
    {"x": 1},
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with one record of every kind; the write to `dev` and the one to main are not finished."""
    root = tmp_path_factory.mktemp("forged") / "g"
    graph = Graph.init(str(root), PEOPLE, SETTINGS)
    write_three(graph, "one")
    graph.create_branch("dev")
    write_three(graph, "two", "dev")
    graph.cleanup(keep=1, grace_s=0.0, force=True)
    graph.create_branch("gone")
    graph.delete_branch("gone")
    graph.create_branch("old")
    graph.rename_branch("old", "new")
    graph.create_tag("kept", "main")
    write_three(graph, "three")
    die(root, "write.after_b", name="lost", branch="dev")
    precious = root.parent / "precious"
    precious.mkdir()
    (precious / "file").write_text("precious")
    (root / layout.STAGING_DIR).mkdir(exist_ok=True)
    record = {
        "schema_version": 1,
        "operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "kind": "Load",
        "branch": "main",
        "actor_id": "ann",
        "started_at": "1",
        "revision": "r",
        "paths": [f"{layout.table_path('node', 'Person')}/data/x.lance"],
        "pinned": [{"table_key": "node:Person", "version": 1}],
        "made_from": None,
        "made_twin": None,
        "lists": None,
    }
    (root / layout.staging_record(str(record["operation_id"]))).write_bytes(seal(record))
    shutil.copytree(root, root.with_name("pristine"))
    return root


@pytest.fixture
def root(made: Path) -> Path:
    _restore(made)
    return made


def _restore(root: Path) -> None:
    shutil.rmtree(root)
    shutil.copytree(root.with_name("pristine"), root)


KINDS = {
    "sidecar": layout.RECOVERY_DIR,
    "staging": layout.STAGING_DIR,
    "tag": layout.TAGS_DIR,
    "deleted": layout.DELETED_DIR,
    "operation": layout.DONE_OPERATIONS,
    "names": layout.NAMES_RECORD,
    "cleanup": layout.CLEANUP_RECORD,
    "schema state": layout.SCHEMA_STATE,
    "branch ref": f"{layout.MANIFEST}/_refs/branches",
    "lock": layout.LOCKS_DIR,
}
SEALED = ("sidecar", "staging", "tag", "deleted", "operation", "names", "cleanup")


def record_of(root: Path, kind: str) -> Path:
    place = root / KINDS[kind]
    return place if place.is_file() else min(each for each in place.iterdir() if each.is_file())


def places(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every member, at any depth."""
    members = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in members:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from places(value, (*above, key))


def forged(content: Any, place: tuple[Any, ...], value: Any, *, removed: bool) -> Any:
    copy = json.loads(json.dumps(content))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    if removed:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return copy


def forgeries(content: Any) -> Iterator[tuple[str, Any]]:
    for place in places(content):
        shown = ".".join(map(str, place))
        yield f"{shown} removed", forged(content, place, None, removed=True)
        for value in WRONG:
            yield f"{shown} = {value!r}", forged(content, place, value, removed=False)
    yield "one more member", {**content, "more": 1}


@pytest.mark.parametrize("how", ["few", pytest.param("all", marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_record_says(kind: str, how: str, root: Path) -> None:
    """The digest is right: it finds accidents, and whoever forges a record makes one, too."""
    path = record_of(root, kind)
    content = json.loads(path.read_bytes().splitlines()[0] if kind == "lock" else path.read_bytes())
    content.pop("digest", None)
    chosen = list(forgeries(content))
    if how == "few":
        chosen = random.Random(f"{SEED} {kind}").sample(chosen, FEW)
    outside = fingerprint(root.parent / "precious")
    right = {name: ask(root, name) for name in ("export", "export dev", "commits")}
    names = ["status", "branches", "commits", "tags", "deleted", "operations", "doctor", "change"]
    names += ["change dev", "cleanup", "recovery run", "export", "export dev"]
    names = [*READS, *WRITES] if how == "all" else names
    for what, change in chosen:
        _restore(root)
        path.write_bytes(seal(change) if kind in SEALED else _text(change))
        try:
            answers = ask_all(root, names)
            check_nothing_lost(root, answers, right)
            assert fingerprint(root.parent / "precious") == outside
            is_refused = any(_names(error, path) for error in refusals(answers).values())
            assert path.exists() or not is_refused
        except BaseException as error:
            error.add_note(f"{kind}: {what}")
            raise


def _text(content: Any) -> bytes:
    return (json.dumps(content) + "\n").encode()


def _names(error: OmnigraphError, path: Path) -> bool:
    return error.kind is ErrorKind.STORAGE and path.name in str(error)


def check_nothing_lost(root: Path, answers: dict[str, Any], right: dict[str, Any]) -> None:
    """Rows and commits that were there are there, or the verb says that it cannot tell."""
    for name in ("export", "export dev"):
        if not isinstance(answers[name], OmnigraphError):
            assert set(right[name].splitlines()) <= set(answers[name].splitlines()), name
    if not isinstance(answers["commits"], OmnigraphError):
        kept = {each.commit_id for each in answers["commits"]}
        assert {each.commit_id for each in right["commits"]} <= kept


@pytest.mark.parametrize(
    ("kind", "key", "command"),
    [
        ("tag", "created_at", ("tag", "list")),
        ("operation", "created_at", ("op", "log")),
        ("deleted", "deleted_at", ("branch", "undelete", "gone")),
    ],
)
def test_a_time_that_nobody_can_show(
    kind: str, key: str, command: tuple[str, ...], root: Path, omnigraph: Omnigraph
) -> None:
    """This one ended the listing for ever, with exit code 70."""
    path = record_of(root, kind)
    content = json.loads(path.read_bytes())
    del content["digest"]
    path.write_bytes(seal({**content, key: 2**63 - 1}))
    done = omnigraph(*command, "--store", root)
    assert (done.code, path.name in done.err) == (74, True), done.err


def test_a_sidecar_that_cannot_be_read_stops_its_own_branch_only(root: Path) -> None:
    path = record_of(root, "sidecar")
    content = json.loads(path.read_bytes())
    path.write_bytes(seal({**content, "tables": "all of them"}))
    before = path.read_bytes()
    answers = ask_all(root, [*READS, "change", "change dev", "tag", "branch", "recovery run"])
    refused = refusals(answers)
    assert {"change dev", "cleanup --dry-run"} <= refused.keys() <= {"change dev", "cleanup --dry-run"}
    assert all(path.name in str(error) for error in refused.values())
    assert [each.path for each in answers["status"][3]] == [f"{layout.RECOVERY_DIR}/{path.name}"]
    assert path.read_bytes() == before
    assert [path.name in text for text in open_graph(root, SETTINGS).warnings] == [True]


def test_a_sidecar_that_names_no_branch_stops_all_writes(root: Path) -> None:
    path = record_of(root, "sidecar")
    path.write_bytes(b'{"schema_version": 1}')
    refused = refusals(ask_all(root, [*READS, "change", "change dev"]))
    assert {"change", "change dev", "cleanup --dry-run"} == refused.keys()


def test_a_folder_of_tables_is_no_table(root: Path) -> None:
    """This one removed every node table."""
    path = record_of(root, "sidecar")
    content = json.loads(path.read_bytes())
    for table in content["tables"]:
        table["table_path"] = "nodes"
        table["files"] = []
    del content["digest"]
    path.write_bytes(seal(content))
    before = fingerprint(root / "nodes")
    assert isinstance(ask(root, "change dev"), OmnigraphError)
    assert fingerprint(root / "nodes") == before


@pytest.mark.parametrize(
    "folder", [KINDS[kind] for kind in ("sidecar", "staging", "tag", "deleted", "operation")]
)
def test_files_that_are_no_records_are_ignored(folder: str, root: Path) -> None:
    for name in (
        ".#01ARZ3NDEKTSV4RRFFQ69G5FAV.json",
        ".json",
        "x y.json",
        "notes.txt",
        "#t.json#",
        "t.json~",
    ):
        (root / folder / name).write_bytes(b"an editor's")
    assert refusals(ask_all(root)) == {}
    assert (root / folder / "notes.txt").read_bytes() == b"an editor's"


@pytest.mark.parametrize("change", ["misspelt", "cut"])
@pytest.mark.parametrize("kind", ["sidecar", "staging"])
def test_one_changed_letter_is_noticed(kind: str, change: str, root: Path) -> None:
    """These records had no digest: a row count or a file name of another letter was believed."""
    path = record_of(root, kind)
    data = path.read_bytes()
    place = data.index(b"/data/") + 8
    changed = (
        data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] if change == "misspelt" else data[:-3]
    )
    path.write_bytes(changed)
    refused = ask(root, "cleanup")
    assert isinstance(refused, OmnigraphError)
    assert path.name in str(refused)
    assert path.read_bytes() == changed
