"""What a shape is."""

from __future__ import annotations

JsonObject = dict[str, object]
