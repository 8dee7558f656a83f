"""Random migrations against a model that remembers who is who.

A random schema is edited at random, by hands that know for every type and property which old one
it is. The plan sees only the two texts with their hints. Its steps, done to the old schema, must
give the new one; its images must name exactly the remembered origins; and whatever cannot be
followed without guessing must be refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from random import Random

from hypothesis import Phase, event, given, note, settings
from hypothesis import strategies as st

from omnigraph_core.schema import compile_schema, schema_hash
from omnigraph_core.schema.evolve import Answer, MigrationPlan, lines, markdown, plan_migration
from tests.support.schema_drafts import NAMES, Draft, done, edit, first_draft

EXAMPLES = 150


def can_be_followed(old: Iterable[str], origins: Mapping[str, str | None]) -> bool:
    """Is there only one reading of the hints? Stated of the truth, not of the hints.

    A name that now means another old thing must have handed its own on, and so must the name it
    took; and nothing may come back to where it started.
    """
    names = set(old)
    for new, origin in origins.items():
        if origin in (None, new) or new not in names:
            continue
        if new not in origins.values() or (origin in origins and origins[origin] is None):
            return False
        seen = new
        for _ in names:
            seen = origins.get(seen) or ""
            if seen == new:
                return False
    return True


def is_an_old_story(old: Iterable[str], origins: Mapping[str, str | None]) -> bool:
    """Does the file read like one whose hints were followed long ago?

    C was dropped, B is called C, and there is a new B: `C<B B` says that, and it says just as well
    that all of it happened before. A plan takes it so, and no text could tell it otherwise.
    """
    for new in set(old) & set(origins) - set(origins.values()):
        name: str | None = new
        while name in origins and origins[name] is not None:
            name = origins[name]
        if name in origins:
            return True
    return False


def scopes(old: Draft, new: Draft) -> Iterator[tuple[list[str], dict[str, str | None]]]:
    """Old names, and new ones with what they were: of the nodes, the edges, and every type's properties."""
    for kind in (True, False):
        before = [name for name, entity in old.entities.items() if (entity.ends is None) == kind]
        now = {name: entity.was for name, entity in new.entities.items() if (entity.ends is None) == kind}
        yield before, now
    for entity in new.entities.values():
        if entity.was is not None:
            yield list(old.entities[entity.was].props), {n: prop.was for n, prop in entity.props.items()}


def origins_of(plan: MigrationPlan) -> dict[str, tuple[str | None, dict[str, str | None]]]:
    """Of each table and of each of its columns, the old name; those of the draft alone."""
    return {
        image.entity.name: (
            None if image.origin is None else image.origin.name,
            {
                column.prop.name: None if column.origin is None else column.origin.name
                for column in image.columns
                if column.prop.name in NAMES
            },
        )
        for image in plan.images
    }


def check_supported(plan: MigrationPlan, new: Draft) -> None:
    assert done(plan.old, plan.steps) == plan.new
    assert plan.is_empty == (schema_hash(plan.old) == schema_hash(plan.new))
    remembered = {
        name: (entity.was, {each: prop.was if entity.was else None for each, prop in entity.props.items()})
        for name, entity in new.entities.items()
    }
    assert origins_of(plan) == remembered
    agreed = plan.answered({question: Answer(0) for question in plan.questions})
    agreed.require_supported()
    assert [step.to_json() for step in agreed.steps] == [step.to_json() for step in plan.steps]
    broken = plan.answered({question: Answer(2, ("x",)) for question in plan.questions})
    assert len(broken.unsupported) == len(plan.questions)
    assert [image.entity.name for image in broken.images] == [image.entity.name for image in plan.images]


@settings(max_examples=EXAMPLES, phases=(Phase.generate,))
@given(st.randoms(use_true_random=False))
def test_a_plan_does_what_was_meant_or_refuses(random: Random) -> None:
    old = first_draft(random)
    accepted = compile_schema(old.text())
    for _ in range(2):
        new = deepcopy(old)
        for _ in range(random.randint(1, 8)):
            edit(new, random)
        if any(is_an_old_story(*scope) for scope in scopes(old, new)):
            event("an old story")
            return
        note(f"{old.text()}\n\n{new.text()}")
        wanted = compile_schema(new.text())
        plan = plan_migration(accepted, wanted)
        expected = all(can_be_followed(*scope) for scope in scopes(old, new))
        assert plan.supported == expected, "\n".join(lines(plan.steps))
        assert len(markdown(plan.steps).splitlines()) == (len(plan.steps) + 2 if plan.steps else 1)
        event("supported" if plan.supported else "refused")
        if not plan.supported:
            return
        check_supported(plan, new)
        # The file with its hints again, and the same without them.
        assert plan_migration(wanted, wanted).is_empty
        new.settle()
        assert plan_migration(wanted, compile_schema(new.text())).is_empty
        old, accepted = new, done(accepted, plan.steps)
