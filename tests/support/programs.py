"""Programs that some tests need and that a developer's machine may lack."""

from __future__ import annotations

import os
import shutil

import pytest


def require_program(name: str) -> str:
    """The path of a program. Missing, it skips the test; in CI (`CI` is set) it fails it."""
    path = shutil.which(name)
    if path is not None:
        return path
    if os.environ.get("CI"):
        pytest.fail(f"{name} is not installed, and CI must run every test")
    pytest.skip(f"{name} is not installed")
