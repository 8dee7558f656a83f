"""The part of OmniGraph that executors need, as one zip that spark-submit can ship."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from omnigraph_core import __version__
from omnigraph_core.errors import StorageError

# So that the same code is the same file, whenever it is packed.
_LONG_AGO = (1980, 1, 1, 0, 0, 0)

NEEDED = ("pylance", "pyarrow", "numpy", "obstore", "ulid-py")
"""What has to be installed beside it."""


def default_name() -> str:
    return f"omnigraph-{__version__}-spark.zip"


def write_package(path: Path) -> int:
    """Write the zip under its name once it is whole; returns how many modules are in it."""
    root = Path(__file__).resolve().parent.parent
    modules = sorted(root.rglob("*.py"))
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            for module in modules:
                name = module.relative_to(root.parent).as_posix()
                archive.writestr(
                    zipfile.ZipInfo(name, _LONG_AGO), module.read_bytes(), compress_type=zipfile.ZIP_DEFLATED
                )
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
    return len(modules)
