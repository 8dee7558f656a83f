"""`load --rejects`: bad records are set aside with their reason, good ones are loaded."""

from __future__ import annotations

import json
import os
import random
import stat
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import outputs
from omnigraph_core.errors import StorageError, UsageError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.load.rejects import TooManyRejects
from omnigraph_core.load.run import Loaded
from omnigraph_core.settings import Settings
from tests.support.records import edge, edges, exported, node, nodes, write_jsonl
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")
SCHEMA = """
node P { k: String @key n: I32? mail: String? @unique kind: enum(a, b)? @range(n, 0..9) }
node Q { t: String }
edge One: P -> P @card(0..1) { w: I32? }
edge Many: P -> P { w: I32? @unique(src, dst) }
"""


class Scene:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.graph = Graph.init(str(folder / "g"), SCHEMA, SETTINGS)
        self.file = folder / "bad.jsonl"

    def load(self, records: list[Any], mode: str = "append", **options: Any) -> Loaded:
        path = self.folder / "in.jsonl"
        lines = [each if isinstance(each, str) else json.dumps(each) for each in records]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return self.graph.load([str(path)], LoadMode(mode), rejects=str(self.file), **options)

    def rejected(self) -> dict[int, dict[str, Any]]:
        """What the file of rejects says, by line of the input."""
        found = [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]
        assert all(each["file"] == str(self.folder / "in.jsonl") for each in found)
        return {each["line"]: each for each in found}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_each_rule_rejects_its_record_and_no_other(scene: Scene) -> None:
    scene.load([node("P", k="old", mail="taken")])
    loaded = scene.load(
        [
            node("P", k="good"),
            '{"type": "P", "data": {',
            node("P", k="x", n="many"),
            node("P", k="range", n=10),
            node("P", k="enum", kind="c"),
            node("P", n=1),
            node("P", k="good", n=2),
            node("P", k="old"),
            node("P", k="mail", mail="taken"),
            node("Nope", k="y"),
            edge("Many", "good", "nobody"),
            edge("Many", "good", "old"),
        ]
    )
    assert (loaded.total, loaded.rejected) == (2, 10)
    reasons = {line: each["reason"] for line, each in scene.rejected().items()}
    assert set(reasons) == set(range(2, 12))
    assert "invalid JSON" in reasons[2]
    assert reasons[3] == "n: expects I32, got string 'many'"
    assert reasons[4] == "@range violation on P.n: value 10 > max 9"
    assert reasons[6] == "k: property is required, but has no value"
    assert "occurs twice" in reasons[7]
    assert reasons[8] == "id 'old' already exists"
    assert "held by 'old' and 'mail'" in reasons[9]
    assert reasons[11] == "dst 'nobody' not found in P"
    assert set(nodes(scene.graph, "P")) == {"old", "good"}
    assert edges(scene.graph, "Many") == [("good", "old")]
    check_whole(scene.graph)


def test_the_original_is_kept(scene: Scene) -> None:
    scene.load([node("P", k="a"), "not json", node("P", k="b", n=99), edge("Many", "a", "zz", w=5)])
    originals = {line: each["record"] for line, each in scene.rejected().items()}
    assert originals == {
        2: "not json",
        3: {"type": "P", "data": {"id": "b", "k": "b", "n": 99}},
        4: {"edge": "Many", "from": "a", "to": "zz", "data": {"w": 5}},
    }


def test_an_edge_goes_with_its_node_and_takes_nothing_else_along(scene: Scene) -> None:
    loaded = scene.load(
        [
            edge("One", "bad", "a"),
            node("P", k="a"),
            node("P", k="bad", n=-1),
            edge("Many", "a", "bad"),
            edge("One", "a", "a"),
        ]
    )
    assert (loaded.total, loaded.rejected) == (2, 3)
    assert set(scene.rejected()) == {1, 3, 4}
    assert edges(scene.graph, "One") == [("a", "a")]


def test_all_edges_of_a_source_with_too_many_are_rejected(scene: Scene) -> None:
    loaded = scene.load(
        [
            node("P", k="a"),
            node("P", k="b"),
            edge("One", "a", "b"),
            edge("One", "a", "a"),
            edge("One", "b", "b"),
        ]
    )
    assert (loaded.rejected, set(scene.rejected())) == (2, {3, 4})
    assert edges(scene.graph, "One") == [("b", "b")]


def test_the_file_is_there_and_empty_when_nothing_is_wrong(scene: Scene) -> None:
    assert scene.load([node("P", k="a")]).rejected == 0
    assert scene.file.read_bytes() == b""


def test_nothing_good_publishes_nothing(scene: Scene) -> None:
    head = scene.graph.head()
    loaded = scene.load([node("P", k="a", n=-1), "[]"])
    assert (loaded.total, loaded.rejected, loaded.commit_id) == (0, 2, None)
    assert scene.graph.head() == head
    assert len(scene.rejected()) == 2


def test_an_overwrite_of_bad_records_alone_empties_nothing(scene: Scene) -> None:
    scene.load([node("P", k="a")])
    loaded = scene.load([node("P", k="b", n=-1)], "overwrite")
    assert (loaded.total, loaded.rejected) == (0, 1)
    assert set(nodes(scene.graph, "P")) == {"a"}


def test_too_many_rejects_change_nothing(scene: Scene) -> None:
    head, records = scene.graph.head(), [node("P", k="a"), *(node("P", k=f"b{n}", n=-1) for n in range(4))]
    with pytest.raises(TooManyRejects) as caught:
        scene.load(records, max_rejects=3)
    assert caught.value.details()["max_rejects"] == 3
    assert scene.graph.head() == head
    assert not scene.file.exists()
    assert scene.load(records, max_rejects=4).rejected == 4


def test_rejects_that_cannot_be_written_change_nothing(scene: Scene) -> None:
    head = scene.graph.head()
    scene.file = scene.folder / "no-such-folder" / "bad.jsonl"
    with pytest.raises(StorageError, match="cannot be written") as failed:
        scene.load([node("P", k="a"), node("P", k="b", n=-1)])
    assert failed.value.field == "rejects"
    assert scene.graph.head() == head
    check_whole(scene.graph)


def test_a_dry_run_counts_rejects_and_writes_nothing(scene: Scene) -> None:
    loaded = scene.load([node("P", k="a"), node("P", k="b", n=-1)], dry_run=True)
    assert (loaded.total, loaded.rejected, loaded.commit_id) == (1, 1, None)
    assert not scene.file.exists()


def _random_record(draw: random.Random) -> Any:
    key = draw.choice("abcdef")
    if draw.random() < 0.5:
        data: dict[str, Any] = {"k": key}
        if draw.random() < 0.4:
            data["n"] = draw.choice([0, 5, 9, 10, -1, "x", None])
        if draw.random() < 0.4:
            data["mail"] = draw.choice(["m1", "m2", "m3"])
        return node("P", **data)
    data = {"id": draw.choice(["e1", "e2", "e3"])} if draw.random() < 0.2 else {}
    return edge(draw.choice(["One", "Many"]), key, draw.choice("abcdefg"), **data)


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.soak] if seed > 5 else []) for seed in range(12)]
)
def test_what_is_not_rejected_is_what_a_plain_load_takes(seed: int, mode: str, tmp_path: Path) -> None:
    """The good records alone load without complaint, to the same graph; and a load rejects some
    exactly when without rejects it would have failed."""
    draw = random.Random(f"{seed}{mode}")
    scene = Scene(tmp_path / "one")
    start = [node("P", k="a", mail="m1"), node("P", k="g"), edge("One", "g", "a", id="e1")]
    scene.load(start)
    records = [_random_record(draw) for _ in range(25)]
    loaded = scene.load(records, mode)
    bad = set(scene.rejected())
    good = [record for line, record in enumerate(records, 1) if line not in bad]
    plain = Graph.init(str(tmp_path / "two" / "g"), SCHEMA, SETTINGS)
    plain.load([write_jsonl(tmp_path / "start.jsonl", start)], LoadMode.APPEND)
    plain.load([write_jsonl(tmp_path / "good.jsonl", good)], LoadMode(mode))
    assert _content(plain) == _content(scene.graph)
    assert loaded.rejected == len(bad)
    assert bad, "the records were drawn to be bad often"


def _content(graph: Graph) -> list[str]:
    """Everything but generated ids."""
    records = exported(graph)
    for record in records:
        if len(record["data"]["id"]) == 26:
            del record["data"]["id"]
    return sorted(json.dumps(record, sort_keys=True) for record in records)


class Naive:
    """The rules as one would say them, over dictionaries: which lines of an input are bad."""

    def __init__(self, committed: list[dict[str, Any]], records: list[dict[str, Any]], mode: str) -> None:
        self.mode = mode
        self.committed = [] if mode == "overwrite" else committed
        self.records = dict(enumerate(records, 1))
        self.bad: set[int] = set()

    def rejected(self) -> set[int]:
        self.bad |= {line for line, record in self.records.items() if self.is_odd(record)}
        self.bad |= self.repeated(self.key) | self.repeated(self.mail) | self.repeated(self.ends)
        while found := self.taken() | self.unanchored() | self.crowded():
            self.bad |= found
        return self.bad

    def good(self) -> dict[int, dict[str, Any]]:
        return {line: record for line, record in self.records.items() if line not in self.bad}

    @staticmethod
    def is_odd(record: dict[str, Any]) -> bool:
        data = record["data"]
        return data.get("kind", "a") not in ("a", "b") or not 0 <= data.get("n", 0) <= 9

    @staticmethod
    def key(record: dict[str, Any]) -> object:
        return record["data"]["k"] if record.get("type") == "P" else None

    @staticmethod
    def mail(record: dict[str, Any]) -> object:
        return record["data"].get("mail") if record.get("type") == "P" else None

    @staticmethod
    def ends(record: dict[str, Any]) -> object:
        return (record["from"], record["to"]) if record.get("edge") == "Many" else None

    def repeated(self, tuple_of: Any) -> set[int]:
        """All but the first; asked before any of them is set aside, so no rule shields another."""
        seen: set[object] = set()
        found = set()
        for line, record in self.records.items():
            value = tuple_of(record)
            if value is None or self.is_odd(record):
                continue
            if value in seen:
                found.add(line)
            seen.add(value)
        return found

    def taken(self) -> set[int]:
        good = self.good()
        keys = {self.key(record) for record in good.values()} if self.mode == "merge" else set()
        there = [record for record in self.committed if self.key(record) not in keys]
        found = set()
        for line, record in good.items():
            for rule in (self.key, self.mail) + ((self.ends,) if self.mode == "append" else ()):
                if rule(record) is not None and rule(record) in [rule(each) for each in there]:
                    found.add(line)
        return found

    def unanchored(self) -> set[int]:
        good = self.good()
        keys = {self.key(record) for record in [*good.values(), *self.committed]}
        return {
            line
            for line, record in good.items()
            if "edge" in record and not {record["from"], record["to"]} <= keys
        }

    def crowded(self) -> set[int]:
        sources: dict[str, set[int]] = {}
        old = [record["from"] for record in self.committed if record.get("edge") == "One"]
        for line, record in self.good().items():
            if record.get("edge") == "One":
                sources.setdefault(record["from"], set()).add(line)
        crowds = [lines for source, lines in sources.items() if len(lines) + old.count(source) > 1]
        return {line for lines in crowds for line in lines}


@pytest.mark.parametrize("mode", ["append", "overwrite", "merge"])
@pytest.mark.parametrize("seed", range(5))
def test_rejects_are_what_a_naive_reading_of_the_rules_rejects(seed: int, mode: str, scene: Scene) -> None:
    random_ = random.Random(seed)

    def draw(count: int, keys: list[str], slip: float) -> list[dict[str, Any]]:
        def any_key() -> str:
            return "nobody" if random_.random() < slip else random_.choice(keys)

        found = []
        for name in keys:
            n = 99 if random_.random() < slip else 5
            mail = "shared@x" if random_.random() < 2 * slip else f"{name}@x"
            found.append(node("P", k=name if random_.random() > slip else keys[0], n=n, mail=mail))
        found += [edge("Many", any_key(), any_key(), w=number) for number in range(count)]
        found += [edge("One", name, any_key()) for name in keys if random_.random() < 0.3 + slip]
        found += [edge("One", any_key(), any_key()) for _ in range(round(20 * slip))]
        return list({json.dumps(record): record for record in found}.values()) if not slip else found

    old = draw(0, [f"old{number}" for number in range(6)], 0)
    if mode == "overwrite":  # an edge would be left without its nodes, if the input has none of its type
        old = [record for record in old if "type" in record]
    scene.load(old)
    keys = [f"new{number}" for number in range(12)] + (["old1", "old2"] if mode != "overwrite" else [])
    records = draw(25, keys, 0.15)
    random_.shuffle(records)
    expected = Naive(old, records, mode).rejected()
    loaded = scene.load(records, mode)
    assert set(scene.rejected()) == expected
    assert loaded.rejected == len(expected) > 0
    check_whole(scene.graph)


@pytest.mark.parametrize("through", ["name", "symbolic link", "hard link", "directory", "standard input"])
def test_rejects_never_take_the_place_of_an_input(
    through: str, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = scene.folder / "in"
    folder.mkdir()
    path = folder / "in.jsonl"
    path.write_text('{"type":"P","data":{"k":"a"}}\n{"type":"P","data":{"k":"b","n":99}}\n')
    before, head, given, out = path.read_bytes(), scene.graph.head(), path, scene.folder / "out.jsonl"
    if through == "symbolic link":
        out.symlink_to(path)
    elif through == "hard link":
        out.hardlink_to(path)
    else:
        out = path
    if through == "directory":
        given = folder
    elif through == "standard input":
        given = Path("-")
        monkeypatch.setattr(outputs, "_STDIN", os.open(path, os.O_RDONLY))
    with pytest.raises(UsageError, match="is the same file as") as refused:
        scene.graph.load([str(given)], LoadMode.APPEND, rejects=str(out))
    assert refused.value.field == "rejects"
    assert path.read_bytes() == before
    assert scene.graph.head() == head
    assert sorted(each.name for each in folder.iterdir()) == ["in.jsonl"]


@pytest.mark.parametrize("name", ["_schema.pg", "nodes/x.jsonl", "."])
def test_rejects_are_not_written_into_the_graph(name: str, scene: Scene) -> None:
    scene.file = scene.folder / "g" / name
    with pytest.raises(UsageError, match="inside the graph"):
        scene.load([node("P", k="b", n=99)])
    check_whole(scene.graph)


def test_a_link_is_followed(scene: Scene) -> None:
    real = scene.folder / "real.jsonl"
    scene.file.symlink_to(real)
    scene.load([node("P", k="b", n=99)])
    assert scene.file.is_symlink()
    assert real.read_text().count("\n") == 1


def test_a_device_is_written_into_and_stays(scene: Scene) -> None:
    scene.file = scene.folder / "null"
    try:
        os.mknod(scene.file, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        scene.file.write_bytes(b"")
    except PermissionError:
        pytest.skip("devices cannot be made here")
    before = scene.file.stat()
    assert scene.load([node("P", k="b", n=99)]).rejected == 1
    assert scene.file.is_char_device()
    assert scene.file.stat().st_ino == before.st_ino
