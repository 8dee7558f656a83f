"""The start of every command: hand it to the server if that can be done, or return to do it here.

This runs before anything else is imported, so it uses only what the interpreter has loaded or has
built in: `_socket` and `_signal` instead of `socket` and `signal`, which take longer to import than
all of this takes to run. Going cold is always right; whatever is unusual goes cold.
"""

from __future__ import annotations

import _socket
import os
import sys

from omnigraph_cli.warm import place, wire
from omnigraph_cli.warm.likeness import Process, likeness

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import Any, NoReturn

    Handler = Callable[[int, Any], Any] | int | None
else:
    import _signal

# A server that does not answer by then is stopped or swamped, and the command starts cold.
ANSWER_TIMEOUT_S = 2.0
# How often to look after a command whose server says nothing: it may be stopped, and say nothing ever.
_LOOK_S = 1.0
_DESCRIPTORS_MAX = 64
_PEER_CREDENTIALS_BYTES = 12
_INTERRUPTED = 130
_FORWARDED = (
    _signal.SIGINT,
    _signal.SIGTERM,
    _signal.SIGHUP,
    _signal.SIGQUIT,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
    _signal.SIGALRM,
    _signal.SIGWINCH,
    _signal.SIGCONT,
)
_STOPPING = (_signal.SIGTSTP, _signal.SIGTTIN, _signal.SIGTTOU)
# They start another program, or manage servers, or are the quicker for it.
_COLD_COMMANDS = frozenset(("spark", "warm", "completion"))
# The library opens these files when it is imported.
_COLD_VARIABLES = ("LANCE_LOG_FILE", "LANCE_TRACING")
# For the new process to move files about in, and for those that it opens first.
_DESCRIPTORS_SPARE = 16

reason: str | None = None
"""Why this command started cold although a warm start was asked for."""
GAINS_NOTHING = "this command always starts cold"


class GoColdError(Exception):
    """This command has to start cold; `starts_server` if a server would have helped it."""

    def __init__(self, reason: str, *, starts_server: bool = False) -> None:
        super().__init__(reason)
        self.starts_server = starts_server


def run_warm() -> bool:
    """Run the command by the server and end as it ends, or return: whether to leave a server behind."""
    global reason
    if place.wanted() is None:
        return False
    try:
        connection, request, streams = _reach()
        pid, pid_descriptor = _hand_over(connection, request, streams)
    except GoColdError as cold:
        reason = str(cold)
        return cold.starts_server
    except ConnectionError:
        reason = "the server left"
        return True
    except TimeoutError:
        reason = "the server does not answer"
        return False
    except (OSError, KeyError, ValueError) as error:
        reason = str(error)
        return False
    return _accompany(connection, pid, pid_descriptor)


def _reach() -> tuple[_socket.socket, wire.Request, list[int]]:
    """A connection to a server of this process's kind."""
    _check_command(sys.argv[1:])
    process = Process()
    if process.is_traced:
        raise GoColdError("a debugger or tracer is attached")
    if process.is_confined:  # what else holds it (Landlock) cannot be seen
        raise GoColdError("it may not gain privileges, so it may be in a sandbox")
    descriptors = _own_descriptors()
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    os.stat(os.getcwd())  # a directory that was removed can still be opened
    like = likeness(process)
    try:
        directory = place.open_directory()
    except FileNotFoundError:
        raise GoColdError("no server is running", starts_server=True) from None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    connection.settimeout(ANSWER_TIMEOUT_S)
    try:
        connection.connect(place.inside(directory, place.server_name(like) + place.SOCKET))
    except (FileNotFoundError, ConnectionRefusedError):
        raise GoColdError("no server is running", starts_server=True) from None
    finally:
        os.close(directory)
    _check_peer(connection)
    if connection.recv(1) != wire.HELLO:
        raise GoColdError("the server left", starts_server=True)
    request = wire.Request(
        like,
        process.umask,
        process.ignored,
        process.blocked,
        descriptors,
        [os.fsencode(each) for each in sys.argv],
        [name + b"=" + value for name, value in os.environb.items()],
    )
    return connection, request, [here, *descriptors]


def _check_command(arguments: list[str]) -> None:
    # Options may stand before the command; then any argument may be its name.
    named = arguments if arguments and arguments[0].startswith("-") else arguments[:1]
    if not named or not _COLD_COMMANDS.isdisjoint(named):
        raise GoColdError(GAINS_NOTHING)
    if not {"-h", "--help", "--spark", "--show-completion"}.isdisjoint(arguments):
        raise GoColdError(GAINS_NOTHING)
    if any(name.startswith("_OMNIGRAPH") for name in os.environ):
        raise GoColdError("the shell asks for completions")
    for name in _COLD_VARIABLES:
        if name in os.environ:
            raise GoColdError(f"{name} is set")
    if "" in os.environ:
        raise GoColdError("a variable has no name")


def _own_descriptors() -> list[int]:
    """All that this process was given. A terminal must be one that it may read."""
    found = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    alive = [number for number in found if _is_open(number)]  # all but the one that listed them
    if alive[:3] != [0, 1, 2]:
        raise GoColdError("standard input, output or error is closed")
    if len(alive) > _DESCRIPTORS_MAX:
        raise GoColdError(f"more than {_DESCRIPTORS_MAX} files are open")
    if alive[-1] + len(alive) + _DESCRIPTORS_SPARE > os.sysconf("SC_OPEN_MAX"):
        raise GoColdError("it may open too few files")
    if os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp():
        raise GoColdError("it runs in the background of a terminal")
    return alive


def _is_open(number: int) -> bool:
    try:
        return os.get_inheritable(number) or number < 3
    except OSError:
        return False


def _check_peer(connection: _socket.socket) -> None:
    found = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEER_CREDENTIALS_BYTES)
    if int.from_bytes(found[4:8], sys.byteorder) != os.getuid():
        raise GoColdError("the server is another user's")


def _hand_over(connection: _socket.socket, request: wire.Request, streams: list[int]) -> tuple[int, int]:
    """Ask for a process, and let it go. Until that, it would end when this one does."""
    pid, pid_descriptor = ask(connection, request, streams)
    before = _forward_signals(pid_descriptor)
    try:
        connection.sendall(wire.GO)
    except OSError:
        for number, handler in before:
            _signal.signal(number, handler)
        raise
    return pid, pid_descriptor


def ask(connection: _socket.socket, request: wire.Request, streams: list[int]) -> tuple[int, int]:
    """The number of a new process that waits to be let go, and a descriptor of it."""
    body = request.encoded()
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, wire.packed(streams))]
    _send(connection, wire.head(wire.RUN, len(body)), rights)
    _send(connection, body, [])
    answered, ancillary, _, _ = connection.recvmsg(wire.ANSWER_BYTES, _socket.CMSG_SPACE(4))
    if answered[:1] != wire.WARM or not ancillary:
        why = connection.recv(1 << 12).decode() if answered[:1] == wire.COLD else ""
        raise GoColdError(why or "the server left", starts_server=not why)
    (pid_descriptor,) = wire.unpacked(ancillary[0][2])
    return int.from_bytes(answered[1:], "big", signed=True), pid_descriptor


def _send(connection: _socket.socket, data: bytes, rights: list[tuple[int, int, bytes]]) -> None:
    sent = connection.sendmsg([data], rights)
    connection.sendall(data[sent:])


def _forward_signals(pid_descriptor: int) -> list[tuple[int, Handler]]:
    """What is sent to this process is meant for the command. What it ignores, the command ignores.

    Returns the handlers that were there before.
    """

    def forward(number: int, _: object) -> None:
        try:  # noqa: SIM105
            _signal.pidfd_send_signal(pid_descriptor, number)
        except ProcessLookupError:
            pass

    def stop(number: int, _: object) -> None:
        """Ctrl-Z. The command has no terminal that would let it stop by itself.

        Where nobody could let this process go on, the kernel does not stop it, and the command goes on too.
        """
        forward(_signal.SIGSTOP, None)
        _signal.signal(number, _signal.SIG_DFL)
        os.kill(os.getpid(), number)
        _signal.signal(number, stop)
        forward(_signal.SIGCONT, None)

    before: list[tuple[int, Handler]] = []
    for numbers, handler in ((_FORWARDED, forward), (_STOPPING, stop)):
        for number in numbers:
            if _signal.getsignal(number) != _signal.SIG_IGN:
                before.append((number, _signal.signal(number, handler)))
    return before


def _accompany(connection: _socket.socket, pid: int, pid_descriptor: int) -> NoReturn:
    """Wait for the command, and end as it did.

    The server says how that was. One that is stopped cannot, and nobody else has waited for the
    command then, so the kernel still tells.
    """
    connection.settimeout(_LOOK_S)
    status = None
    while status is None:
        try:
            answered = connection.recv(wire.ANSWER_BYTES)
        except TimeoutError:
            status = _left_by(pid, pid_descriptor)
            continue
        except OSError:
            answered = b""
        if answered[:1] != wire.ENDED:  # the server was killed, and the command with it
            _die(_signal.SIGKILL)
        status = int.from_bytes(answered[1:], "big", signed=True)
    if os.WIFSIGNALED(status):
        _die(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _left_by(pid: int, pid_descriptor: int) -> int | None:
    """How a command ended that nobody has waited for yet; None while it runs, or if that cannot be seen."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *facts = file.read().rpartition(b") ")[2].split()
        with open(f"/proc/self/fdinfo/{pid_descriptor}", "rb") as file:
            # A number that another process has by now is no longer this descriptor's.
            is_same = b"Pid:\t%d\n" % pid in file.read()
    except OSError:
        return None
    return int(facts[-1]) if state == b"Z" and is_same else None


def _die(number: int) -> NoReturn:
    if number not in (_signal.SIGKILL, _signal.SIGSTOP):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    os._exit(128 + number)
