"""`omnigraph adopt` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.originals import unpack_in_place
from tests.support.processes import Omnigraph
from tests.support.trees import fingerprint


def test_what_would_be_done_is_said_line_by_line(tmp_path: Path, omnigraph: Omnigraph) -> None:
    root = unpack_in_place("deletes", tmp_path)
    before = fingerprint(root)
    done = omnigraph("adopt", root, "--dry-run")
    assert done.code == 0, done.err
    first, *rest = done.out.splitlines()
    assert first.startswith("branch main, head ")
    assert all(line.startswith("  ") for line in rest)
    assert any("1 version that was never published is put back" in line for line in rest)
    assert fingerprint(root) == before


def test_a_graph_is_adopted_and_then_ours(tmp_path: Path, omnigraph: Omnigraph) -> None:
    root = unpack_in_place("branches", tmp_path)
    refused = omnigraph("change", "-e", 'query q() { insert Person { name: "Zoe" } }', "--store", root)
    assert refused.code == 5
    assert "omnigraph adopt" in refused.err
    done = omnigraph("adopt", root, "--yes", "--as", "ann")
    assert done.code == 0, done.err
    commit = done.out.splitlines()[-1].removeprefix("adopted: commit ")
    shown = json.loads(omnigraph("commit", "show", commit, "--store", root, "--json").out)
    assert (shown["operation"], shown["actor_id"]) == ("adopt", "ann")
    again = omnigraph("adopt", root, "--yes")
    assert (again.code, again.out) == (0, "nothing to adopt: this is not a graph of the Rust original\n")


def test_without_a_yes_nothing_is_done(tmp_path: Path, omnigraph: Omnigraph) -> None:
    root = unpack_in_place("plain", tmp_path)
    before = fingerprint(root)
    done = omnigraph("adopt", root)
    assert done.code == 5, done
    assert fingerprint(root) == before
