"""Everything a schema is refused for: the message, and exactly which characters it points at.

`«…»` in a source marks what the error must underline; with nothing between, the place
where something is missing.
"""

from __future__ import annotations

import pytest

from omnigraph_core.schema import Schema, SourceError, compile_schema

A = "node A { k: String @key }\n"

EXAMPLES_GRAMMAR = {
    "E15 lower-case type name": (
        "node «person» { k: String @key }",
        "expected a type name after 'node', found 'person'",
    ),
    "E16 upper-case property": (
        "node Person { «Name»: String }",
        "expected a property, a constraint or '}', found 'Name'",
    ),
    "E17 comma between properties": (
        "node Person { a: String«,» b: String }",
        "expected a property, a constraint or '}', found ','",
    ),
    "E18 list of vectors": (
        "node A { v: [«Vector»(3)] }",
        "expected a base type in the list, found 'Vector'",
    ),
    "E19 annotation after implements": (
        'interface I { a: String }\nnode A implements I «@»description("x") { b: String }',
        "expected '{', found '@'",
    ),
    "E27 cardinality without minimum": (
        A + "edge E: A -> A @card(«..»1)",
        "expected the minimum number of edges, found '..'",
    ),
}

EXAMPLES_RULES = {
    "E04 two keys": (
        "node P { a: String @key b: String «@key»(b) }",
        "parse error: node type P has multiple @key constraints; only one is supported",
    ),
    "E08 interface type clash": (
        "interface Named { name: String }\nnode City implements Named { name: «String?» }",
        "parse error: node City property 'name' has type String? but interface Named declares it as String",
    ),
    "E13 embed on a non-vector": (
        "node D { k: String @key body: String emb: String «@embed»(body) }",
        "parse error: @embed is only supported on vector properties (D.emb)",
    ),
    "E14 embed, unknown keyword": (
        "node D { k: String @key body: String emb: Vector(8) @embed(body, «dim»=8) }",
        "parse error: @embed on D.emb has unknown argument 'dim=' (only 'model' is supported)",
    ),
    "E20 nullable key": (
        "node A { k: String? «@key» }",
        "parse error: @key property A.k cannot be nullable",
    ),
    "E21 duplicate enum values": (
        "node A { s: enum(x, y, «x») }",
        "parse error: enum type cannot include duplicate values",
    ),
    "E22 unknown endpoint": (
        A + "edge E: A -> «Missing»",
        "catalog error: edge E references unknown target type: Missing",
    ),
    "E23 edges differing in case": (
        A + "edge Knows: A -> A\nedge «KNOWS»: A -> A",
        "catalog error: edge name collision after case folding: 'KNOWS' conflicts with 'Knows'",
    ),
    "E24 reserved column": (
        "node A { «_rowid»: U64 }",
        "parse error: property name '_rowid' is reserved for a virtual storage system column",
    ),
    "E25 range on String": (
        "node A { k: String @range(«k», 0..5) }",
        "parse error: @range on A.k requires a numeric type, got String",
    ),
    "E26 cardinality bounds": (
        A + "edge E: A -> A «@card(3..1)»",
        "parse error: cardinality min (3) exceeds max (1)",
    ),
    "E28 range in an edge body": (
        A + "edge E: A -> A { w: F64 «@range»(w, 0..1) }",
        "parse error: @range constraint is not supported on edges (edge E)",
    ),
    "E29 instruction on a property": (
        'node A { k: String «@instruction»("x") }',
        "parse error: @instruction is only supported on node and edge types (property A.k)",
    ),
    "E30 bad escape": (
        'node A @description("a«\\q»") { k: String }',
        "parse error: unsupported escape sequence: \\q",
    ),
    "E31 zero vector": (
        "node A { v: Vector(«0») }",
        "parse error: Vector dimension must be greater than zero",
    ),
    "E32 blob in a uniqueness constraint": (
        "node A { b: Blob @unique(«b») }",
        "parse error: @unique is not supported on blob property A.b",
    ),
}

# Rules of the language beyond its grammar, in the order of its reference.
RULES = {
    **{
        f"system column {name}": (
            f"node A {{ «{name}»: I64 }}",
            f"parse error: property name '{name}' is reserved for a virtual storage system column",
        )
        for name in (
            "_rowid",
            "_rowaddr",
            "_rowoffset",
            "_row_created_at_version",
            "_row_last_updated_at_version",
        )
    },
    **{
        f"{name} on an edge": (
            A + f"edge E: A -> A {{ «{name}»: String }}",
            f"parse error: property name '{name}' is reserved for a physical column",
        )
        for name in ("id", "src", "dst")
    },
    "id on a node": (
        "node A { «id»: String }",
        "parse error: property name 'id' is reserved for a physical column",
    ),
    "id on an interface": (
        "interface I { «id»: String }",
        "parse error: property name 'id' is reserved for a physical column",
    ),
    "system column on an edge": (
        A + "edge E: A -> A { «_rowid»: I64 }",
        "parse error: property name '_rowid' is reserved for a virtual storage system column",
    ),
    "vector of zeros": (
        "node A { v: Vector(«000») }",
        "parse error: Vector dimension must be greater than zero",
    ),
    "vector too wide": (
        "node A { v: Vector(«2147483648») }",
        "parse error: Vector dimension 2147483648 exceeds maximum supported 2147483647",
    ),
    "list of Blob": ("node A { b: [«Blob»] }", "parse error: list of Blob is not supported"),
    "enum value thrice": (
        "node A { e: enum(a, b-2, «b-2», b-2)? }",
        "parse error: enum type cannot include duplicate values",
    ),
    "cardinality beyond u32": (
        A + "edge E: A -> A @card(0..«4294967296»)",
        "parse error: cardinality bound exceeds maximum supported 4294967295",
    ),
    "range with one argument": (
        "node A { n: I32 «@range»(n) }",
        "parse error: @range requires property name and bounds",
    ),
    "range without arguments": (
        "node A { n: I32 «@range» }",
        "parse error: @range requires property name and bounds",
    ),
    "range with bounds only": (
        "node A { n: I32 «@range»(0..5) }",
        "parse error: @range requires property name and bounds",
    ),
    "range with a number": (
        "node A { n: I32 @range(n, «5») }",
        "parse error: expected range bounds (min..max) in @range constraint",
    ),
    "range of a literal": (
        'node A { n: I32 @range(«"n"», 0..5) }',
        "parse error: expected property name in constraint",
    ),
    "range with three arguments": (
        "node A { n: I32 @range(n, 0..5, «6..7») }",
        "parse error: @range takes two arguments, got 3",
    ),
    "range upside down": (
        "node A { n: I32 @range(n, «5..-1») }",
        "parse error: @range on A.n: min (5) exceeds max (-1)",
    ),
    "range bound too long": (
        "node A { n: I32 @range(n, 0..«" + "9" * 5000 + "») }",
        "parse error: @range bound does not fit in 64 bits",
    ),
    "range bound not finite": (
        "node A { n: F64 @range(n, «" + "9" * 400 + ".5»..) }",
        "parse error: @range bound is not a finite number",
    ),
    "check with one argument": (
        "node A { s: String «@check»(s) }",
        "parse error: @check requires property name and pattern",
    ),
    "check with a word": (
        "node A { s: String @check(s, «x») }",
        "parse error: expected string argument in constraint",
    ),
    "literal in unique": (
        'node A { a: String @unique(«"a"») }',
        "parse error: expected property name in constraint",
    ),
    "bool in unique": (
        "node A { true: String @unique(«true») }",
        "parse error: expected property name in constraint",
    ),
    "range in index": (
        "node A { a: I32 @index(«0..1») }",
        "parse error: expected property name in constraint",
    ),
    "unknown interface": (
        "node N implements «I» { a: String }",
        "parse error: node N implements unknown interface 'I'",
    ),
    "interface list mismatch": (
        "interface I { p: [I32] }\nnode N implements I { p: «I32» }",
        "parse error: node N property 'p' has type I32 but interface I declares it as [I32]",
    ),
    "interface enum mismatch": (
        "interface I { p: enum(a, b) }\nnode N implements I { p: «enum(c, a)?» }",
        "parse error: node N property 'p' has type enum(a, c)? but interface I declares it as enum(a, b)",
    ),
    "interfaces disagree on type": (
        "interface I { p: I32 }\ninterface J { p: I64 }\nnode N implements I, «J» {}",
        "parse error: interfaces contributing 'N.p' have incompatible property semantics",
    ),
    "interfaces disagree on constraint": (
        "interface I { p: I32 @index }\ninterface J { p: I32 }\nnode N implements I, «J» {}",
        "parse error: interfaces contributing 'N.p' have incompatible property semantics",
    ),
    **{
        f"@{word} on a node": (
            f"node N «@{word}» {{ a: String }}",
            f"parse error: @{word} is only supported on node properties or as body constraint (node N)",
        )
        for word in ("key", "unique", "index", "embed")
    },
    **{
        f"@{word} on an edge": (
            A + f"edge E: A -> A «@{word}»",
            f"parse error: @{word} is not supported on edges (edge E)",
        )
        for word in ("key", "unique", "index", "embed")
    },
    **{
        f"@{word} on a list": (
            f"node N {{ p: [String] «@{word}» }}",
            f"parse error: @{word} is not supported on list property N.p",
        )
        for word in ("key", "unique", "index", "embed")
    },
    **{
        f"@{word} on a vector": (
            f"node N {{ p: Vector(2) «@{word}» }}",
            f"parse error: @{word} is not supported on vector property N.p",
        )
        for word in ("key", "unique")
    },
    **{
        f"@{word} on a blob": (
            f"node N {{ p: Blob «@{word}» }}",
            f"parse error: @{word} is not supported on blob property N.p",
        )
        for word in ("key", "unique", "index", "embed")
    },
    **{
        f"@{word}(p) on a {kind}": (
            f"node N {{ p: {type_} @{word}(«p») }}",
            f"parse error: @{word} is not supported on {kind} property N.p",
        )
        for word, kind, type_ in (
            ("key", "list", "[String]"),
            ("key", "vector", "Vector(2)"),
            ("key", "blob", "Blob"),
            ("unique", "list", "[I32]"),
            ("unique", "vector", "Vector(2)"),
            ("unique", "blob", "Blob?"),
            ("index", "list", "[I32]"),
            ("index", "blob", "Blob"),
        )
    },
    "blob in an edge body": (
        A + "edge E: A -> A { b: Blob @unique(src, «b») }",
        "parse error: @unique is not supported on blob property E.b",
    ),
    **{
        f"@{word} on an edge property": (
            A + f"edge E: A -> A {{ p: {type_} «@{word}» }}",
            f"parse error: @{word} is not supported on edge properties (edge E.p)",
        )
        for word, type_ in (("key", "String"), ("embed", "Vector(2)"))
    },
    "value for unique": (
        'node N { p: String @unique(«"x"») }',
        "parse error: expected property name in constraint",
    ),
    "key twice on a property": (
        "node N { p: String @key «@key» }",
        "parse error: property N.p declares @key multiple times",
    ),
    "description twice on a property": (
        'node N { p: String @description("a") «@description»("b") }',
        "parse error: property N.p declares @description multiple times",
    ),
    "embed without argument": (
        "node N { v: Vector(2) «@embed» }",
        "parse error: @embed on N.v requires a source property name",
    ),
    "embed with blank argument": (
        'node N { v: Vector(2) @embed(«" "») }',
        "parse error: @embed on N.v requires a non-empty source property name",
    ),
    "embed source missing": (
        "node N { v: Vector(2) @embed(«s») }",
        "parse error: @embed on N.v references unknown source property s",
    ),
    "embed source not String": (
        "node N { s: [String] v: Vector(2) @embed(«s») }",
        "parse error: @embed source property N.s must be String",
    ),
    "embed source missing, injected": (
        "interface I { v: Vector(2) @embed(s) }\nnode N implements «I» { t: String }",
        "parse error: @embed on N.v references unknown source property s",
    ),
    **{
        f"{how} @{word} on {place}": (
            f"{A}{header} «@{word}»{value}{tail}",
            f"parse error: @{word} on {place} requires a non-empty value",
        )
        for word in ("description", "instruction")
        for how, value in (("missing", ""), ("blank", '(" \\n")'))
        for place, header, tail in (("node N", "node N", " {}"), ("edge E", "edge E: A -> A", ""))
    },
    "blank @description on a property": (
        'node N { p: String «@description»("") }',
        "parse error: @description on property N.p requires a non-empty value",
    ),
    "instruction twice": (
        'node N @instruction("a") «@instruction»("a") {}',
        "parse error: node N declares @instruction multiple times",
    ),
    "description twice on an edge": (
        A + 'edge E: A -> A @description("a") «@description»("a")',
        "parse error: edge E declares @description multiple times",
    ),
    "rename_from twice": (
        'node N @rename_from("A") «@rename_from»("B") {}',
        "parse error: node N declares @rename_from multiple times",
    ),
    "rename_from without value": (
        "node N { p: String «@rename_from» }",
        "parse error: @rename_from on property N.p requires exactly one non-empty positional value",
    ),
    "rename_from with keyword": (
        A + 'edge E: A -> A @rename_from("B", «mode»="x")',
        "parse error: @rename_from on edge E does not accept keyword arguments",
    ),
    "own and injected key": (
        "interface I { a: String @key }\nnode N implements «I» { b: String @key }",
        "parse error: node type N has multiple @key constraints; only one is supported",
    ),
    "same key said twice": (
        "node N { a: String @key «@key»(a) }",
        "parse error: node type N has multiple @key constraints; only one is supported",
    ),
    **{
        f"@{word} in an edge body": (
            A + f"edge E: A -> A {{ w: {type_} «@{word}»({arguments}) }}",
            f"parse error: @{word} constraint is not supported on edges (edge E)",
        )
        for word, type_, arguments in (
            ("key", "I32", "w"),
            ("range", "I32", "w, 0.."),
            ("check", "String", 'w, "x"'),
        )
    },
    **{
        f"@{word} on unknown property": (
            f"node N {{ a: String @{word}({before}«p»{after}) }}",
            f"parse error: @{word} on N references unknown property 'p'",
        )
        for word, before, after in (
            ("key", "a, ", ""),
            ("unique", "", ", a"),
            ("index", "", ""),
            ("range", "", ", 0..1"),
            ("check", "", ', "x"'),
        )
    },
    "src is no column of a node": (
        "node N { a: String @unique(«src», a) }",
        "parse error: @unique on N references unknown property 'src'",
    ),
    "column named twice": (
        "node N { a: String @key(a, «a») }",
        "parse error: @key on N names property 'a' more than once",
    ),
    "nullable key member": (
        "node N { a: String b: I32? @key(a, «b») }",
        "parse error: @key property N.b cannot be nullable",
    ),
    "nullable key in an interface": (
        "interface I { k: String? «@key» }",
        "parse error: @key property I.k cannot be nullable",
    ),
    "range on a list": (
        "node N { a: [I32]? @range(«a», 0..1) }",
        "parse error: @range on N.a requires a numeric type, got [I32]?",
    ),
    "check on a number": (
        'node N { a: U32 @check(«a», "x") }',
        "parse error: @check on N.a requires String type, got U32",
    ),
    "bad escape in a pattern": (
        'node N { a: String @check(a, "\\\\d«\\d»") }',
        "parse error: unsupported escape sequence: \\d",
    ),
    "duplicate node": (A + "node «A» {}", "catalog error: duplicate node type: A"),
    "duplicate edge": (A + "edge E: A -> A\nedge «E»: A -> A", "catalog error: duplicate edge type: E"),
    "duplicate interface": (
        "interface I {}\ninterface «I» {}",
        "catalog error: duplicate interface name: I",
    ),
    "duplicate property": (
        "node N { a: String «a»: I32 }",
        "catalog error: duplicate property in schema shape for 'N': a",
    ),
    "unknown source": (
        A + "edge E: «B» -> A",
        "catalog error: edge E references unknown source type: B",
    ),
    "interface as an endpoint": (
        "interface I {}\n" + A + "edge E: A -> «I»",
        "catalog error: edge E references unknown target type: I",
    ),
}

# The grammar: what was expected, what stood there, and the character it stood at.
GRAMMAR = {
    "keyword without word boundary": (
        "«nodePerson»{}",
        "expected 'node', 'edge' or 'interface', found 'nodePerson'",
    ),
    "type without word boundary": (
        "node A { a: «Stringy» }",
        "expected a type after ':', found 'Stringy'",
    ),
    "unknown type": ("node A {\n\ta: String\n  b: «Int»\n}", "expected a type after ':', found 'Int'"),
    "missing colon": (
        "node A {\n  a: String\n  b«,» String }",
        "expected ':' after property name, found ','",
    ),
    "missing type": ("node A { a: «@»key }", "expected a type after ':', found '@'"),
    "missing brace at the end": (
        "node A {\n  a: String«»\n\n",
        "expected a property, a constraint or '}', found end of file",
    ),
    "missing brace before a declaration": (
        "node A {\n  a: String\nnode «B» {}",
        "expected ':' after property name, found 'B'",
    ),
    "body constraint in an interface": (
        "interface I { name: String «@»key(name) }",
        "expected a property or '}', found '@'",
    ),
    "interface with annotation": (
        'interface I «@»description("x") {}',
        "expected '{' after interface name, found '@'",
    ),
    "constraint in a node header": ("node N «@»key(a) { a: String }", "expected '{', found '@'"),
    "constraint in an edge header": (
        A + "edge E: A -> A «@»unique(src)",
        "expected '{' or the next declaration, found '@'",
    ),
    "card after an annotation": (
        A + "edge E: A -> A @note @card(0«..»1)",
        "expected ')' or ',' after annotation value, found '..'",
    ),
    "card twice": (
        A + "edge E: A -> A @card(0..1) «@card»",
        "@card must directly follow the endpoint types, once",
    ),
    "card with one number": (
        A + "edge E: A -> A @card(1«)»",
        "expected '..' after the minimum, found ')'",
    ),
    "card without parentheses": (
        A + "edge E: A -> A @card«»",
        "expected '(' after @card, found end of file",
    ),
    "card with a float": (
        A + "edge E: A -> A @card(«0.5»..1)",
        "expected the minimum number of edges, found '0.5'",
    ),
    "list of enums": ("node A { v: [«enum»(a, b)] }", "expected a base type in the list, found 'enum'"),
    "list of lists": ("node A { v: [«[»String]] }", "expected a base type in the list, found '['"),
    "list of nullables": ("node A { v: [String«?»] }", "expected ']' to close the list type, found '?'"),
    "nullable twice": (
        "node A { v: String?«?» }",
        "expected a property, a constraint or '}', found '?'",
    ),
    "empty enum": (
        "node A { e: enum(«)» }",
        "expected an enum value (letters, digits, '_' and '-'), found ')'",
    ),
    "enum value with a point": (
        "node A { e: enum(b-2«.5») }",
        "expected ',' or ')' after enum value, found '.5'",
    ),
    "enum value with an arrow": (
        "node A { e: enum(a-«>») }",
        "expected ',' or ')' after enum value, found '>'",
    ),
    "enum value in quotes": (
        'node A { e: enum(«"a"») }',
        "expected an enum value (letters, digits, '_' and '-'), found '\"a\"'",
    ),
    "enum values without comma": (
        "node A { e: enum(a «b») }",
        "expected ')' or ',' after enum value, found 'b'",
    ),
    "vector without dimension": ("node A { v: Vector «}»", "expected '(' after 'Vector', found '}'"),
    "vector of a word": ("node A { v: Vector(«n») }", "expected the vector dimension, found 'n'"),
    "vector of a negative": ("node A { v: Vector(«-»4) }", "expected the vector dimension, found '-'"),
    "edge without arrow": (A + "edge E: A «A»", "expected '->' after the source type, found 'A'"),
    "edge without colon": (A + "edge E «A» -> A", "expected ':' after edge name, found 'A'"),
    "edge to a lower-case type": (
        A + "edge E: A -> «a»",
        "expected a type name as the target of the edge, found 'a'",
    ),
    "keyword argument first": (
        "node A { p: String @x(k«=»1) }",
        "expected ')' or ',' after annotation value, found '='",
    ),
    "type name as annotation value": (
        "node A @rename_from(«Old») {}",
        "expected an annotation value, found 'Old'",
    ),
    "word as argument value": (
        "node A { p: String @x(a, k=«b») }",
        "expected a string, number, true or false after '=', found 'b'",
    ),
    "argument twice": ('node A @x(a, k=1, «k»="2") {}', "argument 'k=' is given twice"),
    "annotation in a body": (
        'node A { @«description»("x") }',
        "expected key, unique, index, range or check after '@', found 'description'",
    ),
    "empty constraint": (
        "node A { @key(«)» }",
        "expected a property name, a string, a number or a range, found ')'",
    ),
    "range without bounds": ("node A { n: I32 @range(n, ..«)» }", "expected a number, found ')'"),
    "range of a lone negative": (
        "node A { n: I32 @range(n, -5«)» }",
        "expected '..' after the lower bound, found ')'",
    ),
    "trailing comma in implements": (
        "interface I {}\nnode A implements I, «{»}",
        "expected a type name after ',', found '{'",
    ),
    "unterminated comment": ("node A {}\n  «/*» node B {}", "unterminated block comment"),
    "nested comment": ("node A {} /* a /* b */ «*»/", "unexpected character '*'"),
    "unterminated string": ('node A @description(«"»x) {}\n', "unterminated string"),
    "single quotes": ("node A @description(«'»x') {}", "unexpected character '''"),
    "letter outside ASCII": ("node A { «ü»: String }", "unexpected character 'ü'"),
    "control character": ("node A { a: String } «\x1b»", "unexpected character U+001B"),
    "byte order mark": ("«\ufeff»node A {}", "unexpected character U+FEFF"),
    "lone surrogate": ('node A @description("«\udc80»") {}', "the text is not valid Unicode"),
    "dollar": ("node A { «$»: String }", "expected a lower-case variable name after '$'"),
    "semicolon": ("node A { a: String«;» }", "unexpected character ';'"),
}

ALL_GRAMMAR = EXAMPLES_GRAMMAR | GRAMMAR
ALL_RULES = EXAMPLES_RULES | RULES

ACCEPTED = {
    "empty file": "",
    "only a comment": "// nothing",
    "comment at the end without newline": "node A {} /* x */ // y",
    "empty block comment": "/**/node A{}",
    "stars in a comment": "/****/ node A {} /* * / **/",
    "strings over lines": 'node A @description("one\ntwo") {}',
    "keywords as property names": "node A { node: I32 edge: I32 interface: I32 enum: I32 implements: I32 }",
    "words that begin like keywords": "node A { nodes: String } edge Edges: A -> A node Node {}",
    "annotation that begins like a constraint": 'node A { p: String @keyed("x") @range_note(1) }',
    "space between word and parenthesis": "node A { p: String @key (p) }",
    "node and edge of one name": "node A {} edge A: A -> A",
    "interface and node of one name": "interface A { x: I32 } node A implements A {}",
    "src on a node": "node A { src: String dst: String }",
    "cardinality zero or more": "node A {} edge E: A -> A @card(0..)",
    "widest vector": "node A { v: Vector(2147483647) }",
    "nullable list": "node A { l: [String]? }",
    "properties that differ in case": "node A { repoName: String reponame: String }",
    "custom annotation twice": "node A { p: String @tag(a) @tag(b) }",
    "spaces inside a range": "node A { n: I32 @range(n, - 5 .. - 1) }",
    "declarations in any order": "edge E: A -> B node B {} node A {}",
    "check with an invalid pattern": 'node A { s: String @check(s, "(") }',
}


def refused(marked: str) -> SourceError:
    """The error of a schema with one marked stretch, which the error must underline exactly."""
    before, rest = marked.split("«")
    inside, after = rest.split("»")
    with pytest.raises(SourceError) as caught:
        compile_schema(before + inside + after, "bad.pg")
    error = caught.value
    lines = before.split("\n")
    assert (error.line, error.column) == (len(lines), len(lines[-1]) + 1)
    place = f"bad.pg:{error.line}:{error.column}: {error.category}: {error.reason}"
    assert str(error) == f"{place}\n{error.excerpt}"
    line = (before + inside + after).split("\n")[len(lines) - 1]
    if len(line) <= 120:
        shown, carets = error.excerpt.split("\n")
        assert shown == "".join(c if c.isprintable() or c == "\t" else "?" for c in line)
        padding = "".join("\t" if c == "\t" else " " for c in lines[-1])
        assert carets == padding + "^" * max(1, len(inside))
    return error


@pytest.mark.parametrize(("marked", "reason"), ALL_GRAMMAR.values(), ids=ALL_GRAMMAR.keys())
def test_grammar(marked: str, reason: str) -> None:
    error = refused(marked)
    assert (error.category, error.reason) == ("parse error", reason)


@pytest.mark.parametrize(("marked", "expected"), ALL_RULES.values(), ids=ALL_RULES.keys())
def test_rules(marked: str, expected: str) -> None:
    error = refused(marked)
    assert f"{error.category}: {error.reason}" == expected


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(text: str) -> None:
    assert isinstance(compile_schema(text), Schema)


def test_the_whole_message() -> None:
    text = "// people\nnode Person {\n  name: String @key\n  age, I32\n}\n"
    with pytest.raises(SourceError) as caught:
        compile_schema(text)
    assert str(caught.value) == (
        "schema.pg:4:6: parse error: expected ':' after property name, found ','\n  age, I32\n     ^"
    )
    assert caught.value.details() == {
        "violations": [
            {
                "file": "schema.pg",
                "line": 4,
                "column": 6,
                "message": "expected ':' after property name, found ','",
            }
        ]
    }
    assert caught.value.kind == "bad_data"


def test_carets_line_up_under_tabs_and_windows_line_ends() -> None:
    with pytest.raises(SourceError) as caught:
        compile_schema("node A {\r\n\ta: String\r\n\tb: Oops\r\n}\r\n")
    assert (caught.value.line, caught.value.column) == (3, 5)
    assert caught.value.excerpt == "\tb: Oops\n\t   ^^^^"


def test_a_very_long_line_is_shown_around_the_caret() -> None:
    text = "node A { " + "a: String " * 5000 + "x: Oops " + "b: String " * 5000 + "}"
    with pytest.raises(SourceError) as caught:
        compile_schema(text)
    assert (caught.value.line, caught.value.column) == (1, text.index("Oops") + 1)
    shown, carets = caught.value.excerpt.split("\n")
    assert len(shown) < 140
    assert shown[carets.index("^") :].startswith("Oops b: String")
    assert shown.startswith("...")
    assert shown.endswith("...")


@pytest.mark.parametrize(
    "text",
    [
        'node A @x("\x1b[2J" "\x1b[31m") {}',
        'node A @x("\\\x1b") {}',
        'node A { v: Vector(2) @embed("\x1b[2J") }',
    ],
)
def test_errors_never_carry_terminal_control_characters(text: str) -> None:
    with pytest.raises(SourceError) as caught:
        compile_schema(text)
    assert str(caught.value).replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("node A { a: String, b: String }", "properties are not separated by commas"),
        ("node person {}", "type names begin with an upper-case letter"),
        ("node A { Name: String }", "property names begin with a lower-case letter or '_'"),
        ("node A { a: String\nnode B {}", "is a '}' missing before this declaration?"),
        ("interface I {} node A implements I @x {}", "annotations come before 'implements'"),
        ("node A @rename_from(Old) {}", "write type names as strings, in double quotes"),
        ("node A @x('a') {}", "strings are written in double quotes"),
    ],
)
def test_hints_say_what_to_do(text: str, hint: str) -> None:
    with pytest.raises(SourceError) as caught:
        compile_schema(text)
    assert caught.value.hint == hint


def test_a_stray_character_does_not_hide_an_earlier_mistake() -> None:
    with pytest.raises(SourceError, match="expected ':' after property name") as caught:
        compile_schema("node A {\n  a String\n}\n;\n")
    assert caught.value.line == 2
