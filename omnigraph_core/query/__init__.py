"""The `.gq` query language: text to checked query, and the values a run of it needs.

Pure: nothing here reads a file or knows Arrow. An executor works with the classes of
`omnigraph_core.query.checked`, which have every name resolved and every type known, and
turns comparisons into SQL with `omnigraph_core.query.predicate`. What a run has no use
for is not imported here: `omnigraph_core.query.lint`, `omnigraph_core.query.operation`.
"""

from __future__ import annotations

from omnigraph_core.query.check import check_query
from omnigraph_core.query.checked import CheckedMutation, CheckedQuery, CheckedRead
from omnigraph_core.query.choice import as_mutation, as_read, choose_query
from omnigraph_core.query.errors import (
    ParameterError,
    QueryChoiceError,
    QueryTypeError,
    RefusedMutationError,
    UnfitValueError,
    UnknownQueryError,
)
from omnigraph_core.query.params import NO_PARAMS, BoundParams, bind_params, read_param_texts
from omnigraph_core.query.parser import parse_queries
from omnigraph_core.query.syntax import Operator, Parameter, Query, QueryFile
from omnigraph_core.query.values import assigned_value, column_value, evaluate

__all__ = [
    "NO_PARAMS",
    "BoundParams",
    "CheckedMutation",
    "CheckedQuery",
    "CheckedRead",
    "Operator",
    "Parameter",
    "ParameterError",
    "Query",
    "QueryChoiceError",
    "QueryFile",
    "QueryTypeError",
    "RefusedMutationError",
    "UnfitValueError",
    "UnknownQueryError",
    "as_mutation",
    "as_read",
    "assigned_value",
    "bind_params",
    "check_query",
    "choose_query",
    "column_value",
    "evaluate",
    "parse_queries",
    "read_param_texts",
]
