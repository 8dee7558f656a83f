"""Warm starts: a command run by the server cannot be told from one that started cold."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from omnigraph_cli.warm import wire
from tests.support.paused import unread
from tests.support.processes import OMNIGRAPH, REPOSITORY, state_of
from tests.support.programs import require_program
from tests.support.records import PEOPLE
from tests.support.served import (
    COLD,
    WAITING_S,
    WARM,
    Served,
    children_of,
    is_pending,
    serving,
    wait_for_end,
    wait_until,
)

INSERT = "query q($n: String) { insert Person { name: $n } }"
NAMES = "query q() { match { $p: Person } return { $p.name } }"


@pytest.fixture(autouse=True)
def _signals_as_usual() -> Iterator[None]:
    """A shell that starts the tests in the background, or nohup, ignores some, and commands inherit that."""
    numbers = [signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP]
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A running server, and a graph in the working directory."""
    with serving(tmp_path_factory.mktemp("warm")) as served:
        (served.directory / "people.pg").write_text(PEOPLE)
        assert served.run("init", "--schema", "people.pg").code == 0
        served.started()
        yield served


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Served]:
    """For tests that harm the server."""
    with serving(tmp_path) as served:
        (served.directory / "people.pg").write_text(PEOPLE)
        done = served.run("init", "--schema", "people.pg", "-v")
        assert (done.code, cold_reason(done.err)) == (0, NONE_OF_ITS_KIND)
        yield served


# ---- on and off ----


def test_nothing_is_started_unless_asked_for(tmp_path: Path) -> None:
    served = Served(tmp_path)
    environment = {name: value for name, value in served.environment().items() if name != "OMNIGRAPH_WARM"}
    environment["HOME"] = str(tmp_path)
    done = subprocess.run(
        [OMNIGRAPH, "version", "-v"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert list(served.runtime.iterdir()) == []


def test_the_first_command_starts_a_server_and_the_next_ones_use_it(alone: Served) -> None:
    pid = alone.started()
    cold, warm = (alone.run("snapshot", env={"OMNIGRAPH_WARM": value}) for value in ("off", "10m"))
    assert (warm.code, warm.out) == (cold.code, cold.out)
    (server,) = alone.servers()
    assert server["pid"] == pid
    assert server["served"] >= 2
    assert alone.run("warm", "stop").out == f"stopped {pid}\n"
    wait_for_end(pid)
    assert alone.servers() == []
    assert "no background process" in alone.run("warm", "stop").out


def test_the_users_config_file_turns_it_on(alone: Served) -> None:
    config = alone.directory / "config" / "omnigraph"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('# quick\nwarm = "10m"\n')
    alone.started()
    environment = {**alone.environment(), "XDG_CONFIG_HOME": str(config.parent)}
    del environment["OMNIGRAPH_WARM"]
    done = subprocess.run(
        [OMNIGRAPH, "version", "-v"], env=environment, capture_output=True, text=True, check=True
    )
    assert WARM in done.stderr


@pytest.mark.parametrize("text", ["often", "10", "-1m", "10 min"])
def test_what_is_not_a_time_is_wrong_usage(served: Served, text: str) -> None:
    done = served.run("snapshot", env={"OMNIGRAPH_WARM": text})
    assert done.code == 2
    assert f"OMNIGRAPH_WARM: '{text}' is not a time" in done.err


def test_an_idle_server_leaves(alone: Served) -> None:
    pid = alone.started()
    alone.stop()
    alone.run("version", env={"OMNIGRAPH_WARM": "0.1s"})
    wait_until(lambda: not list(alone.runtime.glob("omnigraph/*.sock")))
    assert state_of(pid) in ("", "Z")


# ---- when to go cold ----


def cold_reason(err: str) -> str:
    return next(line.removeprefix(COLD) for line in err.splitlines() if line.startswith(COLD))


NONE_OF_ITS_KIND = "no server is running"
OTHERWISE = {
    "a limit": (["sh", "-c", 'ulimit -n 512; exec "$@"', "sh"], {}),
    "a priority": (["nice", "-n", "1"], {}),
    "a processor": (["taskset", "-c", "0"], {}),
    "a network": (["unshare", "--net"], {}),
    "a mount namespace": (["unshare", "--mount"], {}),
    "the capabilities": (["setpriv", "--bounding-set", "-sys_time"], {}),
    "the locale": ([], {"LC_ALL": "C.UTF-8", "LANG": "C"}),
    "Lance's variables": ([], {"LANCE_CPU_THREADS": "1"}),
    "Python's variables": ([], {"PYTHONHASHSEED": "1"}),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_a_process_of_another_kind_goes_cold(served: Served, what: str) -> None:
    """It leaves a server of its own kind behind, never uses this one."""
    prefix, environment = OTHERWISE[what]
    for program in prefix[:1]:
        require_program(program)
    if what == "a processor" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("there is one processor")
    served.started()
    done = served.run("version", "-v", prefix=prefix, env={"OMNIGRAPH_WARM": "0.1s", **environment})
    assert done.code == 0, done.err
    assert cold_reason(done.err) == NONE_OF_ITS_KIND


def test_a_traced_process_goes_cold(served: Served) -> None:
    done = served.run("version", "-v", prefix=[require_program("strace"), "-f", "-o", "/dev/null"])
    assert cold_reason(done.err) == "a debugger or tracer is attached"


def test_a_closed_stream_goes_cold(served: Served) -> None:
    done = served.run("version", "-v", prefix=["sh", "-c", 'exec "$@" <&-', "sh"])
    assert cold_reason(done.err) == "standard input, output or error is closed"


def test_a_directory_that_is_gone_goes_cold(served: Served, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = served.run("version", "-v", prefix=["sh", "-c", f'rmdir {gone}; exec "$@"', "sh"], cwd=gone)
    assert done.code == 0
    assert "No such file" in done.err or WARM not in done.err


@pytest.mark.parametrize("arguments", [["--help"], ["load", "--help"], ["completion", "bash"], []])
def test_commands_that_gain_nothing_go_cold(served: Served, arguments: list[str]) -> None:
    server = served.started()
    before = served.count(server)
    served.run("version", env={"LANCE_TRACING": "x"})
    served.run(*arguments)
    assert served.count(server) == before
    assert json.loads(served.run("warm", "status", "--json").out)["last_cold"] == "LANCE_TRACING is set"


def test_a_directory_that_others_may_enter_is_not_used(alone: Served) -> None:
    alone.started()
    (alone.runtime / "omnigraph").chmod(0o755)
    done = alone.run("version", "-v")
    assert done.code == 0
    assert "not this user's own directory" in cold_reason(done.err)
    (alone.runtime / "omnigraph").chmod(0o700)


def test_a_link_in_place_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    served = Served(tmp_path)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (served.runtime / "omnigraph").symlink_to(tmp_path / "elsewhere")
    assert served.run("version").code == 0
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_runtime_directory_that_is_gone_does_not_matter(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.runtime.rmdir()
    assert served.run("version").code == 0
    assert not served.runtime.exists()


FULL = """
mount -t tmpfs -o size=4k,mode=0700 none "$XDG_RUNTIME_DIR" || exit
head -c 4096 /dev/zero > "$XDG_RUNTIME_DIR/full"
for each in 1 2; do "$0" version || exit; done
"""


def test_a_disk_that_is_full_costs_warm_starts_and_nothing_else(tmp_path: Path) -> None:
    served = Served(tmp_path)
    done = subprocess.run(
        [require_program("unshare"), "--user", "--map-root-user", "--mount", "sh", "-c", FULL, OMNIGRAPH],
        env=served.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.count("omnigraph"), done.stderr) == (0, 2, "")


def test_changed_code_is_never_met_by_an_old_server(tmp_path: Path) -> None:
    """A copy of the program, so that it can be edited."""
    for name in ("omnigraph_cli", "omnigraph_core"):
        shutil.copytree(REPOSITORY / name, tmp_path / "code" / name)
    with serving(tmp_path) as served:
        program = "from omnigraph_cli.entry import run; run()"
        environment = served.environment(PYTHONPATH=str(tmp_path / "code"))

        def version() -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-c", program, "version", "-v"]
            return subprocess.run(
                command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
            )

        wait_until(lambda: WARM in version().stderr)
        package = tmp_path / "code" / "omnigraph_core" / "__init__.py"
        module = tmp_path / "code" / "omnigraph_cli" / "exits.py"
        module.write_text(module.read_text() + "\n# edited\n")
        assert cold_reason(version().stderr) == "the program has changed since the server started"
        wait_until(lambda: WARM in version().stderr)
        package.write_text(package.read_text().replace('__version__ = "', '__version__ = "9.'))
        assert version().stdout.startswith("omnigraph 9.")
        for each in (tmp_path / "run" / "omnigraph").glob("*.sock"):
            each.unlink()


# ---- what a warm command has ----


def warm_run(served: Served, *arguments: str | Path, **options: object) -> tuple[int, str, str]:
    """Of a command that may be run twice: on a very busy machine it may go cold rather than wait."""
    for _ in range(20):
        done = served.run(*arguments, "-v", **options)  # type: ignore[arg-type]
        if WARM in done.err:
            return done.code, done.out, done.err
    raise AssertionError(done.err)


def test_exit_codes_and_messages_are_the_same(served: Served) -> None:
    for arguments in (["snapshot", "/nowhere"], ["load"], ["nonsense"], ["lint", "--query", "missing.gq"]):
        cold, warm = (served.run(*arguments, env={"OMNIGRAPH_WARM": value}) for value in ("off", "10m"))
        assert warm == cold
        assert warm.code != 0


def test_standard_input_variables_umask_and_directory_are_the_clients(served: Served, tmp_path: Path) -> None:
    record = json.dumps({"type": "Person", "data": {"name": "from stdin"}})
    place = served.directory / "graph.omni"
    arguments = ["load", "--data", "-", "--mode", "merge", "--store", place]
    code, _, _ = warm_run(served, *arguments, stdin=record, env={"OMNIGRAPH_ACTOR": "an actor"}, cwd=tmp_path)
    assert code == 0
    newest = json.loads(served.run("commit", "list", "--limit", "1", "--json", cwd=served.directory).out)
    assert newest["commits"][0]["actor_id"] == "an actor"
    code, _, _ = warm_run(
        served,
        "export",
        place,
        "--out",
        "out.jsonl",
        cwd=tmp_path,
        prefix=["sh", "-c", 'umask 027; exec "$@"', "sh"],
    )
    assert code == 0
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o777 == 0o640
    newest = json.loads(served.run("commit", "list", "--limit", "1", "--json").out)
    assert served.run("version", "-v").err.count("an actor") == 0


def test_files_that_the_shell_opened_are_passed_on(served: Served) -> None:
    script = f"""exec 7<<'E'
{json.dumps({"type": "Person", "data": {"name": "through seven"}})}
E
exec "$@" """
    arguments = ["load", "--data", "/dev/fd/7", "--format", "jsonl", "--mode", "merge"]
    code, _, err = warm_run(served, *arguments, prefix=["sh", "-c", script, "sh"])
    assert code == 0, err


def test_a_command_that_is_killed_is_seen_to_be_killed(served: Served) -> None:
    environment = {"OMNIGRAPH_FAILPOINTS": "write.after_b=kill"}
    done = served.run("change", "-e", INSERT, "--param", "n=killed", env=environment)
    assert done.code == -signal.SIGKILL
    assert served.run("recovery", "run").code == 0


def test_an_early_end_of_the_reader_is_silent(served: Served) -> None:
    prefix = ["sh", "-c", '"$@" | true; exit 0', "sh"]
    process = served.popen("query", "-e", NAMES, "--format", "jsonl", prefix=prefix)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, "")


def paused(served: Served, name: str, prefix: Sequence[str] = ()) -> tuple[subprocess.Popen[str], int]:
    """A command that has stopped itself in the middle, and the process that really runs it."""
    environment = {"OMNIGRAPH_FAILPOINTS": "write.after_b=stop"}
    arguments = ["change", "-e", INSERT, "--param", f"n={name}"]
    server = served.started()
    process = served.popen(*arguments, env=environment, prefix=prefix)
    wait_until(lambda: any(state_of(child) == "T" for child in children_of(server)))
    (child,) = (child for child in children_of(server) if state_of(child) == "T")
    return process, child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_the_client_reaches_the_command(served: Served, number: signal.Signals) -> None:
    process, child = paused(served, f"signal {number}")
    process.send_signal(number)
    wait_until(lambda: is_pending(child, number))
    os.kill(child, signal.SIGCONT)
    process.communicate()
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    wait_for_end(child)
    assert served.run("recovery", "run").code == 0


def test_an_ignored_hang_up_stays_ignored(served: Served) -> None:
    process, child = paused(served, "nohup", prefix=["sh", "-c", 'trap "" HUP; exec "$@"', "sh"])
    process.send_signal(signal.SIGHUP)
    os.kill(child, signal.SIGHUP)
    os.kill(child, signal.SIGCONT)
    process.communicate()
    assert process.returncode == 0


def test_ctrl_z_stops_the_command_and_fg_lets_it_go_on(served: Served) -> None:
    """It has read a part of its input when it is stopped, so it is at work."""
    server = served.started()
    process = served.popen("load", "--data", "-", "--mode", "merge", process_group=0)
    assert process.stdin is not None
    process.stdin.write(json.dumps({"type": "Person", "data": {"name": "stopped"}}) + "\n")
    process.stdin.flush()
    pipe = process.stdin.fileno()
    wait_until(lambda: not unread(pipe))
    (child,) = children_of(server)
    process.send_signal(signal.SIGTSTP)
    wait_until(lambda: (state_of(process.pid), state_of(child)) == ("T", "T"))
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate()
    assert process.returncode == 0, err


def test_a_client_that_is_killed_takes_the_command_with_it(served: Served) -> None:
    process, child = paused(served, "orphan")
    process.kill()
    process.communicate()
    wait_for_end(child)
    done = served.run("recovery", "run")
    assert done.code == 0, done.err


def test_a_server_that_is_killed_takes_its_commands_with_it(alone: Served) -> None:
    server = alone.started()
    process, child = paused(alone, "together")
    os.kill(server, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    wait_for_end(child)
    done = alone.run("change", "-e", INSERT, "--param", "n=after")
    assert done.code == 0, done.err


def test_a_server_that_does_not_answer_is_not_waited_for(alone: Served) -> None:
    """Nor does it get hold of the command's streams, whose readers would wait for it."""
    server = alone.started()
    os.kill(server, signal.SIGSTOP)
    done = alone.run("version", "-v")
    assert done.code == 0
    assert cold_reason(done.err) == "the server does not answer"
    os.kill(server, signal.SIGKILL)


def running(server: int, process: subprocess.Popen[str]) -> int:
    """The command, once its client has let it go: it has its standard input then."""
    assert process.stdin is not None
    pipe = f"pipe:[{os.fstat(process.stdin.fileno()).st_ino}]"

    def found() -> list[int]:
        return [pid for pid in children_of(server) if os.readlink(f"/proc/{pid}/fd/0") == pipe]

    wait_until(found)
    return found()[0]


@pytest.mark.parametrize(("line", "code"), [('{"type":"Person","data":{"name":"Eve"}}', 0), ("{", 7)])
def test_a_server_that_is_stopped_keeps_no_client_waiting(served: Served, line: str, code: int) -> None:
    """The command has begun, so it goes on, once, and the client ends as it does; the server lives on."""
    server = served.started()
    process = served.popen("load", "--data", "-", "--mode", "merge", "--json")
    running(server, process)
    os.kill(server, signal.SIGSTOP)
    try:
        process.communicate(line + "\n", timeout=WAITING_S)
    finally:
        os.kill(server, signal.SIGCONT)
    assert process.returncode == code
    assert served.started() == server


def test_a_command_that_is_killed_while_its_server_is_stopped(served: Served) -> None:
    server = served.started()
    process = served.popen("load", "--data", "-", "--mode", "merge")
    command = running(server, process)
    os.kill(server, signal.SIGSTOP)
    try:
        os.kill(command, signal.SIGKILL)
        assert process.wait(WAITING_S) == -signal.SIGKILL
    finally:
        os.kill(server, signal.SIGCONT)
        process.communicate()


GIVES_UP = """
import sys
from omnigraph_cli.warm import client, wire
sys.argv = ["omnigraph", *sys.argv[1:]]
connection, request, streams = client._reach()
body = request.encoded()
rights = [(client._socket.SOL_SOCKET, client._socket.SCM_RIGHTS, wire.packed(streams))]
client._send(connection, wire.head(wire.RUN, len(body)), rights)
client._send(connection, body, [])
assert connection.recvmsg(wire.ANSWER_BYTES, 64)[0][:1] == wire.WARM
"""


def test_a_request_that_is_given_up_runs_nothing(served: Served) -> None:
    """A client that leaves before it has said GO; the command must not run then, or it would run twice."""
    server = served.started()
    names = served.run("query", "-e", NAMES).out
    done = subprocess.run(
        [sys.executable, "-c", GIVES_UP, "change", "-e", INSERT, "--param", "n=given up"],
        env=served.environment(),
        cwd=served.directory,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not children_of(server))
    assert served.run("query", "-e", NAMES).out == names


def test_nonsense_is_not_answered(served: Served) -> None:
    served.started()
    address = next(served.runtime.glob("omnigraph/*.sock"))
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(os.path.relpath(address))
        stranger.sendall(b"nonsense!")
        with stranger.makefile("rb") as answer:
            assert answer.read() == wire.HELLO


def test_secrets_of_one_command_are_nobody_elses(alone: Served) -> None:
    """Not even the server's, which the first command started."""
    alone.run("version", env={"AWS_SECRET_ACCESS_KEY": "hush"})
    server = alone.started()
    assert b"hush" not in Path(f"/proc/{server}/environ").read_bytes()
    alone.run("version", env={"AWS_SECRET_ACCESS_KEY": "hush"})
    process, child = paused(alone, "quiet")
    assert b"hush" not in Path(f"/proc/{child}/environ").read_bytes()
    process.kill()
    process.communicate()


def test_the_client_loads_next_to_nothing() -> None:
    """Or it would not be quick."""
    probe = "import sys; before = set(sys.modules); import omnigraph_cli.entry, omnigraph_cli.warm.client; "
    done = subprocess.run(
        [sys.executable, "-c", probe + "print(*sorted(set(sys.modules) - before))"],
        capture_output=True,
        text=True,
        check=True,
    )
    others = {name for name in done.stdout.split() if not name.startswith("omnigraph_")}
    assert others <= {"__future__", "_socket", "binascii", "_signal", "stat"}


def test_requests_come_back_as_they_were_sent() -> None:
    arguments, variables = [b"a", b"", b"\xff c"], [b"A=b", b"C=d=\n"]
    request = wire.Request(b"like\nthis", 0o22, 5, 7, [0, 1, 2, 9], arguments, variables)
    again = wire.decoded(request.encoded())
    assert all(getattr(again, name) == getattr(request, name) for name in wire.Request.__slots__)


@pytest.mark.parametrize("broken", [b"", b"x", b"x\0y", b"x\x001 2 3 a 1"])
def test_a_broken_request_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match=r"unpack|invalid literal"):
        wire.decoded(broken)
