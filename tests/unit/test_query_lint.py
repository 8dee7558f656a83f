"""What lint says about a file, as the command prints it."""

from __future__ import annotations

import json
from typing import Any

from omnigraph_core import shapes
from omnigraph_core.query.lint import lint
from omnigraph_core.schema import Schema, SourceText, compile_schema
from tests.unit.query_sources import DOCS, PEOPLE


def report(text: str, schema: Schema = PEOPLE) -> dict[str, Any]:
    linted = lint(SourceText("q.gq", text), schema)
    shown = shapes.lint_report(linted, {"kind": "file", "path": "s.pg"}, "q.gq")
    result: dict[str, Any] = json.loads(json.dumps(shown))
    return result


def operation(text: str, schema: Schema = PEOPLE) -> dict[str, Any]:
    (result,) = report(text, schema)["results"]
    shown: dict[str, Any] = result["operation"]
    return shown


def touched(*names: str) -> list[dict[str, str]]:
    """`edge:Knows` and the like, as lists of touched types show them."""
    pairs = [name.split(":") for name in names]
    return [{"kind": kind, "type_name": type_name} for kind, type_name in pairs]


def test_a_read_that_is_fine() -> None:
    text = "query q($n: String) { match { $p: Person { name: $n } $p worksAt $c } return { $p.name, $c } }"
    assert report(text) == {
        "status": "ok",
        "schema_source": {"kind": "file", "path": "s.pg"},
        "query_path": "q.gq",
        "queries_processed": 1,
        "errors": 0,
        "warnings": 0,
        "infos": 0,
        "results": [
            {
                "name": "q",
                "kind": "read",
                "status": "ok",
                "operation": {
                    "result": [
                        {"name": "name", "kind": "string", "nullable": False},
                        {"name": "c", "kind": "object", "nullable": False},
                    ],
                    "reads": touched("node:Company", "node:Person", "edge:WorksAt"),
                    "writes": [],
                },
            }
        ],
        "findings": [],
    }


def test_q000_the_file_does_not_parse() -> None:
    shown = report('query ok() { delete Person where name = "a" }\nquery q() { match }')
    assert (shown["status"], shown["errors"], shown["queries_processed"]) == ("error", 1, 0)
    assert shown["results"] == []
    (finding,) = shown["findings"]
    assert (finding["severity"], finding["code"]) == ("error", "Q000")
    assert finding["message"].startswith("q.gq:2:19: parse error: expected '{' after 'match', found '}'")
    assert set(finding) == {"severity", "code", "message"}


def test_a_type_error_does_not_hide_the_other_queries() -> None:
    shown = report(
        "query a() { match { $x: Robot } return { $x } }\n"
        "query b() { match { $p: Person } return { $p } }\n"
        "query c() { match { $p: Person } return { sum($p.name) as s } }\n"
    )
    assert (shown["status"], shown["errors"], shown["queries_processed"]) == ("error", 2, 3)
    first, second, third = shown["results"]
    assert first["error"].startswith("q.gq:1:25: type error: T1: ")
    assert "operation" not in first
    assert second["status"] == "ok"
    assert third["error"].startswith("q.gq:3:43: type error: T8: ")


def test_mutations_without_parameters_are_warned_about() -> None:
    shown = report(
        'query a() { delete Person where name = "Bob" }\n'
        "query b($n: String) { delete Person where name = $n }\n"
        "query c() { insert Person { age: 1 } }\n"
    )
    first, second, third = shown["results"]
    message = "mutation declares no params; hardcoded mutations are easy to miss"
    assert first["warnings"] == third["warnings"] == [message]
    assert "warnings" not in second
    assert (shown["warnings"], shown["errors"]) == (2, 1)


def test_l201_properties_no_update_sets() -> None:
    schema = compile_schema("""
node Person { name: String @key age: I32? joined: Date? tags: [String]? rank: I32 }
node Doc { slug: String @key body: String? embedding: Vector(2)? @embed("body") title: String? }
""")
    shown = report(
        "query a($n: String) { update Person set { age: 1 } where name = $n }\n"
        "query b($n: String) { update Person set { tags: [] } where name = $n "
        'update Doc set { title: "t" } where slug = $n }\n'
        "query c($n: String) { insert Doc { slug: $n } }\n",
        schema,
    )
    assert shown["status"] == "ok"
    assert shown["warnings"] == 2
    assert shown["findings"] == [
        {
            "severity": "warning",
            "code": "L201",
            "message": "Doc.body exists in schema but no update query sets it",
            "type_name": "Doc",
            "property": "body",
            "query_names": ["b"],
        },
        {
            "severity": "warning",
            "code": "L201",
            "message": "Person.joined exists in schema but no update query sets it",
            "type_name": "Person",
            "property": "joined",
            "query_names": ["a", "b"],
        },
    ]


def test_query_names_are_sorted_wherever_they_stand_in_the_file() -> None:
    update = "query {}($n: String) {{ update Person set {{ age: 1 }} where name = $n }}\n"
    text = "".join(update.format(name) for name in ("zoe", "ann", "mia"))
    (finding,) = report(text, compile_schema("node Person { name: String @key age: I32? joined: Date? }"))[
        "findings"
    ]
    assert finding["query_names"] == ["ann", "mia", "zoe"]


def test_rules_about_running_are_not_lint() -> None:
    """Mixing inserts with deletes and updating a key are refused when run, with another exit code."""
    shown = report(
        'query a($n: String) { insert Person { name: $n } delete Person where name = "Bob" }\n'
        'query b($n: String) { update Person set { name: $n age: 1 joined: date("2024-01-01") tags: [] } '
        "where age = 1 }\n"
    )
    assert (shown["status"], shown["errors"], shown["warnings"]) == ("ok", 0, 0)


def test_kinds_and_short_names_of_results() -> None:
    schema = compile_schema("""
node All {
  s: String b: Bool i: I32 j: I64? u: U32 v: U64 f: F32 g: F64 d: Date t: DateTime
  w: Vector(3) l: [I64] e: enum(a, b)?
}
""")
    names = ", ".join(f"$a.{name}" for name in "sbijuvfgdtwle")
    text = f"query q($x: Bool?) {{ match {{ $a: All }} return {{ {names}, now(), 1, $x, $a.s as other }} }}"
    assert [tuple(field.values()) for field in operation(text, schema)["result"]] == [
        ("s", "string", False),
        ("b", "bool", False),
        ("i", "int", False),
        ("j", "bigint", True),
        ("u", "int", False),
        ("v", "bigint", False),
        ("f", "float", False),
        ("g", "float", False),
        ("d", "date", False),
        ("t", "datetime", False),
        ("w", "vector", False, 3),
        ("l", "list", False, "bigint"),
        ("e", "string", True),
        ("now", "datetime", False),
        ("literal", "bigint", False),
        ("x", "bool", True),
        ("other", "string", False),
    ]


def test_results_of_aggregates_and_scores() -> None:
    text = "query q() { match { $d: Doc } return { count($d), sum($d.rank) as s, max($d.title) as m } }"
    assert operation(text, DOCS)["result"] == [
        {"name": "count", "kind": "bigint", "nullable": False},
        {"name": "s", "kind": "float", "nullable": True},
        {"name": "m", "kind": "string", "nullable": True},
    ]


def test_reads_look_into_negations() -> None:
    text = "query q() { match { $p: Person not { $p worksAt $_ not { $p knows $p } } } return { $p } }"
    assert operation(text)["reads"] == touched("node:Company", "node:Person", "edge:Knows", "edge:WorksAt")


def test_what_mutations_read_and_write() -> None:
    insert = operation('query q($a: String) { insert WorksAt { from: $a, to: "Acme" } }')
    assert insert["result"] == []
    assert insert["reads"] == touched("node:Company", "node:Person", "edge:WorksAt")
    assert insert["writes"] == touched("edge:WorksAt")
    update = operation("query q($a: String) { update Person set { age: 1 } where name = $a }")
    assert update["reads"] == update["writes"] == touched("node:Person")
    delete = operation("query q($a: String) { delete Company where name = $a }")
    assert delete["reads"] == delete["writes"] == touched("node:Company", "edge:WorksAt")
    edges = operation("query q($a: String) { delete Knows where from = $a }")
    assert edges["reads"] == edges["writes"] == touched("edge:Knows")


def test_an_empty_file() -> None:
    shown = report("")
    assert (shown["status"], shown["queries_processed"], shown["results"]) == ("ok", 0, [])
