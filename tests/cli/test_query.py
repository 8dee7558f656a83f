"""`omnigraph query`, through the installed command."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.paused import unread
from tests.support.processes import OMNIGRAPH, Finished, Omnigraph, clean_environment
from tests.support.records import D1, S1, node, write_jsonl
from tests.support.terminal import on_a_terminal
from tests.support.trees import fingerprint

FRIENDS = (
    "query friends($who: String) { match { $p: Person { name: $who } $p knows $f } "
    "return { $f.name as n, $f.age } order { n } }"
)
ALL = "query q() { match { $p: Person } return { $p.name as n, $p.age as a, $p.tags as t } }"


@pytest.fixture
def graph(omnigraph: Omnigraph, tmp_path: Path) -> Path:
    (tmp_path / "s.pg").write_text(S1)
    assert omnigraph("init", "--schema", "s.pg", "g").code == 0
    data = write_jsonl(tmp_path / "d.jsonl", D1)
    assert omnigraph("load", "g", "--data", data, "--mode", "append").code == 0
    return tmp_path / "g"


def ask(omnigraph: Omnigraph, graph: Path, *arguments: str, **options: object) -> Finished:
    return omnigraph("query", "--store", graph, *arguments, **options)


def test_piped_rows_are_json_lines_without_metadata(omnigraph: Omnigraph, graph: Path) -> None:
    done = ask(omnigraph, graph, "-e", FRIENDS, "--param", "who=Ann")
    assert (done.code, done.err) == (0, "")
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"n": "Bob", "f.age": 25},
        {"n": "Dee", "f.age": 40},
    ]


def test_a_terminal_gets_a_table(graph: Path, tmp_path: Path) -> None:
    code, text = on_a_terminal("query", "--store", graph, "-e", ALL, cwd=tmp_path)
    assert code == 0
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[0] == "4 rows from branch main via q"
    assert lines[1] == "n   |    a | t"
    assert lines[2] == "----+------+-----------"
    assert lines[3] == 'Ann |   30 | ["a", "b"]'
    assert lines[5] == "Cy  | null | null"


def test_json_is_one_object(omnigraph: Omnigraph, graph: Path) -> None:
    """Scenario 105."""
    for option in (["--json"], ["--format", "json"]):
        answer = json.loads(ask(omnigraph, graph, "-e", ALL, *option).out)
        assert answer["query_name"] == "q"
        assert answer["target"] == {"branch": "main", "snapshot": None}
        assert answer["row_count"] == len(answer["rows"]) == 4
        assert answer["columns"] == ["n", "a", "t"]
        assert answer["rows"][0] == {"n": "Ann", "a": 30, "t": ["a", "b"]}
        assert len(answer["graph_commit_id"]) == 26
    none = ask(omnigraph, graph, "-e", FRIENDS, "--param", "who=Nobody", "--json")
    assert json.loads(none.out)["rows"] == []


def test_jsonl_begins_with_metadata_when_asked_for(omnigraph: Omnigraph, graph: Path) -> None:
    """Scenario 105."""
    lines = ask(omnigraph, graph, "-e", ALL, "--format", "jsonl").out.splitlines()
    assert json.loads(lines[0]) == {
        "kind": "metadata",
        "query_name": "q",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 4,
    }
    assert len(lines) == 5


def test_csv_has_a_header_and_tells_null_from_the_word(
    omnigraph: Omnigraph, graph: Path, tmp_path: Path
) -> None:
    """Scenario 105."""
    odd = [node("Person", name=name) for name in ("null", 'a"b', "x,y", "two\nlines")]
    data = write_jsonl(tmp_path / "odd.jsonl", odd)
    assert omnigraph("load", graph, "--data", data, "--mode", "append").code == 0
    text = ask(omnigraph, graph, "-e", ALL, "--format", "csv").out
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["n", "a", "t"]
    assert rows[1] == ["Ann", "30", '["a", "b"]']
    assert {row[0] for row in rows[1:]} == {"Ann", "Bob", "Cy", "Dee", "null", 'a"b', "x,y", "two\nlines"}
    assert '\n"null",null,null\n' in text


def test_kv_without_rows_says_so(omnigraph: Omnigraph, graph: Path) -> None:
    text = ask(omnigraph, graph, "-e", FRIENDS, "--param", "who=Nobody", "--format", "kv").out
    assert text.splitlines()[1:] == ["(no rows)"]


def test_kv_and_markdown(omnigraph: Omnigraph, graph: Path) -> None:
    text = ask(omnigraph, graph, "-e", FRIENDS, "--param", "who=Ann", "--format", "kv").out
    assert text == (
        "2 rows from branch main via friends\nrow 1\nn: Bob\nf.age: 25\n\nrow 2\nn: Dee\nf.age: 40\n"
    )
    text = ask(omnigraph, graph, "-e", FRIENDS, "--param", "who=Ann", "--format", "md").out
    assert text == "| n | f.age |\n|---|---|\n| Bob | 25 |\n| Dee | 40 |\n"


def test_dates_times_and_exact_integers(omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "t.pg").write_text("node T { k: String @key d: Date? t: DateTime? i: I64? f: F64? }")
    assert omnigraph("init", "--schema", "t.pg", "t").code == 0
    row = node("T", k="a", d="2024-02-29", t="2024-02-29T01:02:03.004+01:00", i=2**63 - 1, f=0.1)
    data = write_jsonl(tmp_path / "t.jsonl", [row])
    assert omnigraph("load", "t", "--data", data, "--mode", "append").code == 0
    source = "query q() { match { $t: T } return { $t.d as d, $t.t as t, $t.i as i, $t.f as f } }"
    assert ask(omnigraph, tmp_path / "t", "-e", source).out == (
        '{"d": "2024-02-29", "t": "2024-02-29T00:02:03.004Z", "i": 9223372036854775807, "f": 0.1}\n'
    )


def test_source_and_name(omnigraph: Omnigraph, graph: Path, tmp_path: Path) -> None:
    """Scenario 106."""
    path = tmp_path / "q.gq"
    path.write_text(FRIENDS + "\n" + ALL)
    unnamed = ask(omnigraph, graph, "--query", str(path))
    assert unnamed.code == 2
    assert "friends, q" in unnamed.err
    assert len(ask(omnigraph, graph, "q", "--query", str(path)).out.splitlines()) == 4
    assert len(ask(omnigraph, graph, "--name", "q", "--query", str(path)).out.splitlines()) == 4
    assert len(ask(omnigraph, graph, "q", "--query", "-", stdin=path.read_text()).out.splitlines()) == 4
    assert ask(omnigraph, graph, "nope", "--query", str(path)).code == 6
    assert ask(omnigraph, graph, "-e", ALL, "--query", str(path)).code == 2
    assert ask(omnigraph, graph).code == 2
    assert len(omnigraph("read", "--store", graph, "-e", ALL).out.splitlines()) == 4


def test_parameters(omnigraph: Omnigraph, graph: Path, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"who": "Bob"}')
    given = [
        ["--params", '{"who": "Bob"}'],
        ["--params-file", str(tmp_path / "p.json")],
        ["--param", "who=Bob"],
    ]
    for arguments in given:
        assert ask(omnigraph, graph, "-e", FRIENDS, *arguments).out == '{"n": "Cy", "f.age": null}\n'
    assert ask(omnigraph, graph, "-e", FRIENDS).code == 7
    assert ask(omnigraph, graph, "-e", FRIENDS, "--params", '{"who": 3}').code == 7


def test_branches_and_snapshots(omnigraph: Omnigraph, graph: Path) -> None:
    change = 'query q() { delete Person where name = "Bob" }'
    assert omnigraph("change", "--store", graph, "-e", change).code == 0
    assert len(ask(omnigraph, graph, "-e", ALL).out.splitlines()) == 3
    old = json.loads(ask(omnigraph, graph, "-e", ALL, "--snapshot", "main~1", "--json").out)
    assert old["row_count"] == 4
    assert old["target"] == {"branch": None, "snapshot": old["graph_commit_id"]}
    assert ask(omnigraph, graph, "-e", ALL, "--snapshot", "main~1", "--branch", "main").code == 2
    assert ask(omnigraph, graph, "-e", ALL, "--branch", "nope").code == 6
    assert ask(omnigraph, graph, "-e", ALL, "--snapshot", "main~99").code == 6


def test_wrong_queries(omnigraph: Omnigraph, graph: Path) -> None:
    done = ask(omnigraph, graph, "-e", "query q() { match { $p: Robot } return { $p } }", "--json")
    assert done.code == 7
    assert json.loads(done.err)["violations"][0]["code"] == "T1"
    assert ask(omnigraph, graph, "-e", "query q( {").code == 7
    assert ask(omnigraph, graph, "-e", 'query q() { delete Person where name = "x" }').code == 2
    assert ask(omnigraph, graph, "-e", ALL, "--format", "xml").code == 2
    assert ask(omnigraph, graph, "-e", ALL, "--format", "csv", "--json").code == 2
    assert ask(omnigraph, graph, "-e", ALL, "--timeout", "0").code == 2


def test_explain_and_stats(omnigraph: Omnigraph, graph: Path) -> None:
    done = ask(omnigraph, graph, "-e", FRIENDS, "--param", "who=Ann", "--explain")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("scan Person as $p where (`name` = 'Ann')")
    assert lines[1] == "expand $p → $f by Knows forward"
    assert lines[-1] == "return n, f.age"
    done = ask(omnigraph, graph, "-e", FRIENDS, "--param", "who=Ann", "--stats")
    assert len(done.out.splitlines()) == 2
    assert done.err.splitlines()[0].split() == ["rows", "rows", "read", "bytes", "read", "ms", "step"]
    assert "expand $p → $f by Knows forward" in done.err
    assert "WARN" not in done.err


def test_searches_are_silent_on_stderr(omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "d.pg").write_text("node D { k: String @key t: String @index v: Vector(2)? @index }")
    assert omnigraph("init", "--schema", "d.pg", "d").code == 0
    rows = [node("D", k=str(n), t=f"graph {n}", v=[n, 1]) for n in range(5)]
    data = write_jsonl(tmp_path / "rows.jsonl", rows)
    assert omnigraph("load", "d", "--data", data, "--mode", "append").code == 0
    for order in ('bm25($d.t, "graphs")', "nearest($d.v, [3, 1])"):
        body = f'match {{ $d: D search($d.t, "graph") }} return {{ $d.k }} order {{ {order} }} limit 2'
        source = f"query q() {{ {body} }}"
        done = ask(omnigraph, tmp_path / "d", "-e", source)
        assert (done.code, done.err, len(done.out.splitlines())) == (0, "", 2)


def test_traversal_mode_of_the_environment(omnigraph: Omnigraph, graph: Path) -> None:
    answers = []
    for mode in ("indexed", "csr"):
        arguments = ["-e", FRIENDS, "--param", "who=Ann", "--stats"]
        done = ask(omnigraph, graph, *arguments, environment={"OMNIGRAPH_TRAVERSAL_MODE": mode})
        assert f"({mode})" in done.err
        answers.append(done.out)
    assert answers[0] == answers[1] != ""
    done = ask(omnigraph, graph, "-e", ALL, environment={"OMNIGRAPH_TRAVERSAL_MODE": "fast"})
    assert done.code == 2


def product(names: int) -> str:
    """A query whose answer is far too large to be finished."""
    binding = " ".join(f"$p{number}: Person" for number in range(names))
    return f"query q() {{ match {{ {binding} }} return {{ $p0.name }} }}"


def test_a_timeout_is_exit_9(omnigraph: Omnigraph, graph: Path) -> None:
    done = ask(omnigraph, graph, "-e", ALL, "--timeout", "0.000001", "--json")
    assert done.code == 9
    assert json.loads(done.err)["code"] == "limit"


def test_too_much_memory_is_exit_9(omnigraph: Omnigraph, graph: Path) -> None:
    done = ask(omnigraph, graph, "-e", product(12), environment={"OMNIGRAPH_MEMORY_LIMIT": "64MiB"})
    assert done.code == 9
    assert "OMNIGRAPH_MEMORY_LIMIT" in done.err


def running(graph: Path, names: int) -> subprocess.Popen[bytes]:
    return warm.Popen(
        [str(OMNIGRAPH), "query", "--store", str(graph), "-e", product(names)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    )


def test_a_reader_that_goes_away_is_exit_141(graph: Path) -> None:
    process = running(graph, 9)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(240) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


PIPE_BYTES = 65536


def test_ctrl_c_is_exit_130(graph: Path) -> None:
    process = running(graph, 10)
    assert process.stdout is not None
    assert process.stdout.readline()
    while unread(process.stdout.fileno()) < PIPE_BYTES // 2:  # then it waits to write, or will at once
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert (process.returncode, err) == (130, b"")


def test_a_query_writes_nothing(omnigraph: Omnigraph, graph: Path) -> None:
    before = fingerprint(graph)
    for mode in ("indexed", "csr"):
        arguments = ["-e", FRIENDS, "--param", "who=Ann"]
        assert ask(omnigraph, graph, *arguments, environment={"OMNIGRAPH_TRAVERSAL_MODE": mode}).code == 0
    assert fingerprint(graph) == before


def test_help_names_the_formats(omnigraph: Omnigraph) -> None:
    text = omnigraph("query", "--help").out
    assert "table|json|jsonl|csv|kv|md" in text
