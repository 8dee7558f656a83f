"""L1: one Lance dataset at a time.

Nothing in here knows what a graph is. Writes come in two halves: `stage_*` writes
files and moves nothing; `commit_exact` moves HEAD by exactly one version or raises.
This is the only package that imports `lance`.
"""

from omnigraph_core.tables.refs import TableRef

__all__ = ["TableRef"]
