"""The installed command on a graph in S3, and what it says when S3 cannot be used."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import load_settings
from tests.support.processes import Finished, Omnigraph
from tests.support.s3server import ACCESS_KEY, SECRET_KEY
from tests.support.writers import check_whole, open_graph, write_three

"""Within this a person must be told what is wrong."""
WRONG_SECRET = "a-wrong-secret-which-nobody-may-ever-print"
TOKEN = "a-session-token-which-nobody-may-ever-print"


@pytest.fixture
def run(omnigraph: Omnigraph, s3_environment: dict[str, str]) -> Callable[..., Finished]:
    """Run with the server's variables, or others; no output may ever hold a credential."""

    def run(*arguments: str | Path, **changes: str) -> Finished:
        done = omnigraph(*arguments, environment={**s3_environment, **changes})
        for secret in (SECRET_KEY, WRONG_SECRET, TOKEN):
            assert secret not in done.out + done.err
        return done

    return run


def test_a_graph_in_s3_from_init_to_branches(
    run: Callable[..., Finished], s3_location: Callable[[], str], s3_environment: dict[str, str], people: Path
) -> None:
    place = s3_location()
    made = run("init", "--schema", people, place, "-v", "--as", "ann")
    assert (made.code, place in made.out + made.err) == (0, True), made.err
    again = run("init", "--schema", people, place, "--json")
    assert (again.code, json.loads(again.err)["code"]) == (3, "conflict")
    graph = open_graph(place, load_settings(s3_environment, Path("/")))
    write_three(graph, "first")

    snapshot = run("snapshot", place, "--json")
    rows = {table["table_key"]: table["row_count"] for table in json.loads(snapshot.out)["tables"]}
    assert rows == {"node:Person": 1, "node:Company": 1, "edge:Knows": 1, "edge:WorksAt": 0}
    assert run("snapshot", place).code == 0

    assert run("branch", "create", "review", "--store", place, "--from", "main~1").code == 0
    listed = run("branch", "list", place, "--json")
    assert json.loads(listed.out) == {"branches": ["main", "review"]}
    deleted = run("branch", "delete", "review", "--store", place, "--yes")
    assert (deleted.code, deleted.out) == (0, "deleted branch review\n")
    assert run("snapshot", place, "--branch", "review").code == 6

    commits = run("commit", "list", place, "--json")
    assert commits.code == 0
    assert all(text in commits.out for text in ("write first", "ann"))
    status = run("status", place, "-v")
    assert (status.code, place in status.out + status.err) == (0, True)
    assert json.loads(run("status", place, "--json").out)
    check_whole(graph)


def test_there_is_no_graph_here(run: Callable[..., Finished], s3_location: Callable[[], str]) -> None:
    place = s3_location()
    for command in (("snapshot", place), ("commit", "list", place)):
        done = run(*command)
        assert (done.code, done.out) == (6, "")
        assert place in done.err


def dead_endpoint() -> str:
    """An address where nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}"


PROBLEMS: dict[str, tuple[dict[str, str], str, int, str]] = {
    "wrong secret": ({"AWS_SECRET_ACCESS_KEY": WRONG_SECRET}, "", 74, "does not accept the credentials"),
    "unknown key": ({"AWS_ACCESS_KEY_ID": "nobody"}, "", 74, "does not accept the credentials"),
    "bad token": ({"AWS_SESSION_TOKEN": TOKEN}, "", 74, "cannot open s3://"),
    "missing bucket": ({}, "s3://no-such-bucket/graph", 74, "there is no bucket 'no-such-bucket'"),
    "dead endpoint": ({"AWS_ENDPOINT_URL_S3": dead_endpoint()}, "", 74, "refused the connection"),
    "http not allowed": ({"AWS_ALLOW_HTTP": ""}, "", 2, "is not encrypted"),
    "half of the credentials": ({"AWS_SECRET_ACCESS_KEY": ""}, "", 2, "AWS_SECRET_ACCESS_KEY is not"),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_what_is_wrong_is_said_once_and_clearly(
    problem: str, run: Callable[..., Finished], s3_location: Callable[[], str], people: Path
) -> None:
    changes, elsewhere, code, message = PROBLEMS[problem]
    place = elsewhere or s3_location()
    commands: list[list[str | Path]] = [
        ["snapshot", place, "-v"],
        ["snapshot", place, "--json"],
        ["init", "--schema", people, place, "-v"],
        ["branch", "create", "b", "--store", place, "--json"],
    ]
    for command in commands:
        done = run(*command, **changes)
        assert (done.code, done.out) == (code, ""), done.err
        if "--json" in command:
            failure = json.loads(done.err)
            assert message in failure["error"]
            assert (failure["code"], failure["exit"]) == ({74: "storage", 2: "usage"}[code], code)
        else:
            assert done.err.count("error: ") == 1
            assert message in done.err
            assert "Traceback" not in done.err
        assert ACCESS_KEY not in done.err


def test_maintenance_of_a_graph_in_s3(
    run: Callable[..., Finished], s3_location: Callable[[], str], s3_environment: dict[str, str], people: Path
) -> None:
    """Every branch, the tagged commit and the deleted branch stay as they were."""
    place = s3_location()
    assert run("init", "--schema", people, place).code == 0
    graph = open_graph(place, load_settings(s3_environment, Path("/")))
    for number in range(6):
        write_three(graph, f"p{number}")
    graph.create_tag("v1", "main~4")
    graph.create_branch("lazy", "main~2")
    graph.create_branch("gone")
    write_three(graph, "mine", "gone")
    before = {ref: content_at(graph, ref) for ref in ("main", "lazy", "gone", "tag:v1")}
    graph.delete_branch("gone")
    spared = run("cleanup", place, "--keep", "3", "--json")
    assert (spared.code, json.loads(spared.out)["branches_spared"]) == (0, ["gone"]), spared.err
    graph.undelete_branch("gone")
    done = run("maintain", place, "--keep", "3", "--grace", "0s", "--json")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert any(each["committed"] for each in answer["optimize"]["tables"])
    assert answer["cleanup"]["commits_removed"] > 0
    person = next(each for each in answer["cleanup"]["tables"] if each["table_key"] == "node:Person")
    assert person["bytes_before"] - person["bytes_left"] == person["bytes_removed"] > 0
    other = open_graph(place, load_settings(s3_environment, Path("/")))
    assert {ref: content_at(other, ref) for ref in before} == before
    assert run("snapshot", place, "--snapshot", "main~6").code == 6
    write_three(other, "later")
    check_whole(other)


def test_doctor_of_a_graph_in_s3(
    run: Callable[..., Finished], s3_location: Callable[[], str], s3_environment: dict[str, str], people: Path
) -> None:
    """Clean with branches, a tag, a deleted branch and after maintenance; then one file has other bytes."""
    place = s3_location()
    assert run("init", "--schema", people, place).code == 0
    graph = open_graph(place, load_settings(s3_environment, Path("/")))
    for number in range(4):
        write_three(graph, f"p{number}")
    graph.create_tag("v1", "main~2")
    graph.create_branch("side")
    write_three(graph, "mine", "side")
    graph.create_branch("gone")
    graph.delete_branch("gone")
    assert findings(run("doctor", place, "--deep", "--json")) == set()
    assert run("maintain", place, "--keep", "3", "--grace", "0s").code == 0
    assert findings(run("doctor", place, "--json")) == set()
    assert findings(run("doctor", place, "--deep", "--json")) == set()
    head = graph.commit("side")
    chosen = next(path for path in sorted(json.loads(head.details or "{}")["files"]) if "/data/" in path)
    control = graph.door.storage.control
    found = control.get(chosen)
    assert found is not None
    control.put(chosen, found.data[:-1] + bytes([found.data[-1] ^ 1]))
    damaged = run("doctor", place, "--deep", "--json")
    assert damaged.code == 1
    assert ("file-changed", chosen) in findings(damaged)
    control.delete(chosen)
    gone = findings(run("doctor", place, "--deep", "--json"))
    assert ("file-missing", chosen) in gone


def findings(done: Finished) -> set[tuple[str, str]]:
    """What is to be done about something; notes are not."""
    answer = json.loads(done.out)
    found = {(each["code"], each["where"]) for each in answer["findings"] if each["severity"] != "note"}
    assert done.code == bool(found), done.err
    return found


def content_at(graph: Graph, ref: str) -> dict[str, set[str]]:
    """Ids per table, at a branch or a commit."""
    snapshot = graph.snapshot_of(graph.commit(ref).commit_id)
    return {
        key: set(graph.door.tables.open(entry.ref, entry.table_version).read(["id"]).column("id").to_pylist())
        for key, entry in snapshot.tables.items()
    }
