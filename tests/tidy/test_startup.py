"""What a command loads before it needs to."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import clean_environment

HEAVY = ("lance", "pyarrow", "pyspark", "pandas", "numpy", "obstore", "duckdb")

PROBE = """
import sys
from omnigraph_cli.main import main
try:
    main({arguments!r})
except SystemExit as end:
    code = end.code
print()
print("loaded", sorted({heavy!r} & {{name.split(".")[0] for name in sys.modules}}), "code", code)
"""


def loaded_by(arguments: list[str], **environment: str) -> str:
    program = PROBE.format(arguments=arguments, heavy=set(HEAVY))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["init", "--help"],
        ["--version"],
        ["version"],
        ["completion", "bash"],
        ["snapshot", "/nowhere"],
    ],
    ids=" ".join,
)
def test_light_commands_load_no_data_library(arguments: list[str]) -> None:
    assert loaded_by(arguments).startswith("loaded [] code ")


def test_completing_a_branch_loads_no_data_library() -> None:
    words = "omnigraph snapshot --branch m"
    line = loaded_by([], _OMNIGRAPH_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD="3")
    assert line.startswith("loaded [] code ")
