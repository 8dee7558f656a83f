"""The background process: it has imported everything, opens nothing, and forks once per command.

It has a single thread, which is what makes a fork safe; it counts them before it listens and before
every fork, and leaves if a library has started one. It reads no graph and no config file, keeps
nothing of one command for the next, and holds no variables but those that commands must share with
it. It leaves when nothing was asked of it for a while, when any file it has loaded has changed, when
its socket is gone, and when it is told to.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph_cli.limits import WARM_CHILDREN_MAX, WARM_GLANCE_S
from omnigraph_cli.warm import child, owning, place, wire
from omnigraph_cli.warm.likeness import Process, likeness, spaces
from omnigraph_cli.warm.preloading import LoadedFiles, import_commands, preload, threads

_ALREADY_RUNNING, _USELESS = 3, 4
_DESCRIPTORS_MAX = 128
_WAIT_FOR_DESCRIPTORS_S = 0.1


@dataclass(slots=True)
class Client:
    """A connection: first what has come of its request, then the process that it waits for."""

    connection: socket.socket
    peer: int
    head: bytearray = field(default_factory=lambda: bytearray(wire.HEAD_BYTES))
    body: bytearray | None = None
    filled: int = 0
    descriptors: list[int] = field(default_factory=list)
    pid: int | None = None

    @property
    def receiving(self) -> bytearray:
        return self.head if self.body is None else self.body

    def receive(self) -> int:
        """How much has come. It is kept in one place only, for it may hold secrets."""
        room = memoryview(self.receiving)[self.filled :]
        size = socket.CMSG_SPACE(4 * _DESCRIPTORS_MAX)
        count, ancillary, _, _ = self.connection.recvmsg_into([room], size, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.descriptors += wire.unpacked(data)
        self.filled += count
        return count

    def forget(self) -> None:
        """Close its files and wipe its variables: no process forked for another client has them."""
        while self.descriptors:
            os.close(self.descriptors.pop())
        if self.body is not None:
            self.body[:] = bytes(len(self.body))


class Server:
    """One socket, and the processes forked for those who connected to it."""

    def __init__(
        self,
        name: str,
        like: bytes,
        idle_s: float,
        lock: int,
        loaded: LoadedFiles,
        program: child.Program = child.run_command,
    ) -> None:
        self._name, self._like, self._idle_s, self._lock = name, like, idle_s, lock
        self._loaded, self._program = loaded, program
        self._facts = Process().facts, spaces()
        self._started = self._last = time.monotonic()
        self._served = 0
        self._is_leaving = False
        self._clients: dict[int, Client] = {}
        self._by_pid: dict[int, Client] = {}
        self._directory = place.open_directory(make=True)
        self._listener = self._listen()
        self._address = os.lstat(place.inside(self._directory, name + place.SOCKET))
        self._woken, self._wakes = socket.socketpair()
        for end in (self._woken, self._wakes):
            end.setblocking(False)
        _handle_signals(self._wakes.fileno())
        self._poll = select.epoll()
        for each in (self._listener, self._woken):
            self._poll.register(each, select.EPOLLIN)

    def _listen(self) -> socket.socket:
        """On our name, which the lock makes ours: a socket that is there was left by a dead server."""
        path = place.inside(self._directory, self._name + place.SOCKET)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.bind(path)
        listener.listen(WARM_CHILDREN_MAX)
        return listener

    def serve(self) -> Callable[[], None]:
        """Fork for each request. Returns in the forks, with what they are to do, and at the end."""
        while not (self._is_leaving and not self._by_pid):
            for descriptor, _ in self._poll.poll(min(WARM_GLANCE_S, self._idle_s + 0.1)):
                if descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor == self._woken.fileno():
                    self._wake_up()
                elif (client := self._clients.get(descriptor)) is not None:
                    command = self._hear(client)
                    if command is not None:
                        return command
            self._look_around()
        return lambda: None

    # ---- connections ----

    def _accept(self) -> None:
        if self._is_leaving:  # the listener was closed a moment ago
            return
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:  # no descriptor is left, or no memory; it would be tried without end
            time.sleep(_WAIT_FOR_DESCRIPTORS_S)
            return
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        peer, user, _ = struct.unpack("3i", credentials)
        if user != os.getuid():
            connection.close()
            return
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.send(wire.HELLO)
        self._clients[connection.fileno()] = Client(connection, peer)
        self._poll.register(connection, select.EPOLLIN | select.EPOLLRDHUP)

    def _hear(self, client: Client) -> Callable[[], None] | None:
        if client.pid is not None:  # its end is all that is listened for: the client is gone
            self._drop(client)
            return None
        try:
            count = client.receive()
        except BlockingIOError:
            return None
        except OSError:
            count = 0
        if not count:
            self._drop(client)
            return None
        return self._understand(client) if client.filled == len(client.receiving) else None

    def _understand(self, client: Client) -> Callable[[], None] | None:
        """The head of a request, or all of it."""
        if client.body is not None:
            self._last = time.monotonic()
            return self._run(client, client.body)
        kind, length = client.head[:1], int.from_bytes(client.head[1:], "big")
        if kind == wire.RUN and 0 < length <= wire.REQUEST_BYTES_MAX:
            client.body, client.filled = bytearray(length), 0
            return None
        if kind == wire.STATUS:
            self._say(client, json.dumps(self._status()).encode())
        elif kind == wire.STOP:
            self._leave()
            self._say(client, json.dumps(self._status()).encode())
        self._drop(client)
        return None

    def _say(self, client: Client, data: bytes, descriptors: tuple[int, ...] = ()) -> None:
        """A few bytes to a socket with an empty buffer; whoever is gone does not matter."""
        with contextlib.suppress(OSError):
            socket.send_fds(client.connection, [data], descriptors)

    def _drop(self, client: Client) -> None:
        """The client is gone or answered; the process that it waited for dies with it."""
        if client.pid is not None:
            os.kill(client.pid, signal.SIGKILL)  # not reaped yet, so the number is still its
        self._poll.unregister(client.connection)
        del self._clients[client.connection.fileno()]
        client.connection.close()
        client.forget()

    # ---- commands ----

    def _run(self, client: Client, body: bytearray) -> Callable[[], None] | None:
        refusal = self._refusal(client, body)
        if refusal is not None:
            self._refuse(client, refusal)
            return None
        before = child.set_mask(signal.SIG_BLOCK, child.ALL_SIGNALS)
        own = os.getpid()
        try:
            pid = _fork()
        except OSError as error:
            child.set_mask(signal.SIG_SETMASK, before)
            self._refuse(client, f"the server cannot fork: {error.strerror}")
            return None
        if pid == 0:
            return self._become(client, bytes(body), own)
        child.set_mask(signal.SIG_SETMASK, before)
        client.pid = pid
        self._by_pid[pid] = client
        client.forget()
        self._poll.modify(client.connection, select.EPOLLRDHUP)  # GO is for the process to read
        if self._loaded.have_changed():  # while the process makes itself ready, which takes as long
            self._leave()
            self._refuse(client, "the program has changed since the server started")
            return None
        try:
            descriptor = os.pidfd_open(pid)
        except OSError as error:
            self._refuse(client, f"the server has no descriptor left: {error.strerror}")
            return None
        self._served += 1
        self._say(client, wire.answer(wire.WARM, pid), (descriptor,))
        os.close(descriptor)
        return None

    def _refuse(self, client: Client, refusal: str) -> None:
        self._say(client, wire.answer(wire.COLD) + refusal.encode())
        self._drop(client)

    def _refusal(self, client: Client, body: bytearray) -> str | None:
        """Why a request is refused."""
        try:
            like, descriptors = wire.claims(body)
        except (ValueError, IndexError):
            return "the server does not understand the request"
        if like != self._like or not self._is_alike(client.peer):
            return "the server is of another kind"
        if descriptors + 1 != len(client.descriptors):
            return "not all files arrived"
        if len(self._by_pid) >= WARM_CHILDREN_MAX:
            return f"{WARM_CHILDREN_MAX} commands are running"
        if threads() != 1:
            self._leave()
            return "the server has more than one thread"
        return None

    def _is_alike(self, peer: int) -> bool:
        """Whether the other side has no fewer and no more privileges, whatever it says of itself."""
        try:
            return (Process(peer).facts, spaces(peer)) == self._facts
        except (OSError, KeyError, ValueError):
            return False

    def _become(self, client: Client, body: bytes, server: int) -> Callable[[], None]:
        """In the fork: let go of everything that is the server's, and be the command."""
        for each in self._clients.values():
            if each is not client:
                each.connection.close()
                each.forget()
        for own in (self._listener, self._woken, self._wakes, self._poll):
            own.close()
        os.close(self._directory)
        if not self._is_leaving:
            os.close(self._lock)
        signal.set_wakeup_fd(-1)
        client.connection.setblocking(True)
        request = child.become(body, client.descriptors, client.connection, server)
        return lambda: child.run(request, self._program)

    def _wake_up(self) -> None:
        """A signal came: a process has ended, or somebody asks this one to."""
        with contextlib.suppress(BlockingIOError):
            if signal.SIGTERM in self._woken.recv(1 << 10):
                self._leave()
        self._reap()

    def _reap(self) -> None:
        while self._by_pid:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._last = time.monotonic()
            client = self._by_pid.pop(pid)
            client.pid = None
            if self._clients.get(client.connection.fileno()) is client:
                self._say(client, wire.answer(wire.ENDED, status))
                self._drop(client)

    # ---- leaving ----

    def _look_around(self) -> None:
        is_idle = not self._by_pid and time.monotonic() - self._last > self._idle_s
        if is_idle or not self._is_reachable():
            self._leave()

    def _is_reachable(self) -> bool:
        try:
            found = os.lstat(place.inside(self._directory, self._name + place.SOCKET))
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self._address.st_dev, self._address.st_ino)

    def _leave(self) -> None:
        """Take no more commands, and go when the last one has ended."""
        if self._is_leaving:
            return
        self._is_leaving = True
        if self._is_reachable():
            with contextlib.suppress(OSError):
                os.unlink(place.inside(self._directory, self._name + place.SOCKET))
        self._poll.unregister(self._listener)
        self._listener.close()
        owning.disown(self._directory, self._name, self._lock)

    def _status(self) -> dict[str, object]:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[1])
        return {
            "pid": os.getpid(),
            "age_s": round(time.monotonic() - self._started, 1),
            "idle_s": self._idle_s,
            "served": self._served,
            "running": len(self._by_pid),
            "memory_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
            "stopping": self._is_leaving,
        }


def _handle_signals(wakes: int) -> None:
    """The end of a process and the wish to end this one are read from a socket; a terminal's are not ours."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(wakes)


def _fork() -> int:
    """Lance warns of threads that a fork would lose. The server has none, and checks that itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def _give_up(name: str, reason: str) -> None:
    """A server of this kind cannot serve. Say so, or every command would start another."""
    directory = place.open_directory(make=True)
    path = place.inside(directory, name + place.USELESS)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    os.write(descriptor, reason.encode())
    os._exit(_USELESS)


def _close_files() -> None:
    """What the shell had opened beside the standard streams, whatever its number."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.close(int(name))


def main() -> None:
    """`NAME IDLE_SECONDS`, started by `starting.start_server`."""
    name, idle_s = sys.argv[1], float(sys.argv[2])
    _close_files()
    os.umask(0o077)
    os.chdir("/")
    directory = place.open_directory(make=True)
    lock = owning.own(directory, name)
    os.close(directory)
    if lock is None:
        os._exit(_ALREADY_RUNNING)
    try:
        like = likeness(Process())
        if place.server_name(like) != name:
            _give_up(name, "a server would not be of this command's kind")
        preload(import_commands)
        server = Server(name, like, idle_s, lock, LoadedFiles(sys.modules.values()))
    except Exception as error:
        _give_up(name, f"a server cannot start: {error}")
        raise
    server.serve()()
