"""Proof that the tests would notice: with each planted bug, the test that guards against it fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.planted.bugs import BUG_VARIABLE, REACHED_VARIABLE, Bug
from tests.planted.verbs import BUGS
from tests.support import warm
from tests.support.processes import REPOSITORY, clean_environment

STARTUP = Path(__file__).parent / "startup"


@dataclass(frozen=True)
class Run:
    """How a run of pytest ended."""

    code: int
    out: str


def run_pytest(*tests: str, **environment: str) -> Run:
    """Run tests in a pytest of their own, in which (and in whose children) a bug may be planted."""
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"]
    paths = os.pathsep.join([str(STARTUP), str(REPOSITORY)])
    variables = clean_environment(PYTHONPATH=paths, **environment)
    variables.pop("CI", None)  # In CI pytest spells out comparisons over many lines.
    done = warm.run(
        [sys.executable, "-m", "tests.planted.guarded", *options, *tests],
        env=variables,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Run(done.returncode, done.stdout)


@pytest.mark.parametrize("bug", BUGS.values(), ids=list(BUGS))
def test_a_planted_bug_is_caught(bug: Bug, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    run = run_pytest(bug.guard, **{BUG_VARIABLE: bug.name, REACHED_VARIABLE: str(reached)})
    assert run.code == pytest.ExitCode.TESTS_FAILED, f"{bug.guard} did not notice:\n{run.out}"
    assert reached.exists(), f"{bug.guard} failed without coming to the planted bug:\n{run.out}"
    assert re.search(bug.evidence, run.out), f"{bug.guard} failed for another reason:\n{run.out}"


GUARDS = sorted({bug.guard for bug in BUGS.values()})
FILES = sorted({guard.partition("::")[0] for guard in GUARDS})


# The guards are tests of the normal suite, and pass there with nothing planted; but two, which `make test`
# leaves to the soak. So the control has their file, and the cheap ones: that a guard can pass in such a run.
CONTROLLED = ("tests/crash/test_schema_apply.py", "tests/unit/")


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=[] if file.startswith(CONTROLLED) else [pytest.mark.soak]) for file in FILES],
)
def test_without_a_planted_bug_the_guards_pass(file: str) -> None:
    """The control: the same runs with nothing planted."""
    run = run_pytest(*[guard for guard in GUARDS if guard.startswith(f"{file}::")])
    assert run.code == pytest.ExitCode.OK, run.out


def test_at_least_the_bugs_of_the_plan_are_planted() -> None:
    assert {
        "skip-the-sidecar",
        "publish-before-the-last-table",
        "ignore-the-lock",
        "no-head-check",
        "no-sync",
        "roll-forward-a-partial-set",
        "restore-without-publish",
        "delete-the-sidecar-before-the-commit-row",
        "decide-by-versions-only",
        "fork-after-staging",
        "heal-only-before-the-lock",
        "take-a-reused-name-for-the-old-branch",
    } <= set(BUGS)
