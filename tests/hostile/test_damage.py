"""One damaged file: every answer is the right one or an error, and no write makes it worse.

A power cut tears only what was not acknowledged. Whatever else happens to a file (a bad
disk, a wrong `rm`, a half-restored backup) must not be taken for that.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph_core import faults, layout
from omnigraph_core.errors import InternalError, NotFoundError, OmnigraphError, StorageError
from omnigraph_core.graph import Graph
from omnigraph_core.history.damage import HistoryDamaged
from omnigraph_core.history.files import damaged_files
from omnigraph_core.manifest.reader import ManifestDamaged
from omnigraph_core.settings import Settings
from omnigraph_core.tables.durability import manifest_path, own_files
from omnigraph_core.tables.refs import TableRef, control_table
from tests.support.dying import die
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint
from tests.support.verbs import coming_back
from tests.support.writers import check_whole, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")
SEED = 20261116
SAMPLE = 16

# Nothing else knows of these: one that is removed as a whole was never there.
REMOVABLE = (layout.TAGS_DIR, layout.DELETED_DIR, layout.OPERATIONS_DIR)

Damage = Callable[[bytes, random.Random], bytes | None]


def _flipped(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def _misspelt(data: bytes, rng: random.Random) -> bytes:
    """One letter or digit of a text becomes another: most other bytes of so small a file mean nothing."""
    words = list(re.finditer(rb"[a-zA-Z0-9]{3,}", data))
    if not words:
        return _flipped(data, rng)
    word = rng.choice(words)
    place = rng.randrange(word.start(), word.end())
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


DAMAGES: dict[str, Damage] = {
    "flip": _flipped,
    "short": lambda data, rng: data[:-1],
    "empty": lambda data, rng: b"",
    "gone": lambda data, rng: None,
    "zero": lambda data, rng: bytes(len(data)),
    "longer": lambda data, rng: data + rng.randbytes(7),
}
ODD = ("fifo", "link", "folder")
"""What else may be in the place of a file."""


def ruin(path: Path, damage: str, rng: random.Random | None = None) -> None:
    if damage in ODD:
        path.unlink()
        {"fifo": os.mkfifo, "link": lambda each: each.symlink_to("/etc/hostname"), "folder": os.mkdir}[
            damage
        ](path)
        return
    change = _misspelt if damage == "misspelt" else DAMAGES[damage]
    data = change(path.read_bytes(), rng or random.Random(SEED))
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with writes and a deletion on main, a branch with writes, two recoveries, and records of
    every kind: a tag, a deleted branch, a renamed one, and the operations that made them."""
    root = tmp_path_factory.mktemp("damage") / "g"
    graph = Graph.init(str(root), PEOPLE, SETTINGS)
    write_three(graph, "one")
    write_three(graph, "two")
    graph.create_branch("dev")
    write_three(graph, "dev-one", "dev")
    for branch in ("main", "dev"):
        faults.arm("write.published=error")
        write_three(graph, f"{branch}-recovered", branch)
        faults.arm("")
    write_three(graph, "dev-two", "dev")
    graph.change('query q() { insert Company { name: "left" } insert Company { name: "right" } }')
    graph.change('query q() { delete Company where name = "left" }')
    write_three(graph, "three", actor="bob")
    graph.create_tag("kept", "main")
    graph.create_branch("gone")
    graph.delete_branch("gone")
    graph.create_branch("old")
    graph.rename_branch("old", "new")
    check_whole(graph)
    shutil.copytree(root, root.with_name("pristine"))
    return root


@pytest.fixture
def root(made: Path) -> Path:
    """The same graph as new, in the same place (branches record it)."""
    shutil.rmtree(made)
    shutil.copytree(made.with_name("pristine"), made)
    return made


def lineages(graph: Graph) -> Iterator[tuple[str, TableRef, int]]:
    """What every lineage of a dataset is called here, and the version that is read of it."""
    for branch in (None, "dev"):
        shown = branch or "main"
        for path in (layout.MANIFEST, layout.COMMITS):
            ref = control_table(path, branch)
            yield f"{path}@{shown}", ref, graph.door.tables.open(ref).version
        for key in ("node:Company", "edge:Knows"):
            entry = graph.snapshot(shown).entry(key)
            yield f"{key}@{shown}", entry.ref, entry.table_version
    for path in (layout.COMMIT_ACTORS, layout.RECOVERIES):
        ref = control_table(path)
        yield path, ref, graph.door.tables.open(ref).version


def cases(graph: Graph) -> list[tuple[str, str, str]]:
    """Every file that an answer depends on, by a name for it, with every damage to it.

    A byte that changes inside a data file stays unnoticed by reads: Lance keeps no checksums.
    Ours find it in the files of a commit (`test_a_changed_byte_is_found_by_the_digests`). In a
    deletion file it may even end the process: Lance allocates whatever length it finds there.
    """
    found = []
    for name, ref, version in lineages(graph):
        files = {f"{name} manifest": manifest_path(ref, version)}
        own = sorted(own_files(graph.door.tables.open(ref, version)))
        files |= {f"{name} file {number} ({Path(path).suffix})": path for number, path in enumerate(own)}
        for label, path in files.items():
            kinds = [each for each in DAMAGES if each != "longer"]
            found += [(label, path, each) for each in kinds if each != "flip" or path.endswith(".manifest")]
    return found


def answers(root: Path) -> dict[str, Any]:
    """What a reader is told; an error is an answer of its own."""
    reader = Graph.open(str(root), SETTINGS)
    asked: dict[str, Callable[[], Any]] = {"branches": reader.branches}
    for branch in ("main", "dev"):
        asked |= {
            f"head of {branch}": lambda branch=branch: reader.head(branch),
            f"rows of {branch}": lambda branch=branch: b"".join(reader.export(branch=branch)),
            f"rows of {branch}~1": lambda branch=branch: b"".join(reader.export(f"{branch}~1")),
            f"commits of {branch}": lambda branch=branch: reader.log().history(branch),
        }
    asked |= {
        "recoveries": reader.recoveries,
        "tags": reader.tags,
        "deleted": reader.deleted_branches,
        "operations": reader.operations,
    }
    return {question: _answer(ask) for question, ask in asked.items()}


def _answer(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (StorageError, NotFoundError) as error:
        return error


def check_answers(found: Mapping[str, Any], right: Mapping[str, Any]) -> None:
    for question, answer in found.items():
        assert isinstance(answer, OmnigraphError) or answer == right[question], question


def check_write(root: Path, branch: str, right: Mapping[str, Any]) -> bool:
    """Write once more: all acknowledged commits and rows are still there, or it was refused."""
    try:
        write_three(open_graph(root, SETTINGS), "after", branch)
    except InternalError:
        raise
    except OmnigraphError:
        return False
    found = answers(root)
    commits, rows = found[f"commits of {branch}"], found[f"rows of {branch}"]
    if not isinstance(commits, OmnigraphError):
        assert {each.commit_id for each in right[f"commits of {branch}"]} < {
            each.commit_id for each in commits
        }
        actors = {each.commit_id: each.actor_id for each in commits}
        assert {each.commit_id: each.actor_id for each in right[f"commits of {branch}"]}.items() <= (
            actors.items()
        )
    if not isinstance(rows, OmnigraphError):
        assert set(right[f"rows of {branch}"].splitlines()) <= set(rows.splitlines())
    return True


def try_damage(root: Path, label: str, path: str, damage: str, right: Mapping[str, Any]) -> None:
    rng = random.Random(f"{SEED} {label} {damage}")
    ruin(root / path, damage, rng)
    check_answers(answers(root), right)
    written = [check_write(root, branch, right) for branch in ("main", "dev")]
    if not any(written):
        shutil.copyfile(root.with_name("pristine") / path, root / path)
        found = answers(root)
        assert {question: answer for question, answer in found.items() if answer != right[question]} == {}


@pytest.mark.parametrize("count", [SAMPLE, pytest.param(None, marks=pytest.mark.soak)])
def test_one_damaged_file(count: int | None, made: Path, root: Path) -> None:
    """Every answer is right or an error; a write loses nothing; what was refused is as it was."""
    right = answers(root)
    assert not [answer for answer in right.values() if isinstance(answer, OmnigraphError)]
    every = cases(Graph.open(str(root), SETTINGS))
    chosen = every if count is None else random.Random(SEED).sample(every, count)
    for label, path, damage in chosen:
        shutil.rmtree(made)
        shutil.copytree(made.with_name("pristine"), made)
        try:
            try_damage(root, label, path, damage, right)
        except BaseException as error:
            error.add_note(f"{label}: {damage}, seed {SEED}")
            raise


def every_file(root: Path) -> list[list[str]]:
    """Every file of the graph that has bytes, by what it is; but for locks, which nobody reads."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size):
        found = path.relative_to(root)
        if found.parts[0] != layout.LOCKS_DIR:
            kinds.setdefault((found.parts[0], path.suffix), []).append(found.as_posix())
    return list(kinds.values())


def verdict(root: Path, path: str, damage: str, right: Mapping[str, Any], rng: random.Random) -> str:
    """What becomes of one damage: `harmless`, `refused` or `found`; `missed` is what must not be.

    `unprotected` is a text of the manifest or of the history that says something else now: no commit
    has a digest of their files (docs/guarantees.md says so).
    """
    ruin(root / path, damage, rng)
    has_digest = path.startswith((layout.NODES_DIR, layout.EDGES_DIR))
    if damage in ("flip", "misspelt") and path.endswith(".arrow") and not has_digest:
        return "not asked"  # It may end the process: see `cases`.
    if not path.endswith(".arrow"):
        found = answers(root)
        errors = [question for question, answer in found.items() if isinstance(answer, OmnigraphError)]
        wrong = [question for question, answer in found.items() if answer != right[question]]
        if sorted(wrong) == sorted(errors):
            return "refused" if errors else "harmless"
    diagnosed = Graph.open(str(root), SETTINGS).doctor(deep=True)
    if any(each.counts for each in diagnosed):
        return "found"
    removed = damage == "gone" and path.startswith(REMOVABLE)
    return "missed" if has_digest or not (removed or path.endswith(".lance")) else "unprotected"


MANY = [
    pytest.param(500, SEED + more, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]) for more in (0, 1)
]


@pytest.mark.parametrize(("count", "seed"), [(60, SEED), *MANY])
def test_any_damage_is_harmless_refused_or_found_by_doctor(
    count: int, seed: int, made: Path, root: Path
) -> None:
    """One file, anywhere in the graph: no wrong answer that a deep look would not explain."""
    right = answers(root)
    assert not [each for each in Graph.open(str(root), SETTINGS).doctor(deep=True) if each.counts]
    chance = random.Random(seed)
    files = every_file(root)
    seen: Counter[str] = Counter()
    for number in range(count):
        shutil.rmtree(made)
        shutil.copytree(made.with_name("pristine"), made)
        path = chance.choice(chance.choice(files))
        damage = chance.choice(["misspelt", *DAMAGES, *ODD])
        try:
            with coming_back(f"{damage} of {path}"):
                became = verdict(root, path, damage, right, random.Random(f"{seed} {number}"))
        except BaseException as error:
            error.add_note(f"{damage} of {path}, number {number}")
            raise
        seen[became] += 1
        assert became != "missed", f"{damage} of {path}, number {number}"
    assert min(seen["harmless"], seen["refused"]) > 0, seen


def head_files(graph: Graph, ref: TableRef) -> dict[str, str]:
    """The files that the newest version of a dataset has and the one before has not."""
    tables = graph.door.tables
    head = tables.open(ref)
    added = own_files(head).keys() - own_files(tables.open(ref, head.version - 1)).keys()
    found = {Path(path).suffix: path for path in added}
    return {**found, ".manifest": manifest_path(ref, head.version)}


@pytest.mark.parametrize(
    ("branch", "suffix", "damage"),
    [
        ("main", ".lance", "short"),
        ("main", ".arrow", "empty"),
        ("main", ".manifest", "empty"),
        ("main", ".manifest", "gone"),
        ("dev", ".lance", "gone"),
        ("dev", ".manifest", "zero"),
    ],
)
def test_an_acknowledged_publish_is_never_passed_over(
    branch: str, suffix: str, damage: str, root: Path
) -> None:
    """A power cut cannot have done it: the commit is on record, and no write is pending."""
    graph = Graph.open(str(root), SETTINGS)
    head = graph.head(branch)
    assert head is not None
    path = head_files(graph, control_table(layout.MANIFEST, None if branch == "main" else branch))[suffix]
    ruin(root / path, damage)
    before = fingerprint(root)
    for ask in (Graph.snapshot, Graph.head, lambda graph, branch: write_three(graph, "lost", branch)):
        with pytest.raises(ManifestDamaged) as refused:
            ask(Graph.open(str(root), SETTINGS), branch)
        assert (refused.value.path, head.commit_id in str(refused.value)) == (path, True)
    after = fingerprint(root)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} <= {
        name for name in after if name.startswith((layout.LOCKS_DIR, "nodes", "edges"))
    }
    other = "dev" if branch == "main" else "main"
    assert Graph.open(str(root), SETTINGS).head(other) is not None


def test_replaced_rows_that_reappear_are_noticed(root: Path) -> None:
    """A deletion file that hides another row than it did: two heads, and neither is believed."""
    import pyarrow as pa

    graph = Graph.open(str(root), SETTINGS)
    path = root / head_files(graph, control_table(layout.MANIFEST))[".arrow"]
    with pa.ipc.open_file(str(path)) as reader:
        hidden = reader.read_all()
    assert hidden.column(0).to_pylist() == [0], "a publish hides the head row of the one before"
    moved = pa.table([pa.array([1], hidden.schema.field(0).type)], schema=hidden.schema)
    with pa.ipc.new_file(str(path), hidden.schema) as writer:
        writer.write_table(moved)
    for branch in ("main", "dev"):
        reader_graph = Graph.open(str(root), SETTINGS)
        if branch == "main":
            with pytest.raises(StorageError, match="visible again"):
                reader_graph.snapshot(branch)
            with pytest.raises(StorageError, match="visible again"):
                write_three(reader_graph, "lost", branch)
        else:
            assert reader_graph.head(branch) == graph.head(branch)


def test_a_lost_row_of_the_head_is_written_again(root: Path) -> None:
    """The newest version of the commit table deleted: the head row has everything about its commit."""
    graph = Graph.open(str(root), SETTINGS)
    right = graph.log().history("main")
    (root / head_files(graph, control_table(layout.COMMITS))[".manifest"]).unlink()
    (root / head_files(graph, control_table(layout.COMMIT_ACTORS))[".manifest"]).unlink()
    assert Graph.open(str(root), SETTINGS).log().history("main") == right
    graph = open_graph(root, SETTINGS)
    write_three(graph, "after")
    assert graph.log().history("main")[1:] == right
    check_whole(graph)


@pytest.mark.timeout(120)
def test_a_commit_that_is_its_own_ancestor_is_said(root: Path) -> None:
    """A row is appended that gives the parent of the head a parent of its own name."""
    graph = Graph.open(str(root), SETTINGS)
    parent = graph.commit("main~1").commit_id
    path = str(root / layout.COMMITS)
    rows = lance.dataset(path).to_table(filter=f"graph_commit_id = '{parent}'")
    place = rows.schema.get_field_index("parent_commit_id")
    forged = rows.set_column(place, rows.schema.field(place), pa.array([parent], pa.string()))
    lance.write_dataset(forged, path, mode="append")
    with pytest.raises(HistoryDamaged, match="lacks ancestors other than itself"):
        Graph.open(str(root), SETTINGS).log()


@pytest.mark.parametrize("damage", ["short", "gone"])
@pytest.mark.parametrize("log", [layout.COMMITS, layout.COMMIT_ACTORS, layout.RECOVERIES])
def test_lost_history_is_said(log: str, damage: str, root: Path) -> None:
    """A file with rows of older commits: they are nowhere else, and never silently left out."""
    graph = Graph.open(str(root), SETTINGS)
    table = graph.door.tables.open(control_table(log))
    oldest = table.lance.get_fragments()[0].metadata.files[0].path
    path = f"{log}/data/{oldest}"
    ruin(root / path, damage)
    reader = Graph.open(str(root), SETTINGS)
    with pytest.raises(HistoryDamaged) as refused:
        reader.recoveries() if log == layout.RECOVERIES else reader.commit("main")
    assert refused.value.path == path
    before = fingerprint(root / log)
    with pytest.raises(StorageError):
        write_three(open_graph(root, SETTINGS), "after")
    assert fingerprint(root / log) == before
    shutil.copyfile(root.with_name("pristine") / path, root / path)
    write_three(open_graph(root, SETTINGS), "after")
    check_whole(open_graph(root, SETTINGS))


def test_a_changed_byte_is_found_by_the_digests(root: Path) -> None:
    """Reads give it as it is; the digests that commits have of their files tell."""
    graph = Graph.open(str(root), SETTINGS)
    control = graph.door.storage.control
    commits = graph.log().history("main")
    recorded = [path for each in commits for path in json.loads(each.details or "{}").get("files", {})]
    assert {Path(path).suffix for path in recorded} == {".lance", ".arrow"}
    assert [path for each in commits for path in damaged_files(control, each)] == []
    for each in commits:
        for path in json.loads(each.details or "{}").get("files", {}):
            data = (root / path).read_bytes()
            (root / path).write_bytes(bytes([data[0] ^ 1]) + data[1:])
            assert damaged_files(control, each) == [path]
            (root / path).write_bytes(data)
    newest = json.loads(commits[0].details or "{}")["files"]
    (root / min(newest)).unlink()
    assert damaged_files(control, commits[0]) == [min(newest)]


def test_digests_live_through_recovery(tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    die(graph, "write.after_b")
    graph = open_graph(tmp_path / "g", SETTINGS)
    commit = graph.commit("main")
    assert commit.actor_id == "omnigraph:recovery"
    files = json.loads(commit.details or "{}")["files"]
    assert len(files) == 3
    assert damaged_files(graph.door.storage.control, commit) == []
