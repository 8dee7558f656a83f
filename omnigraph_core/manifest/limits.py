"""Limits of the manifest, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# Lance itself retries nothing (it would rebase over a conflict); we ask again this often.
PUBLISH_RETRIES = 5
