"""OmniGraph as a library: `import omnigraph_core as og`, then `og.open(path)` or `og.init(path, schema)`.

What stands in `__all__` is public. It is imported when it is first used, so that importing this
package costs nothing; `__init__.pyi` tells type checkers the same names. docs/python.md explains them.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_EXPORTS = {
    "api": ("init", "open"),
    "change.mutate": ("Changed",),
    "errors": (
        "BadDataError",
        "BusyError",
        "ConflictError",
        "ErrorKind",
        "InternalError",
        "LimitError",
        "NotFoundError",
        "OmnigraphError",
        "PreconditionError",
        "RefusedError",
        "StorageError",
        "UsageError",
    ),
    "graph": ("Graph",),
    "history.log": ("GraphCommit",),
    "load.modes": ("LoadMode",),
    "load.run": ("Loaded",),
    "merge.run": ("MergeConflicts", "Merged"),
    "lifecycle": ("GraphClosed", "GraphReadOnly", "OpenMode"),
    "progress": ("ProgressEvent",),
    "query.prepared": ("PreparedQuery",),
    "read.answer.result": ("QueryResult",),
    "rules.violations": ("InvalidRecords",),
    "schema.files": ("Format",),
    "settings": ("Settings", "load_settings"),
    "spark.options": ("SparkOptions",),
    "view": ("View",),
}
_HOMES = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'omnigraph_core' has no attribute '{name}'")
    value = getattr(import_module(f"omnigraph_core.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
