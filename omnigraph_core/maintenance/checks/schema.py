"""Schemas: the files in the root agree with main's head, and every schema that is kept is what it was."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core import layout
from omnigraph_core.catalog.files import is_outstanding, schema_at, source_at
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, attempt, error, failed, warning

_OPEN = "omnigraph recovery run"
_PREFIX = "sha256:"


def check_schema(seen: Examination) -> Iterator[Finding]:
    yield from attempt("schema-files-disagree", layout.SCHEMA_STATE, _root, seen)
    schemas = seen.schemas
    for name, problem in seen.schema_failures.items():
        yield failed("schema-unreadable", name, problem)
    for name, schema in schemas.items():
        wanted = {each.table_key for each in schema.types()}
        for key in sorted(wanted - seen.heads[name].tables.keys()):
            yield error(
                "table-missing", f"{name} {key}", "its type is in the schema, and it is not published"
            )
    for hash_ in _needed(seen):
        yield from attempt("schema-damaged", layout.schema_by_hash(hash_), _compiled, seen, hash_)
    for hash_ in _kept(seen, ".pg"):
        yield from attempt("schema-damaged", layout.schema_source_by_hash(hash_), _source, seen, hash_)


def _root(seen: Examination) -> Iterator[Finding]:
    """The writer of another schema holds the refs lock until the files have followed its publish."""
    seen.read_catalog()
    main = seen.heads.get(layout.MAIN_BRANCH)
    if main is None or main.head is None or main.head.is_original:
        return
    if not is_outstanding(seen.control, main.head.schema_hash):
        return
    if seen.holder(layout.REFS_LOCK) is None and seen.manifest.snapshot().head == main.head:
        text = "the schema files in the root are those of an earlier schema; opening to write renews them"
        yield warning("schema-behind", layout.SCHEMA_STATE, text, _OPEN)


def _needed(seen: Examination) -> list[str]:
    """The schemas that are kept, and those that commits name. An apply that died may leave the text of
    one that no commit came to have: nobody needs it."""
    commits = [commit for commit in seen.commits.values() if seen.is_readable(commit)]
    named = set(_kept(seen, ".json"))
    return sorted(named | {commit.schema_hash for commit in commits if commit.schema_hash is not None})


def _kept(seen: Examination, ending: str) -> list[str]:
    names = seen.control.list(layout.SCHEMA_DIR)
    return sorted(_PREFIX + name.removesuffix(ending) for name in names if name.endswith(ending))


def _compiled(seen: Examination, hash_: str) -> Iterator[Finding]:
    schema_at(seen.control, hash_)
    yield from ()


def _source(seen: Examination, hash_: str) -> Iterator[Finding]:
    source_at(seen.control, hash_)
    yield from ()
