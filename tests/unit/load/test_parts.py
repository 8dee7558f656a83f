"""A file read in parts: wherever it is cut, every line is in one part, and numbered as in the file."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from omnigraph_core.load.formats.compressed import CODECS
from omnigraph_core.load.formats.remote import place_of
from omnigraph_core.load.formats.source import LocalFile, Place, Source, SourceSplit
from omnigraph_core.settings import load_settings
from omnigraph_core.storage import open_storage, parse_location
from tests.support.s3server import S3Server

TEXT = "".join(
    f"{number} {'x' * (number % 7)}{chr(13) if number % 3 else ''}\n" for number in range(60)
).encode()


def lines_of(source: Source) -> list[tuple[int, bytes]]:
    return [
        (block.first_line + number, line)
        for block in source.blocks()
        for number, line in enumerate(block.text.split(b"\n")[:-1])
    ]


def parts_of(place: Place, size: int, cuts: list[int]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    before = 0
    for start, end in pairwise([0, *sorted(cuts), size]):
        part = SourceSplit("in", place, start, end)
        found += [(before + number, line) for number, line in lines_of(part)]
        before += part.lines
    return found


@given(
    text=st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\0", b"")), max_size=12),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    mark=st.booleans(),
)
def test_wherever_it_is_cut(text: list[bytes], cuts: list[int], mark: bool, tmp_path_factory: object) -> None:
    path = Path(_folder(tmp_path_factory)) / "in"
    content = b"".join(line.replace(b"\xff", b"").replace(b"\xfe", b"") + b"\n" for line in text)[:-1]
    # Bytes that begin like a compressed file are read as one, and never in parts.
    assume(not content.startswith(tuple(magic for _, magic in CODECS.values())))
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + content)
    size = path.stat().st_size
    bounds = [min(cut, size) for cut in cuts]
    assert parts_of(LocalFile(str(path)), size, bounds) == lines_of(Source(str(path)))


def _folder(factory: object) -> str:
    return str(factory.getbasetemp())  # type: ignore[attr-defined]


def test_an_object_on_s3(s3_server: S3Server, tmp_path: Path) -> None:
    place = s3_server.new_location()
    access = load_settings(s3_server.environment, tmp_path)
    open_storage(parse_location(place, tmp_path), access).control.put("in.jsonl", TEXT)
    remote = place_of(f"{place}/in.jsonl", access.s3)
    local = tmp_path / "in"
    local.write_bytes(TEXT)
    assert parts_of(remote, remote.size() or 0, [1, 99, 100, 350]) == lines_of(Source(str(local)))
