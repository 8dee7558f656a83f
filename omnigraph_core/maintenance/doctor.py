"""`doctor`: is everything as it must be? It reads, takes no lock and writes nothing.

What cannot be read is a finding, not the end: the other checks go on. Beside running writers a
single look may meet a state that is about to pass. So what a check finds is asked again, of a graph
read anew, and only what is found both times is said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnigraph_core.catalog.files import Catalog
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.maintenance.checks import CHECKS, DEEP_CHECKS, Check
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, attempt
from omnigraph_core.progress import Progress, ProgressEvent, silent
from omnigraph_core.write.door import Door


def examine(
    door: Door,
    read_catalog: Callable[[], Catalog],
    memory_bytes: int,
    *,
    deep: bool = False,
    progress: Progress = silent,
) -> list[Finding]:
    """All findings, in the order of the checks."""
    seen = Examination(door, read_catalog, memory_bytes)
    found: list[Finding] = []
    checks = DEEP_CHECKS if deep else CHECKS
    for done, (name, check) in enumerate(checks.items(), start=1):
        found += _believed(name, check, seen)
        progress(ProgressEvent("examine", done, len(checks), "checks"))
    return [_for_original(each) for each in found] if _is_original(door) else found


def _is_original(door: Door) -> bool:
    """A manifest that cannot be read is among the findings; nobody can say whose it is."""
    try:
        return door.manifest.is_original()
    except OmnigraphError:
        return False


def _for_original(finding: Finding) -> Finding:
    """No other command may write to a graph of the Rust original."""
    is_command = finding.fix is not None and finding.fix.startswith("omnigraph ")
    return replace(finding, fix="omnigraph adopt", branch=None) if is_command else finding


def _believed(name: str, check: Check, seen: Examination) -> list[Finding]:
    first = attempt("check-failed", name, check, seen)
    if not first:
        return []
    again = {(each.code, each.where) for each in attempt("check-failed", name, check, seen.fresh())}
    return list(dict.fromkeys(each for each in first if (each.code, each.where) in again))
