"""Hypothesis examples that are the same on every machine, in every checkout and in every order of tests.

So a run that was green stays green. The long runs of `make soak` draw new ones (`NEW`), which Hypothesis
keeps in `.hypothesis` where they fail.
"""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers

_UNTIMED: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}

NEW = hypothesis.settings(
    derandomize=False, database=DirectoryBasedExampleDatabase(".hypothesis/examples"), **_UNTIMED
)
"""For `@settings(NEW, ...)`."""


def make_them_the_same() -> None:
    """With `derandomize` the seed is fixed, but Hypothesis also draws constants that it finds in the
    source of modules that are loaded and outside of site-packages: others in each worker of a run.

    And no example is timed: on a busy machine any of them may be slow.
    """
    nothing = type(providers.GLOBAL_CONSTANTS)()
    patch = pytest.MonkeyPatch()  # never undone
    patch.setattr(providers, "_get_local_constants", lambda: nothing)
    patch.setattr(providers, "CONSTANTS_CACHE", type(providers.CONSTANTS_CACHE)(1024))
    hypothesis.settings.register_profile("the same", derandomize=True, database=None, **_UNTIMED)
    hypothesis.settings.load_profile("the same")
