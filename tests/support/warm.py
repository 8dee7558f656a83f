"""Processes that start warm: forks of the product's own server, which has imported everything.

Starting Python and importing Lance takes 0.35 seconds of CPU, a fork 0.01. Apart from its start-up,
a warm process is a process like any other: it has a pid, an environment, a directory and streams
of its own, it can be stopped and killed, and it shares no memory with anybody. What is about
start-up (imports, variables that Python itself reads, the script that pip installs) or about the
program that starts it (a shell, strace) needs `subprocess`.

`Popen` and `run` are those of `subprocess` for three kinds of command: `omnigraph …`,
`python -m MODULE …` and `python -c PROGRAM …`. They ask a server as the installed command does
(`omnigraph_cli/warm`); its client is spared, so what the client does is for `tests/cli/test_warm.py`.
The server has imported the tests' own modules too.

With `TESTS_START=installed`, everything is started by `subprocess`: that is how the whole of
`tests/cli` is run cold, and by the installed client (`tests/cli/test_warm_and_cold.py`).
"""

from __future__ import annotations

import _socket
import atexit
import contextlib
import ctypes
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from omnigraph_cli.warm import child, client, owning, place, wire
from omnigraph_cli.warm.likeness import Process
from omnigraph_cli.warm.preloading import LoadedFiles, import_commands, import_package, preload
from omnigraph_cli.warm.server import Server
from tests.support.processes import OMNIGRAPH, REPOSITORY, clean_environment, state_of

_NAME, _LIKENESS = "tests", b"this test session"
_IDLE_S = 600.0
_STOP_FIRST = "--stop-first"
_PR_SET_PTRACER, _ANYBODY = 0x59616D61, 2**64 - 1
_FORKS = os.environ.get("TESTS_START") != "installed"


# ---- the test's side ----


class Popen(subprocess.Popen[Any]):
    """A `subprocess.Popen` whose process is forked by the server, which also reaps it.

    Only what makes a process and what learns of its end is replaced; pipes are the original's.
    """

    stops_first = False
    _command: tuple[_socket.socket, int] | None = None

    def _execute_child(self, *given: Any) -> None:  # type: ignore[override]
        if not (_FORKS or self.stops_first):
            super()._execute_child(*given)  # type: ignore[misc]
            return
        args, executable, preexec_fn, _, pass_fds, cwd, env, _, _, shell, *ends = given
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *_ = ends
        assert not any((preexec_fn, pass_fds, shell, executable))
        streams = [number if end == -1 else end for number, end in enumerate((p2cread, c2pwrite, errwrite))]
        command = [_STOP_FIRST] * self.stops_first + [os.fspath(each) for each in args]
        try:
            connection, self.pid, descriptor = _start(command, cwd or ".", env, streams)
            self._command = connection, descriptor
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _internal_poll(self, _deadstate: int | None = None, *more: Any) -> int | None:
        if self._command is None:
            return super()._internal_poll(_deadstate, *more)  # type: ignore[misc, no-any-return]
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As `waitpid`; who waits for a server that was killed waits for a command that was killed."""
        if self._command is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        if self.returncode is not None:
            return self.pid, 0
        connection, descriptor = self._command
        try:
            answer = connection.recv(wire.ANSWER_BYTES, _socket.MSG_DONTWAIT if wait_flags else 0)
        except BlockingIOError:
            return 0, 0
        except ConnectionError:
            answer = b""
        connection.close()
        os.close(descriptor)
        return self.pid, int.from_bytes(answer[1:], "big", signed=True) if answer else signal.SIGKILL

    def send_signal(self, number: int) -> None:
        if self._command is None:
            super().send_signal(number)
        elif self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._command[1], number)


class Stopped(Popen):
    """One that stops before its first line, and may be traced by anybody."""

    stops_first = True

    def until_stopped(self) -> None:
        while state_of(self.pid) != "T":
            assert self.poll() is None
            time.sleep(0.002)


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


class _Known:
    """A server that this process has started, and ends."""

    def __init__(self, directory: Path, pid: int, is_alive: Callable[[], bool]) -> None:
        self._runtime, self._pid, self.is_alive = directory, pid, is_alive
        self._directory: int | None = None
        self._owner = os.getpid()
        atexit.register(self._end)

    def start(self, command: list[str], cwd: Any, env: Any, streams: list[int]) -> tuple[Any, int, int]:
        """A connection, a pid and a descriptor of the new process, which has been let go."""
        mine = Process()
        variables = os.environb if env is None else {os.fsencode(k): os.fsencode(v) for k, v in env.items()}
        request = wire.Request(
            _LIKENESS,
            *(mine.umask, mine.ignored, mine.blocked, [0, 1, 2]),
            [os.fsencode(each) for each in command],
            [name + b"=" + value for name, value in variables.items()],
        )
        here = os.open(cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        connection = self._connect()
        try:
            pid, descriptor = client.ask(connection, request, [here, *streams])
        finally:
            os.close(here)
        connection.sendall(wire.GO)
        return connection, pid, descriptor

    def _connect(self) -> _socket.socket:
        while True:
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                if self._directory is None:
                    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
                    self._directory = os.open(self._runtime / "omnigraph", flags)
                connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
                connection.connect(place.inside(self._directory, _NAME + place.SOCKET))
                if connection.recv(1) == wire.HELLO:
                    return connection
            if not self.is_alive():
                raise client.GoColdError("the server left")
            time.sleep(0.01)

    def _end(self) -> None:
        if os.getpid() == self._owner:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)
            shutil.rmtree(self._runtime, ignore_errors=True)


_known: _Known | None = None
_starting = threading.Lock()


def _start(*what: Any) -> tuple[Any, int, int]:
    """By a new server, if the one that was there has just left: it had nothing to do for long."""
    server = _server()
    try:
        return server.start(*what)
    except client.GoColdError:
        if server.is_alive():
            raise
        return _server().start(*what)


def _server() -> _Known:
    global _known
    with _starting:
        if _known is None or not _known.is_alive():
            runtime = Path(tempfile.mkdtemp(prefix="omnigraph-tests-"))
            process = subprocess.Popen(
                [sys.executable, "-c", "from tests.support.warm import serve; serve()"],
                cwd=REPOSITORY,
                env=clean_environment(XDG_RUNTIME_DIR=str(runtime)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            _known = _Known(runtime, process.pid, lambda: process.poll() is None)
        return _known


def serve_from_here() -> None:
    """Let a fork of this process be the server for what it starts: with all that was changed in it."""
    global _known
    runtime = Path(tempfile.mkdtemp(prefix="omnigraph-tests-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lance's, of threads; there is none yet
        pid = os.fork()
    if pid == 0:
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        _serve()
        sys.exit()
    _known = _Known(runtime, pid, lambda: os.waitpid(pid, os.WNOHANG) == (0, 0))


# ---- the server's side ----


def serve() -> None:
    atexit.register(_end)
    warnings.filterwarnings("ignore", ".*found in sys.modules.*", RuntimeWarning)
    preload(_import_everything)
    _serve()


def _serve() -> None:
    """Returns at the end, and in the forks when their program has. A file that is edited does not end it."""
    directory = place.open_directory(make=True)
    lock = owning.own(directory, _NAME)
    os.close(directory)
    assert lock is not None
    Server(_NAME, _LIKENESS, _IDLE_S, lock, LoadedFiles([]), _run_program).serve()()


def _import_everything() -> None:
    """What any of the processes might import."""
    import_commands()
    import_package("tests.support", ())
    for name in ("pytest", "hypothesis", "obstore.store"):
        import_module(name)


def _run_program(is_interruptible: bool) -> None:
    if sys.argv[0] == _STOP_FIRST:
        sys.argv.pop(0)
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(_ANYBODY), 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
    if sys.argv[0] == str(OMNIGRAPH):
        child.run_command(is_interruptible)
        return
    executable, option, program, *arguments = sys.argv
    assert executable == sys.executable, sys.argv
    sys.argv = [option, *arguments]
    if is_interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if option == "-c":
        _run_to_the_end(lambda: exec(compile(program, "<string>", "exec"), _new_main()))
    else:
        assert option == "-m", option
        _run_to_the_end(lambda: runpy.run_module(program, None, "__main__", True))


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
