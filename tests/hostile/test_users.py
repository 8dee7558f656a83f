"""Several users of one machine: shared graphs work, and what others leave lying around is not obeyed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph_core.config_file import ConfigNotTrusted
from omnigraph_core.settings import load_settings
from tests.support.processes import REPOSITORY, Finished, clean_environment

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")

ANN, BOB, EVE, TEAM = 61_001, 61_002, 61_003, 61_500
SCHEMA = "node Person { name: String @key }\n"

# The command as another user, with the umask that most users have. Python itself may be out of his
# reach: what the command imports is loaded before, by the same command on a graph of root's.
_AS_USER = """
import os, sys, tempfile
from omnigraph_cli.main import main

def run(*arguments):
    sys.argv = ["omnigraph", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code

uid, group, *arguments = sys.argv[1:]
shown = os.dup(1), os.dup(2)
with tempfile.TemporaryDirectory() as scratch, open(os.devnull, "w") as nothing:
    os.dup2(nothing.fileno(), 1), os.dup2(nothing.fileno(), 2)
    with open(f"{scratch}/s.pg", "w") as schema:
        schema.write("node A { name: String @key }")
    insert = ("-e", "query q() { insert A { name: \\"x\\" } }", "--store", f"{scratch}/g")
    run("init", f"{scratch}/g", "--schema", f"{scratch}/s.pg")
    run("change", *insert)
    run("branch", "create", "dev", "--store", f"{scratch}/g")
    run("change", "--branch", "dev", *insert)
    run("change", "--branch", "none", *insert)
os.dup2(shown[0], 1), os.dup2(shown[1], 2)
os.setgroups([int(group)])
os.setgid(int(uid)); os.setuid(int(uid))
os.umask(0o022)
sys.exit(run(*arguments))
"""


def as_user(uid: int, group: int, *arguments: str | Path, cwd: Path, **environment: str) -> Finished:
    readable = {"PYTHONPATH": str(REPOSITORY), "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _AS_USER, str(uid), str(group), *map(str, arguments)],
        cwd=cwd,
        env=clean_environment(**readable, **environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def insert(name: str) -> tuple[str, str]:
    return "-e", f'query q() {{ insert Person {{ name: "{name}" }} }}'


def test_a_graph_is_shared_by_a_group(reachable_path: Path) -> None:
    """Made and written by one user, written and looked after by the other, with everyday umasks."""
    shared = reachable_path / "shared"
    shared.mkdir()
    os.chown(shared, ANN, TEAM)
    shared.chmod(0o2775)
    (reachable_path / "s.pg").write_text(SCHEMA)
    graph = shared / "g"
    graph.mkdir()
    os.chown(graph, ANN, TEAM)
    graph.chmod(0o2775)
    made = as_user(ANN, TEAM, "init", graph, "--schema", reachable_path / "s.pg", cwd=shared)
    assert made.code == 0, made.err
    for number, user in enumerate((ANN, BOB, ANN, BOB)):
        done = as_user(user, TEAM, "change", *insert(f"p{number}"), "--store", graph, cwd=shared)
        assert done.code == 0, done.err
    done = as_user(BOB, TEAM, "branch", "create", "dev", "--store", graph, cwd=shared)
    assert done.code == 0, done.err
    done = as_user(ANN, TEAM, "change", *insert("on dev"), "--branch", "dev", "--store", graph, cwd=shared)
    assert done.code == 0, done.err
    locks = [each.stat() for each in (graph / "__locks").iterdir()]
    assert {each.st_gid for each in locks} == {TEAM}
    assert all(each.st_mode & 0o060 == 0o060 for each in locks)
    stranger = as_user(EVE, EVE, "change", *insert("eve"), "--store", graph, cwd=reachable_path)
    assert stranger.code == 74


def test_a_graph_of_ones_own_stays_ones_own(reachable_path: Path) -> None:
    mine = reachable_path / "mine"
    mine.mkdir(mode=0o755)
    os.chown(mine, ANN, TEAM)
    (reachable_path / "s.pg").write_text(SCHEMA)
    made = as_user(ANN, TEAM, "init", mine / "g", "--schema", reachable_path / "s.pg", cwd=mine)
    assert made.code == 0, made.err
    assert as_user(ANN, TEAM, "change", *insert("p"), "--store", mine / "g", cwd=mine).code == 0
    assert not [each for each in (mine / "g").rglob("*") if each.stat().st_mode & 0o022]


@pytest.mark.parametrize("how", ["file", "link"])
def test_a_config_file_of_another_user_is_not_obeyed(how: str, tmp_path: Path) -> None:
    config, below = tmp_path / "omnigraph.toml", tmp_path / "a" / "b"
    below.mkdir(parents=True)
    if how == "file":
        config.write_text('store = "/somewhere"\n')
    else:
        (tmp_path / "mine.toml").write_text('store = "/somewhere"\n')
        config.symlink_to(tmp_path / "mine.toml")
    os.chown(config, EVE, EVE, follow_symlinks=False)
    with pytest.raises(ConfigNotTrusted, match=f"uid {EVE}") as refused:
        load_settings({"HOME": str(tmp_path)}, below)
    assert "OMNIGRAPH_TRUST_CONFIG=1" in (refused.value.hint or "")
    trusting = load_settings({"HOME": str(tmp_path), "OMNIGRAPH_TRUST_CONFIG": "1"}, below)
    assert trusting.config is not None
    assert trusting.config.store == "/somewhere"
    user = tmp_path / ".config" / "omnigraph"
    user.mkdir(parents=True)
    (user / "config.toml").write_text(f"trust = {json.dumps([str(config)])}\n")
    assert load_settings({"HOME": str(tmp_path)}, below).config == trusting.config
    (user / "config.toml").write_text('trust = ["/elsewhere/omnigraph.toml"]\n')
    with pytest.raises(ConfigNotTrusted):
        load_settings({"HOME": str(tmp_path)}, below)
    shutil.rmtree(user)
    os.chown(config, 0, 0, follow_symlinks=False)
    assert load_settings({"HOME": str(tmp_path)}, below).config == trusting.config


def test_a_fifo_is_no_config_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "omnigraph.toml")
    assert load_settings({"HOME": str(tmp_path)}, tmp_path).config is None


def test_a_directory_that_a_user_may_not_list_is_no_bug(reachable_path: Path) -> None:
    """It says what is not allowed, and where (74)."""
    (reachable_path / "s.pg").write_text(SCHEMA)
    graph = reachable_path / "g"
    made = as_user(
        os.getuid(), os.getgid(), "init", graph, "--schema", reachable_path / "s.pg", cwd=reachable_path
    )
    assert made.code == 0, made.err
    (graph / "__manifest").chmod(0o700)
    for command in (("export",), ("branch", "list"), ("snapshot",), ("doctor",)):
        done = as_user(EVE, EVE, *command, "--store", graph, cwd=reachable_path)
        assert done.code == 74, (command, done)
        assert "__manifest" in done.err + done.out
