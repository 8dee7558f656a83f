"""A standalone cluster on this machine: a master and two workers of the installed Spark."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.spark.options import SparkOptions
from omnigraph_core.spark.submit import find_submit
from tests.spark.nightly import EXAMPLE, SCHEMA, check_example, make_raw
from tests.spark.twins import leftovers
from tests.support.processes import REPOSITORY, Omnigraph, clean_environment
from tests.support.programs import require_program
from tests.support.records import S1, edge, exported, node, write_jsonl
from tests.support.s3server import S3Server
from tests.support.writers import check_whole

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

DEPLOY = "org.apache.spark.deploy"


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster with two executors of one core."""
    require_program("java")
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    with ExitStack() as stack:
        stack.enter_context(
            _running(tmp_path, "master", f"{DEPLOY}.master.Master", *here, "--port", str(port))
        )
        for number in range(2):
            worker = [
                *here,
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(tmp_path / f"work{number}"),
                url,
            ]
            stack.enter_context(_running(tmp_path, f"worker{number}", f"{DEPLOY}.worker.Worker", *worker))
        deadline = time.monotonic() + 120
        while (tmp_path / "master.log").read_text().count("Registering worker") < 2:
            assert time.monotonic() < deadline, (tmp_path / "master.log").read_text()[-2000:]
            time.sleep(0.2)
        yield url


@contextmanager
def _running(folder: Path, name: str, *command: str) -> Iterator[None]:
    import pyspark

    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(spark_class), *command],
            env=clean_environment(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_pipeline_whose_graph_is_on_s3(
    master: str, omnigraph: Omnigraph, tmp_path: Path, s3_server: S3Server
) -> None:
    """Only the driver has the credentials: they reach the executors inside the tasks."""
    make_raw(tmp_path / "raw")
    place = s3_server.new_location()
    settings = load_settings({**s3_server.environment, "OMNIGRAPH_ACTOR": "ann"}, tmp_path)
    graph = Graph.init(place, SCHEMA, settings)
    assert omnigraph("spark", "package", "--out", "omnigraph.zip").code == 0
    submit = [str(find_submit(SparkOptions(), settings)), "--master", master, "--py-files", "omnigraph.zip"]
    done = subprocess.run(
        [*submit, str(EXAMPLE), str(tmp_path / "raw"), place],
        cwd=tmp_path,
        env=clean_environment(
            SPARK_LOCAL_IP="127.0.0.1",
            PYSPARK_PYTHON=sys.executable,
            PYTHONPATH=str(REPOSITORY),
            **s3_server.environment,
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["2 people"]), done.stderr[-3000:]
    check_example(graph)
    for log in tmp_path.rglob("*"):
        if log.is_file() and log.suffix != ".zip":
            assert s3_server.environment["AWS_SECRET_ACCESS_KEY"].encode() not in log.read_bytes(), log


def test_a_load_with_speculation(omnigraph: Omnigraph, master: str, tmp_path: Path) -> None:
    """Every task is begun twice as soon as half of them are done: no row is there twice."""
    (tmp_path / "s1.pg").write_text(S1)
    omnigraph("init", "--schema", "s1.pg", "g")
    for number in range(8):
        people = [node("Person", name=f"p{number}-{each}") for each in range(500)]
        knows = [edge("Knows", f"p{number}-{each}", f"p{(number + 1) % 8}-{each}") for each in range(500)]
        write_jsonl(tmp_path / f"in{number}.jsonl", [*people, *knows])
    assert omnigraph("spark", "package", "--out", "omnigraph.zip").code == 0
    conf = {
        "spark.speculation": "true",
        "spark.speculation.multiplier": "1.0",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "0ms",
        "spark.speculation.interval": "10ms",
    }
    options = [part for name, value in conf.items() for part in ("--spark-conf", f"{name}={value}")]
    data = [part for number in range(8) for part in ("--data", f"in{number}.jsonl")]
    load = ("load", "g", *data, "--mode", "append", "--spark", "--master", master, "--json", *options)
    environment = {"OMNIGRAPH_FAILPOINTS": "spark.parsed.7.0=sleep:3000,spark.parsed.6.0=sleep:3000"}
    done = omnigraph(*load, "--py-files", "omnigraph.zip", environment=environment)
    assert done.code == 0, done.err
    assert json.loads(done.out)["total_entities"] == 8000
    graph = Graph.open(str(tmp_path / "g"), Settings(fsync=False), OpenMode.READ_WRITE)
    assert len(exported(graph)) == 8000
    check_whole(graph)
    assert leftovers(graph) == []
