"""Plans, step by step: some three hundred pairs of schemas with the very JSON that is promised.

`data/schema_plans.jsonl` has one pair a line. `old` left out means that of the line before. `rows`
are the answers to the plan's questions, in order; `bad` is source text that is no schema.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.schema import SourceError, compile_schema, schema_hash
from omnigraph_core.schema.evolve import Answer, MigrationPlan, plan_migration

FACTS = Path(__file__).parent / "data" / "schema_plans.jsonl"


def facts() -> list[dict[str, Any]]:
    read = [json.loads(line) for line in FACTS.read_text(encoding="utf-8").splitlines()]
    old = ""
    for fact in read:
        old = fact.setdefault("old", old)
    return read


PLANS = [fact for fact in facts() if "bad" not in fact]
BAD = [fact for fact in facts() if "bad" in fact]


def named(fact: dict[str, Any]) -> str:
    return str(fact["name"])


def answered(fact: dict[str, Any]) -> MigrationPlan:
    old, new = compile_schema(fact["old"]), compile_schema(fact["new"])
    plan = plan_migration(old, new, allow_data_loss=fact.get("loss", False))
    rows = fact.get("rows", [])
    assert len(plan.questions) == len(rows)
    return plan.answered({q: Answer(n) for q, n in zip(plan.questions, rows, strict=True)})


@pytest.mark.parametrize("fact", PLANS, ids=named)
def test_the_steps_are_exactly_these(fact: dict[str, Any]) -> None:
    plan = answered(fact)
    steps = [{key: value for key, value in step.to_json().items() if key != "reason"} for step in plan.steps]
    assert steps == fact["steps"]
    assert plan.supported == all(step["kind"] != "unsupported_change" for step in steps)
    if plan.supported:
        assert plan.is_empty == (schema_hash(plan.old) == schema_hash(plan.new))
        assert plan_migration(plan.new, plan.new).is_empty


@pytest.mark.parametrize("fact", BAD, ids=named)
def test_bad_source_text_is_no_plan(fact: dict[str, Any]) -> None:
    compile_schema(fact["old"])
    with pytest.raises(SourceError):
        compile_schema(fact["new"])


def test_the_facts_are_worth_something() -> None:
    kinds = {step["kind"] for fact in PLANS for step in fact["steps"]}
    assert len(kinds) == 15
    assert sum(any(fact.get("rows", ())) for fact in PLANS) >= 10
    assert sum(not fact["steps"] for fact in PLANS) >= 10
    assert len(BAD) >= 20
