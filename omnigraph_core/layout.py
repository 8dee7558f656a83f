"""Every path under a graph root, relative to it, in one place.

Paths are POSIX text without a leading slash, so that one constant serves a local
directory and an S3 prefix alike.
"""

from __future__ import annotations

from typing import Literal

from omnigraph_core.ids import fnv1a64_hex

EntityKind = Literal["node", "edge"]

MANIFEST = "__manifest"
COMMITS = "_graph_commits.lance"
COMMIT_ACTORS = "_graph_commit_actors.lance"
RECOVERIES = "_graph_commit_recoveries.lance"

RECOVERY_DIR = "__recovery"
LOCKS_DIR = "__locks"
STAGING_DIR = "__staging"
SCHEMA_DIR = "__schema"
TAGS_DIR = "__tags"
DELETED_DIR = "__deleted"
OPERATIONS_DIR = "__operations"
NODES_DIR = "nodes"
EDGES_DIR = "edges"
TOPOLOGY_DIR = "__topology"

SCHEMA_SOURCE = "_schema.pg"
SCHEMA_COMPILED = "_schema.ir.json"
SCHEMA_STATE = "__schema_state.json"
CLEANUP_RECORD = "__cleanup.json"
NAMES_RECORD = "__names.json"
ORIGINAL_RECORD = "__original.json"

CONFIG_FILE = "omnigraph.toml"
USER_CONFIG = "omnigraph/config.toml"
DEFAULT_GRAPH = "graph.omni"

MAIN_BRANCH = "main"
SCHEMA_LOCK_BRANCH = "__schema_apply_lock__"

REFS_LOCK = "refs"
LOGS_LOCK = "logs"

# Everything `init` may leave in a root. Anything else there is somebody else's.
ROOT_NAMES = frozenset(
    {
        MANIFEST,
        COMMITS,
        COMMIT_ACTORS,
        RECOVERIES,
        RECOVERY_DIR,
        LOCKS_DIR,
        STAGING_DIR,
        SCHEMA_DIR,
        TAGS_DIR,
        DELETED_DIR,
        OPERATIONS_DIR,
        TOPOLOGY_DIR,
        NODES_DIR,
        EDGES_DIR,
        SCHEMA_SOURCE,
        SCHEMA_COMPILED,
        SCHEMA_STATE,
    }
)


def table_key(kind: EntityKind, type_name: str) -> str:
    """`node:Person`: how manifest rows, sidecars and messages name a table."""
    return f"{kind}:{type_name}"


def split_table_key(key: str) -> tuple[EntityKind, str]:
    """The entity kind and type name of a table key."""
    kind, separator, type_name = key.partition(":")
    if not separator or kind not in ("node", "edge"):
        raise ValueError(f"not a table key: {key!r}")
    return ("node" if kind == "node" else "edge"), type_name


def table_path(kind: EntityKind, type_name: str) -> str:
    """Where the Lance dataset of a type lives; hashed to stay fixed-length and case-safe."""
    directory = NODES_DIR if kind == "node" else EDGES_DIR
    return f"{directory}/{fnv1a64_hex(type_name)}"


def is_table_path(kind: EntityKind, path: str) -> bool:
    """Can a type of this kind have its dataset there?"""
    directory, _, name = path.partition("/")
    hexadecimal = len(name) == 16 and not set(name) - set("0123456789abcdef")
    return hexadecimal and directory == (NODES_DIR if kind == "node" else EDGES_DIR)


def schema_by_hash(schema_hash: str) -> str:
    """Where the compiled schema with this hash (`sha256:<hex>`) is kept for old snapshots."""
    return f"{SCHEMA_DIR}/{schema_hash.removeprefix('sha256:')}.json"


def schema_source_by_hash(schema_hash: str) -> str:
    """Where the text that compiled to this hash is kept, comments and all."""
    return f"{SCHEMA_DIR}/{schema_hash.removeprefix('sha256:')}.pg"


def branch_lock(branch: str) -> str:
    """The lock name of a branch; quoting keeps `a/b` one file and apart from `a%2Fb`."""
    from urllib.parse import quote

    return "branch." + quote(branch, safe="")


def staging_record(operation_id: str) -> str:
    return f"{STAGING_DIR}/{operation_id}.json"


def staging_folder(operation_id: str) -> str:
    """Where a write that is spread over many processes keeps what they tell each other."""
    return f"{STAGING_DIR}/{operation_id}"


def sidecar(operation_id: str) -> str:
    return f"{RECOVERY_DIR}/{operation_id}.json"


def tag(name: str) -> str:
    """Where a tag is kept; quoting keeps `a/b` one file."""
    from urllib.parse import quote

    return f"{TAGS_DIR}/{quote(name, safe='')}.json"


def deleted_branch(identity: str) -> str:
    """Where the ref of a deleted branch is put aside."""
    return f"{DELETED_DIR}/{identity}.json"


BEGUN_OPERATIONS = f"{OPERATIONS_DIR}/begun"
DONE_OPERATIONS = f"{OPERATIONS_DIR}/done"


def begun_operation(operation_id: str) -> str:
    """Where it is written down that a ref is about to move."""
    return f"{BEGUN_OPERATIONS}/{operation_id}.json"


def done_operation(operation_id: str) -> str:
    """Where it is written down that it has moved."""
    return f"{DONE_OPERATIONS}/{operation_id}.json"


def topology_file(name: str) -> str:
    """Where a part of a topology index is kept, or its record."""
    return f"{TOPOLOGY_DIR}/{name}"
