"""The same load with and without Spark, and whether both came to the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.spark.options import SparkOptions
from tests.support.records import exported, write_jsonl
from tests.support.writers import check_whole

ULID = re.compile("[0-9A-HJKMNP-TV-Z]{26}")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a load ended, as far as it is the same everywhere."""

    failure: tuple[str, str, str | None] | None
    outcome: Mapping[str, Any] | None
    content: tuple[str, ...]


class Twins:
    """Two graphs of one schema; one is loaded as ever, the other by Spark."""

    def __init__(self, new_graph: Callable[[str, str], Graph], schema: str, folder: Path) -> None:
        self.local, self.spark = new_graph("local", schema), new_graph("spark", schema)
        self._folder = folder

    def both(self, load: Callable[[Graph], Any]) -> None:
        for graph in (self.local, self.spark):
            load(graph)

    def file(self, name: str, records: Iterable[Mapping[str, Any]]) -> str:
        return write_jsonl(self._folder / name, records)

    def load(self, paths: Sequence[str], mode: str, **options: Any) -> Ended:
        """Load both, and assert that they came to the same; returns what that is."""
        mine = ended(self.local, paths, mode, **options)
        theirs = ended(self.spark, paths, mode, spark=SparkOptions(), **options)
        assert theirs.failure == mine.failure
        assert theirs.outcome == mine.outcome
        assert theirs.content == mine.content
        check_whole(self.spark)
        assert leftovers(self.spark) == []
        return theirs


def ended(graph: Graph, paths: Sequence[str], mode: str, **options: Any) -> Ended:
    branch = options.get("branch", layout.MAIN_BRANCH)
    failure = outcome = None
    try:
        outcome = asdict(graph.load(paths, LoadMode(mode), **options))
        outcome["commit_id"] = outcome["commit_id"] is not None
    except OmnigraphError as error:
        failure = (type(error).__name__, comparable(str(error)), error.hint)
    there = branch == layout.MAIN_BRANCH or branch in graph.branches()
    return Ended(failure, outcome, content(graph, branch) if there else ())


def comparable(message: str) -> str:
    """A message without made-up ids, and in any order: a load names what a line breaks by itself block
    by block, a Spark job part by part. Which are named when there are too many depends on that, too."""
    lines = ULID.sub("…", message).splitlines()
    return lines[-1] if lines[-1].startswith("…and ") else "\n".join(sorted(lines))


def content(graph: Graph, branch: str = layout.MAIN_BRANCH) -> tuple[str, ...]:
    """What export says, without ids that were made up."""
    found = []
    for record in exported(graph, branch):
        data = {**record["data"]}
        if ULID.fullmatch(str(data.get("id"))):
            data.pop("id")
        found.append(json.dumps({**record, "data": data}, sort_keys=True))
    return tuple(sorted(found))


def leftovers(graph: Graph) -> list[str]:
    """Staging files, and data files that no version refers to."""
    root = graph.location.path
    staging = [path for path in (root / layout.STAGING_DIR).rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(root)) for path in [*staging, *orphans(graph)])


def orphans(graph: Graph) -> list[Path]:
    import lance

    found: list[Path] = []
    for folder in (layout.NODES_DIR, layout.EDGES_DIR):
        for table in (graph.location.path / folder).iterdir():
            for lineage in [table, *(each.parent for each in table.glob("tree/**/_versions"))]:
                dataset = lance.dataset(str(lineage))
                used = {
                    Path(file.path).name
                    for version in dataset.versions()
                    for fragment in dataset.checkout_version(version["version"]).get_fragments()
                    for file in fragment.data_files()
                }
                there = (lineage / "data").glob("*.lance") if (lineage / "data").is_dir() else ()
                found += [path for path in there if path.name not in used]
    return found
