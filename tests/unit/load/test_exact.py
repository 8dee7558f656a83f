"""What a user is told about a wrong record, word for word."""

from __future__ import annotations

import pytest

from omnigraph_core.load.formats.jsonl_exact import ExactReader
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.rules.violations import Violation
from omnigraph_core.schema import compile_schema

SCHEMA = compile_schema("""
node Person {
  name: String @key
  age: I32?
  score: F32?
  size: U64?
  born: Date?
  seen: DateTime?
  tags: [I32]?
  at: Vector(2)?
  photo: Blob?
  ok: Bool?
}
node Place { x: I32
 y: I32
 @key(y, x) }
node Note { text: String? }
edge Knows: Person -> Person { since: Date? }
""")


def read(*records: str) -> tuple[list[TypedRows], list[Violation]]:
    return ExactReader(SCHEMA).read("f", list(enumerate((r.encode() for r in records), 1)))


def complaints(record: str) -> list[str]:
    _, violations = read(record)
    return [str(violation) for violation in violations]


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ("[1]", "f:1: a record must be a JSON object, got array"),
        ("null", "f:1: a record must be a JSON object, got null"),
        ("{}", "f:1: a record needs 'type' (a node) or 'edge'"),
        ('{"type":5}', "f:1: 'type' must be a string, got integer 5"),
        ('{"type":"Persn"}', "f:1: unknown node type 'Persn' (did you mean 'Person'?)"),
        ('{"type":"person"}', "f:1: unknown node type 'person' (did you mean 'Person'?)"),
        ('{"type":"Knows"}', "f:1: unknown node type 'Knows' (it is an edge type)"),
        ('{"edge":"Note"}', "f:1: unknown edge type 'Note' (it is a node type)"),
        ('{"edge":"Zzz"}', "f:1: unknown edge type 'Zzz'"),
        ('{"type":"Note","edge":"Knows"}', "f:1: a record has either 'type' or 'edge', not both"),
        ('{"type":"Note","data":null}', "f:1: Note: 'data' must be an object, got null"),
        ('{"type":"Note","data":[]}', "f:1: Note: 'data' must be an object, got array"),
        ('{"type":"Note","x":1}', "f:1: Note: unknown envelope field 'x' (allowed: type, data)"),
        ('{"type":"Note","from":"a"}', "f:1: Note: unknown envelope field 'from' (allowed: type, data)"),
        ('{"type":"Note","_rowid":1}', "f:1: Note: '_rowid' is a reserved name"),
        ('{"type":"Note","data":{"_rowid":1}}', "f:1: Note._rowid: '_rowid' is a reserved name"),
        ('{"type":"Note","type":"Note"}', "f:1: Note: duplicate key 'type'"),
        ('{"type":"Note","data":{"text":"a","text":"a"}}', "f:1: Note.text: duplicate key 'text'"),
        (
            '{"type":"Note","data":{"txt":"a"}}',
            "f:1: Note.txt: unknown input field 'txt' for 'node:Note' (did you mean 'text'?)",
        ),
        ('{"type":"Note","data":{"id":5}}', "f:1: Note.id: an id must be a string, got integer 5"),
        ('{"type":"Note","data":{"id":null}}', "f:1: Note.id: an id must be a string, got null"),
        ('{"type":"Note","data":{"id":""}}', "f:1: Note.id: an id must not be empty"),
        (
            '{"type":"Person","data":{"id":"x","name":"Ann"}}',
            "f:1: Person.id: id 'x' is not the id its key gives, 'Ann'",
        ),
        (
            '{"type":"Place","data":{"id":"[1,2]","x":1,"y":2}}',
            "f:1: Place.id: id '[1,2]' is not the id its key gives, '[\"2\",\"1\"]'",
        ),
        ('{"edge":"Knows","to":"a"}', "f:1: Knows: edge missing 'from'"),
        ('{"edge":"Knows","from":"a"}', "f:1: Knows: edge missing 'to'"),
        ('{"edge":"knows","from":1,"to":"a"}', "f:1: Knows: 'from' must be a string, got integer 1"),
        (
            '{"edge":"Knows","from":"a","to":"b","data":{"src":"a"}}',
            "f:1: Knows.src: 'src' is not a property: an edge's ends are 'from' beside 'data'",
        ),
        (
            '{"type":"Note","data":{"text":"\\ud800"}}',
            "f:1: Note.text: text with half of a surrogate pair is not valid Unicode",
        ),
        ('{"type":"Note"', "f:1: invalid JSON: Expecting ',' delimiter at column 15"),
        ('{"type":"Note"} x', "f:1: invalid JSON: Extra data at column 17"),
        ('{"type":"Note"}{"type":"Note"}', "f:1: invalid JSON: Extra data at column 16"),
        ('{"type":"Note","data":{"text":NaN}}', "f:1: invalid JSON: NaN is not a JSON number"),
        ('{"type":' + "[" * 100_000, "f:1: invalid JSON: nested too deeply"),
    ],
)
def test_a_wrong_record(record: str, complaint: str) -> None:
    assert complaints(record) == [complaint]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ('"age":"30"', "age: expects I32, got string '30'"),
        ('"age":30.0', "age: expects I32, got number 30.0"),
        ('"age":true', "age: expects I32, got boolean true"),
        ('"age":2147483648', "age: 2147483648 is out of range for I32"),
        ('"size":-1', "size: -1 is out of range for U64"),
        ('"size":1' + "0" * 5000, "size: an integer of hundreds of digits is out of range for U64"),
        ('"score":1e39', "score: 1e+39 is not a finite F32 number"),
        ('"score":true', "score: expects F32, got boolean true"),
        ('"born":"2024-02-30"', "born: invalid Date literal '2024-02-30'"),
        ('"born":3000000', "born: day 3000000 is outside the years 0001 to 9999"),
        ('"born":1.5', "born: expects Date, got number 1.5"),
        ('"seen":"2016-12-31T23:59:60Z"', "seen: invalid DateTime literal '2016-12-31T23:59:60Z'"),
        ('"tags":5', "tags: expects a JSON array, got integer 5"),
        ('"tags":[1,null]', "tags: item 1: null is not allowed in a list"),
        ('"tags":[1,"2"]', "tags: item 1: expects I32, got string '2'"),
        ('"at":[1]', "at: expects 2 dimensions, got 1"),
        ('"at":[1,"x"]', "at: item 1: expects F32, got string 'x'"),
        ('"photo":"base64:Q"', "photo: invalid base64 blob data"),
        (
            '"photo":"s3://a/b"',
            "photo: external URIs are not allowed: 's3://a/b' (inline bytes are base64:…)",
        ),
        ('"ok":1', "ok: expects Bool, got integer 1"),
        ('"ok":"a\\nb"', "ok: expects Bool, got string 'a\\nb'"),
    ],
)
def test_a_wrong_value(value: str, complaint: str) -> None:
    record = '{"type":"Person","data":{"name":"Ann",' + value + "}}"
    assert complaints(record) == [f"f:1: Person.{complaint}"]


def test_all_that_is_wrong_is_said_at_once() -> None:
    record = '{"edge":"Knows","from":5,"x":1,"data":{"since":"no","y":2}}'
    assert complaints(record) == [
        "f:1: Knows: unknown envelope field 'x' (allowed: edge, from, to, data)",
        "f:1: Knows: 'from' must be a string, got integer 5",
        "f:1: Knows: edge missing 'to'",
        "f:1: Knows.since: invalid Date literal 'no'",
        "f:1: Knows.y: unknown input field 'y' for 'edge:Knows'",
    ]


def test_a_violation_carries_the_record_as_it_was() -> None:
    _, (violation,) = read('{"type":"Note","data":{"id":1}}\r\n')
    assert violation.record == b'{"type":"Note","data":{"id":1}}'
    assert (violation.source, violation.line, violation.type_name, violation.property) == (
        "f",
        1,
        "Note",
        "id",
    )


def test_good_records_around_bad_ones() -> None:
    pieces, violations = read(
        '{"type":"Note"}', "", '{"type":"Nope"}', '{"type":"Place","data":{"x":1,"y":2}}', '{"type":"Note"}'
    )
    assert [violation.line for violation in violations] == [3]
    assert {piece.entity.name: piece.lines.to_pylist() for piece in pieces} == {"Note": [1, 5], "Place": [4]}
    places = next(piece for piece in pieces if piece.entity.name == "Place")
    assert places.rows.to_pylist() == [{"id": '["2","1"]', "x": 1, "y": 2}]


def test_a_missing_key_member_is_left_to_validation() -> None:
    pieces, violations = read('{"type":"Place","data":{"x":1}}')
    assert violations == []
    assert pieces[0].rows.to_pylist() == [{"id": None, "x": 1, "y": None}]


def test_bytes_that_are_not_utf8() -> None:
    _, (violation,) = ExactReader(SCHEMA).read("f", [(7, b'{"type":"Note","data":{"text":"\xe9"}}')])
    assert str(violation) == "f:7: not valid UTF-8: byte 0xe9 at position 32"
