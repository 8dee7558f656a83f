"""Identity by the column is identity by the value."""

from __future__ import annotations

import json
import time
from datetime import date

import pyarrow as pa
import pytest
import ulid
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph_core.errors import BadDataError
from omnigraph_core.ids import canonical_scalar, entity_id
from omnigraph_core.schema import NodeType, Property, PropertyType, Scalar, compile_schema
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.values.columns import column
from omnigraph_core.values.identity import canonical_texts, fresh_ids, key_ids, tuple_texts

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
VALUES: dict[Scalar, st.SearchStrategy[object]] = {
    Scalar.STRING: TEXT,
    Scalar.BOOL: st.booleans(),
    Scalar.I32: st.integers(-(2**31), 2**31 - 1),
    Scalar.I64: st.integers(-(2**63), 2**63 - 1),
    Scalar.U32: st.integers(0, 2**32 - 1),
    Scalar.U64: st.integers(0, 2**64 - 1),
    Scalar.F32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Scalar.F64: st.floats(allow_nan=False, allow_infinity=False),
    Scalar.DATE: st.integers(-719162, 2932896),
    Scalar.DATE_TIME: st.integers(-62135596800000, 253402300799999),
}


@pytest.mark.parametrize("scalar", VALUES)
@given(data=st.data())
def test_texts_are_those_of_the_values(scalar: Scalar, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[scalar], max_size=8))
    type_ = PropertyType(scalar, nullable=True)
    array = column(values, Property("p", type_))
    single = scalar is Scalar.F32
    expected = [None if value is None else canonical_scalar(value, single=single) for value in values]
    for given_column in (array, pa.chunked_array([array.slice(0, 1), array.slice(1)])):
        texts = canonical_texts(given_column, type_)
        assert texts.type == pa.utf8()
        assert texts.to_pylist() == expected


@pytest.mark.parametrize(("scalar", "exponents"), [(Scalar.F32, (-149, 128)), (Scalar.F64, (-1074, 1024))])
def test_texts_of_powers_of_two_and_ten(scalar: Scalar, exponents: tuple[int, int]) -> None:
    """Where the shortest text of a float is hardest to find, and where exponents begin."""
    values = [sign * 2.0**power for power in range(*exponents) for sign in (1, -1)]
    values += [10.0**power for power in range(-37, 38)] + [1e15, 1e16, 123456789.0, 1 / 3, 0.0, -0.0]
    array = column(values, Property("p", PropertyType(scalar)))
    single = scalar is Scalar.F32
    texts = canonical_texts(array, PropertyType(scalar)).to_pylist()
    assert texts == [canonical_scalar(value, single=single) for value in array.to_pylist()]
    assert "e" not in "".join(texts)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_has_no_text(value: float) -> None:
    with pytest.raises(BadDataError, match="must be finite"):
        canonical_texts(pa.array([1.0, value]), PropertyType(Scalar.F64))


def node(text: str) -> NodeType:
    return compile_schema(text).nodes[0]


@given(st.lists(st.tuples(st.none() | TEXT, st.integers(0, 2**64 - 1)), max_size=6))
@example([('"\\\n\r\t\b\f\0\x1f\x7f \u2028é😀', 7)])
def test_composite_ids(members: list[tuple[str | None, int]]) -> None:
    """Declared order, and exactly the JSON that `ids` writes; a null member makes no id."""
    entity = node("node T { n: U64\n s: String\n @key(s, n) }")
    assert entity.key is not None
    texts = [text for text, _ in members]
    numbers = [number for _, number in members]
    arrays = [pa.nulls(len(members), pa.utf8()), pa.array(numbers, pa.uint64()), pa.array(texts, pa.utf8())]
    rows = pa.Table.from_arrays(arrays, schema=table_schema(entity))
    found = key_ids(rows, entity.key, entity).to_pylist()
    assert found == [None if text is None else entity_id([text, str(number)]) for text, number in members]
    for value, (text, number) in zip(found, members, strict=True):
        assert value is None or json.loads(value) == [text, str(number)]


def test_single_ids_are_the_text_itself() -> None:
    entity = node("node T { d: Date @key }")
    assert entity.key is not None
    arrays = [pa.nulls(2, pa.utf8()), pa.array([date(1970, 1, 2), None], pa.date32())]
    rows = pa.Table.from_arrays(arrays, schema=table_schema(entity))
    assert key_ids(rows, entity.key, entity).to_pylist() == ["1", None]


def test_tuples_of_edges_may_have_their_ends() -> None:
    schema = compile_schema("node T {}\nedge E: T -> T { w: F64?\n @unique(src, dst, w) }")
    (entity,) = schema.edges
    arrays = [["e1", "e2"], ["a", 'b"'], ["c", "d"], [1.5, None]]
    rows = pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(arrays, table_schema(entity), strict=True)],
        schema=table_schema(entity),
    )
    assert tuple_texts(rows, ("src", "dst"), entity).to_pylist() == ['["a","c"]', '["b\\"","d"]']
    assert tuple_texts(rows, ("src", "dst", "w"), entity).to_pylist() == ['["a","c","1.5"]', None]


def test_fresh_ids_are_ulids_of_now_in_order() -> None:
    before = time.time_ns() // 1_000_000
    ids = fresh_ids(100_000).to_pylist()
    after = time.time_ns() // 1_000_000
    assert ids == sorted(set(ids))
    assert len(ids) == 100_000
    for text in (ids[0], ids[-1]):
        parsed = ulid.parse(text)
        assert str(parsed) == text
        assert before <= parsed.timestamp().int <= after


def test_fresh_ids_of_two_calls_differ() -> None:
    assert not set(fresh_ids(1000).to_pylist()) & set(fresh_ids(1000).to_pylist())


@pytest.mark.parametrize("n", [0, 1])
def test_few_fresh_ids(n: int) -> None:
    ids = fresh_ids(n)
    assert len(ids) == n
    assert ids.type == pa.utf8()


def test_counting_up_carries_into_the_upper_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn at its highest, the random half still counts on without repeating or overflowing."""
    from omnigraph_core.values import identity

    monkeypatch.setattr(identity.secrets, "randbits", lambda bits: (1 << bits) - 1)
    ids = fresh_ids(10).to_pylist()
    randoms = [ulid.parse(text).randomness().int for text in ids]
    assert randoms == list(range(randoms[0], randoms[0] + 10))
    assert ids == sorted(ids)
