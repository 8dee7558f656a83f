"""The wheel by itself: it works without the development environment and without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

from tests.support.processes import REPOSITORY, clean_environment

SCHEMA = "node Person { name: String @key }"
SCRIPT = """
import sys
import omnigraph_core as og
with og.init("g", %r, actor="ann") as graph:
    graph.load([{"name": "Ann"}], "append", type="Person")
    print(graph.query("query q() { match { $p: Person } return { $p.name as name } }").to_pylist())
from omnigraph_cli import pages
print(pages.title("python"), "docs" in str(pages.folder()))
print(sorted({"pyspark", "pytest", "mypy", "hatchling"} & set(sys.modules)))
"""
SAID = "[{'name': 'Ann'}]\nFrom Python True\n[]\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = next(iter(WheelBuilder(str(REPOSITORY)).build(directory=str(tmp_path_factory.mktemp("dist")))))
    return Path(made)


def required(name: str, seen: set[str]) -> Iterator[str]:
    """A distribution and everything it needs, without extras."""
    if name.lower() in seen:
        return
    seen.add(name.lower())
    yield name
    for text in distribution(name).requires or ():
        needed = Requirement(text)
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            yield from required(needed.name, seen)


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel, unpacked, and links to what it requires; nothing else is on the path."""
    place = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(place)
    for name in required("omnigraph", set()):
        if name == "omnigraph":
            continue
        for file in distribution(name).files or ():
            top = file.parts[0]
            source = Path(str(distribution(name).locate_file(top)))
            if top not in ("..", "__pycache__") and source.exists() and not (place / top).exists():
                os.symlink(source, place / top)
    return place


def run(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Without the site-packages of this environment (-S)."""
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=cwd,
        env=clean_environment(PYTHONPATH=str(site)),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_library_works_with_what_it_requires(site: Path, tmp_path: Path) -> None:
    assert not (site / "pyspark").exists()
    assert not (site / "pytest").exists()
    done = run(site, tmp_path, "-c", SCRIPT % SCHEMA)
    assert (done.stdout, done.returncode) == (SAID, 0), done.stderr


def test_the_command_works_with_what_it_requires(site: Path, tmp_path: Path) -> None:
    (tmp_path / "s.pg").write_text(SCHEMA)
    made = run(site, tmp_path, "-m", "omnigraph_cli", "init", "--schema", "s.pg", "g")
    assert made.returncode == 0, made.stderr
    spark = run(
        site, tmp_path, "-m", "omnigraph_cli", "load", "g", "--data", "s.pg", "--mode", "append", "--spark"
    )
    assert spark.returncode == 2
    assert "Traceback" not in spark.stderr


def test_the_wheel_has_what_is_documented(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    data = [name.partition(".data/data/")[2] for name in names if ".data/data/" in name]
    assert "share/man/man1/omnigraph.1" in data
    assert any(name.startswith("share/bash-completion/") for name in data)
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in names)


@pytest.mark.soak
def test_pip_installs_the_wheel_into_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    """With an index, as `pipx install` does it: an environment of its own, and `omnigraph` in its bin."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    bin_ = tmp_path / "venv/bin"
    subprocess.run([bin_ / "python", "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    listed = subprocess.run(
        [bin_ / "python", "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    ).stdout
    assert not any(line.startswith(("pyspark", "pytest", "mypy", "ruff")) for line in listed.splitlines())
    done = subprocess.run(
        [bin_ / "python", "-c", SCRIPT % SCHEMA],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == (SAID, 0), done.stderr
    version = subprocess.run([bin_ / "omnigraph", "version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("omnigraph ")


@pytest.mark.soak
def test_the_tour_goes_to_its_end(tmp_path: Path) -> None:
    """`make demo`, without the installation."""
    done = subprocess.run(
        ["bash", REPOSITORY / "docs/tour.sh", Path(sys.executable).parent],
        env=clean_environment(TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "What to try next" in done.stdout
    assert "exit code 137: killed" in done.stdout
    assert list(tmp_path.iterdir()) == []
