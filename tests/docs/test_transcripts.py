"""Every `$` block of the README and of docs/ is run, and prints what the page says."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import transcripts
from tests.support.processes import OMNIGRAPH, REPOSITORY, clean_environment

# Blocks that are not run, per page. Keep them few: each is a promise that nobody checks.
NOT_RUN = {"queries.md": 2, "warm.md": 1}


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the background process of the warm starts lives: all pages share one."""
    place = tmp_path_factory.mktemp("run")
    yield place
    stop = clean_environment(XDG_RUNTIME_DIR=str(place))
    subprocess.run([OMNIGRAPH, "warm", "stop"], env=stop, capture_output=True, check=False)


@pytest.mark.xdist_group("transcripts")
@pytest.mark.parametrize("page", transcripts.pages(), ids=lambda page: page.name)
def test_a_page_shows_what_happens(page: Path, runtime: Path, tmp_path: Path) -> None:
    directory = tmp_path / "ann"
    directory.mkdir()
    ran = transcripts.run(page.read_text(encoding="utf-8"), directory, runtime)
    assert ran
    for step, printed in ran:
        assert transcripts.comparable(printed) == transcripts.comparable(step.printed), (
            f"{page.name}: $ {step.command}"
            "\nrenew the page: .venv/bin/python -m tests.support.transcripts, then read the difference"
        )


def test_few_blocks_are_not_run() -> None:
    every = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]
    counts = {page.name: page.read_text(encoding="utf-8").count(transcripts.NOT_RUN) for page in every}
    assert {name: count for name, count in counts.items() if count} == NOT_RUN


PAGE = """\
Text

    $ echo one
    one
    $ printf 'a\\n\\nb\\n'
    a

    b

    $ false
    $ echo $?
    1

```
$ cat <<END
> two
> END
two
```

    # not run: it would take too long
    $ sleep 100

<!-- setup
cd /
-->
"""


def test_the_reader_of_pages(tmp_path: Path, runtime: Path) -> None:
    found = transcripts.steps(PAGE)
    assert [(each.command, each.printed) for each in found] == [
        ("echo one\n", "one\n"),
        ("printf 'a\\n\\nb\\n'\n", "a\n\nb\n"),
        ("false\n", ""),
        ("echo $?\n", "1\n"),
        ("cat <<END\ntwo\nEND\n", "two\n"),
        ("cd /\n", ""),
    ]
    (tmp_path / "home").mkdir()
    ran = transcripts.run(PAGE, tmp_path / "home", runtime)
    assert transcripts.renewed(PAGE, ran) == PAGE
    other = (
        PAGE.replace("    one\n", "    uno\n")
        .replace("\ntwo\n```", "\n```")
        .replace("    1\n", "    0\n    0\n")
    )
    assert transcripts.renewed(other, transcripts.run(other, tmp_path / "home", runtime)) == PAGE


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("commit 01M7H2QP78V8WFAA5MGX2J3VNV", "commit 01KZZZZZ78V8WFAA5MGX2J3VNV", True),
        ("2026-11-16 03:34:28Z  main", "2027-01-01 00:00:00Z main", True),
        ("loaded 3 entities", "loaded 4 entities", False),
        ("since 2024-05-01", "since 2024-05-02", False),
        ("main", "review", False),
        ("10%\r100% done", "100% done", True),
    ],
)
def test_what_is_compared(one: str, other: str, same: bool) -> None:
    assert (transcripts.comparable(one) == transcripts.comparable(other)) is same
