"""docs/limits.md says what the limits modules say, and leaves none of them out."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.support.processes import REPOSITORY

MODULES = [
    ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
    for package in ("omnigraph_core", "omnigraph_cli")
    for path in sorted((REPOSITORY / package).rglob("limits.py"))
]
CONSTANTS = {
    f"{module}.{name}": value
    for module in MODULES
    for name, value in vars(importlib.import_module(module)).items()
    if name.isupper()
}
ROWS = re.findall(
    r"^\| [^|]*\| ([^|]+) \| [^|]*\| `([\w.]+)` \|$",
    (REPOSITORY / "docs/limits.md").read_text(),
    re.MULTILINE,
)

UNITS = ("BYTES", "CHARACTERS", "COLUMNS", "RETRIES", "ROWS", "THREADS", "FRAGMENTS", "ATTEMPTS")


def written(name: str, value: float) -> str:
    """A value as the page has it, with the unit that the name ends in (before MAX, MIN or DEFAULT)."""
    unit = re.sub(r"_(MAX|MIN|DEFAULT)$", "", name).rpartition("_")[2]
    if unit == "BYTES" and value >= 2**20:
        size, prefix = (value / 2**30, "GiB") if value >= 2**30 else (value / 2**20, "MiB")
        return f"{size:g} {prefix}"
    if unit == "S":
        return f"{value:g} s"
    return f"{value:,} {unit.lower()}" if unit in UNITS else f"{value:,}"


@pytest.mark.parametrize(("cell", "constant"), ROWS, ids=[constant for _, constant in ROWS])
def test_the_page_has_the_value_of_the_code(cell: str, constant: str) -> None:
    expected = written(constant.rpartition(".")[2], CONSTANTS[constant])
    number = rf"(?<!\d)(?<!\d,){re.escape(expected)}(?![.,]?\d)"
    assert re.search(number, cell), f"docs/limits.md says '{cell}', the code {expected}"


def test_the_page_has_every_constant_once() -> None:
    assert sorted(constant for _, constant in ROWS) == sorted(CONSTANTS)
