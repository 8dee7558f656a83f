"""OmniGraph's side of the query benchmark: answers questions that come as lines on standard input."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

from benchmarks.query_data import SCHEMA
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import load_settings

_HOPS = "match {{ $p: Person {{ name: $person }} $p knows{{1,{0}}} $f }} return {{ $f.name }}"
_ROW = "match {{ $p: Person {{ name: $person }} $p knows{{1,{0}}} $f }} return {{ $f.name, $f.age }}"

# Parameters are declared from their names, so that a question is only its body.
TYPES = {
    "person": "String",
    "age": "I32",
    "older": "I32",
    "city": "String",
    "team": "I32",
    "text": "String",
    "lang": "String",
    "vector": "Vector(64)",
}
QUESTIONS = {
    "point lookup": "match { $p: Person { name: $person } } return { $p.age }",
    "narrow range": "match { $p: Person { city: $city } $p.age >= $age $p.age < $older } "
    "return { $p.name, $p.age }",
    "wide range": "match { $p: Person { city: $city } $p.age >= $age } return { $p.name, $p.age }",
    "1 hop": _HOPS.format(1),
    "2 hops": _HOPS.format(2),
    "3 hops": _HOPS.format(3),
    "3 hops and a property": _ROW.format(3),
    "2 hops from 1,000": "match { $p: Person { team: $team } $p knows{1,2} $f } return { count($f) as n }",
    "group by": "match { $p: Person } return { $p.city, count($p) as n, avg($p.age) as age }",
    "anti-join": "match { $p: Person not { $p worksAt $_ } } return { count($p) as n }",
    "bm25": "match { $d: Doc } return { $d.slug } order { bm25($d.body, $text) } limit 10",
    "filtered nearest": "match { $d: Doc { lang: $lang } } return { $d.slug } "
    "order { nearest($d.v, $vector) } limit 10",
}


def source(name: str) -> str:
    body = QUESTIONS[name]
    words = set(re.findall(r"\$(\w+)", body))
    declared = ", ".join(f"${key}: {type_}" for key, type_ in TYPES.items() if key in words)
    return f"query q({declared}) {{ {body} }}"


def used(name: str) -> list[str]:
    return [key for key in TYPES if f"${key}:" in source(name)]


def load(folder: Path) -> float:
    start = time.perf_counter()
    graph = Graph.init(str(folder / "graph"), SCHEMA, load_settings())
    graph.load([str(each) for each in sorted(folder.glob("*.parquet"))], LoadMode.APPEND)
    return time.perf_counter() - start


def main(folder: Path) -> None:
    """A line is `[question, {key: value}]`; the answer `[ms, CPU ms, rows, one number of them]`."""
    graph = Graph.open(str(folder / "graph"), load_settings(), OpenMode.READ_ONLY)
    for line in sys.stdin:
        name, keys = json.loads(line)
        params = {key: keys[key] for key in used(name)}
        text = source(name)
        start, cpu = time.perf_counter(), time.process_time()
        found = graph.query(text, params=params).to_arrow()
        spent = [(time.perf_counter() - start) * 1000, (time.process_time() - cpu) * 1000]
        number = found.column(0)[0].as_py() if found.num_columns == 1 and found.num_rows == 1 else None
        print(json.dumps([*spent, found.num_rows, number]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "load":
        print(json.dumps(load(Path(sys.argv[2]))))
    else:
        main(Path(sys.argv[2]))
