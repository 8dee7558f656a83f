"""A parsed query against a schema: the checked form, or the first rule it breaks."""

from __future__ import annotations

from omnigraph_core.query.check.read import typed_read
from omnigraph_core.query.check.setting import setting_of
from omnigraph_core.query.checked import CheckedMutation, CheckedQuery
from omnigraph_core.query.syntax import MutationBody, Query
from omnigraph_core.schema import Schema, SourceText


def check_query(query: Query, schema: Schema, source: SourceText) -> CheckedQuery:
    """Raises `QueryTypeError`, or `RefusedMutationError` for a mutation no one may run."""
    checked = type_check(query, schema, source)
    if isinstance(query.body, MutationBody) and isinstance(checked, CheckedMutation):
        from omnigraph_core.query.check.mutation import refuse_mutation

        refuse_mutation(source, query, query.body, checked)
    return checked


def type_check(query: Query, schema: Schema, source: SourceText) -> CheckedQuery:
    """Types only, as lint wants it; raises `QueryTypeError`."""
    setting = setting_of(query, schema, source)
    if isinstance(query.body, MutationBody):
        from omnigraph_core.query.check.mutation import typed_mutation

        return typed_mutation(setting, query, query.body)
    return typed_read(setting, query, query.body)
