"""Warm starts where something is hostile, scarce or unusual."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph_cli.limits import WARM_SERVERS_MAX
from omnigraph_cli.warm import owning, wire
from tests.support.processes import state_of
from tests.support.programs import require_program
from tests.support.records import PEOPLE
from tests.support.served import COLD, WARM, Served, children_of, serving, wait_for_end, wait_until

INSERT = "query q($n: String) { insert Person { name: $n } }"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("warm")) as served:
        (served.directory / "people.pg").write_text(PEOPLE)
        assert served.run("init", "--schema", "people.pg").code == 0
        served.started()
        yield served


def test_files_move_into_place_without_room_above_them() -> None:
    """The usual limit is 1024 open files; nothing may need a number beyond the highest in use."""
    program = """
import os, resource
from omnigraph_cli.warm import child
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
ends = [os.open("/dev/null", os.O_RDONLY) for _ in range(4)]
child._take_over(ends, [0, 1, 2, 40])
assert sorted(map(int, os.listdir("/proc/self/fd")))[:4] == [0, 1, 2, 3] and os.get_inheritable(40)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_files_with_high_numbers_are_passed_on(served: Served) -> None:
    served.started()
    prefix = ["bash", "-c", 'exec 1030</dev/null; exec "$@"', "bash"]
    done = served.run("lint", "--schema", "/dev/fd/1030", "-v", prefix=prefix)
    assert WARM in done.err
    assert "No such file" not in done.err


def test_few_files_allowed_is_no_reason_to_fail(served: Served) -> None:
    prefix = ["bash", "-c", 'ulimit -n 20; exec "$@"', "bash"]
    done = served.run("version", "-v", prefix=prefix)
    assert (done.code, f"{COLD}it may open too few files\n") == (0, done.err)


# `os.execve` would refuse a variable without a name.
WITH_ANY_VARIABLE = """
import ctypes, os, sys
setting, *command = map(os.fsencode, sys.argv[1:])
variables = [name + b"=" + value for name, value in os.environb.items()] + [setting]
texts = lambda each: (ctypes.c_char_p * (len(each) + 1))(*each, None)
ctypes.CDLL(None).execve(command[0], texts(command), texts(variables))
"""


@pytest.mark.parametrize(
    ("setting", "reason"),
    [("LANCE_LOG_FILE=log.txt", "LANCE_LOG_FILE is set"), ("=nameless", "a variable has no name")],
)
def test_odd_variables_go_cold(served: Served, setting: str, reason: str) -> None:
    done = served.run("version", "-v", prefix=[sys.executable, "-c", WITH_ANY_VARIABLE, setting])
    assert (done.code, f"{COLD}{reason}\n") == (0, done.err)


def test_a_sandbox_goes_cold(served: Served) -> None:
    """What else holds such a process cannot be seen, and a fork of the server would be free of it."""
    done = served.run("version", "-v", prefix=[require_program("setpriv"), "--no-new-privs"])
    assert (done.code, f"{COLD}it may not gain privileges, so it may be in a sandbox\n") == (0, done.err)


PRINT = "import sys; from omnigraph_cli.warm.likeness import *; sys.stdout.buffer.write(likeness(Process()))"
FORGE = """
import sys
from omnigraph_cli.warm import client
sys.argv = ["omnigraph", "version"]
client.likeness = lambda _: open("forged", "rb").read()
try:
    client._hand_over(*client._reach())
except client.GoColdError as cold:
    print(cold)
except BrokenPipeError:  # The server has seen enough, and hung up in the middle of the request.
    print("the server is of another kind")
"""


def test_a_process_that_lies_about_its_privileges_is_not_served(served: Served) -> None:
    served.started()
    options = {"env": served.environment(), "cwd": served.directory, "check": True, "capture_output": True}
    honest = subprocess.run([sys.executable, "-c", PRINT], **options)  # type: ignore[call-overload]
    (served.directory / "forged").write_bytes(honest.stdout)
    command = [require_program("setpriv"), "--bounding-set", "-sys_time", sys.executable, "-c", FORGE]
    done = subprocess.run(command, **options)  # type: ignore[call-overload]
    assert done.stdout == b"the server is of another kind\n"


def test_variables_of_one_command_are_not_in_the_memory_of_the_next(served: Served) -> None:
    server = served.started()
    secret = "s3cret-" + os.urandom(8).hex()
    assert served.run("version", env={"AWS_SECRET_ACCESS_KEY": secret}).code == 0
    assert secret.encode() not in memory_of(server)


def memory_of(pid: int) -> bytes:
    """All that it may write to; the rest comes from files."""
    found = []
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            area, rights, *_ = line.split()
            if rights.startswith("rw"):
                start, end = (int(each, 16) for each in area.split("-"))
                memory.seek(start)
                found.append(memory.read(end - start))
    return b"".join(found)


def test_a_command_that_runs_has_no_file_of_the_servers(served: Served) -> None:
    server = served.started()
    with served.popen("load", "--data", "-", "--mode", "merge") as process:
        wait_until(lambda: len(children_of(server)) == 1)
        (command,) = children_of(server)
        wait_until(lambda: os.path.exists(f"/proc/{command}/fd/0") and not shared_files(command))
        process.kill()
        process.communicate()


def shared_files(pid: int) -> list[str]:
    """Of a process that is at work: files come and go while they are listed."""
    links = []
    for each in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/{pid}/fd/{each}"))
    return [link for link in links if link.endswith((".lock", ".sock")) or "socket" in link]


def test_a_full_process_table_costs_a_warm_start_and_nothing_else(tmp_path: Path) -> None:
    """A fork that fails must not take the server, and with it all that it runs."""
    program = """
import os, socket, sys
from omnigraph_cli.warm import server, wire
def fork(): raise BlockingIOError(11, "Resource temporarily unavailable")
server._fork = fork
here, there = socket.socketpair()
us = object.__new__(server.Server)
us._clients, us._by_pid, us._is_leaving, us._like = {}, {}, False, b"like"
us._poll = server.select.epoll()
us._loaded = server.LoadedFiles(sys.modules.values())
client = server.Client(there, os.getpid(), descriptors=[os.dup(0) for _ in range(4)])
us._facts = server.Process().facts, server.spaces()
us._clients[there.fileno()] = client
us._poll.register(there)
request = wire.Request(b"like", 0, 0, 0, [0, 1, 2], [b"omnigraph"], [])
assert us._run(client, bytearray(request.encoded())) is None
answer = here.recv(100)
assert answer[:1] == wire.COLD and b"cannot fork" in answer, answer
assert server.signal.SIGTERM not in server.signal.pthread_sigmask(server.signal.SIG_BLOCK, [])
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_dead_servers_do_not_count(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        directory = served.runtime / "omnigraph"
        directory.mkdir(mode=0o700)
        for number in range(WARM_SERVERS_MAX):
            (directory / f"{number:08x}.sock").touch()
            (directory / f"{number:08x}.lock").touch()
        served.started()
        assert len(list(directory.glob("*.sock"))) == len(list(directory.glob("*.lock"))) == 1
        served.stop()
        assert not [*directory.glob("*.sock"), *directory.glob("*.lock")]


def test_a_name_belongs_to_one(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_PATH)
    lock = owning.own(directory, "name")
    assert lock is not None
    assert owning.own(directory, "name") is None
    owning.disown(directory, "name", lock)
    assert not list(tmp_path.iterdir())
    again = owning.own(directory, "name")
    assert again is not None
    os.close(again)
    os.close(directory)


def test_a_server_that_is_asked_to_end_lets_its_commands_finish(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        (tmp_path / "people.pg").write_text(PEOPLE)
        served.run("init", "--schema", "people.pg")
        server = served.started()
        with served.popen("load", "--data", "-", "--mode", "merge") as process:
            wait_until(lambda: len(children_of(server)) == 1)
            os.kill(server, signal.SIGTERM)
            wait_until(lambda: not list(served.runtime.glob("omnigraph/*.sock")))
            _, err = process.communicate('{"type": "Person", "data": {"name": "late"}}')
            assert process.returncode == 0, err
        wait_for_end(server)


AT_HAND_OVER = """
import os, signal, sys
from omnigraph_cli.warm import client
sys.argv = ["omnigraph", "version"]
connection, request, streams = client._reach()
class Broken:
    def __getattr__(self, name): return getattr(connection, name)
    def sendall(self, data):
        if data == client.wire.GO: raise BrokenPipeError
        connection.sendall(data)
try:
    client._hand_over(Broken(), request, streams)
except BrokenPipeError:
    os.kill(os.getpid(), signal.SIGTERM)
"""


def test_signals_end_a_command_whose_server_died_at_the_last_moment(served: Served) -> None:
    """It starts cold, and nothing must be left of the forwarding."""
    served.started()
    command = [sys.executable, "-c", AT_HAND_OVER]
    done = subprocess.run(command, env=served.environment(), cwd=served.directory, check=False)
    assert done.returncode == -signal.SIGTERM


def test_ctrl_z_where_nobody_could_say_fg_stops_nothing(served: Served) -> None:
    """The kernel does not stop a cold command then."""
    server = served.started()
    # Its parent is in another session, so its group is an orphan.
    with served.popen("load", "--data", "-", "--mode", "merge", start_new_session=True) as process:
        wait_until(lambda: len(children_of(server)) == 1)
        (command,) = children_of(server)
        wait_until(lambda: state_of(command) == "S")
        process.send_signal(signal.SIGTSTP)
        _, err = process.communicate('{"type": "Person", "data": {"name": "orphan"}}', timeout=200)
        assert process.returncode == 0, err


@pytest.mark.parametrize(("unbuffered", "wanted"), [("", False), ("1", True)])
def test_streams_are_as_python_makes_them(unbuffered: str, wanted: bool) -> None:
    program = "import sys; from omnigraph_cli.warm import child; child._set_streams(); "
    program += "assert sys.stdout.write_through is sys.stderr.write_through; print(sys.stdout.write_through)"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert done.stdout.decode().strip() == str(wanted)


def test_what_a_request_claims_is_read_without_its_variables() -> None:
    request = wire.Request(b"like", 0o22, 5, 7, [0, 1, 2, 9], [b"a"], [b"SECRET=x"])
    assert wire.claims(bytearray(request.encoded())) == (b"like", 4)
    for broken in (b"", b"x", b"x\0y"):
        with pytest.raises((ValueError, IndexError)):
            wire.claims(bytearray(broken))
