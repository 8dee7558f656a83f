"""What a server does before it listens: it imports everything that a command might need, in one thread."""

from __future__ import annotations

import gc
import os
import pkgutil
from collections.abc import Callable, Iterable
from importlib import import_module
from operator import ne
from types import ModuleType

from omnigraph_cli import process
from omnigraph_cli.warm.pages import join_pages

# OpenBLAS and Arrow's allocator would start a thread when they are imported.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
_LIBRARIES = (
    "lance",
    "numpy.ma",
    "pyarrow.parquet",
    "pyarrow.csv",
    "pyarrow.json",
    "rich.table",
    "tomllib",
)
# Bytecode is specialised when it runs for the eighth time.
_REHEARSALS = 8

Stamp = tuple[int, int, int]


def preload(import_all: Callable[[], None]) -> None:
    """Raises RuntimeError where a fork would not be safe."""
    process.register_end()
    os.environ.update(_ONE_THREAD)
    import_all()
    gc.collect()
    gc.freeze()
    join_pages()
    if threads() != 1:
        raise RuntimeError("a library starts a thread when it is imported")


def import_commands() -> None:
    """What any command might import, except for Spark's side, which starts other programs."""
    for name in ("omnigraph_core", "omnigraph_cli"):
        import_package(name, ("omnigraph_core.spark", "omnigraph_cli.__main__"))
    for name in _LIBRARIES:
        import_module(name)
    from omnigraph_cli.tree import build_all
    from omnigraph_cli.warm.rehearsal import rehearse
    from omnigraph_core.records import compile_all

    build_all()
    compile_all()
    for _ in range(_REHEARSALS):
        rehearse()


def import_package(name: str, left_out: tuple[str, ...]) -> None:
    package = import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not module.name.startswith(left_out):
            import_module(module.name)


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


class LoadedFiles:
    """Every file that a module came from, as it was when it was loaded.

    The names are copies. A module's own would each be on a page of its own, and looking at it, which
    counts a reference, would copy that page whenever a fork is alive.
    """

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        found = {getattr(module, "__file__", None) for module in tuple(modules)}
        self._names = [os.fsencode(name) for name in found if name is not None]
        self._stamps = [_stamp(name) for name in self._names]

    def have_changed(self) -> bool:
        return any(map(ne, self._stamps, map(_stamp, self._names)))


def _stamp(file: bytes) -> Stamp | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
