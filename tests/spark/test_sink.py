"""`df.write.format("omnigraph")`: one commit, kept by a process that outlives Spark's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from omnigraph_core import faults
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from omnigraph_core.spark.failing import OmnigraphFailure
from omnigraph_core.spark.front import Front, Wanted
from omnigraph_core.spark.sink import OmnigraphWriter
from omnigraph_core.spark.spec import read_spec
from omnigraph_core.spark.splits import Split
from omnigraph_core.write.staging import staged_operations
from tests.spark.twins import leftovers
from tests.support.records import node, nodes, write_jsonl
from tests.support.writers import check_whole

pytestmark = [pytest.mark.xdist_group("spark")]

SCHEMA = "node P { k: String @key n: I32? @range(n, 0..99) } edge Link: P -> P"


def place(graph: Graph) -> str:
    return str(graph.location.path)


@pytest.fixture
def graph(new_graph: Callable[[str, str], Graph], tmp_path: Path) -> Graph:
    made = new_graph("graph", SCHEMA)
    made.load([write_jsonl(tmp_path / "start.jsonl", [node("P", k="old", n=1)])], LoadMode.APPEND)
    return made


@pytest.fixture
def people(spark_session: Any) -> Any:
    return spark_session.range(0, 10, 1, 3).selectExpr("concat('p', id) as k", "cast(id as int) as n")


def save(frame: Any, graph: Graph, options: dict[str, str] | None = None, mode: str = "append") -> None:
    frame.write.format("omnigraph").mode(mode).options(type="P", **(options or {})).save(place(graph))


def test_append_then_merge_then_overwrite(graph: Graph, people: Any) -> None:
    save(people, graph, {"branch": "etl", "from": "main", "message": "nightly", "as": "bob"})
    made = graph.commit("etl")
    assert (made.message, made.actor_id, len(nodes(graph, "P", "etl"))) == ("nightly", "bob", 11)
    assert len(nodes(graph, "P")) == 1
    save(
        people.selectExpr("if(n = 0, 'old', k) as k", "n + 1 as n"), graph, {"branch": "etl", "mode": "merge"}
    )
    assert nodes(graph, "P", "etl")["p9"]["n"] == 10
    assert len(nodes(graph, "P", "etl")) == 11
    save(people.filter("n > 5"), graph, {"branch": "etl"}, "overwrite")
    assert sorted(nodes(graph, "P", "etl")) == ["p6", "p7", "p8", "p9"]
    check_whole(graph)
    assert leftovers(graph) == []


def test_what_is_wrong_is_said_and_leaves_nothing(graph: Graph, people: Any) -> None:
    """By the columns before any task; by a row when Spark commits; by a task that fails."""
    head = graph.head()
    with pytest.raises(Exception, match="expects I32, found double"):
        save(people.selectExpr("k", "cast(n as double) as n"), graph)
    with pytest.raises(
        Exception, match=r"DataFrame P, partition 2:1: .*the row is \{\"k\": \"p9\", \"n\": 180"
    ):
        save(people.selectExpr("k", "n * 20 as n").filter("n < 100 or n = 180"), graph)
    with pytest.raises(Exception, match="no such luck"):
        save(people.selectExpr("if(n = 9, raise_error('no such luck'), k) as k"), graph)
    with pytest.raises(Exception, match="contradict each other"):
        save(people, graph, {"mode": "merge"}, "overwrite")
    assert graph.head() == head
    check_whole(graph)
    assert leftovers(graph) == []


# ---- the front by itself: no Spark is needed to see what it does when Spark goes ----


def started(graph: Graph) -> Front:
    split = Split(0, "DataFrame P", "", None, "node:P", 0, 0, is_whole=False, size=0)
    wanted = Wanted(place(graph), "append", "main", None, "bob", None)
    front, operation_id = Front.start(wanted, split, graph.settings)
    assert staged_operations(graph.door.storage) == [operation_id]
    return front


def test_a_write_that_spark_aborts_is_gone(graph: Graph) -> None:
    front = started(graph)
    # Another writer comes by, and leaves alone what a live process keeps.
    Graph.open(place(graph), graph.settings, OpenMode.READ_WRITE)
    assert len(staged_operations(graph.door.storage)) == 1
    front.abort()
    assert not front.folder.exists()
    assert leftovers(graph) == []
    front.abort()


def test_a_task_that_fails_says_why_in_words(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 1, attemptNumber=lambda: 0)
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: context)
    front = started(graph)
    (operation_id,) = staged_operations(graph.door.storage)
    spec = read_spec(graph.door.storage, operation_id).without_splits()
    split = Split(0, "DataFrame P", "", None, "node:P", 0, 0, is_whole=False, size=0)
    settings = replace(graph.settings, failpoints="spark.parsed.0.0=error")
    writer = OmnigraphWriter(front, spec, settings, split)
    with pytest.raises(OmnigraphFailure, match=r"^[^@]*spark\.parsed[^@]*$"):
        writer.write(iter([pa.RecordBatch.from_pydict({"k": ["new"]})]))
    faults.arm("")
    front.abort()
    assert leftovers(graph) == []


def test_a_front_that_is_killed_is_cleaned_up_by_the_next_writer(graph: Graph) -> None:
    front = started(graph)
    process = front.get("process")
    assert process is not None
    os.kill(process["pid"], signal.SIGKILL)
    with pytest.raises(Exception, match="has died"):
        front.commit([])
    assert leftovers(graph) != []
    Graph.open(place(graph), graph.settings, OpenMode.READ_WRITE)
    assert leftovers(graph) == []


def test_a_front_ends_when_spark_is_gone(graph: Graph, tmp_path: Path) -> None:
    """Its parent stands for Spark's: it is killed, and takes nobody along."""
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from omnigraph_core.settings import load_settings
from omnigraph_core.spark.front import Front, Wanted
from omnigraph_core.spark.splits import Split
import os
if os.fork():
    os.wait()
    os._exit(0)
split = Split(0, "DataFrame P", "", None, "node:P", 0, 0, is_whole=False, size=0)
front, _ = Front.start(Wanted({place(graph)!r}, "append", "main", None, "bob", None), split, load_settings())
print(front.folder, os.getppid(), flush=True)
"""
    # The child that starts the front ends, as Spark's planner does; its parent lives on, as Spark does.
    script = tmp_path / "planner.py"
    script.write_text(
        program.replace("    os.wait()\n    os._exit(0)\n", "    import time; time.sleep(600)\n")
    )
    spark = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert spark.stdout is not None
    folder = Path(spark.stdout.readline().split()[0])
    assert len(staged_operations(graph.door.storage)) == 1
    spark.kill()
    spark.wait()
    deadline = time.monotonic() + 120
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert leftovers(Graph.open(place(graph), Settings(fsync=False))) == []
