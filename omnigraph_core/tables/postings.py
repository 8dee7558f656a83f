"""What a full-text index knows of texts: how many words each has, and how often it has a given one.

Lance ranks by statistics of its own, which count deleted rows and leave out what an index does not
cover. But what it says of one word is a known function of three numbers:

    weight * occurrences / (occurrences + 1.2 * (0.25 + 0.75 * words / words of a text on average))

The index keeps the words of each text, and a few texts are read to find the weight. So occurrences
follow, and they are whole numbers: that they come out as such proves that the function is this one. If it
is not, the index is as good as none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.indexes import IndexKind, IndexSpec, find_index, is_like_ours
from omnigraph_core.tables.keys import ROW_ID
from omnigraph_core.tables.physical import take_rows
from omnigraph_core.tables.places import place_inside
from omnigraph_core.tables.words import Words

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from omnigraph_core.tables.indexes import BuiltIndex

    Whole = npt.NDArray[np.int64]

OCCURRENCES_MAX = 255
"""More of one word in one text count as so many: beyond, a score of 32 bits does not tell them apart."""

SATURATION = 1.2
LENGTH_SHARE = 0.75

_LENGTH_FILES = "_docs.lance"
_LENGTH = "_num_tokens"

_SAMPLED_TEXTS = 4
_WEIGHTS_DIFFER_MAX = 1e-5
_FRACTION_MAX = 0.25


@dataclass(frozen=True, slots=True)
class IndexedTexts:
    """The texts of the rows that an index covers and that are still there, by row id, ascending."""

    row_ids: Whole
    lengths: Whole
    fragments: frozenset[int]
    mean_length: float
    """Of all texts that were indexed, deleted ones included, as Lance counts."""

    @property
    def nbytes(self) -> int:
        return int(self.row_ids.nbytes + self.lengths.nbytes)

    def places_of(self, row_ids: Whole) -> Whole:
        """Where rows are among these; -1 for what is not."""
        return places_among(self.row_ids, row_ids)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The texts that have a word, by place, and how often they have it."""

    places: Whole
    counts: Whole


def indexed_texts(storage: Storage, table: Table, column: str) -> IndexedTexts | None:
    """None if no index covers anything, or if it is one whose files are unlike those we know."""
    import numpy as np

    built = find_index(table, IndexSpec(column, IndexKind.FULL_TEXT))
    fragments = built.covered & table.fragment_ids() if built else frozenset()
    if built is None or not fragments or table.is_foreign or not is_like_ours(table, built):
        return None
    parts = _length_files(storage, table, built)
    if not parts:
        return None
    row_ids, lengths = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(row_ids, kind="stable")
    row_ids, lengths = row_ids[order], lengths[order]
    is_there = _are_there(table, fragments, row_ids)
    mean = float(lengths.sum() / max(1, len(lengths)))
    row_ids, lengths = row_ids[is_there], lengths[is_there]
    if len(row_ids) > 1 and not (row_ids[1:] > row_ids[:-1]).all():
        return None
    return IndexedTexts(row_ids, lengths, fragments, mean)


def _are_there(table: Table, fragments: frozenset[int], row_ids: Whole) -> npt.NDArray[np.bool_]:
    """Which rows are still in one of these fragments: the index also has those that were deleted or moved."""
    import numpy as np

    rows = table.scan([], with_row_id=True, fragment_ids=sorted(fragments)).read_all()
    there = np.sort(rows.column(ROW_ID).to_numpy().astype(np.int64))
    return places_among(there, row_ids) >= 0


def _length_files(storage: Storage, table: Table, built: BuiltIndex) -> list[tuple[Whole, Whole]]:
    """Row ids and lengths as the index wrote them; nothing if any segment has no such file."""
    import numpy as np
    from lance.file import LanceFileReader

    found = []
    for segment in built.segments:
        place = _place(storage, table, segment)
        names = [] if place is None else storage.control.list(place)
        names = [name for name in names if name.endswith(_LENGTH_FILES)]
        if not names:
            return []
        for name in names:
            uri = storage.location.child(f"{place}/{name}")
            with lance_failures(table.ref, "reading an index of"):
                reader = LanceFileReader(uri, storage_options=storage.lance_options)
                rows = reader.read_all().to_table()
            if not {ROW_ID, _LENGTH} <= set(rows.column_names):
                return []
            found.append(
                (rows[ROW_ID].to_numpy().astype(np.int64), rows[_LENGTH].to_numpy().astype(np.int64))
            )
    return found


def _place(storage: Storage, table: Table, segment: Any) -> str | None:
    """A fork reads the indexes of its parent where they are."""
    home: str | None = table.ref.directory
    if segment.base_id is not None:
        home = place_inside(storage, table.lance.base_paths()[segment.base_id].path)
    return None if home is None else f"{home}/_indices/{segment.uuid}"


def occurrences(
    table: Table,
    column: str,
    known: IndexedTexts,
    words: dict[str, str],
    check: Callable[[], None] = lambda: None,
) -> dict[str, Occurrences] | None:
    """For each word where it occurs; None if the index does not answer as it should.

    `words` are spelled in the way that `query_words` spells them. `check` may raise, before each word.
    """
    import numpy as np

    scored = {}
    for word, spelling in words.items():
        check()
        scored[word] = _scored(table, column, known, spelling)
    sampled = [_sample(places, known.lengths) for places, _ in scored.values()]
    read = np.unique(np.concatenate(sampled)) if sampled else np.zeros(0, np.int64)
    texts = take_rows(table, [column], known.row_ids[read].tolist()) if len(read) else None
    if texts is not None and texts.num_rows != len(read):
        return None
    spelled = Words(texts.column(0).combine_chunks()) if texts is not None else None
    if spelled is not None and (spelled.lengths != known.lengths[read]).any():
        return None
    found = {}
    for (word, (places, scores)), sample in zip(scored.items(), sampled, strict=True):
        check()
        counts: Whole | None = np.zeros(0, np.int64)
        if len(places):
            assert spelled is not None
            those, occur = spelled.counts(word)
            true = np.zeros(len(read), np.int64)
            true[those] = occur
            counts = _counts(places, scores, known, sample, true[np.searchsorted(read, sample)])
        if counts is None:
            return None
        found[word] = Occurrences(places, counts)
    return found


def _scored(
    table: Table, column: str, known: IndexedTexts, spelling: str
) -> tuple[Whole, npt.NDArray[np.float64]]:
    """The places of the texts that have a word, ascending, with Lance's scores."""
    import numpy as np
    from lance.query import MatchQuery

    with lance_failures(table.ref, "searching"):
        found = table.lance.scanner(
            columns=["_score"],
            full_text_query=MatchQuery(spelling, column),
            with_row_id=True,
            fast_search=True,
        ).to_table()
    places = known.places_of(found.column(ROW_ID).to_numpy().astype(np.int64))
    order = np.argsort(places)
    order = order[places[order] >= 0]
    return places[order], found.column("_score").to_numpy().astype(np.float64)[order]


def _sample(places: Whole, lengths: Whole) -> Whole:
    """A few of the places, of texts that are short to read; ascending."""
    import numpy as np

    if len(places) <= _SAMPLED_TEXTS:
        return places
    shortest = np.argpartition(lengths[places], _SAMPLED_TEXTS)[:_SAMPLED_TEXTS]
    return np.sort(places[shortest])


def _counts(
    places: Whole, scores: npt.NDArray[np.float64], known: IndexedTexts, sample: Whole, true: Whole
) -> Whole | None:
    """How often the word occurs in each text; None if that does not explain the scores.

    `true` is how often it occurs in the sample.
    """
    import numpy as np

    saturation = saturations(known.lengths[places], known.mean_length)
    chosen = np.searchsorted(places, sample)
    if not (true > 0).all():
        return None
    weights = scores[chosen] * (true + saturation[chosen]) / true
    weight = float(np.median(weights))
    if weight <= 0 or (np.abs(weights / weight - 1) > _WEIGHTS_DIFFER_MAX).any():
        return None
    left = np.maximum(weight - scores, weight * 1e-12)
    counted = np.minimum(saturation * scores / left, OCCURRENCES_MAX)
    counts: Whole = np.rint(counted).astype(np.int64)
    if (np.abs(counted - counts) > _FRACTION_MAX).any() or (counts < 1).any():
        return None
    return counts


def saturations(lengths: Whole, mean_length: float) -> npt.NDArray[np.float64]:
    """So many occurrences of a word count half of what very many count; more in longer texts."""
    relative: npt.NDArray[np.float64] = lengths / mean_length
    return SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * relative)


def places_among(row_ids: Whole, wanted: Whole) -> Whole:
    """Where numbers are among others, which are ascending; -1 for what is not."""
    import numpy as np

    if not len(row_ids):
        return np.full(len(wanted), -1, np.int64)
    if int(row_ids[-1]) - int(row_ids[0]) + 1 == len(row_ids):
        places = wanted - row_ids[0]
        return np.where((places >= 0) & (places < len(row_ids)), places, -1)
    places = np.minimum(np.searchsorted(row_ids, wanted), len(row_ids) - 1)
    return np.where(row_ids[places] == wanted, places, -1)
