"""Fixtures of the tests that cut processes short."""

from __future__ import annotations

from tests.support.scenarios import prepare as prepare
