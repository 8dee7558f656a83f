"""The race of `test_publisher` on S3, where only the server's conditional PUT decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core.settings import load_settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.dataset import Tables
from tests.support.graphs import new_manifest
from tests.support.publishers import A, B, Workers, race

PROCESSES = 4


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.soak)])
@pytest.mark.parametrize("sees_head", [False, True], ids=["tables", "head"])
def test_one_publisher_of_a_version_wins_each_round(
    sees_head: bool, rounds: int, s3_location: Callable[[], str], s3_environment: dict[str, str]
) -> None:
    place = s3_location()
    storage = open_storage(parse_location(place, Path("/")), load_settings(s3_environment, Path("/")))
    manifest = new_manifest(Tables(storage), A, B)
    with Workers(place, [A] * PROCESSES, sees_head=sees_head, environment=s3_environment) as workers:
        race(manifest, workers, rounds)
