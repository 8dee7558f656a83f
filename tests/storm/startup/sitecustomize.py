"""Imported by every Python that a storm starts with a skewed clock, before anything else."""

import os
import time

_skew_s = float(os.environ.get("STORM_SKEW_S", "0"))
_time, _time_ns = time.time, time.time_ns

time.time = lambda: _time() + _skew_s
time.time_ns = lambda: _time_ns() + int(_skew_s * 1_000_000_000)
