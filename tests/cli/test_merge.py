"""`omnigraph branch merge`, `revert` and `branch reset` as a user meets them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph_cli.limits import SOURCE_BYTES_MAX
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.processes import Finished, Omnigraph
from tests.support.records import PEOPLE, nodes

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ann's age and Cy clash, Bob is gone here and known there; Dee and Eve are new."""
    root = tmp_path_factory.mktemp("merge") / "g"
    graph = Graph.init(str(root), PEOPLE, SETTINGS)
    people = " ".join(f'insert Person {{ name: "{name}", age: 1 }}' for name in ("Ann", "Bob", "Cy"))
    graph.change(f"query q() {{ {people} }}")
    graph.create_branch("dev")
    graph.create_branch("clean")
    graph.change('query q() { insert Person { name: "Eve" } }', branch="clean")
    graph.change('query q() { update Person set { age: 2 } where name = "Ann" }', branch="dev")
    graph.change('query q() { update Person set { age: 2 } where name = "Cy" }', branch="dev")
    graph.change('query q() { insert Knows { from: "Ann", to: "Bob" } }', branch="dev")
    graph.change('query q() { update Person set { age: 3 } where name = "Ann" }')
    graph.change('query q() { delete Person where name = "Cy" }')
    graph.change('query q() { delete Person where name = "Bob" }')
    return root


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    root = tmp_path / "g"
    shutil.copytree(template, root)
    Graph.open(str(root), SETTINGS).relocate()
    return root


def run(omnigraph: Omnigraph, place: Path, *arguments: str | Path) -> Finished:
    return omnigraph(*arguments, "--store", place, "--json")


def failure(done: Finished) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.err.splitlines()[-1])
    return found


def people(place: Path, branch: str = "main") -> dict[str, int | None]:
    found = nodes(Graph.open(str(place), SETTINGS), "Person", branch)
    return {name: data.get("age") for name, data in found.items()}


def edges(place: Path, branch: str = "main") -> int:
    return Graph.open(str(place), SETTINGS).at(branch=branch).snapshot.entry("edge:Knows").row_count


def conflicts_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def choose(path: Path, *choices: object) -> None:
    lines = conflicts_in(path)
    assert len(lines) == len(choices)
    chosen = [{**line, "choice": choice} for line, choice in zip(lines, choices, strict=True)]
    path.write_text("".join(json.dumps(line) + "\n" for line in chosen))


def test_a_merge_has_two_parents_and_says_what_it_did(place: Path, omnigraph: Omnigraph) -> None:
    graph = Graph.open(str(place), SETTINGS)
    ours, theirs = graph.head("main"), graph.head("clean")
    assert ours is not None
    assert theirs is not None
    done = run(omnigraph, place, "branch", "merge", "clean")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer["outcome"] == "merged"
    assert answer["tables"] == [{"table_key": "node:Person", "upserted": 1, "removed": 0}]
    commit = Graph.open(str(place), SETTINGS).commit(answer["commit"])
    assert (commit.parent_commit_id, commit.merged_parent_commit_id) == (ours.commit_id, theirs.commit_id)
    assert people(place) == {"Ann": 3, "Eve": None}
    again = json.loads(run(omnigraph, place, "branch", "merge", "clean").out)
    assert (again["outcome"], again["commit"]) == ("already_up_to_date", None)


def test_all_conflicts_at_once_and_nothing_changes(place: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    before, file = people(place), tmp_path / "c.jsonl"
    done = run(omnigraph, place, "branch", "merge", "dev", "--conflicts", file)
    assert done.code == 3
    found = failure(done)["merge_conflicts"]
    assert [(each["kind"], each["type_name"], each["property"]) for each in found] == [
        ("orphan_edge", "Knows", None),
        ("divergent_update", "Person", "age"),
        ("delete_vs_update", "Person", None),
    ]
    assert [(found[1][side]) for side in ("base", "ours", "theirs")] == [1, 3, 2]
    assert [{key: line[key] for key in found[0]} for line in conflicts_in(file)] == found
    assert people(place) == before
    said = run(omnigraph, place, "branch", "merge", "dev", "--dry-run")
    dry = json.loads(said.out)
    assert (said.code, dry["conflicts"], dry["commit"]) == (3, found, None)
    assert found[0]["message"] == "dst 'Bob' not found in Person: ours deleted it"
    shown = omnigraph("branch", "merge", "dev", "--dry-run", "--store", place)
    assert (shown.code, shown.out) == (3, "would not merge dev into main: 3 conflicts\n")
    assert [line["choices"] for line in conflicts_in(file)] == [
        ["keep_node", "delete"],
        ["ours", "theirs", "delete", "value"],
        ["ours", "theirs", "delete", "value"],
    ]


def test_the_hint_names_what_helps(place: Path, omnigraph: Omnigraph) -> None:
    """A strategy settles what both changed; a node and its edges are chosen for; a rule is about the data."""
    orphans = omnigraph("branch", "merge", "dev", "--strategy", "ours", "--store", place)
    assert (orphans.code, "hint: settle them one by one: --conflicts FILE" in orphans.err) == (3, True)


@pytest.mark.parametrize(
    ("choices", "expected", "known"),
    [
        (("delete", "ours", "ours"), {"Ann": 3}, 0),
        (("keep_node", "theirs", "theirs"), {"Ann": 2, "Bob": 1, "Cy": 2}, 1),
        (("delete", {"value": 7}, {"value": {"name": "Cy", "age": 9}}), {"Ann": 7, "Cy": 9}, 0),
        (("delete", {"value": None}, "delete"), {"Ann": None}, 0),
    ],
)
def test_conflicts_taken_back_with_a_choice(
    place: Path,
    omnigraph: Omnigraph,
    tmp_path: Path,
    choices: tuple[object, ...],
    expected: dict[str, int | None],
    known: int,
) -> None:
    file = tmp_path / "c.jsonl"
    run(omnigraph, place, "branch", "merge", "dev", "--conflicts", file)
    choose(file, *choices)
    done = run(omnigraph, place, "branch", "merge", "dev", "--resolve", file)
    assert done.code == 0, done.err
    assert people(place) == expected
    assert edges(place) == known
    assert json.loads(run(omnigraph, place, "branch", "merge", "dev").out)["outcome"] == "already_up_to_date"


def test_a_resolution_is_good_for_its_heads_only(place: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    run(omnigraph, place, "branch", "merge", "dev", "--conflicts", file)
    choose(file, "delete", "ours", "ours")
    Graph.open(str(place), SETTINGS).change('query q() { insert Person { name: "Zoe" } }', branch="dev")
    before = people(place)
    done = run(omnigraph, place, "branch", "merge", "dev", "--resolve", file)
    assert done.code == 4
    assert people(place) == before


@pytest.mark.parametrize("into", ["main", "dev", "clean"])
def test_a_source_that_does_not_exist(place: Path, omnigraph: Omnigraph, into: str) -> None:
    """Also where the target has tables to fork yet: nothing of it is lost, and trying again does not help."""
    done = run(omnigraph, place, "branch", "merge", "nope", "--into", into)
    assert done.code == 6
    assert failure(done)["error"] == "branch 'nope' does not exist"


def test_missing_and_unknown_choices_are_listed(place: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    run(omnigraph, place, "branch", "merge", "dev", "--conflicts", file)
    lines = conflicts_in(file)
    other = {**lines[1], "entity_id": "Nobody", "choice": "ours"}
    some = [other, {**lines[0], "choice": "delete"}, {**lines[2], "choice": "ours"}]
    file.write_text("".join(json.dumps(line) + "\n" for line in some))
    done = run(omnigraph, place, "branch", "merge", "dev", "--resolve", file)
    assert done.code == 7
    found = failure(done)
    assert [each["entity_id"] for each in found["unknown"]] == ["Nobody"]
    assert [each["entity_id"] for each in found["missing"]] == ["Ann"]
    file.write_text("")
    done = run(omnigraph, place, "branch", "merge", "dev", "--resolve", file)
    assert done.code == 7
    assert len(failure(done)["missing"]) == 3


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("mine", "must be one of"),
        ({"value": "x"}, "expects I32"),
        ({"valeu": 1}, "must be one of"),
        (["ours"], "must be one of"),
    ],
)
def test_choices_that_are_none(
    place: Path, omnigraph: Omnigraph, tmp_path: Path, choice: object, said: str
) -> None:
    file = tmp_path / "c.jsonl"
    run(omnigraph, place, "branch", "merge", "dev", "--conflicts", file)
    choose(file, "delete", choice, "ours")
    done = run(omnigraph, place, "branch", "merge", "dev", "--resolve", file)
    assert done.code == 7
    assert said in failure(done)["error"]


@pytest.mark.parametrize("content", ["{}", "no json", '{"kind": "divergent_update"}', "[1]", "null"])
def test_a_file_of_something_else(place: Path, omnigraph: Omnigraph, tmp_path: Path, content: str) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text(content)
    assert run(omnigraph, place, "branch", "merge", "dev", "--resolve", file).code == 7


def test_a_strategy_decides_the_rest(place: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    run(omnigraph, place, "branch", "merge", "dev", "--conflicts", file)
    orphan, *_ = conflicts_in(file)
    file.write_text(json.dumps({**orphan, "choice": "delete"}) + "\n")
    done = run(omnigraph, place, "branch", "merge", "dev", "--resolve", file, "--strategy", "theirs")
    assert done.code == 0, done.err
    assert people(place) == {"Ann": 2, "Cy": 2}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("branch", "merge", "main"), 5),
        (("branch", "merge", "dev", "--into", "dev"), 5),
        (("branch", "merge", "nowhere"), 6),
        (("branch", "merge", "dev", "--into", "nowhere"), 6),
        (("branch", "merge", "dev", "--strategy", "mine"), 2),
        (("branch", "merge", "dev", "--if-commit", "01ARZ3NDEKTSV4RRFFQ69G5FAV"), 4),
        (("branch", "merge", "dev", "--resolve", "/nowhere/c.jsonl"), 2),
        (("branch", "merge", "dev", "--conflicts", "/nowhere/c.jsonl"), 2),
        (("revert", "nowhere"), 6),
        (("revert", "main~3"), 5),
        (("revert", "main", "--branch", "nowhere"), 6),
        (("branch", "reset", "dev", "nowhere"), 6),
        (("branch", "reset", "nowhere", "main"), 6),
    ],
)
def test_bad_input(place: Path, omnigraph: Omnigraph, arguments: tuple[str, ...], code: int) -> None:
    before = people(place), people(place, "dev")
    if arguments == ("revert", "main~3"):
        arguments = ("revert", _first(place))
    done = run(omnigraph, place, *arguments)
    assert done.code == code, done.err
    assert (people(place), people(place, "dev")) == before


def _first(place: Path) -> str:
    history = Graph.open(str(place), SETTINGS).log().history("main")
    return history[-1].commit_id


def test_the_source_is_deleted_after_a_merge(place: Path, omnigraph: Omnigraph) -> None:
    assert run(omnigraph, place, "branch", "merge", "dev", "--delete-branch").code == 3
    done = run(omnigraph, place, "branch", "merge", "clean", "--delete-branch")
    assert done.code == 0, done.err
    graph = Graph.open(str(place), SETTINGS)
    assert "clean" not in graph.branches()
    assert people(place) == {"Ann": 3, "Eve": None}
    merged = graph.head("main")
    assert merged is not None
    assert graph.commit(merged.merged_parent_commit_id or "").branch == "clean"
    assert json.loads(done.out)["branch_deleted"] is True


def test_a_source_that_cannot_be_deleted_is_a_warning(place: Path, omnigraph: Omnigraph) -> None:
    Graph.open(str(place), SETTINGS).create_branch("child", "clean")
    done = run(omnigraph, place, "branch", "merge", "clean", "--delete-branch")
    answer = json.loads(done.out)
    assert (done.code, answer["outcome"], answer["branch_deleted"]) == (0, "merged", False)
    assert "child" in answer["branch_delete_error"]
    again = omnigraph("branch", "merge", "clean", "--delete-branch", "--store", place)
    assert (again.code, "warning: branch clean was not deleted:" in again.err) == (0, True)


def test_revert_takes_back_one_commit(place: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    history = Graph.open(str(place), SETTINGS).log().history("main")
    bob_went, cy_went, ann_aged = history[:3]
    done = run(omnigraph, place, "revert", cy_went.commit_id)
    assert done.code == 0, done.err
    assert people(place) == {"Ann": 3, "Cy": 1}
    assert run(omnigraph, place, "revert", bob_went.commit_id).code == 0
    Graph.open(str(place), SETTINGS).change('query q() { update Person set { age: 5 } where name = "Ann" }')
    file = tmp_path / "c.jsonl"
    done = run(omnigraph, place, "revert", ann_aged.commit_id, "--conflicts", file)
    assert done.code == 3
    choose(file, "theirs")
    assert run(omnigraph, place, "revert", bob_went.commit_id, "--resolve", file).code == 4
    assert run(omnigraph, place, "revert", ann_aged.commit_id, "--resolve", file).code == 0
    assert people(place) == {"Ann": 1, "Bob": 1, "Cy": 1}


def test_revert_of_a_merge_takes_back_what_it_brought(place: Path, omnigraph: Omnigraph) -> None:
    run(omnigraph, place, "branch", "merge", "clean")
    assert run(omnigraph, place, "revert", "main").code == 0
    assert people(place) == {"Ann": 3}


def test_reset_makes_a_branch_what_another_is(place: Path, omnigraph: Omnigraph) -> None:
    old = Graph.open(str(place), SETTINGS).head("dev")
    assert old is not None
    done = omnigraph("branch", "reset", "dev", "main", "--store", place)
    assert done.code == 0, done.err
    assert old.commit_id in done.err + done.out
    assert people(place, "dev") == people(place)
    assert edges(place, "dev") == 0
    assert run(omnigraph, place, "branch", "reset", "dev", old.commit_id).code == 0
    assert (people(place, "dev"), edges(place, "dev")) == ({"Ann": 2, "Bob": 1, "Cy": 2}, 1)
    again = json.loads(run(omnigraph, place, "branch", "reset", "dev", "dev").out)
    assert (again["outcome"], again["commit"]) == ("already_up_to_date", None)


def test_conflicts_say_their_values_and_what_to_do(place: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    Graph.open(str(place), SETTINGS).create_branch("left")
    for branch, age in (("left", 7), ("main", 8)):
        Graph.open(str(place), SETTINGS).change(
            f'query q() {{ update Person set {{ age: {age} }} where name = "Ann" }}', branch=branch
        )
    file = tmp_path / "c.jsonl"
    told = omnigraph("branch", "merge", "left", "--store", place, "--conflicts", file)
    assert told.code == 3
    said = "Person/Ann: age was changed differently on both sides (base 3, ours 8, theirs 7)"
    assert told.err.splitlines()[-3:-1] == ["error: 1 conflict; 'main' is unchanged", f"node:Person: {said}"]
    assert told.err.splitlines()[-1].startswith(f'hint: give each line of {file} a "choice"')
    assert [json.loads(line)["choice"] for line in file.read_text().splitlines()] == [None]
    unset = omnigraph("branch", "merge", "left", "--store", place, "--resolve", file)
    assert (unset.code, 'hint: give each conflict a "choice"' in unset.err) == (7, True)
    file.write_text(file.read_text().replace('"choice": null', '"choice": "theirs"'))
    assert omnigraph("branch", "merge", "left", "--store", place, "--resolve", file).code == 0
    assert people(place)["Ann"] == 7
    dry = omnigraph("branch", "merge", "dev", "--store", place)
    assert "hint: settle them by --strategy ours or theirs" in dry.err


def test_what_is_so_already_makes_no_commit(place: Path, omnigraph: Omnigraph) -> None:
    wrong = Graph.open(str(place), SETTINGS).log().history("main")[0].commit_id
    assert run(omnigraph, place, "revert", wrong).code == 0
    head = Graph.open(str(place), SETTINGS).head("main")
    again = omnigraph("revert", wrong, "--store", place)
    assert (again.code, again.err) == (0, "")
    assert again.out == f"nothing to revert: nothing of {wrong} is left on main\n"
    reset = omnigraph("branch", "reset", "main", "main~2", "--store", place)
    assert (reset.code, reset.err) == (0, "")
    assert reset.out == "nothing to reset: main holds what main~2 holds\n"
    dry = json.loads(run(omnigraph, place, "revert", wrong, "--dry-run").out)
    assert (dry["outcome"], dry["tables"]) == ("already_up_to_date", [])
    assert Graph.open(str(place), SETTINGS).head("main") == head
    listed = omnigraph("commit", "list", place, "--filter", "operation=revert", "--json")
    assert [each["operation"] for each in json.loads(listed.out)["commits"]] == ["revert"]


@pytest.mark.parametrize("command", [("branch", "merge", "clean"), ("revert", "main")])
def test_a_file_of_conflicts_that_cannot_be_written_is_refused_before_anything_is_done(
    command: tuple[str, ...], place: Path, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    before = Graph.open(str(place), SETTINGS).head("main")
    for file in (tmp_path / "nowhere" / "c.jsonl", tmp_path):
        done = run(omnigraph, place, *command, "--conflicts", file)
        assert (done.code, failure(done)["code"]) == (2, "usage")
    assert Graph.open(str(place), SETTINGS).head("main") == before


def test_a_file_of_conflicts_is_replaced_as_a_whole_and_only_when_they_are_known(
    place: Path, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text("mine")
    assert run(omnigraph, place, "branch", "merge", "nope", "--conflicts", file).code == 6
    assert file.read_text() == "mine"
    assert run(omnigraph, place, "branch", "merge", "dev", "--conflicts", file).code == 3
    assert len(conflicts_in(file)) == 3
    assert run(omnigraph, place, "branch", "merge", "clean", "--conflicts", file).code == 0
    assert file.read_text() == ""
    assert [each.name for each in tmp_path.iterdir() if each.name != "g"] == ["c.jsonl"]


def test_conflicts_go_to_standard_output_and_come_back_from_standard_input(
    place: Path, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    store = ("--store", str(place))
    done = omnigraph("branch", "merge", "dev", "--conflicts", "-", *store)
    assert done.code == 3
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["kind"] for line in lines] == ["orphan_edge", "divergent_update", "delete_vs_update"]
    dry = omnigraph("branch", "merge", "dev", "--conflicts", "-", "--dry-run", *store)
    assert [json.loads(line) for line in dry.out.splitlines()] == lines
    both = omnigraph("branch", "merge", "dev", "--conflicts", "-", "--json", *store)
    assert both.code == 2
    assert not Path("-").exists()
    for line, choice in zip(lines, ("delete", "ours", "ours"), strict=True):
        line["choice"] = choice
    chosen = "".join(json.dumps(line) + "\n" for line in lines)
    taken = omnigraph("branch", "merge", "dev", "--resolve", "-", *store, stdin=chosen)
    assert taken.code == 0, taken.err
    assert people(place) == {"Ann": 3}


def test_a_file_of_conflicts_may_be_larger_than_a_source_text(
    place: Path, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    """A merge writes as many as there are; it takes back what it wrote."""
    file = tmp_path / "c.jsonl"
    run(omnigraph, place, "branch", "merge", "dev", "--conflicts", file)
    choose(file, "delete", "ours", "ours")
    lines = [{**line, "theirs": "x" * (SOURCE_BYTES_MAX // 2)} for line in conflicts_in(file)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run(omnigraph, place, "branch", "merge", "dev", "--resolve", file)
    assert done.code == 0, done.err
