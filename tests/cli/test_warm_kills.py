"""Warm starts and death: of the client, of the command and of the server, at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph_core.settings import Settings
from tests.support.door_steps import STEPS
from tests.support.processes import state_of
from tests.support.records import PEOPLE
from tests.support.served import Served, children_of, serving, wait_for_end, wait_until
from tests.support.writers import check_whole, open_graph

INSERT = "query q($n: String) { insert Person { name: $n } }"
NAMES = "query q() { match { $p: Person } return { $p.name } }"
SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as served:
        (tmp_path / "people.pg").write_text(PEOPLE)
        assert served.run("init", "--schema", "people.pg").code == 0
        served.started()
        yield served


def stopped_command(server: int, process: subprocess.Popen[str]) -> int | None:
    """The process that does the work, once it stands still; None if the command has ended."""
    found: list[int] = []

    def stands() -> bool:
        found[:] = [child for child in children_of(server) if state_of(child) == "T"]
        return bool(found) or process.poll() is not None

    wait_until(stands)
    return found[0] if found else None


def names_in(served: Served) -> list[str]:
    done = served.run("query", "-e", NAMES)
    assert done.code == 0, done.err
    return [json.loads(line)["p.name"] for line in done.out.splitlines()]


# A change of one table comes to all steps but those of a second and a third.
REACHED = [step for step in STEPS if not step.endswith((".2", ".3"))]


def test_a_client_that_is_killed_at_any_step_of_a_write(served: Served, tmp_path: Path) -> None:
    """The command dies with it, right there, and is made whole as any that died there is."""
    server = served.pid
    pristine = tmp_path / "pristine"
    shutil.copytree(tmp_path / "graph.omni", pristine)
    for step in REACHED:
        shutil.rmtree(tmp_path / "graph.omni")
        shutil.copytree(pristine, tmp_path / "graph.omni")
        environment = {"OMNIGRAPH_FAILPOINTS": f"{step}=stop"}
        process = served.popen("change", "-e", INSERT, "--param", "n=new", env=environment)
        command = stopped_command(server, process)
        assert command is not None, f"{step}: {process.communicate()}"
        process.kill()
        process.communicate()
        wait_for_end(command)
        is_there = STEPS[step].applied or step == "write.table_committed.1"
        graph = open_graph(tmp_path / "graph.omni", SETTINGS)
        check_whole(graph)
        assert names_in(served) == ["new"] * is_there, step


@pytest.mark.parametrize(
    ("clients", "each"),
    [pytest.param(8, 4), pytest.param(64, 20, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
)
def test_a_storm_of_clients_with_random_kills(served: Served, clients: int, each: int) -> None:
    """Of clients, commands and servers. No command is lost, none runs twice, and nobody is left behind."""
    told: dict[str, int] = {}
    killed: list[str] = []
    servers = {served.pid}
    is_over = threading.Event()

    def work(number: int) -> None:
        chance = random.Random(number)
        for turn in range(each):
            name = f"{number}.{turn}"
            process = served.popen("change", "-e", INSERT, "--param", f"n={name}", "--lock-timeout", "200")
            if chance.random() < 0.2:
                threading.Event().wait(chance.random() * 0.2)
                process.kill()
                killed.append("client")
            process.communicate()
            told[name] = process.returncode

    def kill_at_random() -> None:
        chance = random.Random(0)
        while not is_over.wait(chance.random() / 3):
            for pid in {int(each["pid"]) for each in served.servers()}:
                servers.add(pid)
                victims = children_of(pid) if chance.random() < 0.8 else [pid]
                if victims:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(chance.choice(victims), signal.SIGKILL)
                    killed.append("server" if victims == [pid] else "command")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    killer = threading.Thread(target=kill_at_random)
    for thread in (*threads, killer):
        thread.start()
    for thread in threads:
        thread.join()
    is_over.set()
    killer.join()
    assert set(told.values()) <= {0, -signal.SIGKILL}, told
    assert {"client", "command", "server"} <= set(killed) or clients < 64, killed
    assert "client" in killed
    last = served.started()
    wait_until(lambda: not any(children_of(pid) for pid in servers))
    assert len(os.listdir(f"/proc/{last}/fd")) < 12
    assert served.run("recovery", "run").code == 0
    rows = names_in(served)
    assert len(rows) == len(set(rows))
    assert {name for name, code in told.items() if code == 0} <= set(rows) <= set(told)
    check_whole(open_graph(served.directory / "graph.omni", SETTINGS))
