"""The part of the facade that changes rows and schemas: mutations, loads, and schema apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from omnigraph_core import arguments, layout, outputs
from omnigraph_core.opened import OpenGraph
from omnigraph_core.progress import Progress, silent
from omnigraph_core.schema import compile_schema
from omnigraph_core.schema.files import Format

if TYPE_CHECKING:
    from omnigraph_core.change.mutate import Changed
    from omnigraph_core.history.log import GraphCommit
    from omnigraph_core.load.in_memory import LoadData
    from omnigraph_core.load.modes import LoadMode
    from omnigraph_core.load.request import Rejecting
    from omnigraph_core.load.roles import Elsewhere, Source
    from omnigraph_core.load.run import Load, Loaded
    from omnigraph_core.migrate.apply import Applied


class GraphWrites(OpenGraph):
    """An open graph whose rows and schemas can be changed."""

    def change(
        self,
        source: str,
        *,
        name: str | None = None,
        source_name: str = "<query>",
        params: Mapping[str, Any] | None = None,
        param_texts: Sequence[str] = (),
        branch: str = layout.MAIN_BRANCH,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        dry_run: bool = False,
    ) -> Changed:
        """Run a mutation of a `.gq` source as one commit; none when it matches nothing.

        `param_texts` are `K=V`, read by the declared types, beside the values in `params`.
        """
        arguments.texts(source=source, source_name=source_name, branch=branch)
        arguments.optional_texts(name=name, actor=actor, message=message, if_commit=if_commit)
        arguments.named_values("params", params)
        arguments.text_lists(param_texts=param_texts)
        arguments.flags(dry_run=dry_run)
        from omnigraph_core.change.mutate import run_mutation
        from omnigraph_core.change.plan import Intent
        from omnigraph_core.query.prepared import QueryRequest
        from omnigraph_core.write.plan import WriterKind

        request = QueryRequest(source, source_name, name, params, param_texts)
        intent = Intent(WriterKind.MUTATION, self._signed(actor), message=message, if_commit=if_commit)
        return run_mutation(
            self._door_for(dry_run=dry_run), self._line(branch), request, intent, dry_run=dry_run
        )

    def load(
        self,
        data: LoadData,
        mode: LoadMode | str,
        *,
        branch: str = layout.MAIN_BRANCH,
        source: str | None = None,
        format: Format | str | None = None,
        type: str | None = None,
        actor: str | None = None,
        message: str | None = None,
        rejects: str | None = None,
        max_rejects: int | None = None,
        dry_run: bool = False,
        spark: Elsewhere | None = None,
        progress: Progress = silent,
    ) -> Loaded:
        """Load `data` as one commit, or raise and change nothing.

        It is a path or a list of paths (files or directories; `-` is standard input), something
        with the Arrow C stream interface (a pyarrow table, a data frame of pandas or polars),
        records, or a mapping from the names of types to any of these.

        A table needs a `type`. Records are `{"type": …, "data": …}` or, with a `type`, their columns.
        Of a file, its name tells the format and, for CSV and Parquet, the type of its rows, unless
        they are given.

        `source` is a ref: a branch that does not exist yet starts there, and is not made
        unless the load succeeds. With `rejects`, bad records are written to that file and
        the others loaded, unless there are more than `max_rejects` of them. With `spark`, a
        Spark job reads and writes; what comes of it is the same.
        """
        arguments.texts(branch=branch)
        arguments.optional_texts(source=source, type=type, actor=actor, message=message)
        arguments.optional_texts(rejects=rejects)
        arguments.count("max_rejects", max_rejects)
        arguments.flags(dry_run=dry_run)
        arguments.called("progress", progress)
        from omnigraph_core.load.in_memory import Resolver, paths_in, plain_paths
        from omnigraph_core.load.local import LocalSource
        from omnigraph_core.load.modes import LoadMode
        from omnigraph_core.load.rejects import RejectsFile
        from omnigraph_core.load.request import Rejecting
        from omnigraph_core.load.roles import Elsewhere

        mode = arguments.choice("mode", mode, LoadMode)
        format_ = None if format is None else arguments.choice("format", format, Format)
        arguments.instance("spark", spark, (Elsewhere, NoneType), "Spark options or None")
        if rejects is not None:
            self._refuse_as_output(rejects, paths_in(data))
        rejecting = None if rejects is None else Rejecting(RejectsFile(rejects), max_rejects)

        def source_of(load: Load) -> Source:
            if spark is not None:
                return spark.source(load, (plain_paths(data, type), format_, type), self.settings)
            resolver = Resolver(load.schema, format_, self.settings.s3, load.budget)
            return LocalSource(resolver.inputs(data, type))

        load = self._load_to(branch, source, mode, self._signed(actor), message, rejecting, dry_run, progress)
        return load.run(source_of(load))

    def _load_to(
        self,
        branch: str,
        source: str | None,
        mode: LoadMode,
        actor: str,
        message: str | None,
        rejecting: Rejecting | None,
        dry_run: bool,
        progress: Progress,
    ) -> Load:
        """A load that is about to begin, with what its rows will meet."""
        from omnigraph_core.change.plan import Intent
        from omnigraph_core.history.travel import snapshot_at
        from omnigraph_core.load.request import LoadRequest
        from omnigraph_core.load.run import Load
        from omnigraph_core.write.attempt import Attempt
        from omnigraph_core.write.plan import WriterKind

        door = self._door_for(dry_run=dry_run)
        if not dry_run:  # before hours of reading
            self._storage.require_writable()
        start = self._start_of(branch, source)
        base = self.snapshot(branch) if start is None else snapshot_at(self._manifest, start)
        schema_hash = Attempt(base, self._schemas).schema_hash
        schema = self._schemas.by_hash(schema_hash)
        request = LoadRequest(
            mode,
            self._line(branch) if start is None else self._new_line(branch),
            start,
            Intent(WriterKind.LOAD, actor, message=message),
            self.settings.memory_limit_bytes,
            self.settings.load_concurrency,
            rejecting,
            dry_run,
            called=branch,
        )
        return Load(door, schema, schema_hash, request, progress)

    def _refuse_as_output(self, rejects: str, paths: Sequence[str]) -> None:
        """Records that are set aside must not take the place of those that are read."""
        outputs.refuse_inputs(rejects, paths, "rejects")
        if self.location.is_local:
            outputs.refuse_graph(Path(rejects), self.location.path, "rejects")

    def _start_of(self, branch: str, source: str | None) -> GraphCommit | None:
        """Where a branch that is to be made starts; None for one that is there."""
        if source is None or self._live_line(branch) is not None:
            self.snapshot(branch)
            return None
        return self._readable_commit(source)

    def apply_schema(
        self,
        source: str,
        *,
        source_name: str = "schema.pg",
        branch: str = layout.MAIN_BRANCH,
        allow_data_loss: bool = False,
        actor: str | None = None,
        message: str | None = None,
    ) -> Applied:
        """Give a branch this schema as one commit, or raise and change nothing; no other branch changes.

        The data is asked first. It may stay an old commit's alone, unless it is allowed to be lost.
        """
        arguments.texts(source=source, source_name=source_name, branch=branch)
        arguments.optional_texts(actor=actor, message=message)
        arguments.flags(allow_data_loss=allow_data_loss)
        from omnigraph_core.migrate.apply import ApplyOptions, WantedSchema, apply_schema
        from omnigraph_core.schema.arrow import require_patterns
        from omnigraph_core.write.opening import prepare_for_writing

        schema = compile_schema(source, source_name)
        require_patterns(schema)
        # The schema may be the graph's own file, edited; that must not stand in the way.
        opened = prepare_for_writing(self.door, self.catalog, patient=False, edited=True)
        self.warnings = opened.warnings
        options = ApplyOptions(
            self._signed(actor), message, allow_data_loss, self.settings.memory_limit_bytes
        )
        applied = apply_schema(self.door, self._line(branch), WantedSchema(schema, source), options)
        return replace(applied, snapshot=replace(applied.snapshot, called=branch))

    def edited_source(self) -> str | None:
        """The text of the schema file in the root, if it does not mean the schema of main's head."""
        from omnigraph_core.catalog.files import edited_source

        head = self.head()
        return None if head is None else edited_source(self._storage.control, head.schema_hash)
