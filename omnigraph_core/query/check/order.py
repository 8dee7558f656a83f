"""The order of a read: by a search, or by columns and properties."""

from __future__ import annotations

from omnigraph_core.query.check.expressions import property_use, refuse_blob
from omnigraph_core.query.check.projection import unknown_column
from omnigraph_core.query.check.scope import Scope
from omnigraph_core.query.check.search import fused_search, nearest_search, text_search
from omnigraph_core.query.check.setting import is_scalar
from omnigraph_core.query.checked import (
    Column,
    ColumnKey,
    FusedSearch,
    OrderKey,
    PropertyKey,
    RankedSearch,
    Score,
)
from omnigraph_core.query.syntax import (
    AliasUse,
    Expression,
    NearestCall,
    Ordering,
    PropertyAccess,
    ReadBody,
    RrfCall,
    TextCall,
    TextFunction,
)
from omnigraph_core.schema import PropertyType
from omnigraph_core.schema.source import Span

_UNSUPPORTED = "unsupported ordering expression"
_UNSUPPORTED_HINT = "order by a property, a returned column, nearest(…), bm25(…) or rrf(…)"


def check_order(
    scope: Scope, body: ReadBody, columns: tuple[Column, ...], grouped: bool
) -> tuple[RankedSearch | None, tuple[OrderKey, ...]]:
    """A search as first key is the whole order; the keys after it are checked, then dropped."""
    searches: list[tuple[int, RankedSearch]] = []
    keys: list[OrderKey] = []
    for position, ordering in enumerate(body.orderings):
        search = _search(scope, ordering)
        if search is None:
            keys.append(_key(scope, ordering, columns, grouped))
        else:
            searches.append((position, search))
    _check_limits(scope, body, columns)
    if not searches:
        return None, tuple(keys)
    if searches[-1][0] > 0:
        span = body.orderings[searches[-1][0]].expression.span
        raise scope.setting.error(span, None, "a search must be the first order key, and the only search")
    if grouped:
        reason = "rows of an aggregate cannot be ordered by a search"
        raise scope.setting.error(body.orderings[0].expression.span, None, reason)
    return searches[0][1], ()


def _search(scope: Scope, ordering: Ordering) -> RankedSearch | None:
    expression = ordering.expression
    if isinstance(expression, NearestCall):
        return nearest_search(scope, expression)
    ranked: RankedSearch | None = None
    if isinstance(expression, RrfCall):
        ranked = fused_search(scope, expression)
    elif isinstance(expression, TextCall) and expression.function is TextFunction.BM25:
        ranked = text_search(scope, expression)
    if ranked is not None and ordering.direction is not None and not ordering.descending:
        reason = "a search ranks the best first; asc does not apply"
        raise scope.setting.error(ordering.direction.span, None, reason)
    return ranked


def _key(scope: Scope, ordering: Ordering, columns: tuple[Column, ...], grouped: bool) -> OrderKey:
    expression = ordering.expression
    if isinstance(expression, AliasUse):
        by_name = {column.name: index for index, column in enumerate(columns)}
        index = by_name.get(expression.name.text)
        if index is None:
            raise unknown_column(scope, expression, {column.name: column for column in columns})
        _check_orderable(scope, columns[index].type, expression.span)
        return ColumnKey(index, ordering.descending)
    if not isinstance(expression, PropertyAccess):
        raise scope.setting.error(expression.span, None, _UNSUPPORTED, hint=_UNSUPPORTED_HINT)
    used = property_use(scope, expression)
    refuse_blob(scope, used, expression.span)
    _check_orderable(scope, used.type, expression.span)
    if not grouped:
        return PropertyKey(used, ordering.descending)
    for index, column in enumerate(columns):
        if column.value == used:
            return ColumnKey(index, ordering.descending)
    reason = "beside an aggregate, only returned columns can be ordered by"
    raise scope.setting.error(expression.span, None, reason, hint="return it, or order by an alias")


def _check_orderable(scope: Scope, type_: PropertyType, span: Span) -> None:
    if not is_scalar(type_):
        raise scope.setting.error(span, None, f"cannot order by a value of type {type_}")


def _check_limits(scope: Scope, body: ReadBody, columns: tuple[Column, ...]) -> None:
    """T21, T17, T18, in this order, whichever key comes first. A score by its name is the search itself."""
    expressions = [ordering.expression for ordering in body.orderings]
    scores = {column.name for column in columns if _is_fused(column)}
    named = [each for each in expressions if isinstance(each, AliasUse) and each.name.text in scores]
    fused = next(iter(named), None) or _first(expressions, RrfCall)
    if fused is not None and body.limit is None:
        raise scope.setting.error(fused.span, "T21", "rrf() ordering requires a limit")
    near = _first(expressions, NearestCall)
    if near is None:
        return
    if body.limit is None:
        raise scope.setting.error(near.span, "T17", "nearest() ordering requires a limit")
    alias = _first(expressions, AliasUse)
    if alias is not None:
        raise scope.setting.error(alias.span, "T18", "ordering by a column cannot be combined with nearest()")


def _is_fused(column: Column) -> bool:
    return isinstance(column.value, Score) and isinstance(column.value.search, FusedSearch)


def _first(expressions: list[Expression], kind: type[Expression]) -> Expression | None:
    return next((expression for expression in expressions if isinstance(expression, kind)), None)
