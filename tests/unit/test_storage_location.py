"""How `--store` is read, and what opening refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph_core.errors import UsageError
from omnigraph_core.settings import Settings
from omnigraph_core.storage import Location, open_storage, parse_location
from omnigraph_core.storage.control import InvalidObjectPath

CWD = Path("/home/me")


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("g", "/home/me/g"),
        ("./g/", "/home/me/g"),
        ("../g//x/.", "/home/g/x"),
        ("/abs/g", "/abs/g"),
        ("//abs/g", "/abs/g"),
        ("/", "/"),
        (".", "/home/me"),
        ("with space and %20", "/home/me/with space and %20"),
        ("a:b", "/home/me/a:b"),
        ("file:///abs/g/", "/abs/g"),
        ("FILE:///abs/g", "/abs/g"),
        ("file://localhost/abs/g", "/abs/g"),
        ("file:///with%20space/%C3%A4", "/with space/ä"),
    ],
)
def test_local_spellings(text: str, root: str) -> None:
    location = parse_location(text, CWD)
    assert location == Location("file", root)
    assert location.is_local
    assert location.uri == root
    assert location.path == Path(root)


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("s3://bucket/some/prefix/", "s3://bucket/some/prefix"),
        ("S3://bucket", "s3://bucket"),
        ("s3://my-bucket.1/g", "s3://my-bucket.1/g"),
    ],
)
def test_s3_spellings(text: str, uri: str) -> None:
    location = parse_location(text, CWD)
    assert location.uri == str(location) == uri
    assert not location.is_local
    assert location.child("nodes/00ff") == uri + "/nodes/00ff"
    with pytest.raises(UsageError):
        _ = location.path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", "NUL"),
        ("file:///a%00b", "NUL"),
        ("file:///%ff", "UTF-8"),
        ("bad\udcff", "UTF-8"),
        ("file://elsewhere/g", "another host"),
        ("file://g", "another host"),
        ("http://host/g", "not supported yet"),
        ("https://host/g", "not supported yet"),
        ("gs://bucket/g", "unknown scheme 'gs://'"),
        ("s3:///g", "not a valid bucket"),
        ("s3://", "not a valid bucket"),
        ("s3://bucket/a//b", "empty, '.' or '..'"),
        ("s3://bucket/../b", "empty, '.' or '..'"),
        ("s3://bucket/a%20b", "cannot contain '%'"),
        ("s3://bucket/a#b", "cannot contain '%'"),
        ("s3://bucket/a?b", "cannot contain '%'"),
        ("s3://bucket/a\\b", "cannot contain '%'"),
        ("s3://bucket/a\nb", "cannot contain '%'"),
    ],
)
def test_refused_locations(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_location(text, CWD)
    assert says in caught.value.message


def test_children() -> None:
    assert Location("file", "/g").child("nodes/00ff") == "/g/nodes/00ff"
    assert Location("file", "/").child("__manifest") == "/__manifest"
    with pytest.raises(InvalidObjectPath):
        Location("file", "/g").child("../other")


def test_opening_creates_nothing(tmp_path: Path) -> None:
    storage = open_storage(parse_location("g", tmp_path), Settings())
    assert storage.control.is_empty()
    assert storage.locks.read_holder("refs") is None
    assert list(tmp_path.iterdir()) == []
