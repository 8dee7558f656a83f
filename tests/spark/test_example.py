"""The pipeline of docs/spark.md and examples/pipeline.py, run twice as a nightly job would be."""

from __future__ import annotations

import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.spark.options import SparkOptions
from omnigraph_core.spark.submit import find_submit
from tests.spark.nightly import EXAMPLE, SCHEMA, check_example, make_raw
from tests.support.processes import REPOSITORY, clean_environment

pytestmark = [pytest.mark.xdist_group("spark")]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    make_raw(tmp_path / "raw")
    return tmp_path / "raw"


@pytest.fixture
def graph(new_graph: Callable[[str, str], Graph]) -> Graph:
    return new_graph("graph", SCHEMA)


def test_the_example(spark_session: Any, graph: Graph, raw: Path) -> None:
    run = runpy.run_path(str(EXAMPLE), run_name="example")["run"]
    for _ in range(2):
        assert run(str(raw), str(graph.location.path)) == 2
        check_example(graph)
    assert graph.commit("main").message == "nightly"


def test_the_page_shows_the_example() -> None:
    page = (REPOSITORY / "docs" / "spark.md").read_text()
    shown = EXAMPLE.read_text()
    begin, end = shown.index("import sys"), shown.index('if __name__ == "__main__":')
    assert f"```python\n{shown[begin:end].rstrip()}\n```\n" in page


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_example_with_spark_submit(graph: Graph, raw: Path) -> None:
    submit = find_submit(SparkOptions(), graph.settings)
    command = [str(submit), "--master", "local[2]", str(EXAMPLE), str(raw), str(graph.location.path)]
    environment = clean_environment(SPARK_LOCAL_IP="127.0.0.1", PYTHONPATH=str(REPOSITORY))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "2 people"), done.stderr[-3000:]
    check_example(graph)
