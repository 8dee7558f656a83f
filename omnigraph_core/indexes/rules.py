"""Which indexes the columns of a type should have."""

from __future__ import annotations

from omnigraph_core.schema import EdgeType, EntityType, Key, NodeType, Property, Scalar
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.indexes import IndexKind, IndexSpec


def index_specs(entity: EntityType) -> list[IndexSpec]:
    """BTREE on what identifies and connects entities; the rest by declaration.

    Only declarations of a single column of a node become physical. A text gets a
    full-text index, and as the key a BTREE beside it, because it is looked up whole.
    """
    fixed = [ID_COLUMN, SRC_COLUMN, DST_COLUMN] if isinstance(entity, EdgeType) else [ID_COLUMN]
    specs = [IndexSpec(name, IndexKind.BTREE) for name in fixed]
    if isinstance(entity, NodeType):
        declared: list[tuple[str, bool]] = []
        for constraint in (*((entity.key,) if entity.key else ()), *entity.indexes):
            if len(constraint.columns) == 1:
                declared.append((constraint.columns[0], isinstance(constraint, Key)))
        for name, is_key in declared:
            prop = entity.find_property(name)
            if prop is not None:
                specs += [IndexSpec(name, kind) for kind in _kinds(prop, is_key=is_key)]
    return list(dict.fromkeys(specs))


def _kinds(prop: Property, *, is_key: bool) -> list[IndexKind]:
    type_ = prop.type
    if type_.is_list or type_.scalar is Scalar.BLOB:
        return []
    if type_.scalar is Scalar.VECTOR:
        return [IndexKind.VECTOR]
    if type_.scalar is Scalar.STRING and type_.enum_values is None:
        return [IndexKind.BTREE, IndexKind.FULL_TEXT] if is_key else [IndexKind.FULL_TEXT]
    return [IndexKind.BTREE]
