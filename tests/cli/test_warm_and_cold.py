"""The whole of `tests/cli` by the installed command: once cold, once warm, with the same outcomes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.processes import OMNIGRAPH, REPOSITORY, clean_environment

OF_WARM_STARTS = sorted(Path(__file__).parent.glob("test_warm*.py"))


def outcomes(report: Path, **environment: str) -> dict[str, str]:
    """Of each test: passed, failed, or skipped."""
    ignored = [f"--ignore={path.relative_to(REPOSITORY)}" for path in OF_WARM_STARTS]
    options = ["-q", "-n2", "-p", "no:cacheprovider", f"--junitxml={report}", *ignored]
    with open(report.with_suffix(".log"), "wb") as log:
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, "tests/cli"],
            cwd=REPOSITORY,
            env={**clean_environment(), "TESTS_START": "installed", **environment},
            stdout=log,
            stderr=log,
            check=False,
        )
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {each.tag for each in case} & {"failure", "error", "skipped"}
        found[f"{case.get('classname')}::{case.get('name')}"] = kinds.pop() if kinds else "passed"
    return found


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_every_command_ends_the_same_warm_and_cold(tmp_path: Path) -> None:
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    variables = {"TESTS_WARM": "10m", "XDG_RUNTIME_DIR": str(runtime)}
    try:
        warm = outcomes(tmp_path / "warm.xml", **variables)
        answer = subprocess.check_output(
            [OMNIGRAPH, "warm", "status", "--json"], env={**os.environ, **variables}
        )
        served = sum(each["served"] for each in json.loads(answer)["servers"])
    finally:
        subprocess.run([OMNIGRAPH, "warm", "stop"], env={**os.environ, **variables}, check=False)
    cold = outcomes(tmp_path / "cold.xml")
    assert warm == cold
    assert set(cold.values()) == {"passed"}
    assert served > len(cold)
