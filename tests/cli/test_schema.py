"""`omnigraph schema show`, `plan`, `apply` and `diff`, through the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE, node, write_jsonl
from tests.support.trees import fingerprint

NEW = """\
node Person {
  name: String @key
  years: I64? @rename_from("age")
  mood: enum(good, bad)? @default(good)
}
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
"""
REFUSED = PEOPLE.replace("age: I32?", "age: I32\n  must: Bool\n  @range(age, 0..20)")


@pytest.fixture
def graph(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> Path:
    assert omnigraph("init", "--schema", people, "g").code == 0
    data = write_jsonl(tmp_path / "d.jsonl", [node("Person", name="Ann", age=30), node("Person", name="Bob")])
    assert omnigraph("load", "g", "--data", data, "--mode", "append").code == 0
    (tmp_path / "new.pg").write_text(NEW)
    (tmp_path / "refused.pg").write_text(REFUSED)
    return tmp_path / "g"


def test_plan_says_each_step_with_its_cost(graph: Path, omnigraph: Omnigraph) -> None:
    before = fingerprint(graph)
    done = omnigraph("schema", "plan", graph, "--schema", "new.pg")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        'add property Person.mood: enum(bad, good)?, existing rows get "good" (one column)',
        "rename property Person.age to years (metadata only)",
        "change type of Person.years from I32? to I64? (one column)",
        "drop edge WorksAt (metadata only)",
    ]
    assert fingerprint(graph) == before


def test_plan_of_what_the_data_refuses_is_no(graph: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph("schema", "plan", graph, "--schema", "refused.pg")
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines() == [
        "unsupported change on node:Person.age [OG-MF-104, validated]: the property cannot be required while "
        '1 row is null (ids "Bob")',
        "unsupported change on node:Person.must [OG-MF-103, validated]: 2 rows would have no value for a "
        'required property; give it a @default (ids "Ann", "Bob")',
        'unsupported change on node:Person: 1 row breaks @range(age, 0..20) (ids "Ann")',
    ]
    answer = json.loads(omnigraph("schema", "plan", graph, "--schema", "refused.pg", "--json").out)
    assert (answer["supported"], answer["step_count"], answer["branch"]) == (False, 3, "main")
    assert answer["uri"] == str(graph)
    assert [step["rows"] for step in answer["steps"]] == [1, 2, 1]
    assert [detail["samples"] for detail in answer["details"]] == [["Bob"], ["Ann", "Bob"], ["Ann"]]


def test_plan_of_the_same_schema_is_empty(graph: Path, omnigraph: Omnigraph, people: Path) -> None:
    assert omnigraph("schema", "plan", graph, "--schema", people).out == "no change\n"
    answer = json.loads(omnigraph("schema", "plan", graph, "--schema", people, "--json").out)
    assert (answer["supported"], answer["step_count"], answer["steps"]) == (True, 0, [])


def test_plan_as_markdown(graph: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph("schema", "plan", graph, "--schema", "refused.pg", "--format", "md")
    assert done.code == 1
    header, line, *rows = done.out.splitlines()
    assert (header, line) == ("| change | cost | tier |", "|---|---|---|")
    assert len(rows) == 3
    assert all(row.startswith("| **unsupported") and "| refused | validated |" in row for row in rows)


def test_allowed_data_loss_makes_drops_hard(graph: Path, omnigraph: Omnigraph) -> None:
    soft = omnigraph("schema", "plan", graph, "--schema", "new.pg", "--json")
    hard = omnigraph("schema", "plan", graph, "--schema", "new.pg", "--json", "--allow-data-loss")
    assert [json.loads(each.out)["steps"][-1]["mode"] for each in (soft, hard)] == ["soft", "hard"]


def test_plan_asks_the_data_of_the_branch(graph: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    assert omnigraph("branch", "create", "side", "--store", graph).code == 0
    data = write_jsonl(tmp_path / "s.jsonl", [node("Person", name="Cy", age=1)])
    assert omnigraph("load", graph, "--data", data, "--mode", "merge", "--branch", "side").code == 0
    must = PEOPLE.replace("age: I32?", "age: I32?\n  must: Bool")
    counts = []
    for branch in ("main", "side"):
        done = omnigraph("schema", "plan", graph, "--schema", "-", "--branch", branch, "--json", stdin=must)
        counts.append(json.loads(done.out)["steps"][0]["rows"])
    assert counts == [2, 3]


def test_plan_of_the_edited_file_of_the_graph(graph: Path, omnigraph: Omnigraph) -> None:
    own = graph / "_schema.pg"
    own.write_text(NEW)
    assert omnigraph("snapshot", graph).code == 0
    assert (
        omnigraph(
            "query", "--store", graph, "-e", "query q() { match { $p: Person } return { $p.name } }"
        ).code
        == 74
    )
    done = omnigraph("schema", "plan", graph, "--schema", own)
    assert done.code == 0
    assert "rename property Person.age to years" in done.out


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("node Person {", "<stdin>:1:14: "),
        ("node Person { name: Strng }", "<stdin>:1:21: "),
        ("node Person { name: String @key @default(3) @default(4) }", "<stdin>:1:"),
    ],
)
def test_a_text_that_is_no_schema_is_refused_with_its_place(
    text: str, place: str, graph: Path, omnigraph: Omnigraph
) -> None:
    done = omnigraph("schema", "plan", graph, "--schema", "-", stdin=text)
    assert (done.code, done.out) == (7, "")
    assert place in done.err


@pytest.mark.parametrize(
    ("pattern", "verb"),
    [("(", "plan"), ("[", "apply"), ("(?=x)", "apply"), ("((a{100}){100}){100}", "apply")],
)
def test_a_pattern_that_the_engine_does_not_run_is_refused(
    pattern: str, verb: str, graph: Path, omnigraph: Omnigraph
) -> None:
    text = PEOPLE.replace("age: I32?", f'age: I32?\n  @check(name, "{pattern}")')
    done = omnigraph("schema", verb, graph, "--schema", "-", stdin=text)
    assert (done.code, done.out) == (7, "")
    assert f'@check(name, "{pattern}") on Person' in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["plan", "g"], 2, "no schema was given"),
        (["plan", "g", "--schema", "missing.pg"], 2, "no such file"),
        (["plan", "g", "--schema", ""], 2, "--schema is empty"),
        (["plan", "g", "--schema", "new.pg", "--format", "pg"], 2, "'pg' is not one of text, md"),
        (["plan", "g", "--schema", "new.pg", "--format", "md", "--json"], 2, "both --json and --format md"),
        (["plan", "g", "--schema", "new.pg", "--branch", "nope"], 6, "nope"),
        (["plan", "elsewhere", "--schema", "new.pg"], 6, "there is no graph"),
        (["show", "g", "--format", "svgz"], 2, "'svgz' is not one of pg, json, mermaid, dot"),
        (["show", "g", "--branch", "main", "--snapshot", "main"], 2, "both --branch and --snapshot"),
        (["show", "g", "--branch", "nope"], 6, "nope"),
        (["show", "g", "--snapshot", "nope"], 6, "nope"),
        (["diff", "--store", "g"], 2, "A is missing"),
        (["diff", "nope", "--store", "g"], 6, "nope"),
        (["diff", "missing.pg", "--store", "g"], 2, "no such file"),
        (["diff", "main", "", "--store", "g"], 2, "refs or files"),
        (["diff", "-", "-"], 2, "stdin"),
        (["diff", "main", "dev", "extra", "--store", "g"], 2, "extra"),
        (["diff", "main", "new.pg", "--store", "g", "--format", "dot"], 2, "'dot' is not one of text, md"),
        (["diff", "main", "new.pg", "--store", "elsewhere"], 6, "there is no graph"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input(arguments: list[str], code: int, words: str, graph: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph("schema", *arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.err


def test_show_in_every_format(graph: Path, omnigraph: Omnigraph) -> None:
    assert omnigraph("schema", "get", graph).out == PEOPLE
    assert omnigraph("schema", "show", graph, "--format", "pg").out == PEOPLE
    compiled = json.loads(omnigraph("schema", "show", graph, "--format", "json").out)
    assert [each["name"] for each in compiled["nodes"]] == ["Company", "Person"]
    assert omnigraph("schema", "show", graph, "--format", "mermaid").out.startswith("erDiagram\n")
    assert omnigraph("schema", "show", graph, "--format", "dot").out.startswith("digraph schema {\n")
    assert omnigraph("schema", "show", graph, "--format", "svg").out.startswith("<svg xmlns=")
    assert omnigraph("schema", "show", graph, "--branch", "main").out == PEOPLE


def test_diff_of_two_files_needs_no_graph(graph: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = omnigraph("schema", "diff", "../people.pg", "../new.pg", cwd=empty)
    assert done.code == 0
    assert "rename property Person.age to years (metadata only)" in done.out.splitlines()
    same = omnigraph("schema", "diff", "../people.pg", "-", cwd=empty, stdin="// reordered\n" + PEOPLE)
    assert (same.code, same.out) == (0, "no change\n")


def test_diff_goes_from_a_to_b_and_b_is_the_branch(graph: Path, omnigraph: Omnigraph) -> None:
    to_file = json.loads(omnigraph("schema", "diff", "main", "new.pg", "--store", graph, "--json").out)
    assert (to_file["from"], to_file["to"], to_file["equal"]) == ("main", "new.pg", False)
    assert [step["kind"] for step in to_file["steps"]][-1] == "drop_type"
    to_branch = json.loads(omnigraph("schema", "diff", "new.pg", "--store", graph, "--json").out)
    assert (to_branch["from"], to_branch["to"]) == ("new.pg", "main")
    assert [step["kind"] for step in to_branch["steps"]][-1] == "add_type"
    since = json.loads(omnigraph("schema", "diff", "main~1", "--store", graph, "--json").out)
    assert (since["equal"], since["steps"]) == (True, [])


def test_a_branch_comes_before_a_file_of_its_name(graph: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "main").write_text(NEW)
    (tmp_path / "wanted").write_text(NEW)
    assert omnigraph("schema", "diff", "main", "main", "--store", graph).out == "no change\n"
    for name in ("./main", "wanted"):
        assert "drop edge WorksAt" in omnigraph("schema", "diff", "main", name, "--store", graph).out
    assert omnigraph("schema", "diff", "main", "wanted", "--store", graph, "--format", "md").out.startswith(
        "| change"
    )


# ---- apply ----


def test_apply_says_what_it_did_and_a_second_time_that_there_is_nothing_to_do(
    graph: Path, omnigraph: Omnigraph
) -> None:
    assert omnigraph("branch", "create", "dev", "--store", graph).code == 0
    done = omnigraph("schema", "apply", graph, "--schema", "new.pg", "--as", "eve", "--message", "years")
    assert done.code == 0
    assert (
        done.out.splitlines()[:-1]
        == omnigraph("schema", "diff", "main~1", "new.pg", "--store", graph).out.splitlines()
    )
    assert "these branches keep their own schema: dev" in done.err
    again = omnigraph("schema", "apply", graph, "--schema", "new.pg", "--json")
    answer = json.loads(again.out)
    assert (answer["applied"], answer["commit"], answer["steps"]) == (False, None, [])
    assert omnigraph("schema", "show", graph).out == NEW
    exported = omnigraph("export", graph).out
    assert '"years":30' in exported
    assert '"age":30' in omnigraph("export", graph, "--branch", "dev").out
    (newest, *_) = json.loads(omnigraph("commit", "list", graph, "--json").out)["commits"]
    assert (newest["actor_id"], newest["message"]) == ("eve", "years")


def files(graph: Path) -> dict[str, str]:
    """All but the locks, which say who held them last."""
    return {path: digest for path, digest in fingerprint(graph).items() if not path.startswith("__locks/")}


def test_apply_refuses_everything_at_once_and_writes_nothing(graph: Path, omnigraph: Omnigraph) -> None:
    before = files(graph)
    done = omnigraph("schema", "apply", graph, "--schema", "refused.pg", "--json")
    failure = json.loads(done.err)
    assert (done.code, failure["code"], failure["supported"]) == (5, "refused", False)
    assert [step["kind"] for step in failure["steps"]] == ["unsupported_change"] * 3
    assert all(text in failure["error"] for text in ("OG-MF-103", "OG-MF-104", "@range(age, 0..20)"))
    assert files(graph) == before


def test_apply_of_what_is_no_schema_says_where(graph: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "broken.pg").write_text("node Person {\n  name: Strin\n}\n")
    done = omnigraph("schema", "apply", graph, "--schema", "broken.pg")
    assert done.code == 7
    assert "broken.pg:2" in done.err


def test_a_dry_run_is_the_plan(graph: Path, omnigraph: Omnigraph) -> None:
    before = fingerprint(graph)
    for schema, code in (("new.pg", 0), ("refused.pg", 1)):
        planned = omnigraph("schema", "plan", graph, "--schema", schema, "--json")
        dry = omnigraph("schema", "apply", graph, "--schema", schema, "--dry-run", "--json")
        assert (dry.code, dry.out) == (code, planned.out)
    assert fingerprint(graph) == before


def test_apply_as_markdown(graph: Path, omnigraph: Omnigraph) -> None:
    planned = omnigraph("schema", "apply", graph, "--schema", "new.pg", "--dry-run", "--format", "md")
    done = omnigraph("schema", "apply", graph, "--schema", "new.pg", "--format", "md")
    assert planned.out.startswith("| change | cost | tier |")
    table, _, commit = done.out.strip().rpartition("\n\n")
    assert table == planned.out.strip()
    assert commit.startswith("applied as commit ")


def test_an_edited_file_of_the_graph_is_offered(graph: Path, omnigraph: Omnigraph) -> None:
    nothing = omnigraph("schema", "apply", graph)
    assert (nothing.code, "--schema" in nothing.err) == (2, True)
    (graph / "_schema.pg").write_text(NEW)
    assert omnigraph("schema", "show", graph).code == 74
    offered = omnigraph("schema", "apply", graph)
    assert offered.code == 2
    assert f"--schema {graph}/_schema.pg" in offered.err
    assert omnigraph("schema", "apply", graph, "--schema", graph / "_schema.pg").code == 0
    assert omnigraph("schema", "show", graph).out == NEW


def test_what_is_dropped_for_good_is_in_no_newest_file(
    graph: Path, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    (tmp_path / "narrow.pg").write_text(PEOPLE.replace("  age: I32?\n", ""))
    done = omnigraph("schema", "apply", graph, "--schema", "narrow.pg", "--allow-data-loss", "--json")
    answer = json.loads(done.out)
    assert [step["mode"] for step in answer["steps"]] == ["hard"]
    assert answer["warnings"] == []
    assert '"age":30' in omnigraph("export", graph, "--snapshot", "main~1").out
    assert '"age"' not in omnigraph("export", graph).out
