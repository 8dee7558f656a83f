"""Arrow and NumPy without what they make for readers of documentation, for commands that start cold.

Importing `pyarrow.compute` makes a function, its signature and its documentation for each of some 300
kernels; importing `numpy` writes documentation into the types of its C code. Nobody reads either in a
command, and together they are a tenth of a short one. Here a function of `pyarrow.compute` is made when
it is first asked for. Releases that are built differently are imported as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

_COMPUTE = "pyarrow.compute"
_NUMPY_DOCS = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
_ARROW_DOCS = "pyarrow.vendored.docscrape"

# Functions that have other names than their kernels.
_KERNELS = {"and_": "and", "or_": "or", "utf8_zfill": "utf8_zero_fill"}

# How the module makes a function of a kernel, and finds its options.
_MAKERS = ("_make_generic_wrapper", "_get_options_class")

# While it is imported, the module gives this function that second name.
_NAMED_TWICE = ("utf8_zero_fill", "utf8_zfill")


def prefer() -> None:
    """From now on, in this process. What has been imported already stays as it is."""
    for name in _NUMPY_DOCS:
        sys.modules.setdefault(name, ModuleType(name))
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds `pyarrow.compute` as others do, and changes how it is run."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _COMPUTE:
            return None
        sys.meta_path.remove(self)
        found = (each.find_spec(name, path, target) for each in sys.meta_path)
        spec = next((each for each in found if each is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: _run(module, run)  # type: ignore[method-assign]
        return spec


def _run(module: ModuleType, run: Callable[[ModuleType], None]) -> None:
    from pyarrow import _compute

    registry, content, known = _compute.function_registry, dict(vars(module)), set(sys.modules)
    sys.modules.setdefault(_ARROW_DOCS, ModuleType(_ARROW_DOCS))
    vars(module).update(dict.fromkeys(_NAMED_TWICE))
    _compute.function_registry = _NoKernels
    try:
        run(module)
        for name in _NAMED_TWICE:
            delattr(module, name)
        makers = [getattr(module, name) for name in _MAKERS]
        vars(module).update(
            function_registry=registry, __getattr__=partial(_made, module, registry(), *makers)
        )
    except Exception:
        for name in set(sys.modules) - known:
            del sys.modules[name]
        vars(module).clear()
        vars(module).update(content)
        _compute.function_registry = registry
        run(module)
    finally:
        _compute.function_registry = registry


class _NoKernels:
    """Arrow's kernels, none of which is listed."""

    def list_functions(self) -> Sequence[str]:
        return ()


def _made(
    module: ModuleType,
    registry: Any,
    wrapped: Callable[..., Any],
    options_of: Callable[..., Any],
    name: str,
) -> Any:
    """What the module itself would have made, but for the documentation."""
    try:
        kernel = registry.get_function(_KERNELS.get(name, name))
    except KeyError:
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}") from None
    function = wrapped(name, kernel, options_of(kernel), kernel.arity)
    setattr(module, name, function)
    return function
