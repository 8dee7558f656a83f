"""What no graph of ours has: links, FIFOs, sockets and devices, at any depth of its directory.

Nothing follows or opens them, but programs beside OmniGraph may, and a file that a link stands for
is not part of the graph when it is copied.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, error
from omnigraph_core.storage.inside import foreign_below


def check_foreign(seen: Examination) -> Iterator[Finding]:
    location = seen.storage.location
    if not location.is_local:
        return
    for path in foreign_below(str(location.path)):
        text = "it is neither a file nor a directory; nothing in a graph is reached through it"
        yield error("foreign-entry", path, text)
