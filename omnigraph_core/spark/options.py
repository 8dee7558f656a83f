"""What a caller says about Spark, and what of it cannot work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from omnigraph_core.errors import RefusedError, UsageError
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Location

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
            raise UsageError(f"--deploy-mode: '{self.deploy_mode}' is none of {', '.join(_DEPLOY_MODES)}")
        for each in self.conf:
            name, separator, _ = each.partition("=")
            if not separator or not name.startswith("spark."):
                raise UsageError(f"--spark-conf: '{each}' is not spark.NAME=VALUE")
        if self.master.startswith("local") and _LOCAL.fullmatch(self.master) is None:
            raise UsageError(
                f"--master: '{self.master}' is not understood", hint="write local[*] or local[4]"
            )
        if self.in_cluster and self.is_local:
            raise UsageError("--deploy-mode cluster needs a --master that is a cluster")

    @property
    def is_local(self) -> bool:
        """Does all of Spark run inside one process here?"""
        return _LOCAL.fullmatch(self.master) is not None

    @property
    def is_here(self) -> bool:
        """Do the executors see this machine's files?"""
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


def refuse_out_of_reach(options: SparkOptions, graph: Location, inputs: Sequence[str]) -> None:
    """Raise for a graph or an input that the job would look for on another machine."""
    if options.is_here and not options.in_cluster:
        return
    where = "the driver on the cluster" if options.in_cluster else f"the executors of {options.master}"
    if graph.is_local:
        raise RefusedError(
            f"{graph.uri} is on this machine's disk, where {where} cannot write",
            hint="use a graph on s3://, or --master local[*]",
        )
    for each in inputs:
        if not each.startswith("s3://"):
            raise RefusedError(
                f"input '{each}' is on this machine's disk, where {where} cannot read it",
                hint="put the input on s3://, or use --master local[*]",
            )
