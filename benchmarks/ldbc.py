"""A social network in the shape of LDBC SNB, asked in three languages: first what is answered, then how fast.

Every question is asked of every engine with the same keys, and the answers are compared row by row before
anything is timed; a difference is a bug of one of them, and ends the run with both answers. Then come medians
of the wall and the CPU time of a call in a process that stays open, the engines in turn.

    python -m benchmarks.ldbc --people 1000 --peer PYTHON --peer PYTHON

A peer is a Python interpreter that has duckdb, kuzu or real_ladybug. With `--folder` the databases are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import ldbc_data
from benchmarks.ldbc_queries import QUESTIONS
from benchmarks.query import Engine, engines

PEER_SCRIPT = str(Path(__file__).with_name("ldbc_peer.py"))

SLOW_MS = 2_000
"""A question that an engine takes this long for is asked only twice."""


def differing(found: list[Engine], keys: dict[str, list[Any]], rounds: int) -> list[str]:
    """Every question for every key; what is wrong, in words."""
    wrong = []
    for question in QUESTIONS:
        rows = 0
        for number in range(rounds):
            chosen = {key: values[number] for key, values in keys.items()}
            answers = {engine.name: engine.ask(question, chosen) for engine in found}
            ours = _rows(answers["ours"])
            rows += len(ours)
            for name, answer in answers.items():
                theirs = _rows(answer)
                if theirs != ours:
                    differ = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]
                    counts = f"{len(ours)} and {len(theirs)} rows"
                    wrong.append(f"{question}: ours and {name}, {counts}, first {differ[:1]}; {chosen}")
        print(f"{question}: {rows} rows in {rounds} answers", file=sys.stderr, flush=True)
    return wrong


def _rows(answer: list[Any] | None) -> list[Any]:
    assert answer is not None
    rows: list[Any] = answer[2]
    return rows


def timed(found: list[Engine], keys: dict[str, list[Any]], rounds: int) -> dict[str, dict[str, list[Any]]]:
    """`[ms, CPU ms]` of every call, by question and engine."""
    spent: dict[str, dict[str, list[Any]]] = {}
    for question in QUESTIONS:
        times: dict[str, list[Any]] = {engine.name: [] for engine in found}
        for number in range(rounds):
            chosen = {key: values[number] for key, values in keys.items()}
            for engine in found:
                answer = engine.ask(question, chosen)
                assert answer is not None
                times[engine.name].append(answer[:2])
            if number and max(calls[0][0] for calls in times.values()) > SLOW_MS:
                break
        spent[question] = times
    return spent


def shown(spent: dict[str, dict[str, list[Any]]], names: list[str]) -> str:
    heads = ["question", *(f"{name} ms (CPU)" for name in names), "ours ÷ best peer (CPU)"]
    lines = [f"| {' | '.join(heads)} |"]
    lines.append("|---" * (len(names) + 2) + "|")
    for question, times in spent.items():
        medians = {
            name: [statistics.median(call[part] for call in times[name]) for part in (0, 1)] for name in names
        }
        cells = [f"{wall:.1f} ({cpu:.1f})" for wall, cpu in medians.values()]
        peers = [each for name, each in medians.items() if name != "ours"]
        ratio = "–"
        if peers:
            wall, cpu = (medians["ours"][part] / min(each[part] for each in peers) for part in (0, 1))
            ratio = f"{wall:.2f} ({cpu:.2f})"
        lines.append(f"| {question} | {' | '.join(cells)} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--people", type=int, default=1_000)
    options.add_argument("--answers", type=int, default=20, help="keys a question is compared with")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--peer", action="append", default=[], help="a Python with kuzu or duckdb")
    options.add_argument("--folder", type=Path, help="keep the databases here")
    arguments = options.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(dir=Path.cwd()))
    folder.mkdir(exist_ok=True)
    try:
        count = max(arguments.answers, arguments.rounds)
        if not (folder / "keys.json").exists():
            network = ldbc_data.Network(arguments.people)
            ldbc_data.write(folder, network)
            (folder / "schema.pg").write_text(ldbc_data.SCHEMA, encoding="utf-8")
            (folder / "keys.json").write_text(json.dumps(network.keys(max(count, 50))), encoding="utf-8")
        keys = json.loads((folder / "keys.json").read_text(encoding="utf-8"))
        found = engines(folder, arguments.peer, "benchmarks.ldbc_ours", PEER_SCRIPT)
        loads = {engine.name: engine.load() for engine in found}
        print(f"load seconds: { {name: round(each, 1) for name, each in loads.items() if each} }")
        for engine in found:
            engine.start()
        wrong = differing(found, keys, arguments.answers)
        if wrong:
            raise SystemExit("\n".join(wrong))
        print(f"{len(QUESTIONS)} questions, {arguments.answers} keys each: the same answers everywhere")
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        spent = timed(found, keys, arguments.rounds)
        for engine in found:
            engine.stop()
        print(shown(spent, [engine.name for engine in found]))
        print(f"load average {os.getloadavg()[0]:.1f}")
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
