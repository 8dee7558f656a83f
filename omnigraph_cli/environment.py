"""The environment and the files of the command line, one line each, for help and manual pages."""

from __future__ import annotations

ENVIRONMENT: dict[str, str] = {
    "OMNIGRAPH_STORE": "The graph, if the command line names none.",
    "OMNIGRAPH_BRANCH": "The branch, if the command line names none.",
    "OMNIGRAPH_ACTOR": "The actor of new commits, if --as is not given.",
    "OMNIGRAPH_LOCK_TIMEOUT": "Seconds to wait for another writer; default 30.",
    "OMNIGRAPH_FSYNC": "off for disposable graphs: faster, but a power cut may lose commits.",
    "OMNIGRAPH_MEMORY_LIMIT": "Memory for data, such as 500MB; default 2GiB.",
    "OMNIGRAPH_LOAD_CONCURRENCY": "Types that a load writes at the same time; default 8.",
    "OMNIGRAPH_MAINTENANCE_CONCURRENCY": "Tables that maintenance works on at the same time; default 2.",
    "OMNIGRAPH_CACHE_DIR": "Where topology indexes of graphs on S3 are kept; default ~/.cache/omnigraph.",
    "OMNIGRAPH_CACHE_LIMIT": "Room for them, such as 500MB; 0 keeps none; default 4GiB.",
    "OMNIGRAPH_TRAVERSAL_MODE": "auto, indexed or csr: how queries follow edges; default auto.",
    "OMNIGRAPH_WARM": "How long a background process for quick starts waits, such as 10m; default off.",
    "OMNIGRAPH_TRUST_CONFIG": "1 obeys an omnigraph.toml of another user.",
    "OMNIGRAPH_PAGER, PAGER": "Shows long output on a terminal; default less. Empty or cat: no pager.",
    "OMNIGRAPH_LEASE_TTL": "Seconds that the lease of a writer on S3 lives; default 10.",
    "OMNIGRAPH_LEASE_DEAD_AFTER": "Seconds after which the lease of a silent writer is taken over.",
    "OMNIGRAPH_EMBED_PROVIDER": "Who embeds texts: openai, openrouter, gemini or mock.",
    "OMNIGRAPH_EMBED_MODEL": "The model that embeds texts.",
    "OMNIGRAPH_EMBED_BASE_URL": "Where that service is.",
    "OMNIGRAPH_EMBED_TIMEOUT_MS": "Milliseconds for one attempt at embedding; default 30000.",
    "OMNIGRAPH_EMBED_DEADLINE_MS": "Milliseconds for all attempts; default 120000.",
    "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "Attempts after the first; default 4.",
    "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "Milliseconds before the second attempt; default 200.",
    "OMNIGRAPH_EMBEDDINGS_MOCK": "1 embeds without a service, for tests.",
    "OMNIGRAPH_FAILPOINTS": "Faults for tests, such as write.after_b=kill.",
    "OPENAI_API_KEY, OPENROUTER_API_KEY, GEMINI_API_KEY": "Keys of the services that embed texts.",
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN": "Access to s3:// graphs and inputs.",
    "AWS_REGION, AWS_DEFAULT_REGION": "The region of S3.",
    "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL": "An S3 server that is not Amazon's.",
    "AWS_S3_FORCE_PATH_STYLE, AWS_ALLOW_HTTP": "How that server is talked to.",
    "JAVA_HOME, SPARK_HOME": "Java and Spark for --spark.",
    "NO_COLOR, FORCE_COLOR": "Never or always use colour.",
    "TERM, COLUMNS": "The terminal: dumb has no colour and no status line; its width.",
    "TMPDIR": "Where large loads and queries keep what does not fit in memory.",
    "XDG_STATE_HOME": "Where the shell keeps its history, omnigraph/history; default ~/.local/state.",
    "XDG_CACHE_HOME": "Where OMNIGRAPH_CACHE_DIR is by default, omnigraph; default ~/.cache.",
    "XDG_CONFIG_HOME": "Where the user's own omnigraph/config.toml is; default ~/.config.",
}

FILES: dict[str, str] = {
    "omnigraph.toml": "store, branch and actor for its directory and those below.",
    "$XDG_CONFIG_HOME/omnigraph/config.toml": "The user's own: branch, actor, warm and trust.",
    "graph.omni": "Where init creates a graph if none is named.",
}

REFS = """\
# Refs

A REF names a state of the graph: one commit. Wherever a command takes a REF, it may be

- `review`, a branch: its newest commit;
- `tag:v1`, a tag: the commit it names;
- `01M7QGMK8ATHMFRRXNGACJJ3A6`, a commit id, or 8 or more characters of its start or of its end,
  such as `GACJJ3A6`, which is how listings show it;
- `REF~N`, the Nth ancestor of a REF by first parents: `main~3`, `tag:v1~1`;
- `REF@{TIME}`, the newest commit of a REF that is not after a time: `main@{2026-01-31}`,
  `main@{2026-01-31T12:00:00+02:00}`. Without an offset the time is UTC.

A branch name wins over a commit id. `--branch` takes the name of a branch alone; `--snapshot` takes any REF.
"""


def environment_page() -> str:
    """What `help environment` says, as Markdown."""
    lines = ["# Environment", "", "Options win over the environment, and that over files.", ""]
    lines += [f"- `{name.replace(', ', '`, `')}`: {text}" for name, text in ENVIRONMENT.items()]
    lines += ["", "## Files", ""]
    return "\n".join([*lines, *(f"- `{name}`: {text}" for name, text in FILES.items())]) + "\n"
