"""A command that starts cold has all of Arrow and NumPy but their documentation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.processes import OMNIGRAPH, clean_environment
from tests.support.records import PEOPLE

USED = """
import json
import numpy as np
import numpy.ma
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.compute import utf8_lower

table = pa.table({"a": [3, None, 1], "b": ["X", "y", None]})
answers = {
    "sum": pc.sum(table["a"]).as_py(),
    "and": pc.and_(pa.array([True]), pa.array([False])).to_pylist(),
    "count": pc.count(table["a"], mode="only_null").as_py(),
    "options": pc.count(table["a"], options=pc.CountOptions(mode="all")).as_py(),
    "positional": pc.is_in(table["a"], pa.array([1])).to_pylist(),
    "several": pc.min_element_wise(pa.array([1, 5]), pa.array([4, 2]), skip_nulls=False).to_pylist(),
    "sorted": pc.sort_indices(table, sort_keys=[("a", "descending")]).to_pylist(),
    "lower": utf8_lower(table["b"]).to_pylist(),
    "zfill": pc.utf8_zfill(pa.array(["7"]), 3).to_pylist(),
    "filter": table.filter(pc.field("a") > 1).num_rows,
    "masked": int(np.ma.masked_array([1, 2], mask=[True, False]).sum()),
}
try:
    answers["unknown"] = str(pc.no_such_function)
except AttributeError as error:
    answers["unknown"] = str(error)
names = NAMES
missing = [name for name in names if not callable(getattr(pc, name, None))]
print(json.dumps([answers, missing, len(pc.subtract.__doc__ or ""), len(np.ndarray.sum.__doc__ or "")]))
"""
PREFERRED = "from omnigraph_cli import without_docs\nwithout_docs.prefer()\n"
OTHER_RELEASES = ["without_docs._NAMED_TWICE = ()", "without_docs._MAKERS = ('_made_elsewhere',)"]
FUNCTIONS = [name for name, value in vars(pc).items() if hasattr(value, "__arrow_compute_function__")]


def answered(before: str) -> Any:
    code = before + USED.replace("NAMES", repr(FUNCTIONS))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_every_function_is_there_and_gives_the_same_without_documentation() -> None:
    assert len(FUNCTIONS) > 250
    usual, missing, *documented = answered("")
    assert (missing, min(documented) > 100) == ([], True)
    assert answered(PREFERRED) == [usual, [], 0, 0]


@pytest.mark.parametrize("difference", OTHER_RELEASES)
def test_a_release_that_is_built_differently_is_imported_as_it_is(difference: str) -> None:
    usual, missing, documented, _ = answered("")
    assert answered(f"{PREFERRED}{difference}\n") == [usual, missing, documented, 0]


def test_a_cold_query_makes_no_documentation(tmp_path: Path) -> None:
    store = str(tmp_path / "g")
    Graph.init(store, PEOPLE, Settings(actor="ann", fsync=False))
    text = "query q() { match { $p: Person } return { $p.name } }"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", OMNIGRAPH, "query", "--store", store, "-e", text],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"numpy._core", "pyarrow.compute"} <= imported
    assert imported & {"numpy._core._add_newdocs", "pyarrow.vendored.docscrape"} == set()
