"""CSV: every line of its rules, and one meaning for the fast path and the exact one."""

from __future__ import annotations

import csv as python_csv
import io
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from omnigraph_core.load.formats import csv as csv_module
from omnigraph_core.load.formats.csv import read_csv
from omnigraph_core.load.formats.csv_quoting import cut_records, split_fields
from omnigraph_core.load.formats.parsed import Unfit
from omnigraph_core.load.formats.source import Block, Source
from omnigraph_core.progress import ProgressEvent
from omnigraph_core.rules.violations import InvalidRecords, Violation, Violations
from omnigraph_core.schema import EntityType, Schema, compile_schema
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.schema.files import file_columns
from tests.support.examples import NEW
from tests.unit.load import inputs

SCHEMA = compile_schema("""
node T {
  s: String?  b: Bool?  i: I32?  l: I64?  u: U32?  v: U64?  f: F32?  g: F64?
  d: Date?  t: DateTime?  e: enum(a, b)?  n: [String]?  li: [I64]?  ld: [Date]?  w: Vector(2)?  x: Blob?
}
node K { k: String @key  n: I64? }
node Two { a: I64  b: String  @key(b, a) }
node Need { a: String  b: String? }
edge E: K -> K { w: F64? }
edge Odd: K -> K { from: String?  to: I32? }
""")


def entity(name: str, schema: Schema = SCHEMA) -> EntityType:
    return next(each for each in schema.types() if each.name == name)


def read(
    path: Path, content: str | bytes, type_: str, *, block_bytes: int = 1 << 20
) -> tuple[list[dict[str, object]], list[Violation]]:
    """The rows, each with its line under `line`, and the violations."""
    path = path / "in.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = Violations(keep=None)
    rows: list[dict[str, object]] = []
    for piece in read_csv(Source(str(path), block_bytes=block_bytes), entity(type_), found):
        assert piece.rows.schema == table_schema(piece.entity)
        piece.rows.validate()
        for row, line in zip(_plain(piece.rows), piece.lines.to_pylist(), strict=True):
            rows.append({"line": line, **row})
    return rows, list(found.first)


def _plain(rows: pa.Table) -> list[dict[str, object]]:
    """Rows with times as the numbers they are: Python would cut them to days."""
    numbers = {pa.date64(): pa.int64(), pa.date32(): pa.int32()}
    for position, field in enumerate(rows.schema):
        is_list = pa.types.is_list(field.type)
        number = numbers.get(field.type.value_type if is_list else field.type)
        if number is not None:
            wanted = pa.list_(number) if is_list else number
            rows = rows.set_column(position, field.name, rows.column(position).cast(wanted))
    return list(rows.to_pylist())


def refused(path: Path, content: str | bytes, type_: str) -> list[str]:
    """What is said of a file that no record can be read from."""
    with pytest.raises(InvalidRecords) as caught:
        read(path, content, type_)
    return [f"{each.line}: {each.message}" for each in caught.value.violations]


def said(violations: list[Violation]) -> list[str]:
    return [f"{each.line}: {each.property or ''}: {each.message}" for each in violations]


# ---- null, empty, quotes, lines ----


def test_an_unquoted_empty_field_is_null_and_a_quoted_one_the_empty_text(tmp_path: Path) -> None:
    rows, violations = read(tmp_path, 'k,n\n"",1\nx,\n"y",\n', "K")
    assert violations == []
    assert [(row["k"], row["n"]) for row in rows] == [("", 1), ("x", None), ("y", None)]
    rows, violations = read(tmp_path, 'k,n\nx,""\n', "K")
    assert (rows, said(violations)) == ([], ["2: n: expects I64, got ''"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
def test_quotes_commas_and_newlines_inside_quotes(tmp_path: Path, end: str, block_bytes: int) -> None:
    texts = ["a", 'say "hi"', "x,y", "one\ntwo\r\nthree\rfour", '"', '""', "\n", ",", " pad ", "é😀"]
    lines = ["k,n"] + ['"' + text.replace('"', '""') + '",' for text in texts]
    rows, violations = read(tmp_path, end.join(lines) + end, "K", block_bytes=block_bytes)
    assert violations == []
    assert [row["k"] for row in rows] == texts
    expected, line = [], 2
    for text in texts:
        expected.append(line)
        line += 1 + text.count("\n")
    assert [row["line"] for row in rows] == expected


def test_spaces_are_text_and_blank_lines_are_nothing(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, "\nk\n\n x \n\r\n\ny\n", "K")
    assert [(row["k"], row["line"]) for row in rows] == [(" x ", 4), ("y", 7)]


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    assert [row["k"] for row in read(tmp_path, "k\na\nb", "K")[0]] == ["a", "b"]
    assert [row["k"] for row in read(tmp_path, 'k\na\n"b"', "K")[0]] == ["a", "b"]


def test_a_byte_order_mark_is_not_part_of_the_first_name(tmp_path: Path) -> None:
    assert [row["k"] for row in read(tmp_path, b"\xef\xbb\xbfk,n\nx,1\n", "K")[0]] == ["x"]


@pytest.mark.parametrize(
    ("record", "complaint", "after"),
    [
        ('a"b,1', "a quote in an unquoted field", [3]),
        ('"a"b,1', "text after a closing quote", [3]),
        ('"a" ,1', "text after a closing quote", [3]),
        ("a\rb,1", "a carriage return without a newline", [3]),
        ('"a\rb"\r,1', "text after a closing quote", [3]),
        # The opening quote swallows lines until the next one, which closes it wrongly.
        ('"a,1\nlost,1\n"x",1', "text after a closing quote", [5]),
        ('"a,1\nlost,1', "a quote is opened and never closed", []),
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_quotes_out_of_place(
    tmp_path: Path, record: str, complaint: str, after: list[int], block_bytes: int
) -> None:
    """One violation where the record begins; reading goes on behind the line of the mistake."""
    rows, violations = read(tmp_path, f"k,n\n{record}\ngood,2\n", "K", block_bytes=block_bytes)
    assert [(each.line, complaint in each.message) for each in violations] == [(2, True)]
    assert [row["line"] for row in rows] == after
    assert (violations[0].record or b"").startswith(record.encode().partition(b"\n")[0])


def test_a_record_longer_than_any_may_be_ends_the_reading() -> None:
    blocks = [Block(1, b'a\n"b\n')] + [Block(3 + number, b"x" * 9 + b"\n") for number in range(10)]
    cuts = list(cut_records(blocks, record_bytes_max=30))
    assert [text for cut in cuts for text in cut.records.texts.to_pylist()] == [b"a\n"]
    (misquoted,) = [each for cut in cuts for each in cut.misquoted]
    assert (misquoted.line, len(misquoted.text) < 50) == (2, True)


@pytest.mark.parametrize(("record", "number"), [("x", 1), ("x,1,2", 3), ('"x,1"', 1), ("x,1,", 3)])
def test_a_ragged_record(tmp_path: Path, record: str, number: int) -> None:
    rows, violations = read(tmp_path, f"k,n\n{record}\ny,2\n", "K")
    assert said(violations) == [f"2: : has {number} fields where the header has 2"]
    assert [row["k"] for row in rows] == ["y"]


def test_a_nul_byte_anywhere_is_refused(tmp_path: Path) -> None:
    rows, violations = read(tmp_path, b"k,n\n" + b"pad,1\n" * 1000 + b"a\0b,1\n", "K")
    assert said(violations) == ["1002: k: contains a NUL byte"]
    assert len(rows) == 1000


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    content = b"k,n\n" + b"pad,1\n" * 1000 + b"a\0b,1\nc\xffd,1\ngood,1\n"
    rows, violations = read(tmp_path, content, "K")
    assert said(violations) == [
        "1002: k: contains a NUL byte",
        "1003: k: not valid UTF-8: byte 0xff",
    ]
    assert rows[-1]["k"] == "good"
    assert refused(tmp_path, "k,n\nx,1\n".encode("utf-16"), "K") == ["1: the input is UTF-16, not UTF-8"]
    assert refused(tmp_path, b"k\0,n\n", "K") == ["1: the input is not UTF-8 text: it has NUL bytes"]


# ---- the header ----


@pytest.mark.parametrize(
    ("content", "type_", "complaints"),
    [
        ("", "K", ["1: the input is empty: CSV begins with a header line"]),
        ("\n\r\n", "K", ["1: the input is empty: CSV begins with a header line"]),
        ("k,N\n", "K", ["1: unknown column 'N' (did you mean 'n'?)"]),
        ("k,zzz\n", "K", ["1: unknown column 'zzz' (columns are: id,k,n)"]),
        ("k,n,n\n", "K", ["1: column 'n' occurs 2 times"]),
        ("k,\n", "K", ["1: a column has no name"]),
        ("k,_rowid\n", "K", ["1: '_rowid' is a reserved name"]),
        ("n\n", "K", ["1: required column 'k' is missing"]),
        ("b\n", "Need", ["1: required column 'a' is missing"]),
        ("w\n", "E", [f"1: required column '{end}' is missing" for end in ("from", "to")]),
        ("src,dst\n", "E", [
            "1: unknown column 'src' (columns are: id,from,to,w)",
            "1: unknown column 'dst' (columns are: id,from,to,w)",
            "1: required column 'from' is missing",
            "1: required column 'to' is missing",
        ]),
        ("\n\nx,k,q,k\n", "K", [
            "3: unknown column 'x' (columns are: id,k,n)",
            "3: column 'k' occurs 2 times",
            "3: unknown column 'q' (columns are: id,k,n)",
        ]),
        ('k"x\n', "K", ["1: the header: a quote in an unquoted field (quote the field, "
                        "and write the quote twice)"]),
        ('"k\n', "K", ["1: the header: a quote is opened and never closed; nothing after it was read"]),
        (b"k\xff\n", "K", ["1: the header is not UTF-8 text"]),
    ],
)  # fmt: skip
def test_a_header_that_is_wrong(
    tmp_path: Path, content: str | bytes, type_: str, complaints: list[str]
) -> None:
    assert refused(tmp_path, content, type_) == complaints


def test_columns_in_any_order_quoted_or_not(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, '"n",id,"k"\n1,x,x\n', "K")
    assert rows == [{"line": 2, "id": "x", "k": "x", "n": 1}]


def test_a_header_alone_is_one_piece_without_rows(tmp_path: Path) -> None:
    for content in (b"k,n", b"k,n\n\n"):
        (tmp_path / "in.csv").write_bytes(content)
        (piece,) = read_csv(Source(str(tmp_path / "in.csv")), entity("K"), Violations())
        assert (piece.rows.num_rows, len(piece.lines)) == (0, 0)
        assert piece.rows.schema == table_schema(entity("K"))


def test_ends_of_edges(tmp_path: Path) -> None:
    rows, violations = read(tmp_path, 'to,from,w\nb,a,0.5\n,a,1\n"",b,\n', "E")
    assert [(row["src"], row["dst"], row["w"], row["id"]) for row in rows] == [
        ("a", "b", 0.5, None),
        ("b", "", None, None),
    ]
    assert said(violations) == ["3: : edge missing 'to'"]


def test_an_edge_with_properties_called_like_its_ends(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, "src,dst,from,to\na,b,c,4\n", "Odd")
    assert rows == [{"line": 2, "id": None, "src": "a", "dst": "b", "from": "c", "to": 4}]
    assert list(file_columns(entity("Odd"))) == ["id", "src", "dst", "from", "to"]


# ---- ids ----


def test_ids(tmp_path: Path) -> None:
    rows, violations = read(tmp_path, 'id,k\nx,x\n,y\nz,other\n"",""\n', "K")
    assert [row["id"] for row in rows] == ["x", "y", ""]
    assert said(violations) == ["4: id: id 'z' is not the id its key gives, 'other'"]
    rows, violations = read(tmp_path, 'id,w,from,to\n"",1,a,b\ni,1,a,b\n,1,a,b\n', "E")
    assert [row["id"] for row in rows] == ["i", None]
    assert said(violations) == ["2: id: an id must not be empty"]
    rows, _ = read(tmp_path, "a,b\n7,x\n", "Two")
    assert rows[0]["id"] == '["x","7"]'


# ---- the texts of each type ----

GOOD: dict[str, list[tuple[str, object]]] = {
    "s": [("x", "x"), ("true", "true"), (" 1", " 1"), ("null", "null")],
    "b": [("true", True), ("false", False)],
    "i": [("0", 0), ("-0", 0), ("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)],
    "l": [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)],
    "u": [("4294967295", 2**32 - 1)],
    "v": [("18446744073709551615", 2**64 - 1)],
    "f": [("0.5", 0.5), ("1e2", 100.0), ("7", 7.0), ("0.1", 0.10000000149011612)],
    "g": [("0.1", 0.1), ("-1.5E-3", -0.0015), ("12345678901234567890", 12345678901234567890.0)],
    "d": [("1970-01-02", 1), ("-1", -1), ("19000", 19000), ("0001-01-01", -719162)],
    "t": [
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01", 0),
        ("1970-01-01 01:00:00+01:00", 0),
        ("-5", -5),
        ("1700000000123", 1700000000123),
    ],
    "e": [("a", "a"), ("other", "other")],
    "n": [('["a","",""]', ["a", "", ""]), ("[]", []), (' [ "x" ] ', ["x"])],
    "li": [("[1,-2]", [1, -2]), ("[\n1]", [1])],
    "w": [("[1,2.5]", [1.0, 2.5])],
}
BAD: dict[str, list[str]] = {
    "b": ["True", "TRUE", "1", "0", "yes", "", " true"],
    "i": ["1.0", "1e2", "+1", "01", "0x1", " 1", "1 ", "", "-", "2147483648", "-2147483649", "x", "１"],
    "l": ["9223372036854775808", "1" * 400],
    "u": ["-1", "4294967296"],
    "v": ["-1", "18446744073709551616"],
    "f": ["nan", "NaN", "inf", "Infinity", "-inf", "1e39", "1e400", ".5", "5.", "+1", "01", "1,5", "", "0x1"],
    "g": ["nan", "inf", "1e400", ".5", "5.", "+1", "1_0", "1d", "--1"],
    "d": [
        "2024-02-30",
        "2024-1-1",
        "20240101",
        "2024-01-01T00:00:00",
        "05",
        "2932897",
        "1.0",
        "",
        "0000-01-01",
    ],
    "t": ["2024-01-01T24:00:00", "now", "01", "253402300800000", "", "1.5", "10000-01-01"],
    "n": ["x", "a,b", "null", '{"a":1}', "[1]", '["a",null]', '["a"', '["a"] ["b"]', "", '["a"],"v":["b"]'],
    "li": ["[1.0]", '["1"]', "[9223372036854775808]", "1", "[1,]", "[01]"],
    "ld": ['["2024-02-30"]', "[2932897]"],
    "w": ["[1]", "[1,2,3]", "[1,null]", "[1,1e39]", "[NaN,1]", "[]", "1 2"],
    "x": ["QQ==", "base64:Q", "base64:Q Q==", "http://x/y", ""],
}


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@pytest.mark.parametrize("name", GOOD)
def test_texts_a_column_takes(tmp_path: Path, name: str) -> None:
    rows, violations = read(
        tmp_path, f"{name}\n" + "".join(_cell(text) + "\n" for text, _ in GOOD[name]), "T"
    )
    assert said(violations) == []
    assert [row[name] for row in rows] == [value for _, value in GOOD[name]]
    plain = [(text, value) for text, value in GOOD[name] if not set(text) & set('",\n')]
    rows, _ = read(tmp_path, f"{name}\n" + "".join(text + "\n" for text, _ in plain), "T")
    assert [row[name] for row in rows] == [value for _, value in plain]


def test_blobs(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, "x\nbase64:aGVsbG8=\nbase64:\n", "T")
    assert [row["x"]["data"] for row in rows] == [b"hello", b""]  # type: ignore[index]


@pytest.mark.parametrize("name", BAD)
def test_texts_a_column_does_not_take(tmp_path: Path, name: str) -> None:
    """Each is named with its line and column; none hides another."""
    rows, violations = read(tmp_path, f"{name}\n" + "".join(_cell(text) + "\n" for text in BAD[name]), "T")
    assert rows == []
    assert [(each.line, each.property) for each in violations] == [
        (number, name) for number in range(2, len(BAD[name]) + 2)
    ]


def test_words_for_wrong_texts(tmp_path: Path) -> None:
    _, violations = read(tmp_path, "i,b,d,w,n\n1.0,TRUE,05,[1],x\n", "T")
    assert said(violations) == [
        "2: i: expects I32, got number 1.0",
        "2: b: expects true or false, got 'TRUE'",
        "2: d: invalid Date literal '05'",
        "2: w: expects 2 dimensions, got 1",
        "2: n: expects a JSON array: invalid JSON: Expecting value at column 1",
    ]
    assert violations[0].record == b"1.0,TRUE,05,[1],x"


# ---- the two paths ----


def no_fast_path(self: object, records: object) -> object:
    raise Unfit


def outcomes(path: Path, content: bytes, type_: EntityType) -> list[object]:
    """What both paths together, and the exact one alone, make of a file."""
    path.write_bytes(content)
    found: list[object] = []
    for patch in (
        mock.patch.object(csv_module, "_EXACT_RECORDS", 1),
        mock.patch.object(csv_module._CsvReader, "_read_fast", no_fast_path),
    ):
        violations = Violations(keep=None)
        rows: list[str] = []
        with patch:
            try:
                for piece in read_csv(Source(str(path), block_bytes=64), type_, violations):
                    piece.rows.validate()
                    lines = piece.lines.to_pylist()
                    rows += [repr(pair) for pair in zip(lines, _plain(piece.rows), strict=True)]
            except InvalidRecords as error:
                rows.append(str(error))
        found.append((rows, [(str(each), each.record) for each in violations.first]))
    return found


_ODD_TEXTS = [text for texts in BAD.values() for text in texts] + [
    "a\nb",
    'q"q',
    "é",
    "\r\n",
    "-0",
    "-0.0",
    "1e-400",
]


@st.composite
def files(draw: st.DrawFn) -> tuple[EntityType, bytes]:
    """A type and a file of it: mostly records that are right or nearly so."""
    schema = draw(inputs.schemas())
    type_ = draw(st.sampled_from(list(schema.types())))
    header = [name for name in file_columns(type_) if name != "id" or draw(st.booleans())]
    out = io.StringIO()
    out.write(",".join(header) + "\n")
    end = draw(st.sampled_from(["\n", "\r\n"]))
    for _ in range(draw(st.integers(0, 6))):
        fields = [_field(draw, type_, name) for name in header]
        if draw(st.integers(0, 25)) == 0:
            fields = fields[:-1] if draw(st.booleans()) else [*fields, "x"]
        out.write(",".join(fields) + end)
    content = out.getvalue().encode("utf-8", "replace")
    if draw(st.integers(0, 8)) == 0 and len(content) > len(header):
        position = draw(st.integers(content.index(b"\n") + 1, len(content)))
        junk = draw(st.sampled_from([b'"', b"\r", b"\n", b",", b"\xff", b"\0", b"x", b'""']))
        content = content[:position] + junk + content[position:]
    return type_, content


def _field(draw: st.DrawFn, type_: EntityType, name: str) -> str:
    choice = draw(st.integers(0, 12))
    if choice == 0:
        return ""
    prop = type_.find_property(file_columns(type_)[name])
    if choice == 1:
        text = draw(st.sampled_from(_ODD_TEXTS))
    elif prop is None:
        text = draw(st.sampled_from(["a", "b", "", "7"]))
    else:
        text = draw(inputs.good_value(prop.type))
        is_text = text.startswith('"') and not prop.type.is_list
        text = python_text(text) if is_text else text
    return _cell(text) if set(text) & set('",\r\n') or not text or draw(st.booleans()) else text


def python_text(json_text: str) -> str:
    import json

    return str(json.loads(json_text)).replace("\0", "")


@pytest.mark.slow
@settings(max_examples=60)
@given(case=files())
def test_both_paths_agree(tmp_path: Path, case: tuple[EntityType, bytes]) -> None:
    with mock.patch("omnigraph_core.load.formats.source._LOOKED_AT_BYTES", 0):
        both, exact = outcomes(tmp_path / "in.csv", case[1], case[0])
    event(f"rows: {min(len(both[0]), 3)}")  # type: ignore[index]
    assert both == exact


@pytest.mark.soak
@settings(NEW, max_examples=5000)
@given(case=files())
def test_both_paths_agree_for_long(tmp_path: Path, case: tuple[EntityType, bytes]) -> None:
    with mock.patch("omnigraph_core.load.formats.source._LOOKED_AT_BYTES", 0):
        both, exact = outcomes(tmp_path / "in.csv", case[1], case[0])
    assert both == exact


@pytest.mark.parametrize("name", [prop.name for prop in entity("T").properties])
def test_both_paths_agree_on_every_odd_text_in_every_column(tmp_path: Path, name: str) -> None:
    texts = _ODD_TEXTS + [text for pairs in GOOD.values() for text, _ in pairs]
    texts += [text.strip('"') for text in inputs.TIMES + inputs.NUMBERS]
    content = f"{name}\n" + "".join(_cell(text) + "\n" for text in texts)
    both, exact = outcomes(tmp_path / "in.csv", content.encode(), entity("T"))
    assert both == exact


@settings(max_examples=300)
@given(st.text(st.sampled_from('a,"\n\r'), max_size=24), st.integers(1, 8))
@example('"a""\n', 3)
def test_cutting_at_once_is_cutting_one_by_one(text: str, block_bytes: int) -> None:
    """Whatever the text and wherever blocks end: the same records, the same mistakes, every byte once."""
    data = (text + "\n").encode()
    line_ends = [number + 1 for number, byte in enumerate(data) if byte == 10]
    blocks, start = [], 0
    for end in line_ends:
        if end - start >= block_bytes or end == len(data):
            blocks.append(Block(1 + data.count(b"\n", 0, start), data[start:end]))
            start = end

    def cut(parts: list[Block]) -> tuple[list[tuple[int, bytes]], list[object]]:
        cuts = list(cut_records(parts))
        return [pair for each in cuts for pair in each.records.pairs()], [
            m for each in cuts for m in each.misquoted
        ]

    whole = [Block(1, data)]
    with mock.patch("omnigraph_core.load.formats.csv_quoting._is_well_formed", return_value=False):
        expected = cut(whole)
    assert cut(whole) == expected
    assert cut(blocks) == expected
    if not expected[1]:
        rows = list(python_csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
        ours = [[(each or b"").decode() for each in split_fields(record)] for _, record in expected[0]]
        assert ours == [row for row in rows if row]


# ---- speed and streaming ----


def test_ordinary_records_never_need_the_exact_path(tmp_path: Path) -> None:
    rows = [
        '"a, ""b""",true,1,2,3,4,5,1e3,2024-01-01,2024-01-01T10:00Z,a,"[""x""]",[1],[5],"[1,2]",base64:QQ==',
        ",,,,,,,,,,,,,,,",
        'x,false,-1,-2,3,4,-0.5,7,2024-01-01,2024-01-01 10:00:00.5+02:00,b,[],"[1,2]",[],,',
    ]
    content = "s,b,i,l,u,v,f,g,d,t,e,n,li,ld,w,x\n" + "\n".join(rows) + "\n"
    with mock.patch.object(csv_module._CsvReader, "_read_exact", side_effect=AssertionError):
        found, violations = read(tmp_path, content, "T")
    assert (len(found), violations) == (3, [])


def test_one_bad_record_among_many_costs_only_its_neighbours(tmp_path: Path) -> None:
    lines = [f"k{number},{number}" for number in range(20_000)]
    lines[12_345] = "k12345,x"
    seen = 0
    original = csv_module._CsvReader._read_exact

    def spy(self: object, records: list[object]) -> object:
        nonlocal seen
        seen += len(records)
        return original(self, records)  # type: ignore[arg-type]

    with mock.patch.object(csv_module._CsvReader, "_read_exact", spy):
        rows, violations = read(tmp_path, "k,n\n" + "\n".join(lines), "K")
    assert said(violations) == ["12347: n: expects I64, got 'x'"]
    assert [row["n"] for row in rows] == [number for number in range(20_000) if number != 12_345]
    assert [row["line"] for row in rows] == [number + 2 for number in range(20_000) if number != 12_345]
    assert 0 < seen <= 256


def test_a_file_comes_in_pieces_with_progress(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("k,n\n" + "".join(f"k{number},{number}\n" for number in range(5_000)))
    source = Source(str(path), block_bytes=4_000)
    events: list[ProgressEvent] = []
    pieces = list(read_csv(source, entity("K"), Violations(), events.append))
    assert len(pieces) > 10
    assert max(piece.rows.num_rows for piece in pieces) < 1_000
    assert [n for piece in pieces for n in piece.rows.column("n").to_pylist()] == list(range(5_000))
    assert (events[-1].done, events[-1].total, events[-1].unit) == (source.size, source.size, "bytes")
