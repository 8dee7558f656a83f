"""An S3 server on loopback for the tests: SeaweedFS (`weed mini`), started when first needed.

Each xdist worker that runs an S3 test starts its own: a start costs a second, and
nothing has to be counted or handed over between workers. The server dies with the
worker (also when that is killed) and leaves nothing behind.
"""

from __future__ import annotations

import ctypes
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph_core.errors import StorageError
from omnigraph_core.settings import load_settings
from omnigraph_core.storage import open_storage, parse_location
from tests.support.programs import require_program

ACCESS_KEY = "loopback-access-key"
SECRET_KEY = "loopback-secret-key-which-nobody-may-ever-print"
BUCKET = "omnigraph-tests"
READY_S = 120.0
SERVICES = ("s3", "master", "volume", "filer", "admin")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server: where it is, and the one bucket it has."""

    port: int
    bucket: str = BUCKET

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to use this server."""
        return environment_of(self.endpoint)

    def new_location(self) -> str:
        """The address of a graph root that no other test uses."""
        return f"s3://{self.bucket}/{secrets.token_hex(8)}/graph"


def environment_of(endpoint: str) -> dict[str, str]:
    return {
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_S3_FORCE_PATH_STYLE": "true",
        "AWS_ALLOW_HTTP": "true",
    }


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The S3 server of this worker."""
    with running_server() as server:
        yield server


@pytest.fixture
def s3_environment(s3_server: S3Server) -> dict[str, str]:
    """The `AWS_*` variables that lead to the server."""
    return s3_server.environment


@pytest.fixture
def s3_location(s3_server: S3Server) -> Callable[[], str]:
    """Call it for the address of a fresh, empty graph root."""
    return s3_server.new_location


@contextmanager
def running_server() -> Iterator[S3Server]:
    weed = require_program(str(Path(sys.executable).with_name("weed")))
    folder = Path(tempfile.mkdtemp(prefix="og-s3-", dir="/tmp"))  # short: socket paths end at 107 bytes
    try:
        for _ in range(3):  # a port may be taken between choosing and using it
            ports = _free_ports()
            process = _start(weed, folder, ports)
            try:
                if _becomes_ready(process, ports[0]):
                    yield S3Server(ports[0])
                    return
            finally:
                _stop(process, ports)
        pytest.fail(f"weed does not start: {(folder / 'output').read_text(errors='replace')[-2000:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(weed: str, folder: Path, ports: list[int]) -> subprocess.Popen[bytes]:
    command = [weed, "-logdir", str(folder), "mini", "-dir", str(folder / "data")]
    command += ["-ip", "127.0.0.1", "-ip.bind", "127.0.0.1", "-bucket", BUCKET]
    command += ["-admin.ui=false", "-webdav=false", "-master.telemetry=false"]
    command += ["-s3.port.iceberg", "0", "-s3.port.lance", "0"]
    command += ["-filer.localSocket", str(folder / "f.sock"), "-s3.localSocket", str(folder / "s.sock")]
    flags = [f"-{service}.{port}" for service in SERVICES for port in ("port", "port.grpc")]
    for flag, port in zip(flags, ports, strict=True):
        command += [flag, str(port)]
    with open(folder / "output", "ab") as output:
        return subprocess.Popen(
            command,
            env={
                "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                "GOGC": "400",  # a fifth less CPU, for memory
                "GOMEMLIMIT": "768MiB",
                "HOME": str(folder),
                "TMPDIR": str(folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            preexec_fn=_die_with_parent,
        )


def _die_with_parent() -> None:
    """On Linux the kernel ends the server when the worker is killed; elsewhere it stays."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _becomes_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the bucket takes and gives an object."""
    location = parse_location(f"s3://{BUCKET}", Path("/"))
    store = open_storage(location, load_settings(environment_of(f"http://127.0.0.1:{port}"))).control
    deadline = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(StorageError, OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            store.put("ready", b"yes")
            if store.get("ready") is not None:
                store.delete("ready")
                return True
        time.sleep(0.02)
    return False


def _stop(process: subprocess.Popen[bytes], ports: list[int]) -> None:
    """Nothing in it is worth a clean end, which takes seconds. Its sockets have fixed names in /tmp."""
    process.kill()
    process.wait()
    for port in ports:
        for left_over in Path("/tmp").glob(f"seaweedfs-*-grpc-{port}.sock"):
            left_over.unlink(missing_ok=True)


def _free_ports() -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2 * len(SERVICES))]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
