"""Starting a server in the background, at the end of a command that would have been quicker with one."""

from __future__ import annotations

import os
import sys

from omnigraph_cli.limits import WARM_SERVERS_MAX
from omnigraph_cli.warm import owning, place
from omnigraph_cli.warm.likeness import Process, inherited_variables, likeness
from omnigraph_core.settings import load_settings

# Not `-m`: that would look for modules in the working directory.
_PROGRAM = (
    "import sys; sys.flags.safe_path or sys.path.pop(0); from omnigraph_cli.warm.server import main; main()"
)

# Where the server finds its directory, and where Python finds the user's own packages.
_PLACES = ("XDG_RUNTIME_DIR", "HOME")


def start_server() -> None:
    """Start one of this process's kind, unless it could not serve or there are enough.

    It has none of this process's files, streams, directory or secrets.
    """
    idle_s = load_settings().warm_idle_s
    if idle_s is None:
        return
    name = place.server_name(likeness(Process()))
    directory = place.open_directory(make=True)
    if owning.sweep(directory) >= WARM_SERVERS_MAX or owning.is_useless(directory, name):
        return
    environment = _given(inherited_variables())
    for variable in _PLACES:
        if variable in os.environ:
            environment[variable] = os.environ[variable]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", _PROGRAM, name, str(idle_s)],
        environment,
        file_actions=nowhere,
        setsid=True,
        setsigmask=[],
        setsigdef=range(1, 32),
    )


def _given(variables: dict[str, str]) -> dict[str, str]:
    """Without those that Python has set itself: LC_CTYPE where there is no locale, as the server's will."""
    with open("/proc/self/environ", "rb") as file:
        names = {os.fsdecode(each.partition(b"=")[0]) for each in file.read().split(b"\0")}
    return {name: value for name, value in variables.items() if name in names}


def note(reason: str) -> None:
    """Keep why a command started cold, for `omnigraph warm status`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    directory = place.open_directory(make=True)
    descriptor = os.open(place.inside(directory, place.LAST_COLD), flags, 0o600)
    os.write(descriptor, reason.encode("utf-8", "replace"))
    os.close(descriptor)
    os.close(directory)
