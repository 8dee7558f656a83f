"""`omnigraph export`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from omnigraph_cli.options import BranchOption, SnapshotOption, one_target
from omnigraph_cli.run import Run, command
from omnigraph_core.errors import StorageError, UsageError


def register(app: typer.Typer) -> None:
    @command(
        app,
        "export",
        examples=[
            "omnigraph export > backup.jsonl",
            "omnigraph export --type Person --type Knows --out people.jsonl",
            "omnigraph export --snapshot main~3",
        ],
    )
    def export(
        run: Run,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        types: Annotated[
            list[str] | None, typer.Option("--type", metavar="T", help="Only this type. Repeatable.")
        ] = None,
        out: Annotated[
            str | None, typer.Option("--out", metavar="FILE", help="Where to; standard output otherwise.")
        ] = None,
    ) -> None:
        """Write every entity as a load record: edges first, each type in the order of ids.

        Loading the output into an empty graph of the same schema gives the same graph.
        """
        one_target(branch, snapshot)
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        blocks = graph.export(snapshot, branch=run.branch(branch), types=types or ())
        if out is None:
            for block in blocks:
                sys.stdout.write(block.decode("utf-8"))
        else:
            _write_file(Path(out), blocks)


def _write_file(path: Path, blocks: Iterable[bytes]) -> None:
    """All of it under the name, or nothing: a half-written backup must not look like one."""
    if path.is_dir():
        raise UsageError(f"--out: {path} is a directory")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(unfinished, "wb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise StorageError(f"--out: {path} cannot be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)
