"""`omnigraph config …`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from omnigraph_cli.run import Run, command, command_group
from omnigraph_core.settings import Settings

_Setting = tuple[str, str | None, str]


def register(app: typer.Typer) -> None:
    group = command_group(app, "config", help="Show the settings.")

    @command(
        group,
        "list",
        takes_graph=False,
        examples=["omnigraph config list", "omnigraph config list --show-origin"],
    )
    def list_(
        run: Run,
        show_origin: Annotated[
            bool, typer.Option("--show-origin", help="Say where each value comes from.")
        ] = False,
    ) -> None:
        """List the settings that are in force: environment, omnigraph.toml, the user's config, defaults."""
        found = list(_settings(run.settings))
        shown = [{"name": name, "value": value, "origin": origin} for name, value, origin in found]
        columns = ["setting", "value", *(["origin"] if show_origin else [])]
        rows = [row if show_origin else row[:2] for row in found]
        run.output.rows({"settings": shown}, "settings in force", columns, rows)


def _settings(of: Settings) -> Iterator[_Setting]:
    """Name, value and origin of each."""
    warm = "off" if of.warm_idle_s is None else f"{of.warm_idle_s:g} s"
    yield _one(of, "store", of.store, "OMNIGRAPH_STORE")
    yield _one(of, "branch", of.default_branch, "OMNIGRAPH_BRANCH")
    yield _one(of, "actor", of.default_actor, "OMNIGRAPH_ACTOR")
    yield _one(of, "lock_timeout", f"{of.lock_timeout_s:g} s", "OMNIGRAPH_LOCK_TIMEOUT")
    yield _one(of, "memory_limit", f"{of.memory_limit_bytes >> 20} MiB", "OMNIGRAPH_MEMORY_LIMIT")
    yield _one(of, "load_concurrency", f"{of.load_concurrency}", "OMNIGRAPH_LOAD_CONCURRENCY")
    most = f"{of.maintenance_concurrency}"
    yield _one(of, "maintenance_concurrency", most, "OMNIGRAPH_MAINTENANCE_CONCURRENCY")
    kept = None if of.cache_home is None else str(of.cache_home)
    yield _one(of, "cache_dir", kept, "OMNIGRAPH_CACHE_DIR")
    yield _one(of, "cache_limit", f"{of.cache_limit_bytes >> 20} MiB", "OMNIGRAPH_CACHE_LIMIT")
    yield _one(of, "fsync", "on" if of.fsync else "off", "OMNIGRAPH_FSYNC")
    yield _one(of, "color", of.color or "auto", "NO_COLOR", "FORCE_COLOR")
    yield _one(of, "pager", "less" if of.pager is None else of.pager, "OMNIGRAPH_PAGER")
    yield _one(of, "warm", warm, "OMNIGRAPH_WARM")


def _one(of: Settings, name: str, value: str | None, *variables: str) -> _Setting:
    """Where it comes from, by the order in which places count."""
    for variable in variables:
        if variable in of.variables:
            return name, value, variable
    for file in (of.config, of.user):
        own = getattr(file, name, None)
        if file is not None and own:
            return name, own if name == "store" else value, str(file.path)
    if name == "pager" and "PAGER" in of.variables:
        return name, value, "PAGER"
    return name, value, "default"
