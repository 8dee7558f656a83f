"""Where the contract is checked: a new kind of storage joins by a new value of `place`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.storage import Storage, open_storage, parse_location
from omnigraph_core.tables.dataset import Tables
from tests.support.graphs import BRANCHES, LINEAGES


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The text a user would give for a graph root that is empty."""
    if request.param == "local":
        return str(tmp_path / "g")
    fresh_location: Callable[[], str] = request.getfixturevalue("s3_location")
    return fresh_location()


@pytest.fixture
def environment(place: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables with which a process finds the place."""
    found = {"OMNIGRAPH_FSYNC": "off"}
    if place.startswith("s3://"):
        found |= request.getfixturevalue("s3_environment")
    return found


@pytest.fixture
def storage(place: str, tmp_path: Path, environment: dict[str, str]) -> Storage:
    settings = load_settings(environment, tmp_path) if place.startswith("s3://") else Settings(fsync=False)
    return open_storage(parse_location(place, tmp_path), settings)


@pytest.fixture
def tables(storage: Storage) -> Tables:
    return Tables(storage)


# ---- which variants run on S3 ----

ONCE_REMOTELY = "once_remotely"
MOSTLY_LOCAL = "mostly_local"
REMOTELY = "remotely"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{ONCE_REMOTELY}: of all variants of the test, one runs on S3")
    config.addinivalue_line("markers", f"{MOSTLY_LOCAL}: about rows; on S3 only what is marked `{REMOTELY}`")
    config.addinivalue_line("markers", f"{REMOTELY}: in a module that is `{MOSTLY_LOCAL}`, runs on S3, too")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Take out the S3 variants that add nothing to their local twins and a sister on S3.

    A test that runs on several lineages or branches runs on S3 on the deepest of them,
    which has all the others below it. One marked `once_remotely` is about rows more than about
    where they are.
    """
    lasting: dict[tuple[str, object], pytest.Item] = {}
    for item in items:
        if (twins := _twins_on_s3(item)) is not None:
            lasting[twins] = item
    items[:] = [
        item
        for item in items
        if not _is_spared_s3(item) and ((twins := _twins_on_s3(item)) is None or lasting[twins] is item)
    ]
    _leave_lineages_to_the_soak(items)


def _leave_lineages_to_the_soak(items: list[pytest.Item]) -> None:
    """A test of many cases on several lineages runs each case on one of them, in turn; in the soak on all."""
    cases: dict[str, dict[object, list[pytest.Item]]] = {}
    for item in items:
        parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        if Path(__file__).parent not in item.path.parents or parameters.get("place") == "s3":
            continue
        others = tuple(id(value) for value in parameters.values() if value not in LINEAGES)
        if len(others) == len(parameters) - 1:
            cases.setdefault(item.nodeid.partition("[")[0], {}).setdefault(others, []).append(item)
    for variants in cases.values():
        if len(variants) < len(LINEAGES):
            continue
        for number, lineages in enumerate(variants.values()):
            for place, item in enumerate(lineages):
                if place != number % len(lineages):
                    item.add_marker(pytest.mark.soak)


def _is_spared_s3(item: pytest.Item) -> bool:
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    if parameters.get("place") != "s3" or not item.get_closest_marker(MOSTLY_LOCAL):
        return False
    return not item.get_closest_marker(REMOTELY)


def _twins_on_s3(item: pytest.Item) -> tuple[str, object] | None:
    """What the S3 variants have in common of which only the last one runs; None for any other test."""
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    if parameters.get("place") != "s3" or Path(__file__).parent not in item.path.parents:
        return None
    test = item.nodeid.partition("[")[0]
    if item.get_closest_marker(ONCE_REMOTELY):
        return test, None
    depths = (*LINEAGES, *BRANCHES)
    varied = {name for name, value in parameters.items() if isinstance(value, str) and value in depths}
    if not varied:
        return None
    return test, tuple(sorted((name, id(value)) for name, value in parameters.items() if name not in varied))
