"""Processes that start warm: each is a fork of one that has imported everything and done nothing.

Starting Python and importing Lance takes 0.35 seconds of CPU, a fork 0.01. Apart from its start-up,
a warm process is a process like any other: it has a pid, an environment, a directory and streams
of its own, it is this process's child, it can be stopped and killed, and it shares no memory with
anybody. What is about start-up (imports, variables that Python itself reads, the script that pip
installs) or about the program that starts it (a shell, strace) needs `subprocess`.

`Popen` and `run` are those of `subprocess` for three kinds of command: `omnigraph …`,
`python -m MODULE …` and `python -c PROGRAM …`.

Why forking is sound here: it is done by a server (`python -m tests.support.warm`) that has a single
thread, which it checks before each fork. Lance, Arrow and obstore start theirs at the first call;
the two that start at an import are told not to.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import gc
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from tests.support.processes import OMNIGRAPH, REPOSITORY, clean_environment

_LENGTH = struct.Struct("!Q")
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER, _ANYBODY = 0x59616D61, 2**64 - 1
# OpenBLAS and Arrow's allocator would start a thread when they are imported.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


# ---- the test's side ----


class Popen(subprocess.Popen[Any]):
    """A `subprocess.Popen` whose process is forked by the server.

    Only the one step is replaced that makes the process; pipes, waiting and signals are the original's.
    """

    stops_first = False

    def _execute_child(  # type: ignore[override]
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: Any,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        startupinfo: Any,
        creationflags: Any,
        shell: Any,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        *_: Any,
    ) -> None:
        assert preexec_fn is None
        assert not any((pass_fds, shell, executable))
        theirs = (p2cread, c2pwrite, errwrite)
        streams = [number if given == -1 else given for number, given in enumerate(theirs)]
        request = {
            "command": [os.fspath(each) for each in args],
            "cwd": os.fspath(cwd or os.getcwd()),
            "environment": dict(os.environ if env is None else env),
            "stops_first": self.stops_first,
        }
        try:
            self.pid = _server().start(request, streams)
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


class Stopped(Popen):
    """One that stops before its first line, and may be traced by anybody."""

    stops_first = True

    def until_stopped(self) -> None:
        found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert found is not None
        assert found.si_code == os.CLD_STOPPED


def can_start(command: Sequence[str | os.PathLike[str]]) -> bool:
    first, *rest = map(os.fspath, command)
    return first == str(OMNIGRAPH) or (first == sys.executable and rest[:1] in (["-m"], ["-c"]))


def run(
    command: Any,
    *,
    input: Any = None,  # noqa: A002
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run`, warm."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Popen(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
        done = subprocess.CompletedProcess(process.args, process.wait(), out, err)
    if check:
        done.check_returncode()
    return done


class _Server:
    """The connection to a server, which ends when its last client does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def start(self, request: dict[str, Any], streams: list[int]) -> int:
        """The new process's pid. Its parent is gone when the answer comes, and it becomes our child."""
        _adopt_orphans(True)
        try:
            _send(self._connection, request, streams)
            answer: dict[str, int] = _receive(self._connection)[0]
        finally:
            _adopt_orphans(False)
        return answer["pid"]


_the_server: _Server | None = None


def _server() -> _Server:
    global _the_server
    if _the_server is None:
        ours, theirs = socket.socketpair()
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm", str(theirs.fileno())],
            cwd=REPOSITORY,
            env=clean_environment(**_ONE_THREAD),
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        _the_server = _Server(ours)
    return _the_server


def serve_from_here() -> None:
    """Let a fork of this process be the server for what it starts: with all that was changed in it."""
    global _the_server
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        _serve(theirs)()
        sys.exit()
    theirs.close()
    _the_server = _Server(ours)


def _adopt_orphans(wanted: bool) -> None:
    """Only while a process is started: orphans of other tests are none of our business."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(wanted))


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


# ---- between the two ----


def _send(connection: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    body = json.dumps(message).encode()
    if descriptors:
        socket.send_fds(connection, [_LENGTH.pack(len(body))], descriptors)
        connection.sendall(body)
    else:
        connection.sendall(_LENGTH.pack(len(body)) + body)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A message and the descriptors that came with it; the other side's end is an EOFError."""
    head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 3)
    if len(head) < _LENGTH.size:
        raise EOFError
    (missing,) = _LENGTH.unpack(head)
    body = bytearray()
    while len(body) < missing:
        chunk = connection.recv(missing - len(body))
        if not chunk:
            raise EOFError
        body += chunk
    return json.loads(body), list(descriptors)


# ---- the server's side ----


def _serve(connection: socket.socket) -> Callable[[], None]:
    """Fork for each request. Returns in the forks, with what they are to do, and at the end."""
    while True:
        try:
            request, streams = _receive(connection)
        except (EOFError, ConnectionError, KeyboardInterrupt):
            return lambda: None
        assert len(os.listdir("/proc/self/task")) == 1, "a thread would not survive the fork"
        theirs, ours = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                connection.close()
                return _prepared(request, streams, [theirs, ours])
            os.write(ours, array.array("q", [pid]).tobytes())
            os._exit(0)
        os.close(ours)
        os.waitpid(between, 0)
        pid = array.array("q", os.read(theirs, 8))[0]
        for descriptor in (theirs, *streams):
            os.close(descriptor)
        _send(connection, {"pid": pid})


def _prepared(request: dict[str, Any], streams: list[int], unneeded: list[int]) -> Callable[[], None]:
    """Become what `subprocess` would have started, up to its first line of Python."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in (*streams, *unneeded):
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.stdin = sys.__stdin__ = _stream(0, "r", "strict")
    sys.stdout = sys.__stdout__ = _stream(1, "w", "strict")
    sys.stderr = sys.__stderr__ = _stream(2, "w", "backslashreplace")
    if request["stops_first"]:
        _prctl(_PR_SET_PTRACER, _ANYBODY)
        os.kill(os.getpid(), signal.SIGSTOP)
    return _program(request["command"])


def _stream(number: int, mode: str, errors: str) -> Any:
    """As Python makes its standard streams."""
    buffer = open(number, mode + "b", closefd=False)  # noqa: SIM115
    interactive = buffer.isatty() or number == 2
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    text = io.TextIOWrapper(buffer, encoding, errors, newline="\n", line_buffering=interactive)
    text.mode = mode  # type: ignore[misc]
    return text


def _program(command: list[str]) -> Callable[[], None]:
    if command[0] == str(OMNIGRAPH):
        from omnigraph_cli.entry import run as entry

        sys.argv = command
        return entry
    assert command[0] == sys.executable, command
    sys.argv = [command[1], *command[3:]]
    if command[1] == "-c":
        return lambda: _run_to_the_end(lambda: exec(compile(command[2], "<string>", "exec"), _new_main()))
    assert command[1] == "-m", command
    return lambda: _run_to_the_end(lambda: runpy.run_module(command[2], None, "__main__", True))


def _new_main() -> dict[str, Any]:
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    return vars(main)


_codes: list[int] = []


def _run_to_the_end(program: Callable[[], object]) -> None:
    try:
        program()
        _codes.append(0)
    except SystemExit as leaving:
        if isinstance(leaving.code, int):
            _codes.append(leaving.code)
        raise


def _end() -> None:
    """Exit without Python's teardown, as the command does; called after all other exit handlers."""
    if _codes:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(_codes[0])


def _import_everything() -> None:
    """What any of the processes might import, except for Spark's side, which starts other programs."""
    for name in ("omnigraph_core", "omnigraph_cli", "tests.support"):
        package = import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.startswith(("omnigraph_core.spark", "omnigraph_cli.__main__", __name__)):
                import_module(module.name)
    for name in ("pytest", "hypothesis", "lance", "pyarrow.parquet", "pyarrow.csv", "obstore.store"):
        import_module(name)


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    atexit.register(_end)
    warnings.filterwarnings("ignore", "lance is not fork-safe")
    warnings.filterwarnings("ignore", ".*found in sys.modules.*", RuntimeWarning)
    _import_everything()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _serve(connection)()


if __name__ == "__main__":
    main()
