"""Blame and the history of entities where names, types, branches and versions come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph_core.diff.touches import Touches
from omnigraph_core.diff.trails import Limit, Trails
from omnigraph_core.errors import NotFoundError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.manifest.reader import BranchReplaced
from omnigraph_core.settings import Settings
from tests.support.records import edge, node, write_jsonl

SCHEMA = """
node Person { name: String @key  age: I32?  file: Blob?  tags: [String]? }
node City { name: String @key }
edge Knows: Person -> Person { since: I64? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = Graph.init(str(tmp_path / "g"), SCHEMA, Settings(fsync=False, actor="ann"), message="init")
    change(made, "born", 'insert Person { name: "Ann", age: 1 }')
    return made


def change(graph: Graph, message: str, statements: str, branch: str = "main") -> None:
    graph.change(f"query q() {{ {statements} }}", branch=branch, message=message)


def load(graph: Graph, message: str, *records: dict[str, object], mode: LoadMode = LoadMode.MERGE) -> None:
    path = write_jsonl(graph.location.path.parent / "rows.jsonl", records)
    graph.load([path], mode, message=message)


def blamed(graph: Graph, entity: str, ref: str = "main") -> dict[str, tuple[str | None, Limit | None]]:
    type_name, _, entity_id = entity.partition("/")
    found = graph.blame(type_name, entity_id, ref=ref)
    return {each.property: (each.commit.message, each.limit) for each in found.origins}


def owners(graph: Graph, entity: str, ref: str = "main") -> dict[str, str | None]:
    found = blamed(graph, entity, ref)
    assert {limit for _, limit in found.values()} == {None}
    return {name: message for name, (message, _) in found.items()}


def told(found: Touches) -> list[str | None]:
    return [each.message for each in found.commits]


def test_values_of_every_kind_and_the_ends_of_edges(graph: Graph) -> None:
    load(graph, "bob", node("Person", name="Bob", file="base64:aGVsbG8=", tags=["a", "b"], age=3))
    load(graph, "same file", node("Person", name="Bob", file="base64:aGVsbG8=", tags=["a, b"], age=3))
    load(graph, "edge", edge("Knows", "Ann", "Bob", id="k", since=1))
    load(graph, "turned", edge("Knows", "Bob", "Bob", id="k", since=1))
    assert owners(graph, "Person/Bob") == {"name": "bob", "age": "bob", "file": "bob", "tags": "same file"}
    assert owners(graph, "Knows/k") == {"src": "turned", "dst": "edge", "since": "edge"}
    shown = graph.blame("Knows", "k").to_arrow()
    assert shown.column("property").to_pylist() == ["src", "dst", "since"]
    assert shown.column("message").to_pylist() == ["turned", "edge", "edge"]
    assert graph.commits(type_name="Knows", entity_id="k").to_arrow().num_rows == 2


def test_overwriting_with_the_same_is_no_change(graph: Graph) -> None:
    load(graph, "all", node("Person", name="Ann", age=1), mode=LoadMode.OVERWRITE)
    assert owners(graph, "Person/Ann") == dict.fromkeys(("name", "age", "file", "tags"), "born")
    load(graph, "none", node("Person", name="Zoe"), mode=LoadMode.OVERWRITE)
    load(graph, "back", node("Person", name="Ann", age=1), mode=LoadMode.OVERWRITE)
    assert set(owners(graph, "Person/Ann").values()) == {"back"}
    assert told(graph.commits(type_name="Person", entity_id="Ann")) == ["back", "none", "born"]
    assert owners(graph, "Person/Ann", "main~2")["age"] == "born"


def test_renamed_added_and_widened_properties(graph: Graph) -> None:
    change(graph, "older", 'update Person set { age: 2 } where name = "Ann"')
    renamed = SCHEMA.replace("node Person {", 'node Human @rename_from("Person") {').replace(
        "age: I32?", 'years: I32? @rename_from("age")  town: String? @default("Rome")'
    )
    renamed = renamed.replace("Person -> Person", "Human -> Human")
    graph.apply_schema(renamed, message="renamed")
    graph.apply_schema(renamed.replace("years: I32?", "years: I64?"), message="widened")
    found = graph.blame("Human", "Ann")
    assert {each.property: (each.known_as, each.commit.message) for each in found.origins} == {
        "name": ("name", "born"),
        "years": ("age", "older"),
        "file": ("file", "born"),
        "tags": ("tags", "born"),
        "town": ("town", "renamed"),
    }
    assert told(graph.commits(type_name="Human", entity_id="Ann")) == ["older", "born"]
    assert told(graph.commits(type_name="Person", entity_id="Ann")) == ["older", "born"]
    assert told(graph.commits(type_name="Human")) == ["widened", "renamed", "older", "born", "init"]
    with pytest.raises(NotFoundError, match="there is no type 'Person'"):
        graph.blame("Person", "Ann")
    assert owners(graph, "Person/Ann", "main~2")["age"] == "older"


def test_a_type_that_was_dropped_and_made_again_is_another(graph: Graph) -> None:
    change(graph, "older", 'update Person set { age: 2 } where name = "Ann"')
    graph.apply_schema("node City { name: String @key }\n", message="dropped", allow_data_loss=False)
    assert told(graph.commits(type_name="Person", entity_id="Ann")) == ["dropped", "older", "born"]
    graph.apply_schema(SCHEMA, message="again")
    change(graph, "reborn", 'insert Person { name: "Ann", age: 2 }')
    assert set(owners(graph, "Person/Ann").values()) == {"reborn"}
    assert told(graph.commits(type_name="Person", entity_id="Ann")) == ["reborn"]
    # The new table has replaced the rows that the manifest had of the old one's versions.
    assert owners(graph, "Person/Ann", "main~3") == {
        "name": "born",
        "age": "older",
        "file": "born",
        "tags": "born",
    }


def test_the_commits_of_a_type_leave_out_what_changed_no_row(graph: Graph) -> None:
    for number in range(3):
        change(graph, f"city {number}", f'insert City {{ name: "c{number}" }}')
    graph.optimize(message="tidy")
    graph.revert("main~1", message="take back")
    assert told(graph.commits(type_name="Person")) == ["born", "init"]
    assert told(graph.commits(type_name="City")) == ["take back", "city 2", "city 1", "city 0", "init"]
    assert told(graph.commits(type_name="City", entity_id="c2")) == ["take back", "city 2"]


def test_a_merged_branch_is_followed_while_its_files_are_there(graph: Graph) -> None:
    graph.create_branch("dev")
    change(graph, "on dev", 'update Person set { age: 9 } where name = "Ann"', "dev")
    graph.merge("dev", "main", message="merge")
    graph.delete_branch("dev")
    assert owners(graph, "Person/Ann")["age"] == "on dev"
    assert told(graph.commits("main", type_name="Person", entity_id="Ann")) == ["merge", "on dev", "born"]
    graph.create_branch("dev")
    found = blamed(graph, "Person/Ann")
    assert (found["age"], found["name"]) == (("merge", Limit.BRANCH_DELETED), ("born", None))
    listed = graph.commits("main", type_name="Person", entity_id="Ann")
    assert told(listed) == ["merge", "born"]
    assert [(each.commit.message, each.limit) for each in listed.unknown] == [
        ("on dev", Limit.BRANCH_DELETED)
    ]
    # What a commit counted is on record without its branch.
    assert told(graph.commits("main", type_name="Person")) == ["merge", "on dev", "born", "init"]


def test_what_cleanup_removed_is_the_end_and_tags_are_not(graph: Graph) -> None:
    for age in range(2, 8):
        change(graph, f"age {age}", f'update Person set {{ age: {age} }} where name = "Ann"')
    graph.create_tag("old", "main~4")
    graph.cleanup(keep=2, grace_s=0, force=True)
    found = blamed(graph, "Person/Ann")
    assert found["age"] == ("age 7", None)
    assert found["name"] == ("age 6", Limit.REMOVED)
    listed = graph.commits(type_name="Person", entity_id="Ann")
    assert told(listed) == ["age 7", "age 6", "age 3"]
    assert [(each.commit.message, each.limit) for each in listed.unknown] == [
        ("age 5", Limit.REMOVED),
        ("age 2", Limit.REMOVED),
    ]
    assert blamed(graph, "Person/Ann", "tag:old")["age"] == ("age 3", Limit.REMOVED)
    with pytest.raises(NotFoundError, match="was removed by cleanup"):
        graph.blame("Person", "Ann", ref="main~3")


def test_a_branch_that_goes_while_it_is_read(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another branch of its name has manifest versions and forks of the same names."""
    graph.create_branch("dev")
    change(graph, "on dev", 'update Person set { age: 9 } where name = "Ann"', "dev")
    graph.merge("dev", "main", message="merge")
    prove = Trails.prove

    def late(self: Trails) -> None:
        graph.delete_branch("dev")
        graph.create_branch("dev")
        prove(self)

    monkeypatch.setattr(Trails, "prove", late)
    with pytest.raises(BranchReplaced):
        graph.blame("Person", "Ann")


def test_who_is_asked_about_nobody(graph: Graph) -> None:
    with pytest.raises(NotFoundError, match="there is no Person with the id 'Zoe'"):
        graph.blame("Person", "Zoe")
    assert graph.commits(type_name="Person", entity_id="Zoe").commits == ()
    change(graph, "gone", 'delete Person where name = "Ann"')
    with pytest.raises(NotFoundError):
        graph.blame("Person", "Ann")
    assert told(graph.commits(type_name="Person", entity_id="Ann")) == ["gone", "born"]
