"""`python -m tests.planted.guarded TEST …`: pytest, with the bug planted that the environment names.

Started warm, it plants the bug in itself, and what the tests start warm are forks of it. What they
start otherwise plants the bug by `startup/sitecustomize.py`.
"""

from __future__ import annotations

import sys

import pytest

from tests.planted.bugs import plant_from_environment
from tests.support import warm


def main() -> None:
    plant_from_environment()
    warm.serve_from_here()
    sys.exit(int(pytest.main(sys.argv[1:])))


if __name__ == "__main__":
    main()
