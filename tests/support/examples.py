"""Hypothesis examples that are the same in every checkout and in every order of tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis.internal.conjecture import providers


@contextmanager
def the_same_everywhere() -> Iterator[None]:
    """With `derandomize` the seed is fixed, but Hypothesis also draws constants that it finds in the
    source of modules that are loaded and outside of site-packages: others in each worker of a run."""
    nothing = type(providers.GLOBAL_CONSTANTS)()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(providers, "_get_local_constants", lambda: nothing)
        patch.setattr(providers, "CONSTANTS_CACHE", type(providers.CONSTANTS_CACHE)(1024))
        yield
