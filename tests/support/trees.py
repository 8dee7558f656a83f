"""Comparing directory trees byte by byte: how tests show that nothing was changed."""

from __future__ import annotations

import hashlib
from pathlib import Path


def fingerprint(root: Path) -> dict[str, str]:
    """Every file (by content), directory and link below `root`; empty when there is no root."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "dir"
        for path in sorted(root.rglob("*"))
    }
