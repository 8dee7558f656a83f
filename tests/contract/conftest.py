"""Where the contract is checked: a new kind of storage joins by a new value of `place`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph_core import faults
from omnigraph_core.settings import Settings
from omnigraph_core.storage import Storage, open_storage, parse_location
from omnigraph_core.tables.dataset import Tables


@pytest.fixture(params=["local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The text a user would give for a graph root that is empty."""
    assert request.param == "local"
    return str(tmp_path / "g")


@pytest.fixture
def storage(place: str, tmp_path: Path) -> Storage:
    return open_storage(parse_location(place, tmp_path), Settings(fsync=False))


@pytest.fixture
def tables(storage: Storage) -> Tables:
    return Tables(storage)


@pytest.fixture(autouse=True)
def _no_failpoints() -> Iterator[None]:
    yield
    faults.arm("")
