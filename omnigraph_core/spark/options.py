"""The Spark options of a caller, and which of them cannot work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from omnigraph_core.errors import RefusedError, UsageError
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Location

if TYPE_CHECKING:
    from omnigraph_core.load.roles import Asked, Source
    from omnigraph_core.load.run import Load
    from omnigraph_core.settings import Settings

LOCAL_MASTER = "local[*]"
CLUSTER = "cluster"
_DEPLOY_MODES = ("client", CLUSTER)
_LOCAL = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\s*(?P<failures>\d+))?\])?")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# In local mode Spark itself would try every task once only.
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The options of `spark-submit` that a load passes on."""

    master: str = LOCAL_MASTER
    deploy_mode: str | None = None
    conf: tuple[str, ...] = ()
    """`K=V` each."""
    py_files: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    spark_home: str | None = None
    reader: str | None = None
    """The name of a format that Spark itself reads, in place of OmniGraph's readers."""

    def __post_init__(self) -> None:
        if self.deploy_mode not in (None, *_DEPLOY_MODES):
            raise UsageError(
                f"'{self.deploy_mode}' is not one of {', '.join(_DEPLOY_MODES)}", field="spark.deploy_mode"
            )
        for each in self.conf:
            name, separator, _ = each.partition("=")
            if not separator or not name.startswith("spark."):
                raise UsageError(f"'{each}' is not spark.NAME=VALUE", field="spark.conf")
        if self.master.startswith("local") and _LOCAL.fullmatch(self.master) is None:
            raise UsageError(
                f"'{self.master}' is not a Spark master; write local[*] or local[4]", field="spark.master"
            )
        if self.in_cluster and self.is_local:
            raise UsageError(
                f"'{CLUSTER}' needs a master that is a cluster, not {self.master}", field="spark.deploy_mode"
            )

    def source(self, load: Load, asked: Asked, settings: Settings) -> Source:
        """The source of a load that is read with these options."""
        from omnigraph_core.spark.load import spark_source

        return spark_source(load, settings, self, asked)

    @property
    def is_local(self) -> bool:
        """Does all of Spark run inside one process here?"""
        return _LOCAL.fullmatch(self.master) is not None

    @property
    def is_here(self) -> bool:
        """Can the executors see this machine's files?"""
        return self.is_local or urlsplit(self.master).hostname in _LOOPBACK

    @property
    def in_cluster(self) -> bool:
        return self.deploy_mode == CLUSTER

    @property
    def master_url(self) -> str:
        """The master as Spark gets it; a local one tries failed tasks again, as any other does."""
        found = _LOCAL.fullmatch(self.master)
        if found is None or found["failures"]:
            return self.master
        return f"local[{found['cores'] or 1},{_ATTEMPTS}]"


def refuse_out_of_reach(
    options: SparkOptions, graph: Location, inputs: Sequence[str], out: str | None = None
) -> None:
    """Raise for a graph, an input or an output that the job would look for on another machine."""
    if options.is_here and not options.in_cluster:
        return
    where = "the driver on the cluster" if options.in_cluster else f"the executors of {options.master}"
    if graph.is_local:
        raise RefusedError(
            f"{graph.uri} is on this machine's disk, which {where} cannot write to",
            hint="use a graph on s3://, or local[*] as the master",
        )
    for each in inputs:
        if not each.startswith("s3://"):
            raise RefusedError(
                f"input '{each}' is on this machine's disk, which {where} cannot read",
                hint="put the input on s3://, or use local[*] as the master",
            )
    if out is not None and not out.startswith("s3://"):
        raise RefusedError(
            f"'{out}' is on this machine's disk, which {where} cannot write to",
            hint="write to s3://, or use local[*] as the master",
        )
