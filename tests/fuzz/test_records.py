"""Whatever a record says: it is understood in full, or refused with one of our errors.

Records are mutated as values and sealed again, so that no digest stands before their readers, and
as bytes. What is understood is written as it was read, if its kind can be written.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history import deleted, moves, names, removed, tags
from omnigraph_core.history.sealed import seal
from omnigraph_core.original import record as original
from omnigraph_core.schema import (
    compile_schema,
    parse_compiled,
    schema_hash,
    to_compiled,
)
from omnigraph_core.storage.lease_object import decode_lease
from omnigraph_core.storage.local import LocalControlStore
from omnigraph_core.storage.locks import decode_record
from omnigraph_core.storage.sync import Syncer
from omnigraph_core.topology.record import record_from
from omnigraph_core.write import sidecar_record, staging_record
from tests.fuzz.mutants import as_json, mutated_bytes, mutated_record
from tests.unit.schema_sources import S1, S2

SEED = 20261118
CORPUS = Path(__file__).parent / "corpus"
STAGING_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
STAGING = {
    "schema_version": 1,
    "operation_id": STAGING_ID,
    "kind": "Load",
    "branch": "main",
    "actor_id": "ann",
    "started_at": "1",
    "revision": "r",
    "paths": [f"{layout.table_path('node', 'Person')}/data/x.lance"],
    "pinned": [{"table_key": "node:Person", "version": 1}],
    "made_from": None,
    "made_twin": None,
    "lists": None,
}
REMOVALS = {
    "schema_version": 1,
    "revision": STAGING_ID,
    "branches": [
        {
            "branch": "main",
            "identity": None,
            "floor": 9,
            "kept": [3, 5],
            "removed_at": "1795015586639531",
            "actor_id": "ann",
        }
    ],
}
_STRETCHES = [["a.lance", 40, None]]
TOPOLOGY = {
    "format": 1,
    "nodes": [["nodes/n", _STRETCHES, 40, [["x.nodes", 1984]]]],
    "edges": [
        ["edges/e", "nodes/n", "nodes/n", _STRETCHES, 0, [["x.from", 832], ["x.into", 832], ["x.ends", 768]]]
    ],
}
HOLDER = {
    "pid": 7,
    "host": "h",
    "actor": "ann",
    "doing": "load",
    "operation_id": None,
    "since_us": 1795015586639531,
}
LEASE = {"state": "held", "token": 3, "owner": "o", "nonce": "n", "ttl_s": 10.0, "holder": HOLDER}
LOCK = {"token": 3, "holder": HOLDER}
ORIGINAL = {"schema_version": 1, "schemas": {"main": [[1, None], [5, "ab" * 32]]}}
SCHEMA = to_compiled(compile_schema(S1 + S2))


def kept(kind: str) -> tuple[str, list[Any]]:
    """The name of the file, and the records of this kind in the corpus."""
    found = [json.loads(path.read_text()) for path in sorted(CORPUS.glob(f"{kind}-*.json"))]
    return found[0]["file"].removesuffix(".json"), [found[0]["record"]]


Reader = Callable[[Path, bytes], object]
Kind = tuple[list[Any], Callable[[Any], bytes], Reader]


def _stored(place: str, read: Callable[[LocalControlStore], object]) -> Reader:
    """Reads a record from its place in a graph."""

    def reader(folder: Path, data: bytes) -> object:
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return read(LocalControlStore(folder, Syncer(enabled=False)))

    return reader


def _sidecar(folder: Path, data: bytes) -> object:
    name, _ = kept_sidecar
    found = sidecar_record.decode(layout.sidecar(name), data)
    assert sidecar_record.decode(layout.sidecar(name), sidecar_record.encode(found)) == found
    return found


def _compiled(folder: Path, data: bytes) -> object:
    found = parse_compiled(data.decode("utf-8", "surrogateescape"))
    assert len(schema_hash(found)) == len("sha256:") + 64
    return found


def _lease(folder: Path, data: bytes) -> object:
    found = decode_lease(data)
    return None if found is None else str(found.holder)


def _lock(folder: Path, data: bytes) -> object:
    found = decode_record(data)
    return None if found is None else str(found.holder)


kept_sidecar = kept("sidecar")
KINDS: dict[str, Kind] = {
    "sidecar": (kept_sidecar[1], seal, _sidecar),
    "staging": ([STAGING], seal, lambda folder, data: staging_record.StagingRecord.decode(STAGING_ID, data)),
    "tag": (kept("tag")[1], seal, lambda folder, data: tags.decode_tag("kept", data)),
    "deleted": (
        kept("deleted")[1],
        seal,
        _stored(f"{layout.DELETED_DIR}/{kept('deleted')[0]}.json", deleted.read_deleted),
    ),
    "operation": (
        kept("operation")[1],
        seal,
        _stored(
            f"{layout.DONE_OPERATIONS}/{kept('operation')[0]}.json",
            lambda control: moves.read_done(control, kept("operation")[0]),
        ),
    ),
    "names": (kept("names")[1], seal, _stored(layout.NAMES_RECORD, names.read_names)),
    "removals": ([REMOVALS], seal, _stored(layout.CLEANUP_RECORD, removed.read_removals)),
    "topology": ([TOPOLOGY], as_json, lambda folder, data: record_from(STAGING_ID, data)),
    "original": ([ORIGINAL], seal, _stored(layout.ORIGINAL_RECORD, original.read_record)),
    "lock": ([LOCK], lambda lock: as_json(lock) + b"\n", _lock),
    "lease": ([LEASE], as_json, _lease),
    "schema": ([SCHEMA], as_json, _compiled),
}


def run(name: str, folder: Path, count: int, first: int = 0) -> int:
    """How many mutants were understood."""
    corpus, encode, read = KINDS[name]
    texts = [encode(record) for record in corpus]
    for text in texts:
        assert read(folder, text) is not None
    understood = 0
    for number in range(first, first + count):
        chance = random.Random(f"{SEED} {number}")
        data = mutated_bytes(texts, chance)
        if chance.random() < 0.8:
            mutant = mutated_record(corpus, chance)
            try:
                data = encode(mutant)
            except UnicodeEncodeError:  # half of a surrogate pair, which our writer would not write
                data = as_json(mutant)
        try:
            with suppress(OmnigraphError):
                understood += read(folder, data) is not None
        except BaseException as error:
            error.add_note(f"mutant {number}: {base64.b64encode(data[:3000]).decode()}")
            raise
    return understood


@pytest.mark.parametrize("name", KINDS)
def test_a_few_mutants(name: str, tmp_path: Path) -> None:
    assert run(name, tmp_path, 400) < 400


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", KINDS)
def test_many_mutants(name: str, tmp_path: Path) -> None:
    run(name, tmp_path, 1_000_000, 1_000_000)
