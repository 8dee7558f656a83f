"""A migration plan: what changes, what it asks of the data, and what the answers make of it.

Planning is pure. `plan` compares two schemas; whoever has the data answers `plan.questions` over
the images of the tables; `plan.answered` turns every broken rule into a refusal in the place of
its step. Planning and applying both go this way, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from omnigraph_core.errors import RefusedError
from omnigraph_core.records import dataclass
from omnigraph_core.schema.evolve.compare import Comparison
from omnigraph_core.schema.evolve.identity import Identity
from omnigraph_core.schema.evolve.images import TableImage
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
from omnigraph_core.schema.evolve.terms import Code, Mode, Owner
from omnigraph_core.schema.evolve.text import described, detail
from omnigraph_core.schema.model import EntityType, Schema


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """From one schema to another. Empty means that the two are equal, and so are their hashes.

    `images` has every table of the new schema that is not refused, changed or not; `dropped` the
    old types whose tables go; `mode` says whether dropped bytes are to go too. An image is to be
    built only if the plan is supported and answered.
    """

    old: Schema
    new: Schema
    steps: tuple[Step, ...]
    images: tuple[TableImage, ...]
    dropped: tuple[EntityType, ...]
    mode: Mode

    @property
    def is_empty(self) -> bool:
        return not self.steps

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is still to be asked of the data, in the order of the steps."""
        return tuple(question for step in self.steps for question in step.questions)

    @property
    def unsupported(self) -> tuple[Unsupported, ...]:
        return tuple(step for step in self.steps if isinstance(step, Unsupported))

    @property
    def supported(self) -> bool:
        """Final once no question is left; before that, as far as the schemas alone can tell."""
        return not self.unsupported

    @property
    def touched(self) -> tuple[TableImage, ...]:
        """The tables that are made, renamed or get other columns; all others stay as they are."""
        return tuple(i for i in self.images if i.origin is None or i.is_renamed or not i.is_same)

    def image(self, table: str) -> TableImage:
        """The image a question is about, by its table key after the migration."""
        return next(image for image in self.images if image.entity.table_key == table)

    def answered(self, answers: Mapping[Question, Answer]) -> MigrationPlan:
        """The plan without questions. Every question must have its answer: silence is no consent."""
        steps: list[Step] = []
        for step in self.steps:
            broken = [(q, answers[q]) for q in step.questions if answers[q].rows]
            if broken:
                steps += [_refusal(step.owner, question, answer) for question, answer in broken]
            else:
                steps.append(step.settled())
        return replace(self, steps=tuple(steps))

    def require_supported(self) -> None:
        """Raise with every refusal at once, if there is one."""
        assert not self.questions, "the data has not been asked"
        if not self.supported:
            raise UnsupportedMigration(self)

    def to_json(self) -> dict[str, object]:
        """`steps` is the fixed form; `details` says of each step, in the same order, what people ask."""
        return {
            "supported": self.supported,
            "step_count": len(self.steps),
            "steps": [step.to_json() for step in self.steps],
            "details": [detail(step) for step in self.steps],
        }


class UnsupportedMigration(RefusedError):
    """The schema cannot become the wanted one; nothing was changed."""

    has_lines = True

    def __init__(self, plan: MigrationPlan) -> None:
        self.plan = plan
        refusals = plan.unsupported
        if len(refusals) == 1:
            message = described(refusals[0])
        else:
            listed = "".join(f"\n  {described(step)}" for step in refusals)
            message = f"{len(refusals)} changes of the schema are unsupported:{listed}"
        super().__init__(message, hint="nothing was changed; `omnigraph schema plan` shows every step")

    def details(self) -> Mapping[str, object]:
        return {"supported": False, "steps": [step.to_json() for step in self.plan.steps]}


def plan_migration(
    old: Schema, new: Schema, *, allow_data_loss: bool = False, identity: Identity | None = None
) -> MigrationPlan:
    """The plan from the accepted schema to the wanted one; every drop is hard if losing data is allowed.

    What a thing was before, `identity` says; or else its name and its hint. Hints are read from `new`
    only. They are no part of a schema, so a plan made of two accepted ones has no renames without it.
    """
    mode = Mode.HARD if allow_data_loss else Mode.SOFT
    found = Comparison(old, new, mode, identity)
    return MigrationPlan(old, new, tuple(found.steps), tuple(found.images), tuple(found.dropped), mode)


def _refusal(owner: Owner, question: Question, answer: Answer) -> Unsupported:
    """What a step becomes when rows break its rule."""
    one = answer.rows == 1
    rows = "1 row" if one else f"{answer.rows} rows"
    counted = answer.rows, answer.samples
    match question:
        case NoRows(_, name):
            reason = f"{rows} would have no value for a required property; give it a @default"
            return Unsupported(owner, name, reason, Code.ADD_REQUIRED, *counted)
        case NoNulls(_, name):
            reason = f"the property cannot be required while {rows} {'is' if one else 'are'} null"
            return Unsupported(owner, name, reason, Code.TIGHTEN_NULLABILITY, *counted)
        case OneOf(_, name, values):
            held = "holds" if one else "hold"
            reason = f"{rows} {held} a value that is not in enum({', '.join(values)})"
            return Unsupported(owner, name, reason, Code.CHANGE_TYPE, *counted)
        case Distinct(_, unique):
            return Unsupported(owner, None, f"{rows} share their values of {unique}", None, *counted, unique)
        case Within(_, rule) | Matches(_, rule):
            reason = f"{rows} {'breaks' if one else 'break'} {rule}"
            return Unsupported(owner, None, reason, None, *counted, rule)
        case Fits(_, cardinality):
            nodes = "1 source node has" if one else f"{answer.rows} source nodes have"
            reason = f"{nodes} too few or too many edges for {cardinality}"
            return Unsupported(owner, None, reason, None, *counted, cardinality)
