"""Values of rows as JSON has them."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from typing import Any


def as_json(of: Any) -> object:
    """Dates and instants as ISO texts; numbers that are not finite are `NaN`, `Infinity`, `-Infinity`."""
    if isinstance(of, datetime):
        instant = of.astimezone(timezone.utc).replace(tzinfo=None)
        return instant.isoformat(timespec="milliseconds") + "Z"
    if isinstance(of, date):
        return of.isoformat()
    if isinstance(of, float) and not math.isfinite(of):
        return "NaN" if math.isnan(of) else "Infinity" if of > 0 else "-Infinity"
    if isinstance(of, list):
        return [as_json(item) for item in of]
    return of
