"""What two processes must have in common for one to stand in for the other, as one text.

A command that runs warm is a fork of the server, so whatever a process has from its birth, it has
from the server: users, capabilities, namespaces, limits, priority, and the variables that are read
at an import or before. The client and the server each write down what they are. Equal texts, and
a fork of the server is what the client would have become; otherwise the command starts cold, and
the server that it leaves behind is one for its own kind.

Imported before it is known whether anything else will be: `os`, `sys` and nothing more.
"""

from __future__ import annotations

import os
import sys

from omnigraph_core import __version__

# Read when the interpreter or a library starts, or by the loader before that.
_VARIABLES = (
    "PYTHON",
    "LD_",
    "LC_",
    "LANG",
    "LANCE_",
    "ARROW_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "JE_",
    "MALLOC_",
    "GLIBC_",
    "RUST_",
    "TOKIO_",
    "RAYON_",
    "NUMPY_",
    "NPY_",
    "GOTO_",
    "GFORTRAN_",
    "OPENSSL_",
    "SSL_CERT_",
    "SSLKEYLOGFILE",
    "TYPER_",
    "PYARROW_",
)
_FACTS = frozenset(
    (
        b"Uid",
        b"Gid",
        b"Groups",
        b"CapInh",
        b"CapPrm",
        b"CapEff",
        b"CapBnd",
        b"CapAmb",
        b"NoNewPrivs",
        b"Seccomp",
        b"Seccomp_filters",
        b"Cpus_allowed",
        b"Mems_allowed",
    )
)
# `python -u`, which no flag tells; taken down at once, because commands change their streams.
_WRITES_THROUGH = bool(getattr(sys.__stdout__, "write_through", False))
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_FILES = ("cgroup", "limits", "oom_score_adj", "personality", "attr/current")


class Process:
    """What `/proc` says of a process, by default this one."""

    __slots__ = ("blocked", "facts", "ignored", "is_confined", "is_traced", "umask")

    def __init__(self, pid: int | str = "self") -> None:
        found = dict(line.partition(b":")[::2] for line in _read("status", pid).splitlines())
        self.facts = b"\n".join(name + found.get(name, b"") for name in sorted(_FACTS))
        self.is_traced = found[b"TracerPid"].strip() != b"0"
        self.is_confined = found[b"NoNewPrivs"].strip() != b"0"
        self.umask = int(found[b"Umask"], 8)
        self.blocked = int(found[b"SigBlk"], 16)
        self.ignored = int(found[b"SigIgn"], 16)


def inherited_variables() -> dict[str, str]:
    """The variables that a server starts with: those it is compared by, and no secrets."""
    return {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}


def likeness(process: Process) -> bytes:
    """Everything that is compared. Raises OSError or KeyError where `/proc` does not say it."""
    root = os.stat("/")
    code = (
        sys.version,
        sys.executable,
        sys.prefix,
        sys.flags,
        _WRITES_THROUGH,
        sys.warnoptions,
        sorted(sys._xoptions.items()),
        getattr(sys.modules.get("site"), "ENABLE_USER_SITE", None) and sys.modules["site"].USER_SITE,
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
        __version__,
    )
    scheduling = (
        os.getpriority(os.PRIO_PROCESS, 0),
        os.sched_getscheduler(0),
        os.sched_getparam(0).sched_priority,
    )
    texts = (code, sorted(inherited_variables().items()), scheduling, spaces(), (root.st_dev, root.st_ino))
    files = [_read(name) for name in _FILES if _exists(name)]
    whole = b"\n".join((*(ascii(text).encode() for text in texts), process.facts, *files))
    return whole.replace(b"\0", b" ")


def spaces(pid: int | str = "self") -> list[str]:
    """The namespaces that a process is in."""
    return [os.readlink(f"/proc/{pid}/ns/{name}") for name in _NAMESPACES if _exists(f"ns/{name}")]


def _exists(name: str) -> bool:
    return os.access(f"/proc/self/{name}", os.R_OK)


def _read(name: str, pid: int | str = "self") -> bytes:
    descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # attr/current, where no security module is loaded
        return b""
    finally:
        os.close(descriptor)
