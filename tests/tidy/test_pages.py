"""The pages of docs/, as the command line finds them, and as a wheel carries them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from omnigraph_cli import pages
from tests.support.processes import REPOSITORY


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the files in a wheel built from this checkout."""
    built = next(iter(WheelBuilder(str(REPOSITORY)).build(directory=str(tmp_path_factory.mktemp("dist")))))
    return zipfile.ZipFile(built).namelist()


def test_every_page_is_a_topic_with_a_title() -> None:
    assert {"queries", "data", "schema"} <= set(pages.topics())
    assert all(pages.title(topic) for topic in pages.topics())
    assert pages.title("queries") == "Querying"


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(pages.PageNotFound) as caught:
        pages.text("querys")
    assert caught.value.hint == "did you mean 'queries'?"
    with pytest.raises(pages.PageNotFound, match="no page"):
        pages.text("../README")


def test_a_wheel_has_the_pages_where_they_are_looked_for(wheel: list[str]) -> None:
    assert pages.folder() == REPOSITORY / "docs"
    for page in (REPOSITORY / "docs").rglob("*.md"):
        assert f"omnigraph_cli/docs/{page.relative_to(REPOSITORY / 'docs')}" in wheel
    assert "omnigraph_core/py.typed" in wheel


def test_pages_beside_the_module_are_taken_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/tea.md").write_text("# Tea\n")
    monkeypatch.setattr(pages, "_HERE", tmp_path)
    assert (pages.topics(), pages.title("tea")) == (["tea"], "Tea")
