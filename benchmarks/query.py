"""Queries beside a graph database and DuckDB, on one graph, in one run.

Every engine is a process of its own that stays open; a round asks each of them the same
question with the same key before the next question, so that they share whatever else the
machine is doing. What is shown are medians, the first call in a process apart, and how many
times longer ours takes; the same in CPU time, which tells more on a busy machine. Where engines
disagree on how many rows there are, the run fails. `new process` is a question to an engine from
its start to its end, and a point look-up by the command line beside `python -c "import lance"`.

    python -m benchmarks.query --nodes 1000000 --edges 10000000 --peer PYTHON --peer PYTHON

A peer is a Python interpreter that has kuzu or real_ladybug, and duckdb. With `--folder` the
loaded databases are kept there, and used again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks import query_data, query_ours

PEER_SCRIPT = str(Path(__file__).with_name("query_peer.py"))
QUESTIONS = list(query_ours.QUESTIONS)
AGAIN = {
    f"{question}, edges in memory": question
    for question in ("1 hop", "2 hops", "3 hops", "3 hops and a property")
}
"""Asked once more at the end, when our process has read all edges."""

SLOW_MS = 2_000
"""A question whose first answers take this long is asked only a few times."""


class Engine:
    """A process that answers questions; `command` is how to start it, up to its verb."""

    def __init__(self, name: str, command: list[str], folder: Path) -> None:
        self.name = name
        self._command = command
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def load(self) -> float | None:
        """Seconds it took; None if it was loaded before."""
        made = self._folder / f"{self.name}.loaded"
        if made.exists():
            return None
        spent = float(json.loads(subprocess.check_output(self._line("load"), text=True)))
        made.touch()
        return spent

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._line("ask"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question: str, keys: dict[str, Any]) -> list[Any] | None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([question, keys]) + "\n")
        process.stdin.flush()
        answer: list[Any] | None = json.loads(process.stdout.readline())
        return answer

    def stop(self) -> None:
        if self._process is not None:
            self._process.communicate()

    def new_process(self, question: str, keys: dict[str, Any]) -> tuple[float, float]:
        """Wall and CPU milliseconds of a process that answers this and no more."""
        start = time.perf_counter()
        process = subprocess.Popen(self._line("ask"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert process.stdin is not None
        process.stdin.write(json.dumps([question, keys]).encode() + b"\n")
        process.stdin.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{self.name} failed at {question}")
        return (time.perf_counter() - start) * 1000, (used.ru_utime + used.ru_stime) * 1000

    def _line(self, verb: str) -> list[str]:
        head, tail = self._command[:-1], self._command[-1]
        return [*head, tail, verb, *([] if self.name == "ours" else [self.name]), str(self._folder)]


def engines(
    folder: Path, peers: list[str], ours: str = "benchmarks.query_ours", script: str = PEER_SCRIPT
) -> list[Engine]:
    """Ours, which is a module, and what the peers have, asked by a script."""
    found = [Engine("ours", [sys.executable, "-m", ours], folder)]
    seen = set()
    for peer in peers:
        for name, package in (("kuzu", "kuzu"), ("ladybug", "real_ladybug"), ("duckdb", "duckdb")):
            has = subprocess.run([peer, "-c", f"import {package}"], capture_output=True, check=False)
            if has.returncode == 0 and name not in seen:
                seen.add(name)
                found.append(Engine(name, [peer, script], folder))
    return found


Spent: TypeAlias = dict[str, dict[str, list[tuple[float, float]]]]
"""Wall and CPU milliseconds of every call, by question and engine."""


def asked(found: list[Engine], keys: dict[str, list[Any]], rounds: int, questions: list[str]) -> Spent:
    spent: Spent = {}
    again = {label: question for label, question in AGAIN.items() if question in questions}
    for label, question in [*zip(questions, questions, strict=True), *again.items()]:
        times: dict[str, list[tuple[float, float]]] = {}
        for number in range(rounds):
            chosen = {key: values[number] for key, values in keys.items()}
            answers = {engine.name: engine.ask(question, chosen) for engine in found}
            known = {name: answer for name, answer in answers.items() if answer is not None}
            if len({(rows, value) for *_, rows, value in known.values()}) > 1 and "nearest" not in question:
                raise SystemExit(f"{question}: the engines disagree: {known} for {chosen}")
            for name, (ms, cpu, _, _) in known.items():
                times.setdefault(name, []).append((ms, cpu))
            if number >= 2 and max(median(calls, 0) for calls in times.values()) > SLOW_MS:
                break
        spent[label] = times
        shown_times = {name: [round(ms) for ms, _ in calls] for name, calls in times.items()}
        print(f"{label}: {shown_times}", file=sys.stderr, flush=True)
    return spent


def asked_anew(found: list[Engine], keys: dict[str, list[Any]], rounds: int, questions: list[str]) -> Spent:
    """Every question to a new process of every engine, in turn."""
    spent: Spent = {}
    for question in questions:
        times: dict[str, list[tuple[float, float]]] = {engine.name: [] for engine in found}
        for number in range(rounds):
            chosen = {key: values[number] for key, values in keys.items()}
            for engine in found:
                times[engine.name].append(engine.new_process(question, chosen))
        spent[f"{question}, new process"] = times
    return spent


def median(calls: list[tuple[float, float]], part: int) -> float:
    return statistics.median(call[part] for call in calls)


def new_processes(folder: Path, person: str, rounds: int) -> dict[str, float]:
    """Median milliseconds of a whole process, the three in turn."""
    text = query_ours.source("point lookup")
    command = str(Path(sys.executable).with_name("omnigraph"))
    query = [command, "query", "-e", text, "--param", f"person={person}", "--store", str(folder / "graph")]
    lines = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import lance'": [sys.executable, "-c", "import lance"],
        "omnigraph query": query,
    }
    spent: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(rounds):
        for name, line in lines.items():
            start = time.perf_counter()
            subprocess.run(line, check=True, capture_output=True)
            spent[name].append((time.perf_counter() - start) * 1000)
    return {name: statistics.median(times) for name, times in spent.items()}


def shown(spent: Spent, names: list[str]) -> str:
    """Wall medians, the first call in brackets, and CPU medians behind them."""
    heads = ["question", *(f"{name} ms (first), CPU" for name in names), "ours ÷ best peer, CPU"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for question, times in spent.items():
        cells = []
        for name in names:
            calls = times.get(name)
            shown_calls = calls and f"{median(calls, 0):.1f} ({calls[0][0]:.0f}), {median(calls, 1):.1f}"
            cells.append(shown_calls or "–")
        peers = [times[name] for name in names if name != "ours" and name in times]
        ratios = [
            median(times["ours"], part) / min(median(each, part) for each in peers)
            for part in (0, 1)
            if peers
        ]
        ratio = ", ".join(f"{each:.2f}" for each in ratios) or "–"
        lines.append(f"| {question} | {' | '.join(cells)} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--nodes", type=int, default=1_000_000)
    options.add_argument("--edges", type=int, default=10_000_000)
    options.add_argument("--docs", type=int, default=200_000)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--question", action="append", choices=QUESTIONS, help="only this one")
    options.add_argument(
        "--anew", action="append", choices=QUESTIONS, default=[], help="ask new processes, too"
    )
    options.add_argument("--peer", action="append", default=[], help="a Python with kuzu or duckdb")
    options.add_argument("--folder", type=Path, help="keep the databases here")
    arguments = options.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(dir=Path.cwd()))
    folder.mkdir(exist_ok=True)
    try:
        if not (folder / "keys.json").exists():
            size = query_data.Size(arguments.nodes, arguments.edges, arguments.docs)
            query_data.write(folder, size, max(arguments.rounds, 50))
        keys = json.loads((folder / "keys.json").read_text(encoding="utf-8"))
        found = engines(folder, arguments.peer)
        loads = {engine.name: engine.load() for engine in found}
        print(f"load seconds: { {name: round(each) for name, each in loads.items() if each} }")
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        for engine in found:
            engine.start()
        spent = asked(found, keys, arguments.rounds, arguments.question or QUESTIONS)
        for engine in found:
            engine.stop()
        spent |= asked_anew(found, keys, arguments.rounds, arguments.anew)
        print(shown(spent, [engine.name for engine in found]))
        processes = new_processes(folder, keys["person"][0], arguments.rounds)
        ratio = processes["omnigraph query"] / processes["python -c 'import lance'"]
        print(", ".join(f"{name}: {ms:.0f} ms" for name, ms in processes.items()) + f"; ratio {ratio:.2f}")
        print(f"load average {os.getloadavg()[0]:.1f}")
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
