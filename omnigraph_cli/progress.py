"""A progress bar on stderr, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph_core.progress import Progress, ProgressEvent, silent


@contextmanager
def progress_bar(*, wanted: bool, color: bool = True) -> Iterator[Progress]:
    """Draws what the core reports while the block runs, then removes the bar."""
    if not wanted or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True, no_color=not color)
    what, amount = (
        TextColumn("{task." + name + "}", markup=False) for name in ("description", "fields[amount]")
    )
    columns = (SpinnerColumn(), what, BarColumn(), TimeElapsedColumn(), amount)
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("open", total=None, amount="")

        def show(event: ProgressEvent) -> None:
            bars.update(
                task,
                description=event.phase,
                completed=event.done if event.total else 0,
                total=event.total,
                amount=_amount(event),
            )

        yield show


def _amount(event: ProgressEvent) -> str:
    """`1.2 of 3.4 MB`, `3 of 14 checks`, `1,234 rows`; nothing for a phase that counts nothing."""
    if not event.done and not event.total:
        return ""
    if event.unit == "bytes":
        from rich.filesize import decimal

        return " of ".join(decimal(each) for each in (event.done, event.total) if each is not None)
    whole = "" if event.total is None else f" of {event.total:,}"
    return f"{event.done:,}{whole} {event.unit}"
