"""FIFOs, sockets and folders in place of the files of tables: refused by name, and nobody waits.

Lance opens what it finds; a FIFO without a writer would keep it for ever. A listing says what is no
file, so every command looks before Lance does.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import ErrorKind
from omnigraph_core.graph import Graph
from omnigraph_core.storage.inside import ForeignEntry
from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE
from tests.support.verbs import READS, SETTINGS, WRITES, ask_all, refusals
from tests.support.writers import write_three

COMPANY = layout.table_path("node", "Company")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A graph with files of every kind: data, deletions, indexes, versions, transactions; and a branch."""
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    write_three(graph, "one")
    graph.create_branch("dev")
    write_three(graph, "two", "dev")
    graph.change('query q() { insert Company { name: "left" } insert Company { name: "right" } }')
    graph.change('query q() { delete Company where name = "left" }')
    graph.optimize()
    return tmp_path / "g"


def _socket(place: Path) -> None:
    here = os.getcwd()
    os.chdir(place.parent)  # A socket's path is short.
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("s")
        os.rename("s", place.name)
    finally:
        os.chdir(here)


ODD: dict[str, Callable[[Path], None]] = {"fifo": os.mkfifo, "socket": _socket, "folder": os.mkdir}
FILES = {
    "data": f"{COMPANY}/data/*.lance",
    "deletions": f"{COMPANY}/_deletions/*.arrow",
    "index": f"{COMPANY}/_indices/*/*",
    "version": f"{COMPANY}/_versions/*.manifest",
    "transaction": f"{COMPANY}/_transactions/*.txn",
    "data of a branch": f"{COMPANY}/tree/dev/data/*.lance",
    "version of a branch": f"{COMPANY}/tree/dev/_versions/*.manifest",
    "manifest": f"{layout.MANIFEST}/data/*.lance",
    "version of the manifest": f"{layout.MANIFEST}/_versions/*.manifest",
    "history": f"{layout.COMMITS}/data/*.lance",
    "actors": f"{layout.COMMIT_ACTORS}/_versions/*.manifest",
}


def put(root: Path, files: str, odd: str) -> str:
    found = sorted(root.glob(FILES[files]))
    assert found, files
    place = found[-1]
    place.unlink()
    ODD[odd](place)
    return place.relative_to(root).as_posix()


@pytest.mark.parametrize("files", ["data", "deletions", "version of a branch", "manifest", "history"])
def test_a_fifo_in_place_of_a_file_of_a_table_is_refused_at_once(files: str, root: Path) -> None:
    path = put(root, files, "fifo")
    answers = ask_all(root, ["export", "export dev", "commits", "change", "change dev", "doctor"])
    assert ("foreign-entry", path) in {(each.code, each.where) for each in answers["doctor"]}
    told = [error for error in refusals(answers).values() if error.kind is ErrorKind.STORAGE]
    assert any(f"{path} is a FIFO" in str(error) for error in told), answers


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("files", FILES)
def test_whatever_is_in_place_of_a_file_no_verb_waits(files: str, odd: str, root: Path) -> None:
    path = put(root, files, odd)
    answers = ask_all(root)
    assert answers.keys() == READS.keys() | WRITES.keys()
    kinds = {error.kind for error in refusals(answers).values()}
    assert kinds <= {ErrorKind.STORAGE, ErrorKind.REFUSED, ErrorKind.NOT_FOUND, ErrorKind.CONFLICT}, answers
    if odd != "folder":
        assert ("foreign-entry", path) in {(each.code, each.where) for each in answers["doctor"]}
        assert any(path in str(error) for error in refusals(answers).values()), answers


@pytest.mark.parametrize("files", ["data", "version"])
def test_a_link_deep_in_a_table_is_refused(files: str, root: Path) -> None:
    """Also one to a file that is right: what it leads to may be another one by the next time."""
    place = sorted(root.glob(FILES[files]))[-1]
    elsewhere = root.parent / place.name
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    with pytest.raises(ForeignEntry, match=f"{place.relative_to(root)} is a symbolic link"):
        b"".join(Graph.open(str(root), SETTINGS).export())


def test_the_command_names_it(root: Path, omnigraph: Omnigraph) -> None:
    path = put(root, "data", "fifo")
    done = omnigraph("query", "-e", "query q() { match { $c: Company } return { $c.name } }", "--store", root)
    assert (done.code, f"{path} is a FIFO" in done.err) == (74, True)
