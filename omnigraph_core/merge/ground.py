"""The ground a merge stands on: one schema for all its states, and what each of them calls its things.

While no schema was changed it is the one that all have. Otherwise it is what both sides made of it
(`schema/evolve/three_way.py`): types are told by the places of their tables, properties by their
stored columns, and by their names only where those cannot tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from omnigraph_core.diff.columns import are_comparable, same_properties
from omnigraph_core.diff.graph import State
from omnigraph_core.errors import ConflictError
from omnigraph_core.merge.lens import Lens
from omnigraph_core.merge.sides import Sides
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.schema.arrow import PatternError, require_patterns
from omnigraph_core.schema.evolve import Code, MigrationPlan, Unsupported, plan_migration
from omnigraph_core.schema.evolve.identity import Identity, by_name, same_names
from omnigraph_core.schema.evolve.text import described
from omnigraph_core.schema.evolve.three_way import Combined, SchemasClash, Side, three_way
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.lineage import lasting_root
from omnigraph_core.values.shown import one_line


class SchemasDiffer(ConflictError):
    """Both sides changed the schema, and not so that one could have both; with the steps of each."""

    has_lines = True

    def __init__(
        self,
        source: str,
        target: str,
        steps: Mapping[str, Sequence[str]],
        reasons: Sequence[str],
        *,
        takes_back: bool = False,
    ) -> None:
        lines = [f"{name}: {step}" for name, found in steps.items() for step in found]
        said = f"'{source}' cannot be merged into '{target}': their schemas cannot be combined"
        hint = "change the schema of one side so that both agree, and merge again"
        if takes_back:
            said = f"'{target}' cannot go back to {source}: the schemas cannot be combined"
            hint = "take back what was written since first, or apply the schema that you want"
        super().__init__("\n".join(map(one_line, [said, *reasons, *lines])), hint=hint)
        self.steps = {name: list(found) for name, found in steps.items()}
        self.reasons = tuple(reasons)

    def details(self) -> Mapping[str, object]:
        return {"schema_steps": self.steps, "schema_conflicts": list(self.reasons)}


@dataclass(frozen=True, slots=True)
class Ground:
    """The schema of the result, and how to read any state as if it had it."""

    tables: Tables
    sides: Sides
    schema: Schema
    since_ours: Identity
    since_theirs: Identity
    plan: MigrationPlan | None = None
    """What makes ours of this schema; None if it has it."""
    _known: dict[int, Identity] = field(default_factory=dict, compare=False, repr=False)

    @property
    def steps(self) -> tuple[str, ...]:
        """What becomes of the branch's schema, in words."""
        if self.plan is None:
            return ()
        return tuple(
            f"change type of {step.owner.name}.{step.property_name}, written anew"
            if isinstance(step, Unsupported)
            else described(step)
            for step in self.plan.steps
        )

    def lens(self, state: State, entity: EntityType) -> Lens:
        """A type of the result, as a state has it."""
        since = self._since(state)
        key = since.types.get(entity.table_key)
        if key is None:
            return Lens(entity, None, {})
        found = next(each for each in state.schema.types() if each.table_key == key)
        return Lens(entity, state.side(self.tables, found), since.properties[entity.table_key])

    def roots(self) -> dict[str, dict[str, int]]:
        """By table key, the first field ids of columns that only theirs has, where ours had them before.

        What a merge gives back is what it was, to every later merge.
        """
        found: dict[str, dict[str, int]] = {}
        ours, theirs = self.sides.ours, self.sides.theirs
        for entity in self.schema.types():
            key = entity.table_key
            if key not in self.since_ours.types or key not in self.since_theirs.types:
                continue
            mine, yours = self.since_ours.properties[key], self.since_theirs.properties[key]
            new = {name: yours[name] for name in yours if name not in mine}
            if not new:
                continue
            here, there = (self._table(state, entity) for state in (ours, theirs))
            if here.ref.path == there.ref.path:
                roots = {name: lasting_root(self.tables, here, there, was) for name, was in new.items()}
                found[key] = {name: root for name, root in roots.items() if root is not None}
        return found

    def _table(self, state: State, entity: EntityType) -> Table:
        side = self.lens(state, entity).side
        assert side is not None
        return side.table

    def key_of(self, state: State, entity: EntityType) -> str | None:
        """What a state calls the table of a type; None if it has none."""
        return self._since(state).types.get(entity.table_key)

    def _since(self, state: State) -> Identity:
        if state is self.sides.ours:
            return self.since_ours
        if state is self.sides.theirs:
            return self.since_theirs
        if id(state) not in self._known:
            self._known[id(state)] = self._composed(state)
        return self._known[id(state)]

    def _composed(self, state: State) -> Identity:
        """By way of ours or, for what ours does not have, of theirs."""
        types: dict[str, str] = {}
        properties: dict[str, dict[str, str]] = {}
        ways = (
            (self.since_ours, identity(self.tables, state, self.sides.ours)),
            (self.since_theirs, identity(self.tables, state, self.sides.theirs)),
        )
        for since, before in ways:
            for key, mine in since.types.items():
                if (
                    mine not in before.types
                    or types.setdefault(key, before.types[mine]) != before.types[mine]
                ):
                    continue
                old, known = before.properties[mine], properties.setdefault(key, {})
                found = since.properties[key]
                for name, now in found.items():
                    if now in old and old[now] not in known.values():
                        known.setdefault(name, old[now])
        return Identity(types, properties)


def common_ground(tables: Tables, sides: Sides, source: str, target: str) -> Ground:
    """The ground of a merge, or `SchemasDiffer`."""
    ours, theirs = sides.ours, sides.theirs
    if ours.schema == theirs.schema and _keep_their_names(tables, sides):
        same = by_name(ours.schema, ours.schema)
        return Ground(tables, sides, ours.schema, same, same)
    try:
        found = _combined(tables, sides)
        plan = plan_migration(ours.schema, found.schema, identity=found.since_ours)
        refused = [each for each in plan.unsupported if not _can_be_remade(each)]
        if refused:
            raise SchemasClash([described(each) for each in refused])
        require_patterns(found.schema)
    except PatternError as error:
        raise differing(tables, sides, source, target, [str(error)]) from None
    except SchemasClash as clash:
        raise differing(tables, sides, source, target, clash.reasons) from None
    return Ground(
        tables, sides, found.schema, found.since_ours, found.since_theirs, None if plan.is_empty else plan
    )


def _keep_their_names(tables: Tables, sides: Sides) -> bool:
    """Is all that both sides have of a base still called what it was?

    Sides of one schema may have come to it by different ways: a name may have been used again.
    """
    return all(
        identity(tables, base, side) == by_name(base.schema, side.schema)
        for base in sides.bases.values()
        for side in (sides.ours, sides.theirs)
        if base is not side
    )


def differing(
    tables: Tables, sides: Sides, source: str, target: str, reasons: Sequence[str]
) -> SchemasDiffer:
    base = next(iter(sides.bases.values()), None)
    steps = (
        {}
        if base is None
        else {
            name: _steps(tables, base, side) for name, side in ((target, sides.ours), (source, sides.theirs))
        }
    )
    return SchemasDiffer(source, target, steps, reasons, takes_back=sides.takes_back)


def _steps(tables: Tables, old: State, new: State) -> list[str]:
    found = plan_migration(old.schema, new.schema, identity=identity(tables, old, new))
    return [described(step) for step in found.steps]


def _can_be_remade(step: Unsupported) -> bool:
    """A column whose type no widening gives is made anew, with the values that fit."""
    return step.refusal is Code.CHANGE_TYPE and step.property_name is not None


def _combined(tables: Tables, sides: Sides) -> Combined:
    """From every base the same must come."""
    nothing = Identity({}, {})
    if not sides.bases:
        return three_way(Schema(), Side(sides.ours.schema, nothing), Side(sides.theirs.schema, nothing))
    found = [
        three_way(
            base.schema,
            Side(sides.ours.schema, identity(tables, base, sides.ours)),
            Side(sides.theirs.schema, identity(tables, base, sides.theirs)),
        )
        for base in sides.bases.values()
    ]
    if any(each.schema != found[0].schema or each.since_ours != found[0].since_ours for each in found):
        raise SchemasClash(["the merge has several bases, and from each another schema would come"])
    return found[0]


def identity(tables: Tables, old: State, new: State) -> Identity:
    """Which of an older state's types and properties those of a newer one are."""
    places, types = old.by_path(), {}
    for path, entity in new.by_path().items():
        if path in places:
            types[entity.table_key] = places[path]
    taken = {each.table_key for each in types.values()}
    left = {each.table_key: each for each in old.schema.types() if each.table_key not in taken}
    for entity in new.schema.types():
        if entity.table_key not in types and entity.table_key in left:
            types[entity.table_key] = left[entity.table_key]
    properties = {}
    for entity in new.schema.types():
        if entity.table_key in types:
            properties[entity.table_key] = _properties(tables, old, types[entity.table_key], new, entity)
    return Identity({key: each.table_key for key, each in types.items()}, properties)


def _properties(
    tables: Tables, old: State, before: EntityType, new: State, after: EntityType
) -> dict[str, str]:
    was, now = (state.snapshot.entry(each.table_key) for state, each in ((old, before), (new, after)))
    if was.table_path != now.table_path:
        return _of_one_name(before, after)
    if (was.ref, was.table_version) == (now.ref, now.table_version):
        return same_names(before, after)
    return same_properties(tables, old.side(tables, before), new.side(tables, after))


def _of_one_name(before: EntityType, after: EntityType) -> dict[str, str]:
    """Two tables have only names in common; a property whose values are of another kind is another."""
    found = {}
    for prop in after.properties:
        was = before.find_property(prop.name)
        if was is not None and are_comparable(was, prop):
            found[prop.name] = prop.name
    return found
