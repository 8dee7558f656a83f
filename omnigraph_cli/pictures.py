"""`query --format dot|html`: what a query matched, as a picture."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph_core.errors import UsageError

if TYPE_CHECKING:
    from omnigraph_cli.sources import QuerySource
    from omnigraph_core.view import View


class PictureFormat(StrEnum):
    DOT = "dot"
    HTML = "html"


def picture_format(option: str | None, *, json_asked: bool, stats: bool) -> PictureFormat | None:
    """The picture that is asked for; None if it is rows."""
    if option not in tuple(PictureFormat):
        return None
    if json_asked or stats:
        other = "--json" if json_asked else "--stats"
        raise UsageError(f"both {other} and --format {option} were given", hint="use one of them")
    return PictureFormat(option)


def drawn(view: View, source: QuerySource, form: PictureFormat, timeout_s: float | None) -> str:
    from omnigraph_core.read.answer.picture_formats import as_dot, as_html

    picture = view.picture(
        source.text,
        name=source.name,
        source_name=source.source_name,
        params=source.params,
        param_texts=source.param_texts,
        timeout_s=timeout_s,
    )
    return as_dot(picture) if form is PictureFormat.DOT else as_html(picture)
