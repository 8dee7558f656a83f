"""The names of `__init__.py`, for type checkers; `tests/tidy/test_library.py` keeps them equal."""

from omnigraph_core.api import init as init
from omnigraph_core.api import open as open  # noqa: A004
from omnigraph_core.change.mutate import Changed as Changed
from omnigraph_core.errors import BadDataError as BadDataError
from omnigraph_core.errors import BusyError as BusyError
from omnigraph_core.errors import ConflictError as ConflictError
from omnigraph_core.errors import ErrorKind as ErrorKind
from omnigraph_core.errors import InternalError as InternalError
from omnigraph_core.errors import LimitError as LimitError
from omnigraph_core.errors import NotFoundError as NotFoundError
from omnigraph_core.errors import OmnigraphError as OmnigraphError
from omnigraph_core.errors import PreconditionError as PreconditionError
from omnigraph_core.errors import RefusedError as RefusedError
from omnigraph_core.errors import StorageError as StorageError
from omnigraph_core.errors import UsageError as UsageError
from omnigraph_core.graph import Graph as Graph
from omnigraph_core.history.log import GraphCommit as GraphCommit
from omnigraph_core.lifecycle import GraphClosed as GraphClosed
from omnigraph_core.lifecycle import GraphReadOnly as GraphReadOnly
from omnigraph_core.lifecycle import OpenMode as OpenMode
from omnigraph_core.load.modes import LoadMode as LoadMode
from omnigraph_core.load.run import Loaded as Loaded
from omnigraph_core.merge.run import MergeConflicts as MergeConflicts
from omnigraph_core.merge.run import Merged as Merged
from omnigraph_core.progress import ProgressEvent as ProgressEvent
from omnigraph_core.query.prepared import PreparedQuery as PreparedQuery
from omnigraph_core.read.answer.result import QueryResult as QueryResult
from omnigraph_core.rules.violations import InvalidRecords as InvalidRecords
from omnigraph_core.schema.files import Format as Format
from omnigraph_core.settings import Settings as Settings
from omnigraph_core.settings import load_settings as load_settings
from omnigraph_core.spark.options import SparkOptions as SparkOptions
from omnigraph_core.view import View as View

__version__: str
__all__: list[str]
