"""Where servers are found: sockets in a directory that only its user can enter.

The directory is opened once, checked by its descriptor, and used through it: what was checked is
what is used, and a long path does not matter (a socket's address has room for 107 bytes).
Imports `os` and nothing more, like everything the client needs.
"""

from __future__ import annotations

import os
import stat
from binascii import crc32

SOCKET, LOCK, USELESS = ".sock", ".lock", ".cold"
LAST_COLD = "last-cold"
_OFF = ("", "0", "off", "no", "false")


def wanted() -> str | None:
    """What OMNIGRAPH_WARM or the user's config file says, None if warm starts are off.

    A glance at the file: `settings.py` reads it properly. If the two differ, the command is right
    all the same; it only starts faster or slower than it might.
    """
    text = os.environ.get("OMNIGRAPH_WARM")
    if text is None:
        text = _configured() or ""
    return None if text.strip().lower() in _OFF else text


def _configured() -> str | None:
    home = os.environ.get("XDG_CONFIG_HOME") or os.environ.get("HOME", "") + "/.config"
    try:
        with open(f"{home}/omnigraph/config.toml", encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 16).splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition("=")
        if line.lstrip().startswith("["):
            return None
        if name.strip() == "warm":
            return value.partition("#")[0].strip().strip("\"'")
    return None


def directory() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return f"{runtime}/omnigraph" if runtime else f"/tmp/omnigraph-{os.getuid()}"


def open_directory(*, make: bool = False) -> int:
    """A descriptor of the directory. OSError if it is missing, a link, another user's, or open to others."""
    path = directory()
    if make:
        try:  # noqa: SIM105
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        os.close(descriptor)
        raise PermissionError(1, "not this user's own directory", path)
    return descriptor


def inside(descriptor: int, name: str) -> str:
    """A short path to a name in the directory."""
    return f"/proc/self/fd/{descriptor}/{name}"


def server_name(likeness: bytes) -> str:
    """Servers of different kinds have different names. Equal names are no proof: the server compares all."""
    return f"{crc32(likeness):08x}"
