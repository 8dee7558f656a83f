"""The worked examples of the language that are accepted, and what the checker makes of them.

The refused ones are in test_query_rejections.py.
"""

from __future__ import annotations

from datetime import date

import pytest

from omnigraph_core.query import CheckedMutation, CheckedRead, QueryChoiceError, UnknownQueryError
from omnigraph_core.query.checked import (
    Absence,
    Aggregate,
    Assigned,
    ColumnKey,
    Comparison,
    Condition,
    Constant,
    DeleteEntity,
    Direction,
    EdgeTraversal,
    FusedSearch,
    InsertEdge,
    InsertNode,
    NearestSearch,
    NodeBinding,
    NodeUse,
    ParameterUse,
    PropertyKey,
    PropertyTest,
    PropertyUse,
    Score,
    TextMatch,
    TextSearch,
    UpdateNode,
)
from omnigraph_core.query.syntax import AggregateFunction, Operator, TextFunction
from omnigraph_core.schema import PropertyType, Scalar, compile_schema
from tests.unit.query_sources import DOCS, PEOPLE, checked, match, mutation, read

STRING = PropertyType(Scalar.STRING)
I32 = PropertyType(Scalar.I32, nullable=True)
I64 = PropertyType(Scalar.I64)
AGE = PropertyUse("p", "age", I32)

READS = {
    "E33": "query q($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }",
    "E34": "query q() { match { $p: Person $p.age > 28 } return { $p.name as n } order { $p.age desc } }",
    "E35": "query q() { match { $p: Person } return { $p.name as n } order { $p.age } }",
    "E36": 'query q() { match { $p: Person { name: "Ann" } $p knows $f } '
    "return { $f.name as f } order { f } }",
    "E37": 'query q() { match { $c: Company { name: "Acme" } $p worksAt $c } '
    "return { $p.name as n } order { n } }",
    "E38": 'query q() { match { $c: Company { name: "Acme" } $c worksAt $p } '
    "return { $p.name as n } order { n } }",
    "E39": 'query q() { match { $p: Person { name: "Ann" } $p knows{1,2} $f } '
    "return { $f.name as f } order { f } }",
    "E40": 'query q() { match { $p: Person { name: "Ann" } $p knows{3,3} $f } return { $f.name } }',
    "E41": 'query q() { match { $p: Person { name: "Ann" } $p <knows> $f } '
    "return { $f.name as f } order { f } }",
    "E42": "query q() { match { $a: Person $a knows $b $b knows $c $c knows $a } "
    "return { $a.name as a, $b.name as b, $c.name as c } order { a } }",
    "E43": 'query q() { match { $p: Person { name: "Ann" } $p $w:knows $f } '
    "return { $f.name as f, $w.since as s } order { f } }",
    "E44": "query q() { match { $p: Person not { $p worksAt $_ } } return { $p.name } }",
    "E45": 'query q() { match { $p: Person not { $p worksAt $c $c: Company { name: "Acme" } } } '
    "return { $p.name as n } order { n } }",
    "E46": "query q() { match { $p: Person not { $p.age > 28 } } return { $p.name as n } order { n } }",
    "E47a": 'query a() { match { $p: Person $p.tags contains "b" } return { $p.name } }',
    "E47b": 'query b() { match { $p: Person { tags: "b" } } return { $p.name } }',
    "E48": 'query q() { match { $p: Person $p.name starts_with "B" "Robert Bob" contains $p.name } '
    "return { $p.name } }",
    "E49": "query q() { match { $p: Person $c: Company } return { count($p) as n } }",
    "E50": "query q() { match { $p: Person $p worksAt $c } "
    "return { $c.name as company, count($p) as n, avg($p.age) as a } order { n desc } }",
    "E51": "query q() { match { $p: Person } "
    "return { count($p) as rows, count($p.age) as known, sum($p.age) as s, min($p.name) as first } }",
    "E52": 'query q() { match { $p: Person { name: "Zed" } } return { count($p) as n, max($p.age) as m } }',
    "E53": 'query q() { match { $p: Person $p.joined >= date("2024-01-01") } '
    "return { $p.name, now() as at, [1, 2] as l } limit 10 }",
    "E54": "query q($a: I32?) { match { $p: Person $p.age = $a } return { $p.name } }",
    "E55": 'query q() @description("d") @instruction("i") { match { $p: Person } return { $p } limit 2 }',
}
SEARCHES = {
    "E74": 'query q($t: String) { match { $d: Doc search($d.title, $t) fuzzy($d.body, "grph", 1) } '
    "return { $d.slug } }",
    "E75": "query q($v: Vector(4)) { match { $d: Doc $d.rank <= 2.0 } return { $d.slug } "
    "order { nearest($d.embedding, $v) } limit 3 }",
    "E76": "query q($v: Vector(4), $t: String) { match { $d: Doc } return { $d.slug } "
    "order { rrf(nearest($d.embedding, $v), bm25($d.body, $t), 60) } limit 5 }",
}
MUTATIONS = {
    "E84": "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }",
    "E85": 'query q() { insert Person { name: "Ann" age: 31 } }',
    "E86": 'query q() { insert Person { name: "Eve" } '
    'insert Knows { from: "Ann", to: "Eve", since: date("2024-05-01") } }',
    "E87": 'query q() { insert Knows { from: "Ann", to: "Nobody" } }',
    "E88": 'query q() { insert WorksAt { from: "Ann", to: "Zeta" } }',
    "E89": 'query q() { insert Person { name: "Fay", age: 1 } '
    'update Person set { age: 2 } where name = "Fay" }',
    "E90": "query q() { update Person set { age: 50 } where age = 25 "
    "update Person set { age: 60 } where age = 25 }",
    "E92": 'query q() { delete Person where name = "Ann" }',
    "E93": 'query q() { delete Person where age >= 30 delete Person where name = "Dee" }',
    "E94": 'query q() { delete Knows where from = "Ann" }',
    "E96": 'query q() { update Person set { age: 1 } where name = "Zed" }',
    "E101": 'query q() { insert Person { name: "Big", age: 3000000000 } }',
}


@pytest.mark.parametrize("text", READS.values(), ids=READS.keys())
def test_read_examples_are_accepted(text: str) -> None:
    assert isinstance(checked(text), CheckedRead)


@pytest.mark.parametrize("text", SEARCHES.values(), ids=SEARCHES.keys())
def test_search_examples_are_accepted(text: str) -> None:
    assert isinstance(checked(text, DOCS), CheckedRead)


@pytest.mark.parametrize("text", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_mutation_examples_are_accepted(text: str) -> None:
    assert isinstance(checked(text), CheckedMutation)


def test_e33_lookup_by_key() -> None:
    query = read(READS["E33"])
    (binding,) = query.clauses
    person = PEOPLE.node("Person")
    assert binding == NodeBinding("p", person, (PropertyTest("name", STRING, ParameterUse("n", STRING)),))
    assert [(column.name, str(column.type)) for column in query.columns] == [
        ("p.name", "String"),
        ("p.age", "I32?"),
    ]
    assert query.variables == (("p", person),)


def test_e34_filter_and_order() -> None:
    query = read(READS["E34"])
    assert query.clauses[1] == Comparison(AGE, Operator.GT, Constant(28, I64))
    assert query.order == (PropertyKey(AGE, descending=True),)
    assert [column.name for column in query.columns] == ["n"]


@pytest.mark.parametrize(
    ("example", "left", "right", "direction", "hops"),
    [
        ("E36", "p", "f", Direction.FORWARD, (1, 1)),
        ("E37", "p", "c", Direction.FORWARD, (1, 1)),
        ("E38", "c", "p", Direction.BACKWARD, (1, 1)),
        ("E39", "p", "f", Direction.FORWARD, (1, 2)),
        ("E40", "p", "f", Direction.FORWARD, (3, 3)),
        ("E41", "p", "f", Direction.BOTH, (1, 1)),
    ],
)
def test_directions(example: str, left: str, right: str, direction: Direction, hops: tuple[int, int]) -> None:
    traversal = read(READS[example]).clauses[1]
    assert isinstance(traversal, EdgeTraversal)
    assert (traversal.left, traversal.right, traversal.direction) == (left, right, direction)
    assert (traversal.min_hops, traversal.max_hops) == hops
    assert not traversal.per_edge


def test_the_types_of_the_ends_follow_the_direction() -> None:
    traversal = read(READS["E38"]).clauses[1]
    assert isinstance(traversal, EdgeTraversal)
    assert (traversal.left_type, traversal.right_type) == ("Company", "Person")


def test_e42_a_cycle_binds_each_variable_once() -> None:
    query = read(READS["E42"])
    assert [name for name, _ in query.variables] == ["a", "b", "c"]
    assert query.order == (ColumnKey(0),)


def test_e43_edge_binding() -> None:
    query = read(READS["E43"])
    traversal = query.clauses[1]
    assert isinstance(traversal, EdgeTraversal)
    assert (traversal.per_edge, traversal.edge_variable) == (True, "w")
    since = PropertyUse("w", "since", PropertyType(Scalar.DATE, nullable=True), of_edge=True)
    assert query.columns[1].value == since
    assert query.edge_variables == (("w", PEOPLE.edge("Knows")),)


def test_an_anonymous_edge_binding_counts_edges_and_binds_nothing() -> None:
    traversal = match("$p: Person $p $_:knows $f")[1]
    assert isinstance(traversal, EdgeTraversal)
    assert (traversal.per_edge, traversal.edge_variable) == (True, None)


def test_e44_negation_over_an_anonymous_node() -> None:
    query = read(READS["E44"])
    absence = query.clauses[1]
    assert isinstance(absence, Absence)
    assert absence.outer == ("p",)
    (traversal,) = absence.clauses
    assert isinstance(traversal, EdgeTraversal)
    assert traversal.right.startswith("#")
    assert [name for name, _ in query.variables] == ["p"]


def test_each_anonymous_variable_is_its_own() -> None:
    first, second = match("$_ knows $_ $_ knows $_")
    assert isinstance(first, EdgeTraversal)
    assert isinstance(second, EdgeTraversal)
    assert len({first.left, first.right, second.left, second.right}) == 4


def test_e45_what_a_negation_binds_stays_inside() -> None:
    query = read(READS["E45"])
    assert [name for name, _ in query.variables] == ["p"]


def test_a_negation_may_reach_out_through_another() -> None:
    absence = match("$p: Person not { $c: Company not { $p worksAt $c } }")[1]
    assert isinstance(absence, Absence)
    assert absence.outer == ("p",)
    inner = absence.clauses[1]
    assert isinstance(inner, Absence)
    assert inner.outer == ("p", "c")


def test_e47_both_spellings_of_membership() -> None:
    contains = read(READS["E47a"]).clauses[1]
    assert isinstance(contains, Comparison)
    assert contains.operator is Operator.CONTAINS
    braces = read(READS["E47b"]).clauses[0]
    assert isinstance(braces, NodeBinding)
    assert braces.tests[0].type.is_list


def test_e48_either_side_may_be_the_literal() -> None:
    _, _, within = read(READS["E48"]).clauses
    assert within == Comparison(
        Constant("Robert Bob", STRING), Operator.CONTAINS, PropertyUse("p", "name", STRING)
    )


def test_e50_grouping() -> None:
    query = read(READS["E50"])
    assert query.grouped
    company, number, average = query.columns
    assert company.value == PropertyUse("c", "name", STRING)
    assert number.value == Aggregate(AggregateFunction.COUNT, NodeUse("p", PEOPLE.node("Person")), I64)
    assert str(average.type) == "F64?"
    assert query.order == (ColumnKey(1, descending=True),)


def test_e51_types_of_aggregates() -> None:
    query = read(READS["E51"])
    assert [str(column.type) for column in query.columns] == ["I64", "I64", "F64?", "String?"]


def test_e53_typed_literals() -> None:
    query = read(READS["E53"])
    assert query.clauses[1] == Comparison(
        PropertyUse("p", "joined", PropertyType(Scalar.DATE, nullable=True)),
        Operator.GE,
        Constant(date(2024, 1, 1), PropertyType(Scalar.DATE)),
    )
    assert [(column.name, str(column.type)) for column in query.columns[1:]] == [
        ("at", "DateTime"),
        ("l", "[I64]"),
    ]
    assert query.limit == 10


def test_e55_a_bare_variable_is_the_id() -> None:
    query = read(READS["E55"])
    assert [(column.name, str(column.type)) for column in query.columns] == [("p", "String")]


def test_e74_text_clauses() -> None:
    _, search, fuzzy = read(SEARCHES["E74"], DOCS).clauses
    assert search == TextMatch(TextSearch(TextFunction.SEARCH, "d", "title", ParameterUse("t", STRING)))
    assert fuzzy == TextMatch(
        TextSearch(TextFunction.FUZZY, "d", "body", Constant("grph", STRING), Constant(1, I64))
    )


def test_e75_and_e76_rankings() -> None:
    vector = PropertyType(Scalar.VECTOR, dimension=4)
    nearest = NearestSearch("d", "embedding", 4, ParameterUse("v", vector))
    assert read(SEARCHES["E75"], DOCS).ranking == nearest
    assert read(SEARCHES["E76"], DOCS).ranking == FusedSearch(
        nearest, TextSearch(TextFunction.BM25, "d", "body", ParameterUse("t", STRING)), Constant(60, I64)
    )


def test_a_text_can_be_searched_nearest() -> None:
    text = (
        'query q() { match { $d: Doc } return { $d.slug } order { nearest($d.embedding, "graphs") } limit 1 }'
    )
    schema = compile_schema(
        'node Doc { slug: String @key body: String embedding: Vector(4) @embed("body", model="m1") }'
    )
    ranking = read(text, schema).ranking
    assert isinstance(ranking, NearestSearch)
    assert ranking.model == "m1"


def test_scores_can_be_returned() -> None:
    query = read(
        "query q($t: String) { match { $d: Doc } return { $d.slug, bm25($d.body, $t) } "
        "order { bm25($d.body, $t) desc } }",
        DOCS,
    )
    score = query.columns[1]
    assert (score.name, str(score.type)) == ("score", "F64?")
    assert isinstance(score.value, Score)
    assert score.value.search == query.ranking


def test_a_match_of_traversals_alone() -> None:
    query = read("query q() { match { $a knows $b } return { $a.name } }")
    assert [(name, node.name) for name, node in query.variables] == [("a", "Person"), ("b", "Person")]


def test_e84_to_e86_inserts() -> None:
    person, knows = PEOPLE.node("Person"), PEOPLE.edge("Knows")
    assert mutation(MUTATIONS["E84"]).statements == (
        InsertNode(
            person,
            (
                Assigned("name", STRING, ParameterUse("n", STRING)),
                Assigned("age", I32, ParameterUse("a", I32)),
            ),
        ),
    )
    _, edge = mutation(MUTATIONS["E86"]).statements
    since = PropertyType(Scalar.DATE, nullable=True)
    assert edge == InsertEdge(
        knows,
        Constant("Ann", STRING),
        Constant("Eve", STRING),
        (Assigned("since", since, Constant(date(2024, 5, 1), PropertyType(Scalar.DATE))),),
    )


def test_e89_update() -> None:
    _, update = mutation(MUTATIONS["E89"]).statements
    assert update == UpdateNode(
        PEOPLE.node("Person"),
        (Assigned("age", I32, Constant(2, I64)),),
        Condition("name", STRING, Operator.EQ, Constant("Fay", STRING)),
    )


def test_e94_endpoints_are_conditions_on_their_columns() -> None:
    query = mutation(MUTATIONS["E94"])
    condition = Condition("src", STRING, Operator.EQ, Constant("Ann", STRING))
    assert query.statements == (DeleteEntity(PEOPLE.edge("Knows"), condition),)
    assert query.deletes
    (by_target,) = mutation('query q() { delete Knows where to != "Ann" }').statements
    assert isinstance(by_target, DeleteEntity)
    assert by_target.condition.column == "dst"


def test_e103_a_file_of_several_queries_needs_a_name() -> None:
    text = (
        "query one() { match { $p: Person } return { $p.name } }\n"
        'query two() { delete Person where name = "Bob" }\n'
    )
    assert isinstance(checked(text, name="one"), CheckedRead)
    assert isinstance(checked(text, name="two"), CheckedMutation)
    with pytest.raises(QueryChoiceError, match="2 queries"):
        checked(text)
    with pytest.raises(UnknownQueryError) as caught:
        checked(text, name="three")
    assert caught.value.hint == "queries are: one, two"


def test_each_kind_of_query_names_the_command_for_the_other() -> None:
    with pytest.raises(QueryChoiceError) as caught:
        read(MUTATIONS["E92"])
    assert caught.value.hint == "run it with `omnigraph change`"
    with pytest.raises(QueryChoiceError) as caught:
        mutation(READS["E35"])
    assert caught.value.hint == "run it with `omnigraph query`"


WORDS = """
query match($return: String, $order: Bool?) {
  match {
    $query: Person { name: $return, }
    $not knows $as
    $as: Person
    $as $limit:<knows> $now
  }
  return { $query.name as count $as.age as as, count as not, $limit.note as contains }
  order { not desc, contains asc, as }
  limit 007
}
"""


def test_words_are_not_reserved() -> None:
    query = read(WORDS)
    assert query.name == "match"
    assert [column.name for column in query.columns] == ["count", "as", "not", "contains"]
    assert query.columns[2].value == query.columns[0].value
    assert query.order == (ColumnKey(2, descending=True), ColumnKey(3), ColumnKey(1))
    assert query.limit == 7


def test_comments_and_missing_blanks_mean_nothing() -> None:
    text = "/*x*/query q($n:String){match{$p:Person{name:$n}$p.age>28$p<knows>$f}return{$p.name,$f}}// end"
    query = read(text)
    assert len(query.clauses) == 3
    assert [column.name for column in query.columns] == ["p.name", "f"]


def test_edges_are_found_whatever_their_case() -> None:
    for word in ("worksAt", "worksat", "wORKSAT"):
        traversal = match(f"$p: Person $p {word} $c")[1]
        assert isinstance(traversal, EdgeTraversal)
        assert traversal.edge.name == "WorksAt"


def test_an_edge_may_be_called_like_an_operator() -> None:
    schema = compile_schema("node A { k: String @key }\nedge Contains: A -> A\nedge Not_now: A -> A")
    first, second, third = match("$a contains $b $b contains{1,2} $c $a not_now $c", schema)
    assert isinstance(first, EdgeTraversal)
    assert isinstance(second, EdgeTraversal)
    assert isinstance(third, EdgeTraversal)
    assert third.edge.name == "Not_now"


@pytest.mark.parametrize(
    ("clauses", "direction"),
    [
        ("$a knows $b", Direction.FORWARD),
        ("$b: Person $a knows $b", Direction.FORWARD),
        ("$c: Company $c worksAt $p", Direction.BACKWARD),
        ("$p: Person $c worksAt $p", Direction.BACKWARD),
        ("$p: Person $p worksAt $c", Direction.FORWARD),
        ("$x worksAt $y", Direction.FORWARD),
        ("$_ worksAt $y", Direction.FORWARD),
        ("$p: Person $_ worksAt $p", Direction.BACKWARD),
    ],
)
def test_the_direction_comes_from_the_types(clauses: str, direction: Direction) -> None:
    traversal = match(clauses)[-1]
    assert isinstance(traversal, EdgeTraversal)
    assert traversal.direction is direction


@pytest.mark.parametrize(
    ("returned", "names"),
    [
        ('$p, $p.age, "x", now(), $n', ["p", "p.age", "literal", "now", "n"]),
        ("count($p.age)", ["p.age"]),
        ("count($p)", ["p"]),
        ("$p.age as a, a as b", ["a", "b"]),
    ],
)
def test_column_names(returned: str, names: list[str]) -> None:
    query = read(f"query q($n: String) {{ match {{ $p: Person }} return {{ {returned} }} }}")
    assert [column.name for column in query.columns] == names


def test_numbers_of_every_width_can_be_compared() -> None:
    schema = compile_schema("node N { k: String @key a: I32 b: U64 c: F32 d: F64 }")
    clauses = match("$n: N $n.a < $n.d $n.b = 2.5 $n.c >= 7 $n.a != $x", schema, "$x: F32")
    assert len(clauses) == 5


def test_mixed_number_lists_are_lists_of_floats() -> None:
    query = read("query q() { match { $p: Person } return { [1, 2.5] as l, [] as e } }")
    assert query.columns[0].value == Constant((1.0, 2.5), PropertyType(Scalar.F64, is_list=True))
    assert str(query.columns[1].type) == "[String]"


def test_a_required_embedded_vector_may_be_left_out_beside_its_source() -> None:
    text = 'query q() { insert Doc { slug: "a", title: "t", body: "b" } }'
    assert isinstance(checked(text, DOCS), CheckedMutation)


def test_vector_and_blob_assignments() -> None:
    assert mutation(
        'query q($d: String) { insert Doc { slug: "a" title: "t" body: "b" embedding: [1, 0.5, 0, 0] } '
        'insert File { path: "p", data: $d } }',
        DOCS,
    )


def test_a_grouped_read_may_be_ordered_by_a_property_it_returns() -> None:
    query = read(
        "query q() { match { $p: Person $p worksAt $c } return { $c.name as n, count($p) as m } "
        "order { $c.name desc } }"
    )
    assert query.order == (ColumnKey(0, descending=True),)
