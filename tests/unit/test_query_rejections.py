"""Everything a query is refused for: the code, the message, and which characters it points at.

`«…»` in a source marks what the error must underline; with nothing between, the place
where something is missing.
"""

from __future__ import annotations

import pytest

from omnigraph_core.errors import ErrorKind
from omnigraph_core.query import QueryTypeError, RefusedMutationError, parse_queries
from omnigraph_core.schema import Schema, SourceError, compile_schema
from tests.unit.query_sources import DOCS, PEOPLE, checked, code_of, refused, unmarked

P = "query q() { match { $p: Person "

SYNTAX = {
    "E56 empty braces": (
        "query q() { match { $p: Person { «}» } return { $p.name } }",
        "expected a property name, found '}'",
    ),
    "E57 negative literal": (
        "query q() { match { $p: Person $p.age > «-»1 } return { $p.name } }",
        "expected an operand after '>', found '-'",
    ),
    "E58 conjunction keyword": (
        "query q() { match { $p: Person $p.age > 1 «and» $p.age < 9 } return { $p.name } }",
        "expected a clause or '}', found 'and'",
    ),
    "E59 limit before order": (
        "query q() { match { $p: Person } return { $p.name } limit 5 «order» { $p.name } }",
        "expected '}' to close the query, found 'order'",
    ),
    "E60 single-number hop bound": (
        "query q() { match { $a: Person $a knows{2«}» $b } return { $b.name } }",
        "expected ',' after the least number of hops, found '}'",
    ),
    "E61 upper-case edge word": (
        "query q() { match { $a: Person $a «Knows» $b } return { $b.name } }",
        "expected an operator, found 'Knows'",
    ),
    "E83 direction on nearest": (
        "query q($v: Vector(4)) { match { $d: Doc } return { $d.slug } "
        "order { nearest($d.embedding, $v) «desc» } limit 3 }",
        "expected ',' or '}', found 'desc'",
    ),
    "E99 mutation without predicate": (
        "query q() { delete Person «}»",
        "expected 'where', found '}'",
    ),
    "E100 two conditions": (
        "query q() { delete Person where age > 1 «and» age < 9 }",
        "expected 'insert', 'update', 'delete' or '}', found 'and'",
    ),
    "E102 mixed bodies": (
        'query q() { match { $p: Person } «insert» Person { name: "x" } }',
        "expected 'return' after the match block, found 'insert'",
    ),
    "not a query": ("«quer» q() {}", "expected 'query', found 'quer'"),
    "a keyword needs its boundary": ("«queryfoo»() {}", "expected 'query', found 'queryfoo'"),
    "upper-case query name": ("query «Q»() {}", "expected a query name after 'query', found 'Q'"),
    "no parameter list": ("query q «{» }", "expected '(' after query name, found '{'"),
    "empty body": ("query q() { «}»", "expected 'match', 'insert', 'update' or 'delete', found '}'"),
    "body cut off": ("query q() { match { $p: Person«»", "expected a clause or '}', found end of file"),
    "enum parameter": ("query q($a: «enum»(x)) {}", "expected a parameter type, found 'enum'"),
    "list of vectors": ("query q($a: [«Vector»(3)]) {}", "expected a base type in the list, found 'Vector'"),
    "zero vector": ("query q($a: Vector(«0»)) {}", "Vector dimension must be greater than zero"),
    "duplicate parameter": ("query q($a: I32, «$a»: I64) {}", "duplicate parameter name: $a"),
    "duplicate query": (
        'query q() { delete Person where name = "a" } query «q»() { delete Person where name = "b" }',
        "duplicate query name: q",
    ),
    "duplicate description": (
        'query q() @description("a") «@description("b")» { }',
        "query 'q' cannot include duplicate @description annotations",
    ),
    "other annotation": (
        "query q() @«team»(core) {}",
        "expected description or instruction after '@', found 'team'",
    ),
    "empty match": ("query q() { match { «}» return { 1 } }", "expected a clause, found '}'"),
    "comma between clauses": (P + "«,» $c: Company } return { $p } }", "expected a clause or '}', found ','"),
    "lower-case type": (
        "query q() { match { $p: «person» } return { $p } }",
        "expected a node type after ':'",
    ),
    "missing comma in braces": (
        'query q() { match { $p: Person { name: "a" «age»: 1 } } return { $p } }',
        "expected ',' or '}' after the value, found 'age'",
    ),
    "null in braces": (
        "query q() { match { $p: Person { age: «null» } } return { $p } }",
        "expected a value after ':', found 'null'",
    ),
    "an edge called not": (P + "$p «not» $q } return { $p } }", "expected an edge name, found 'not'"),
    "edge without target": (
        P + "$p knows «}» return { $p } }",
        "expected a variable after 'knows', found '}'",
    ),
    "a traversal is not a filter": (
        P + "$p contains $q«.»name } return { $p } }",
        "expected a clause or '}', found '.'",
    ),
    "half an edge binding": (
        P + "$p $w «knows» $q } return { $p } }",
        "expected ':' after '$w', found 'knows'",
    ),
    "filter without operator": (P + "$p.age «}» return { $p } }", "expected an operator, found '}'"),
    "bm25 as a clause": (
        'query q() { match { $d: Doc bm25($d.title, "x") «}» return { $d } }',
        "expected an operator, found '}'",
    ),
    "empty return": (P + "} return { «}» }", "expected something to return, found '}'"),
    "as without a name": (P + "} return { $p.name as «}» }", "expected a column name after 'as', found '}'"),
    "star": (P + "} return { count(«*») } }", "unexpected character '*'"),
    "unknown function": (P + "} return { «lower»($p.name) } }", "unknown function 'lower'"),
    "rrf of search": (
        'query q() { match { $d: Doc } return { $d } order { rrf(«search»($d.title, "x"), '
        'bm25($d.title, "x")) } limit 1 }',
        "expected nearest(…) or bm25(…), found 'search'",
    ),
    "negative limit": (P + "} return { $p } limit «-»1 }", "expected a number after 'limit', found '-'"),
    "integer beyond 64 bits": (
        P + "$p.age = «9223372036854775808» } return { $p } }",
        "invalid integer: 9223372036854775808 exceeds 9223372036854775807",
    ),
    "hops beyond 32 bits": (
        P + "$p knows{1,«4294967296»} $q } return { $p } }",
        "invalid integer: 4294967296",
    ),
    "limit beyond 64 bits": (
        P + "} return { $p } limit «18446744073709551616» }",
        "invalid integer: 18446744073709551616",
    ),
    "bad date": (
        P + '$p.joined = date(«"2023-02-29"») } return { $p } }',
        "invalid Date literal '2023-02-29'",
    ),
    "bad datetime": (
        P + '} return { datetime(«"yesterday"») as d } }',
        "invalid DateTime literal 'yesterday'",
    ),
    "bad escape": (P + '{ name: "a«\\q»" } } return { $p } }', "unsupported escape sequence: \\q"),
    "trailing comma in a list": (
        P + "} return { [1, «]» as l } }",
        "expected a literal in the list, found ']'",
    ),
    "variable in a list": (P + "} return { [«$p»] as l } }", "expected a literal in the list, found '$p'"),
    "insert nothing": ("query q() { insert Person { «}» }", "expected a property name, found '}'"),
    "insert without braces": ("query q() { insert Person «where» }", "expected '{' to open the assignments"),
    "update without set": (
        "query q() { update Person «{» age: 1 } }",
        "expected 'set' after the type of an update",
    ),
    "contains in a predicate": (
        'query q() { delete Person where name «contains» "a" }',
        "expected one of = != < <= > >= after property name, found 'contains'",
    ),
    "return after a mutation": (
        'query q() { delete Person where name = "a" «return» { 1 } }',
        "expected 'insert', 'update', 'delete' or '}', found 'return'",
    ),
}


@pytest.mark.parametrize(("marked", "reason"), SYNTAX.values(), ids=SYNTAX.keys())
def test_syntax(marked: str, reason: str) -> None:
    error = refused(marked)
    assert code_of(error) == "SYNTAX"
    assert error.category == "parse error"
    assert error.reason.startswith(reason)


EXAMPLES = {
    "E62 null literal": (
        P + "«$p.age = null» } return { $p.name } }",
        "T7: filter comparisons require scalar operands, got I32? and aggregate",
    ),
    "E63a unknown type": (
        "query a() { match { $x: «Robot» } return { $x } }",
        "T1: `Robot` is not a node type",
    ),
    "E63b unknown property": (
        'query b() { match { $p: Person { «nick»: "x" } } return { $p } }',
        "T2: type `Person` has no property `nick`",
    ),
    "E63c unknown edge": (
        "query c() { match { $p: Person $p «likes» $q } return { $q } }",
        "T4: unknown edge type `likes`",
    ),
    "E64 wrong endpoint": (
        "query q() { match { $c: Company «$c» knows $p } return { $p.name } }",
        "T5: variable `$c` has type `Company`, which is not an endpoint of edge `Knows: Person -> Person`",
    ),
    "E65 id is not a property": (P + "} return { $p.«id» } }", "T6: type `Person` has no property `id`"),
    "E66 incomparable operands": (
        P + '«$p.age = "x"» } return { $p.name } }',
        "T7: cannot compare I32? with String",
    ),
    "E67 enum literal not allowed": (
        'query q() { match { $c: Company { size: «"huge"» } } return { $c.name } }',
        "T3: property `size` expects one of [large, small], got 'huge'",
    ),
    "E68 bad aggregate argument": (
        P + "} return { «sum($p.name)» as s } }",
        "T8: sum() requires a numeric value, got String",
    ),
    "E69 aggregate beside a literal": (
        P + '} return { count($p) as n, «"x"» as y } }',
        "T9: beside an aggregate, only properties and variables can be returned",
    ),
    "E70 unbounded traversal": (
        P + "$p knows«{1,}» $f } return { $f.name } }",
        "T15: unbounded traversal is disabled; use bounded traversal {min,max}",
    ),
    "E71 undirected over mixed endpoints": (
        P + "$p <«worksAt»> $c } return { $c.name } }",
        "T22: undirected traversal needs equal endpoint types, got `WorksAt: Person -> Company`",
    ),
    "E72a bare edge binding": (
        "query a() { match { $p: Person $p $w:knows $f } return { «$w» } }",
        "T23: edge variable `$w` cannot be used bare; name one of its properties",
    ),
    "E72b edge binding with bounds": (
        "query b() { match { $p: Person $p $w:knows«{1,2}» $f } return { $f.name } }",
        "T23: an edge variable stands for one edge and takes no bounds",
    ),
    "E73 traversal that looks like a filter": (
        "query q($a: String, $b: String) { match { $p: Person $a «contains» $b } return { $p.name } }",
        "T4: unknown edge type `contains`",
    ),
    "E97a missing required": (
        "query a() { insert «Person» { age: 1 } }",
        "T12: insert into `Person` lacks required property `name`",
    ),
    "E97b duplicate": (
        'query b() { insert Person { name: "x", «name»: "y" } }',
        "T13: property `name` is assigned twice",
    ),
    "E97c unknown": (
        'query c() { insert Person { name: "x", «nick»: "y" } }',
        "T11: a mutation names properties of its type: `Person` has no property `nick`",
    ),
    "E97d undeclared": (
        "query d() { insert Person { name: «$n» } }",
        "T14: mutation uses undeclared parameter `$n`",
    ),
    "E98a missing endpoint": (
        'query a() { insert «Knows» { from: "Ann" } }',
        "T12: insert into edge type `Knows` lacks endpoint `to`",
    ),
    "E98b update on an edge": (
        'query b() { update «Knows» set { note: "x" } where note = "y" }',
        "T16: update is not supported on edge type `Knows`",
    ),
    "E98c unknown type": (
        "query c() { delete «Robot» where a = 1 }",
        "T10: unknown node or edge type `Robot`",
    ),
}

D = "query q($v: Vector(4), $t: String) { match { $d: Doc } return { $d.slug as s } "
SEARCH_EXAMPLES = {
    "E77 nearest without limit": (
        D + "order { «nearest($d.embedding, $v)» } }",
        "T17: nearest() ordering requires a limit",
    ),
    "E78 wrong dimension": (
        "query q($v: Vector(3)) { match { $d: Doc } return { $d.slug } "
        "order { nearest($d.embedding, «$v») } limit 3 }",
        "T15: nearest vector dimension mismatch: property is Vector(4), query is Vector(3)",
    ),
    "E79 alias key with nearest": (
        D + "order { nearest($d.embedding, $v), «s» } limit 3 }",
        "T18: ordering by a column cannot be combined with nearest()",
    ),
    "E80a search on a number": (
        'query a() { match { $d: Doc search(«$d.rank», "x") } return { $d.slug } }',
        "T19: search() requires a String property, `rank` is F64?",
    ),
    "E80b match_text on a number": (
        'query b() { match { $d: Doc match_text(«$d.rank», "x") } return { $d.slug } }',
        "T20: match_text() requires a String property, `rank` is F64?",
    ),
    "E81 rrf without limit": (
        D + "order { «rrf(bm25($d.title, $t), bm25($d.body, $t))» } }",
        "T21: rrf() ordering requires a limit",
    ),
    "E82 blob projection": (
        "query q() { match { $f: File } return { «$f.data» } }",
        "T24: a query cannot return, compare, order by or aggregate a Blob: property `data` is one",
    ),
}

READ_RULES = {
    "T1 for an edge type": ("query q() { match { $x: «Knows» } return { $x } }", "T1: `Knows` is not"),
    "T3 wrong type": (
        P + '{ age: «"x"» } } return { $p } }',
        "T3: a literal must fit its property: `age` expects I32?, got String",
    ),
    "T3 list for membership": (
        P + '{ tags: «["b"]» } } return { $p } }',
        "T3: a literal must fit its property: `tags` expects one String, got [String]",
    ),
    "T3 wrong item": (
        P + "{ tags: «1» } } return { $p } }",
        "T3: a literal must fit its property: `tags` expects String?, got I64",
    ),
    "T7 wrong parameter in braces": (
        "query q($a: String) { match { $p: Person { age: «$a» } } return { $p } }",
        "T7: a value must fit its property: `age` expects I32?, got parameter `$a` of type String",
    ),
    "T7 now in braces": (
        P + "{ joined: «now()» } } return { $p } }",
        "T7: a value must fit its property: `joined` expects Date?, got now() of type DateTime",
    ),
    "undeclared variable in braces": (
        P + "{ name: «$typo» } } return { $p } }",
        "variable `$typo` is not bound",
    ),
    "node as a value": (
        "query q() { match { $q: Person $p: Person { name: «$q» } } return { $p } }",
        "T7: a value must fit its property: `name` expects String, got variable `$q`",
    ),
    "rebound": (
        P + "«$p: Company» } return { $p } }",
        "variable `$p` already bound to type Person, cannot rebind to Company",
    ),
    "parameter bound to a node": (
        "query q($p: String) { match { «$p»: Person } return { $p } }",
        "`$p` is a parameter and cannot be bound to a node",
    ),
    "parameter as an endpoint": (
        "query q($n: String) { match { $p: Person $p knows «$n» } return { $p } }",
        "`$n` is a parameter and cannot be bound to a node",
    ),
    "T5 conflicting target": (
        "query q() { match { $c: Company $p: Person $p knows «$c» } return { $p } }",
        "T5: variable `$c` has type `Company`, but edge `Knows: Person -> Person` leads to `Person` here",
    ),
    "T5 same variable at both ends": (
        "query q() { match { $x worksAt «$x» } return { $x } }",
        "T5: variable `$x` has type `Person`, but edge `WorksAt: Person -> Company` leads to `Company` here",
    ),
    "T6 unbound in return": (P + "} return { «$z».name } }", "T6: variable `$z` is not bound"),
    "T6 unbound in a filter": (P + "«$z».age = 1 } return { $p } }", "T6: variable `$z` is not bound"),
    "T6 property of a parameter": (
        "query q($n: String) { match { $p: Person «$n».x = 1 } return { $p } }",
        "T6: `$n` is a parameter and has no properties",
    ),
    "T6 unknown edge property": (
        P + "$p $w:knows $f } return { $w.«weight» } }",
        "T6: type `Knows` has no property `weight`",
    ),
    "T6 anonymous": (P + "$p knows $_ } return { «$_».name } }", "T6: variable `$_` is not bound"),
    "bare unbound variable": (P + "} return { «$z» } }", "variable `$z` is not bound"),
    "inside a negation, not outside": (
        P + "not { $p worksAt $c } } return { «$c» } }",
        "variable `$c` is not bound",
    ),
    "T7 node in a filter": (
        P + "«$p = 1» } return { $p } }",
        "T7: filter comparisons require scalar operands, got node Person and I64",
    ),
    "T7 list compared": (
        P + '«$p.tags = ["a"]» } return { $p } }',
        "T7: filter comparisons require scalar operands, got [String]? and [String]",
    ),
    "T7 contains in a number": (
        P + "«$p.age contains 1» } return { $p } }",
        "T7: cannot apply contains to I32? and I64",
    ),
    "T7 starts_with on a list": (
        P + '«$p.tags starts_with "a"» } return { $p } }',
        "T7: cannot apply starts_with to [String]? and String",
    ),
    "T7 aggregate in a filter": (
        P + "«count($p) > 1» } return { $p } }",
        "T7: filter comparisons require scalar operands, got aggregate and I64",
    ),
    "T7 now against a Date": (
        P + "«$p.joined < now()» } return { $p } }",
        "T7: cannot compare Date? with DateTime",
    ),
    "T8 max of a date": (P + "} return { «max($p.joined)» as m } }", "T8: max() requires a number or String"),
    "T8 sum of a node": (P + "} return { «sum($p)» as m } }", "T8: sum() requires a numeric value, got node"),
    "T8 min of a node": (
        P + "} return { «min($p)» as m } }",
        "T8: min() requires a number or String, got node",
    ),
    "T8 aggregate of an aggregate": (
        P + "} return { count(«sum($p.age)») as m } }",
        "T8: count() takes a property, a variable or a literal",
    ),
    "T9 negation of strangers": (
        P + "«not» { $q: Company } } return { $p } }",
        "T9: negation must mention a variable bound outside of it",
    ),
    "T9 now beside an aggregate": (
        P + "} return { count($p) as n, «now()» as t } }",
        "T9: beside an aggregate",
    ),
    "T15 no hop at all": (
        P + "$p knows«{0,2}» $q } return { $p } }",
        "T15: traversal min hops must be at least 1",
    ),
    "T15 bounds the wrong way": (
        P + "$p knows«{3,2}» $q } return { $p } }",
        "T15: traversal max hops (2) is below min hops (3)",
    ),
    "T23 edge as an endpoint": (
        P + "$p $w:knows $f «$w» knows $g } return { $p } }",
        "T23: edge variable `$w` cannot be used as a node",
    ),
    "T23 taken name": (
        P + "$p «$p»:knows $f } return { $p } }",
        "T23: edge variable `$p` must be a new name",
    ),
    "T23 own target": (
        P + "$p «$f»:knows $f } return { $p } }",
        "T23: edge variable `$f` must be a new name",
    ),
    "unknown column in order": (P + "} return { $p.name as n } order { «m» } }", "unknown column `m`"),
    "unknown column in return": (P + "} return { «n», $p.name as n } }", "unknown column `n`"),
    "two columns of a name": (
        P + "} return { $p.name as n, «$p.age as n» } }",
        "two returned columns are called `n`",
    ),
    "ordering by a literal": (P + "} return { $p.name } order { «1» } }", "unsupported ordering expression"),
    "ordering by a node": (P + "} return { $p.name } order { «$p» } }", "unsupported ordering expression"),
    "ordering by a list": (
        P + "} return { $p.name } order { «$p.tags» } }",
        "cannot order by a value of type [String]?",
    ),
    "ordering groups by something else": (
        P + "} return { count($p) as n } order { «$p.age» } }",
        "beside an aggregate, only returned columns can be ordered by",
    ),
    "reserved parameter": (
        "query q(«$__nanograph_now»: DateTime) { match { $p: Person } return { $p } }",
        "parameter name `$__nanograph_now` is reserved",
    ),
    "nested lists": (P + "} return { [1, «[2]»] as l } }", "nested list literals are not supported"),
    "mixed lists": (
        P + '} return { [1, «"a"»] as l } }',
        "list items have no common type: I64 and String",
    ),
    "a match of nothing": (
        "query «q»($a: I32) { match { $a = 1 } return { $a } }",
        "the match binds no node",
    ),
}

SEARCH_RULES = {
    "T3 vector in braces": (
        "query q() { match { $d: Doc { embedding: «[1, 2, 3, 4]» } } return { $d } }",
        "T3: a Vector cannot be matched: property `embedding` is a Vector(4)",
    ),
    "T3 blob in braces": (
        'query q() { match { $f: File { data: «"x"» } } return { $f } }',
        "T3: a Blob cannot be matched: property `data` is one",
    ),
    "T24 blob compared": (
        'query q() { match { $f: File «$f.data = "x"» } return { $f } }',
        "T24: a query cannot return, compare, order by or aggregate a Blob: property `data` is one",
    ),
    "T24 blob parameter compared": (
        "query q($b: Blob) { match { $d: Doc «$d.title = $b» } return { $d } }",
        "T24: a query cannot return, compare, order by or aggregate a Blob",
    ),
    "T24 blob parameter returned": (
        "query q($b: Blob) { match { $d: Doc } return { «$b» } }",
        "T24: a query cannot return, compare, order by or aggregate a Blob",
    ),
    "T24 blob parameter counted": (
        "query q($b: Blob) { match { $d: Doc } return { count(«$b») as n } }",
        "T24: a query cannot return, compare, order by or aggregate a Blob",
    ),
    "T21 score of rrf by its name": (
        "query q($t: String) { match { $d: Doc } return { $d.slug, "
        "rrf(bm25($d.title, $t), bm25($d.body, $t)) as score } order { «score» desc } }",
        "T21: rrf() ordering requires a limit",
    ),
    "T7 search compared": (
        'query q() { match { $d: Doc «search($d.title, "x") = true» } return { $d } }',
        "T7: filter comparisons require scalar operands, got search and Bool",
    ),
    "T15 nearest on a String": (
        D + "order { nearest(«$d.title», $v) } limit 1 }",
        "T15: nearest() requires a Vector property, `title` is String",
    ),
    "T15 nearest on nothing": (
        D + "order { nearest(«$x».embedding, $v) } limit 1 }",
        "T15: variable `$x` is not bound",
    ),
    "T15 literal of another length": (
        D + "order { nearest($d.embedding, «[1, 2]») } limit 1 }",
        "T15: nearest vector dimension mismatch: property is Vector(4), query is Vector(2)",
    ),
    "T15 neither vector nor text": (
        D + "order { nearest($d.embedding, «1») } limit 1 }",
        "T15: nearest() requires a Vector(4), a list of numbers or a String, got I64",
    ),
    "T18 alias before nearest": (
        D + "order { «s», nearest($d.embedding, $v) } limit 3 }",
        "T18: ordering by a column cannot be combined with nearest()",
    ),
    "T19 number of edits": (
        'query q() { match { $d: Doc fuzzy($d.title, "x", «1.5») } return { $d } }',
        "T19: max_edits of fuzzy() must be an integer, got F64",
    ),
    "T19 query is a number": (
        "query q() { match { $d: Doc search($d.title, «1») } return { $d } }",
        "T19: search() requires a String query, got I64",
    ),
    "T19 query is a property": (
        "query q() { match { $d: Doc search($d.title, «$d.body») } return { $d } }",
        "T19: the query of search() must be a literal or a parameter",
    ),
    "T19 field is a text": (
        'query q() { match { $d: Doc search(«"title"», "x") } return { $d } }',
        "T19: search() searches a property, as in $x.title",
    ),
    "T20 bm25": (D + "order { bm25(«$d.rank», $t) } }", "T20: bm25() requires a String property"),
    "T21 k is zero": (
        D + "order { rrf(bm25($d.title, $t), bm25($d.body, $t), «0») } limit 1 }",
        "T21: k of rrf() must be greater than zero",
    ),
    "T21 k is a text": (
        D + "order { rrf(bm25($d.title, $t), bm25($d.body, $t), «$t») } limit 1 }",
        "T21: k of rrf() must be an integer, got String",
    ),
    "T21 two variables": (
        "query q($t: String) { match { $d: Doc $d cites $e } return { $d } "
        "order { «rrf(bm25($d.title, $t), bm25($e.body, $t))» } limit 1 }",
        "T21: rrf() ranks one variable, got `$d` and `$e`",
    ),
    "T23 search on an edge": (
        'query q() { match { $d: Doc $d $w:cites $e search(«$w».weight, "x") } return { $d } }',
        "T23: search() cannot search edge variable `$w`",
    ),
    "T24 counting blobs": (
        "query q() { match { $f: File } return { count(«$f.data») as n } }",
        "T24: a query cannot return, compare, order by or aggregate a Blob: property `data` is one",
    ),
    "T24 ordering by a blob": (
        "query q() { match { $f: File } return { $f } order { «$f.data» } }",
        "T24: a query cannot return, compare, order by or aggregate a Blob: property `data` is one",
    ),
    "a search after another key": (
        D + "order { $d.rank, «bm25($d.title, $t)» } }",
        "a search must be the first order key, and the only search",
    ),
    "worst first": (
        D + "order { bm25($d.title, $t) «asc» } }",
        "a search ranks the best first; asc does not apply",
    ),
    "aggregates by relevance": (
        "query q($t: String) { match { $d: Doc } return { count($d) as n } order { «bm25($d.title, $t)» } }",
        "rows of an aggregate cannot be ordered by a search",
    ),
}

MUTATION_RULES = {
    "T3 wrong literal": (
        "query q() { insert Person { name: «1» } }",
        "T3: a literal must fit its property: `name` expects String, got I64",
    ),
    "T3 enum": (
        'query q() { insert Company { name: "a", size: «"huge"» } }',
        "T3: property `size` expects one of [large, small], got 'huge'",
    ),
    "T3 scalar for a list": (
        'query q() { insert Person { name: "a", tags: «"b"» } }',
        "T3: a literal must fit its property: `tags` expects [String]?, got String",
    ),
    "T3 in a predicate": (
        'query q() { delete Person where age = «"x"» }',
        "T3: a literal must fit its property: `age` expects I32?, got String",
    ),
    "T3 endpoint": (
        'query q() { insert Knows { from: «1», to: "b" } }',
        "T3: a literal must fit its property: `from` expects String, got I64",
    ),
    "T7 wrong parameter": (
        "query q($a: String) { update Person set { age: «$a» } where age = 1 }",
        "T7: a value must fit its property: `age` expects I32?, got parameter `$a` of type String",
    ),
    "T7 list in a predicate": (
        'query q() { delete Person where tags = «"a"» }',
        "T7: only scalars can be compared: property `tags` is a [String]?",
    ),
    "T7 now into a Date": (
        "query q() { update Person set { joined: «now()» } where age = 1 }",
        "T7: a value must fit its property: `joined` expects Date?, got now() of type DateTime",
    ),
    "T10 unknown type": (
        "query q() { insert «Nope» { a: 1 } }",
        "T10: unknown node or edge type `Nope`",
    ),
    "T11 id is not addressable": (
        'query q() { delete Person where «id» = "a" }',
        "T11: a mutation names properties of its type: `Person` has no property `id`",
    ),
    "T11 endpoint of a node": (
        'query q() { delete Person where «from» = "a" }',
        "T11: a mutation names properties of its type: `Person` has no property `from`",
    ),
    "T13 endpoint twice": (
        'query q() { insert Knows { from: "a", to: "b", «to»: "c" } }',
        "T13: property `to` is assigned twice",
    ),
    "T14 in a predicate": (
        "query q() { delete Person where name = «$n» }",
        "T14: mutation uses undeclared parameter `$n`",
    ),
}
DOC_MUTATION_RULES = {
    "T3 vector length": (
        'query q() { insert Doc { slug: "a", title: "t", body: "b", embedding: «[1, 2]» } }',
        "T3: a literal must fit its property: `embedding` expects 4 values, got 2",
    ),
    "T7 vector parameter": (
        'query q($v: Vector(3)) { insert Doc { slug: "a", title: "t", body: "b", embedding: «$v» } }',
        "T7: a value must fit its property: `embedding` expects 4 values, got parameter `$v`",
    ),
    "T11 blob in a predicate": (
        'query q() { delete File where «data» = "x" }',
        "T11: a Blob cannot be in a predicate: property `data` is one",
    ),
    "T12 embedded vector without its source": (
        'query q() { insert «Doc» { slug: "a", title: "t" } }',
        "T12: insert into `Doc` lacks required property `body`",
    ),
}

ON_PEOPLE = {**EXAMPLES, **READ_RULES, **MUTATION_RULES}
ON_DOCS = {**SEARCH_EXAMPLES, **SEARCH_RULES, **DOC_MUTATION_RULES}
TYPES = {
    **{name: (PEOPLE, *case) for name, case in ON_PEOPLE.items()},
    **{name: (DOCS, *case) for name, case in ON_DOCS.items()},
}


@pytest.mark.parametrize(("schema", "marked", "reason"), TYPES.values(), ids=TYPES.keys())
def test_types(schema: Schema, marked: str, reason: str) -> None:
    error = refused(marked, schema)
    assert isinstance(error, QueryTypeError)
    assert error.category == "type error"
    assert error.reason.startswith(reason)
    code, colon, _ = reason.partition(":")
    expected = code if colon and code[:1] == "T" and code[1:].isdigit() else None
    assert error.code == expected


def test_every_code_is_covered() -> None:
    """The table of codes in the language reference: T1 to T24."""
    codes = {reason.partition(":")[0] for _, _, reason in TYPES.values()}
    assert {f"T{number}" for number in range(1, 25)} <= codes


def test_the_order_of_checks() -> None:
    """Return before order, then T21, T17, T18 and T9, whatever else is wrong."""
    order = 'order { rrf(bm25($d.title, "x"), bm25($d.body, "x")), nearest($d.embedding, $v) }'
    for returned, code in (("$z.a", "T6"), ('count($d) as n, "x"', "T21")):
        with pytest.raises(QueryTypeError) as caught:
            checked(
                "query q($v: Vector(4)) { match { $d: Doc } return { " + returned + " } " + order + " }", DOCS
            )
        assert caught.value.code == code


REFUSED = {
    "E95 D2": (
        'query q() { insert Person { name: "Gus" } «delete» Person where name = "Bob" }',
        "mutation 'q' on the same query mixes inserts/updates and deletes; split into separate mutations: "
        "(1) inserts and updates, then (2) deletes",
        "mixed",
    ),
    "D2 the other way": (
        'query q() { delete Knows where from = "a" «update» Person set { age: 1 } where age = 2 }',
        "mutation 'q' on the same query mixes inserts/updates and deletes; split into separate mutations: "
        "(1) inserts and updates, then (2) deletes",
        "mixed",
    ),
    "E91 update of the key": (
        'query q() { update Person set { «name»: "Anna" } where name = "Ann" }',
        "cannot update @key property 'name' — delete and re-insert instead",
        "key_update",
    ),
}


@pytest.mark.parametrize(("marked", "reason", "rule"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_mutations(marked: str, reason: str, rule: str) -> None:
    text, start, _ = unmarked(marked)
    with pytest.raises(RefusedMutationError) as caught:
        checked(text)
    error = caught.value
    assert error.kind is ErrorKind.REFUSED
    assert str(error).startswith(f"query.gq:1:{start + 1}: {reason}\n")
    assert error.details() == {"rule": rule, "file": "query.gq", "line": 1, "column": start + 1}


def test_every_member_of_a_composite_key_is_protected() -> None:
    schema = compile_schema("node Seat { hall: String row: I32 note: String? @key(hall, row) }")
    with pytest.raises(RefusedMutationError, match="'row'"):
        checked('query q() { update Seat set { note: "x", row: 2 } where hall = "A" }', schema)


def test_the_whole_message_of_a_type_error() -> None:
    text = '// who\nquery q() {\n  match { $p: Person\n    $p.age = "x" }\n  return { $p }\n}\n'
    with pytest.raises(QueryTypeError) as caught:
        checked(text)
    assert str(caught.value) == (
        'query.gq:4:5: type error: T7: cannot compare I32? with String\n    $p.age = "x" }\n    ^^^^^^^^^^^^'
    )
    assert caught.value.details() == {
        "violations": [
            {
                "file": "query.gq",
                "line": 4,
                "column": 5,
                "code": "T7",
                "message": "T7: cannot compare I32? with String",
            }
        ]
    }
    assert caught.value.kind is ErrorKind.BAD_DATA


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("query q() { match { $p: Person $p Knows $q } return { $p } }", "lower case: knows"),
        (
            "query q() { match { $p: Person $p.age = -1 } return { $p } }",
            "pass a negative value as a parameter",
        ),
        ("query q() { match { $p: Person $p.age = null } return { $p } }", "pass null as a parameter"),
        ("query q() { match { $p: Person and $p.age = 1 } return { $p } }", "there is no 'and'"),
        ("query q() { match { $p: Person {} } return { $p } }", "leave the braces out"),
        ("query q() { match { $p: Person } return { $p } limit 1 order { $p.age } }", "in this order"),
        ("query q() { match { $p: Preson } return { $p } }", "node types are: Company, Person"),
        (
            "query q() { match { $p: Person { agee: 1 } } return { $p } }",
            "properties are: age, joined, name, tags",
        ),
        ('query q() { match { $p: Person $p.tags = "a" } return { $p } }', "use contains"),
        ("query q() { delete Person }", "updates and deletes need a condition"),
    ],
)
def test_hints_say_what_to_do(text: str, hint: str) -> None:
    with pytest.raises(SourceError) as caught:
        checked(text)
    assert caught.value.hint is not None
    assert hint in caught.value.hint


def test_as_is_a_word_of_its_own() -> None:
    """`$p.name asset` is no `$p.name as set`: it returns a column called `asset`, and there is none."""
    assert code_of(refused(P + "} return { $p.name «asset» } }")) == "TYPE"


def test_a_float_beyond_everything() -> None:
    with pytest.raises(SourceError, match=r"invalid float: 1000"):
        parse_queries(P + "$p.age = 1" + "0" * 309 + ".0 } return { $p } }")


def test_an_empty_file_has_no_queries() -> None:
    assert parse_queries("// nothing\n").queries == ()


def test_errors_never_carry_terminal_control_characters() -> None:
    with pytest.raises(SourceError) as caught:
        checked('query q() { match { $c: Company { size: "\x1b[2J" } } return { $c } }')
    assert str(caught.value).replace("\n", "").isprintable()
