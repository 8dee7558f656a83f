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
    from rich.progress import BarColumn, DownloadColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True, no_color=not color)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bars(*columns, DownloadColumn(), console=console, transient=True) as bars:
        task = bars.add_task("open", total=None)

        def show(event: ProgressEvent) -> None:
            counted = event.unit == "bytes"
            rows = f" {event.done:,} rows" if event.unit == "rows" else ""
            bars.update(
                task,
                description=event.phase + rows,
                completed=event.done if counted else 0,
                total=event.total if counted else None,
            )

        yield show
