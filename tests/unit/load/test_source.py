"""An input is read whole, in whole lines, and described exactly; what is no input is refused."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_core.errors import LimitError, UsageError
from omnigraph_core.load.formats import source as source_module
from omnigraph_core.load.formats.source import Source
from omnigraph_core.rules.violations import InvalidRecords
from tests.support.processes import REPOSITORY


@given(
    lines=st.lists(st.binary(max_size=12).map(lambda text: text.replace(b"\n", b"").replace(b"\0", b""))),
    ended=st.booleans(),
    block_bytes=st.integers(1, 40),
)
def test_blocks_are_whole_lines_with_their_numbers(
    tmp_path: Path, lines: list[bytes], ended: bool, block_bytes: int
) -> None:
    content = b"{}\n" + b"\n".join(lines) + (b"\n" if ended and lines else b"")
    path = tmp_path / "in"
    path.write_bytes(content)
    source = Source(str(path), block_bytes=block_bytes)
    told: list[int] = []
    found: dict[int, bytes] = {}
    for block in source.blocks(told.append):
        assert block.text.endswith(b"\n")
        for number, line in enumerate(block.text[:-1].split(b"\n"), block.first_line):
            assert number not in found
            found[number] = line
    expected = content.removesuffix(b"\n").split(b"\n")
    assert found == dict(enumerate(expected, 1))
    assert source.bytes_read == source.size == sum(told) == len(content)
    assert source.sha256 == hashlib.sha256(content).hexdigest()


def test_a_byte_order_mark_is_hashed_but_not_read(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"\xef\xbb\xbf{}\n")
    source = Source(str(path))
    assert [block.text for block in source.blocks()] == [b"{}\n"]
    assert source.sha256 == hashlib.sha256(b"\xef\xbb\xbf{}\n").hexdigest()


def test_an_empty_file_has_no_blocks(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.touch()
    source = Source(str(path))
    assert list(source.blocks()) == []
    assert source.sha256 == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize("block_bytes", [1, 7, 10, 11, 1000])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_the_longest_line(tmp_path: Path, block_bytes: int, end: bytes) -> None:
    """Exactly at the limit is read; one byte more is refused with its line."""
    path = tmp_path / "in"
    path.write_bytes(b"ab\n" + b"x" * 10 + end)
    blocks = list(Source(str(path), block_bytes=block_bytes, line_bytes_max=10).blocks())
    assert b"".join(block.text for block in blocks) == b"ab\n" + b"x" * 10 + b"\n"
    path.write_bytes(b"ab\n" + b"x" * 11 + end)
    with pytest.raises(LimitError, match=r"in:2: the line is longer than") as caught:
        list(Source(str(path), block_bytes=block_bytes, line_bytes_max=10).blocks())
    assert caught.value.details() == {"file": str(path), "line": 2}


def test_what_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"input file '.*/missing' does not exist"):
        Source(str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="is a directory"):
        Source(str(tmp_path))
    with pytest.raises(UsageError, match="cannot be read"):
        Source("a\0b")
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UsageError, match="cannot be read: Not a directory"):
        Source(str(file / "x"))


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in"
    path.write_text("{}\n")
    path.chmod(0)
    if os.access(path, os.R_OK):  # a super-user may read anything

        def refuse(*_: object, **__: object) -> io.BytesIO:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(source_module, "open", refuse, raising=False)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        list(Source(str(path)).blocks())


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"type":"T"}\n'.encode("utf-16"), ":1: the input is UTF-16, not UTF-8"),
        ('{"type":"T"}\n'.encode("utf-32"), ":1: the input is UTF-32, not UTF-8"),
        ('{"type":"T"}\n'.encode("utf-16-le"), ":1: the input is not UTF-8 text: it has NUL bytes"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", ":3: the input is not UTF-8 text: it has NUL bytes"),
    ],
)
def test_a_file_that_is_no_utf8_text_gets_one_message(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "in"
    path.write_bytes(content * 100)
    with pytest.raises(InvalidRecords) as caught:
        list(Source(str(path)).blocks())
    assert str(caught.value) == f"{path}{complaint}"
    assert caught.value.total == 1


def test_standard_input() -> None:
    program = (
        "from omnigraph_core.load.formats.source import Source\n"
        "s = Source('-')\n"
        "print([(b.first_line, b.text) for b in s.blocks()], s.name, s.size, s.bytes_read)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=b"a\nb", capture_output=True, cwd=REPOSITORY, check=True
    )
    assert done.stdout.decode() == "[(1, b'a\\nb\\n')] <stdin> None 3\n"
