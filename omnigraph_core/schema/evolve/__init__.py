"""From one schema to another: the plan, what it asks of the data, and how it reads."""

from __future__ import annotations

from omnigraph_core.schema.evolve.images import Column, TableImage
from omnigraph_core.schema.evolve.plan import MigrationPlan, UnsupportedMigration, plan_migration
from omnigraph_core.schema.evolve.questions import (
    Answer,
    Distinct,
    Fits,
    Matches,
    NoNulls,
    NoRows,
    OneOf,
    Question,
    Within,
)
from omnigraph_core.schema.evolve.steps import Step, Unsupported
from omnigraph_core.schema.evolve.terms import Code, Cost, Mode, Owner, Tier
from omnigraph_core.schema.evolve.text import line, lines, markdown

__all__ = [
    "Answer",
    "Code",
    "Column",
    "Cost",
    "Distinct",
    "Fits",
    "Matches",
    "MigrationPlan",
    "Mode",
    "NoNulls",
    "NoRows",
    "OneOf",
    "Owner",
    "Question",
    "Step",
    "TableImage",
    "Tier",
    "Unsupported",
    "UnsupportedMigration",
    "Within",
    "line",
    "lines",
    "markdown",
    "plan_migration",
]
