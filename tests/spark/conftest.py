"""One Spark for all tests that are not about starting one: the driver runs in this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.spark import driver, submit
from omnigraph_core.spark.options import SparkOptions
from omnigraph_core.spark.spec import JobKind
from tests.support.programs import require_program

SPARK = SparkOptions()

pytest.register_assert_rewrite("tests.spark.twins")


@pytest.fixture(scope="session")
def spark_context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A SparkContext with two cores; tasks that fail are tried three times."""
    require_program("java")
    folder = tmp_path_factory.mktemp("spark")
    from pyspark import SparkConf, SparkContext

    patch = pytest.MonkeyPatch()
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    patch.setenv("SPARK_SUBMIT_OPTS", submit._SMALL_JVM)
    conf = SparkConf().setMaster("local[2,3]").setAppName("tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
    }.items():
        conf = conf.set(name, value)
    context = SparkContext(conf=conf)
    context.setLogLevel("OFF")
    yield context
    context.stop()
    patch.undo()


@pytest.fixture(scope="session")
def spark_session(spark_context: Any) -> Any:
    """The same Spark, with the data source."""
    from pyspark.sql import SparkSession

    from omnigraph_core.spark.source import OmnigraphSource

    session = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.dataSource.register(OmnigraphSource)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return session


@pytest.fixture
def in_process(spark_context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs run in the shared Spark instead of spark-submit."""

    def run(self: submit.Submission, spec: submit.Job) -> None:
        work = driver.run_export if spec.kind is JobKind.EXPORT else driver.run
        work(spark_context, spec.place, spec.operation_id, self._settings)

    monkeypatch.setattr(submit.Submission, "run", run)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = load_settings(cwd=tmp_path)
    return load_settings(
        {"OMNIGRAPH_FSYNC": "off", "OMNIGRAPH_ACTOR": "ann", "PATH": _path_of(found)}, tmp_path
    )


def _path_of(settings: Settings) -> str:
    java = settings.spark.java_on_path
    return "" if java is None else str(Path(java).parent)


@pytest.fixture
def new_graph(tmp_path: Path, settings: Settings) -> Callable[[str, str], Graph]:
    def make(name: str, schema: str) -> Graph:
        return Graph.init(str(tmp_path / name), schema, settings)

    return make


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool]], None]:
    def wait(happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 240
        while not happened():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    return wait
