"""The installed command with a real spark-submit on local[2]."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.storage import open_storage, parse_location
from tests.spark.twins import leftovers
from tests.support.processes import OMNIGRAPH, Omnigraph, clean_environment
from tests.support.programs import require_program
from tests.support.records import D1, S1, edge, edges, exported, node, nodes, write_jsonl
from tests.support.s3server import S3Server
from tests.support.writers import check_whole

MASTER = ("--spark", "--master", "local[2]")


@pytest.fixture(autouse=True)
def _java() -> None:
    require_program("java")


@pytest.fixture
def graph(omnigraph: Omnigraph, tmp_path: Path) -> Path:
    (tmp_path / "s1.pg").write_text(S1)
    assert omnigraph("init", "--schema", "s1.pg", "g").code == 0
    write_jsonl(tmp_path / "d1.jsonl", D1)
    return tmp_path / "g"


def opened(place: Path) -> Graph:
    return Graph.open(str(place), Settings(fsync=False), OpenMode.READ_WRITE)


def spark_files(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.glob("omnigraph-spark-*"))


def test_append_to_a_new_branch_then_a_mistake(omnigraph: Omnigraph, graph: Path, tmp_path: Path) -> None:
    environment = {"TMPDIR": str(tmp_path)}
    load = ("load", "g", "--mode", "append", "--branch", "dev", *MASTER, "--json")
    done = omnigraph(*load, "--from", "main", "--data", "d1.jsonl", environment=environment)
    assert (done.code, done.err) == (0, "")
    content = json.loads(done.out)
    assert (content["branch_created"], content["total_entities"]) == (True, len(D1))
    found = opened(graph)
    assert len(exported(found, "dev")) == len(D1)
    assert exported(found) == []
    bad = write_jsonl(tmp_path / "bad.jsonl", [node("Person", name="Eve"), edge("Knows", "Ann", "Nobody")])
    failed = omnigraph(*load, "--data", bad, environment=environment)
    assert failed.code == 7
    assert f"{bad}:2: Knows: dst 'Nobody' not found in Person" in json.loads(failed.err)["error"]
    assert len(exported(found, "dev")) == len(D1)
    check_whole(found)
    assert (leftovers(found), spark_files(tmp_path)) == ([], [])


def test_merge(omnigraph: Omnigraph, graph: Path, tmp_path: Path) -> None:
    assert omnigraph("load", "g", "--data", "d1.jsonl", "--mode", "append").code == 0
    more = write_jsonl(
        tmp_path / "more.jsonl", [node("Person", name="Ann", age=99), node("Person", name="New")]
    )
    done = omnigraph("load", "g", "--data", more, "--mode", "merge", *MASTER)
    assert done.code == 0, done.err
    people = nodes(opened(graph), "Person")
    assert people["Ann"] == {"name": "Ann", "age": 99}
    assert len(people) == 5


def test_overwrite_on_s3_with_input_on_s3(
    omnigraph: Omnigraph, graph: Path, tmp_path: Path, s3_server: S3Server
) -> None:
    """The credentials reach driver and executors, and stand in no file."""
    environment = s3_server.environment
    place = s3_server.new_location()
    settings = load_settings({**environment, "OMNIGRAPH_ACTOR": "ann"}, tmp_path)
    folder = place.rpartition("/")[0]
    inputs = open_storage(parse_location(folder, tmp_path), settings).control
    inputs.put("in/a.jsonl", (tmp_path / "d1.jsonl").read_bytes())
    inputs.put("in/b.jsonl", json.dumps(node("Person", name="Zoe")).encode())
    packed = io.BytesIO()
    pq.write_table(pa.table({"name": [f"firm {number}" for number in range(30)]}), packed, row_group_size=9)
    inputs.put("in/Company.parquet", packed.getvalue())
    assert omnigraph("init", "--schema", "s1.pg", place, environment=environment).code == 0
    data = f"{folder}/in/"
    done = omnigraph("load", place, "--data", data, "--mode", "overwrite", *MASTER, environment=environment)
    assert done.code == 0, done.err
    found = Graph.open(place, settings, OpenMode.READ_WRITE)
    assert len(exported(found)) == len(D1) + 31
    check_whole(found)
    assert environment["AWS_SECRET_ACCESS_KEY"] not in done.out + done.err


def test_a_publish_that_is_killed_is_finished_by_the_next(omnigraph: Omnigraph, graph: Path) -> None:
    load = ("load", "g", "--data", "d1.jsonl", "--mode", "append", *MASTER)
    killed = omnigraph(*load, environment={"OMNIGRAPH_FAILPOINTS": "write.after_b=kill"})
    assert killed.code == -signal.SIGKILL
    found = opened(graph)
    assert len(edges(found, "Knows")) == 4
    check_whole(found)
    assert leftovers(found) == []


@pytest.mark.parametrize("victim", ["driver", "front", "nobody"])
def test_a_kill_in_the_middle(
    victim: str, graph: Path, tmp_path: Path, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    """Tasks wait with everything written; then driver or command are killed, or there is a Ctrl-C."""
    points = "spark.parsed.0.0=sleep:600000"
    process = subprocess.Popen(
        [str(OMNIGRAPH), "load", "g", "--data", "d1.jsonl", "--mode", "append", *MASTER],
        cwd=tmp_path,
        env=clean_environment(OMNIGRAPH_FAILPOINTS=points, TMPDIR=str(tmp_path)),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    wait_for(lambda: len(list(graph.glob("__staging/*/files/*"))) > 0 or process.poll() is not None)
    spark = children(process.pid)
    assert len(spark) == 1
    if victim == "nobody":
        process.send_signal(signal.SIGINT)
    else:
        os.kill(spark[0] if victim == "driver" else process.pid, signal.SIGKILL)
    _, err = process.communicate(timeout=240)
    if victim == "driver":
        assert process.returncode == 74
        (log,) = tmp_path.glob("omnigraph-spark-*/spark.log")
        assert str(log) in err.decode()
        assert exported(Graph.open(str(graph), Settings(fsync=False))) == []
    if victim == "nobody":
        assert (process.returncode, spark_files(tmp_path), err.decode().count("Traceback")) == (130, [], 0)
        assert leftovers(Graph.open(str(graph), Settings(fsync=False))) == []
    wait_for(lambda: not os.path.exists(f"/proc/{spark[0]}"))
    found = opened(graph)
    assert exported(found) == []
    check_whole(found)
    assert leftovers(found) == []


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found]
