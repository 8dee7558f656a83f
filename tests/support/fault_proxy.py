"""An HTTP proxy on loopback that stands between an S3 client and its server and misbehaves on order.

Clients use the proxy's address as their endpoint. Requests are passed on byte by
byte, the `Host` header included, so their signatures stay valid. Each connection to
the server carries one request.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, unquote

Fault = Literal["status", "reset", "hang", "late", "landed-status", "landed-reset", "landed-hang"]
"""What happens to a request.

`status`, `reset`, `hang`: it never arrives; the client gets a status, a closed
connection, or nothing. `landed-…`: it arrives and is done, and the client gets that
instead of the answer. `late`: the client gets nothing, and it arrives after `delay_s`.
"""
Operation = Literal["PUT", "GET", "HEAD", "LIST", "DELETE"]


@dataclass(slots=True)
class Rule:
    """Faults for the requests of one kind whose path matches; the first `skip` of them pass.

    With `after`, nothing happens before that rule has struck.
    """

    operation: Operation
    path: str
    fault: Fault
    status: int = 500
    skip: int = 0
    times: int = 1
    delay_s: float = 0.0
    after: Rule | None = None
    matches: int = 0
    hits: int = 0

    def applies(self, request: Request) -> bool:
        """Count the request if it matches, and say whether it is one of those to spoil."""
        if request.operation != self.operation or not re.search(self.path, request.path):
            return False
        if self.after is not None and not self.after.hits:
            return False
        self.matches += 1
        if self.matches <= self.skip or self.hits >= self.times:
            return False
        self.hits += 1
        return True


ALWAYS = 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came."""

    method: str
    target: str
    head: bytes
    body: bytes

    @property
    def path(self) -> str:
        """The object, the first of several that are deleted, or for a listing the prefix that is listed."""
        if deleted := self._deleted:
            return deleted[0]
        path, _, query = self.target.partition("?")
        prefix = parse_qs(query).get("prefix", [""])[0] if self.operation == "LIST" else ""
        return unquote(f"{path}/{prefix}" if prefix else path)

    @property
    def paths(self) -> list[str]:
        """All objects that it is about."""
        return self._deleted or [self.path]

    @property
    def _deleted(self) -> list[str]:
        """Those of a request to delete several."""
        if self.method != "POST":
            return []
        path, _, _ = self.target.partition("?")
        return [f"{path}/{key.decode()}" for key in re.findall(rb"<Key>([^<]*)</Key>", self.body)]

    @property
    def is_conditional(self) -> bool:
        return re.search(rb"(?i)\r\nif-(none-)?match:", self.head) is not None

    @property
    def operation(self) -> str:
        query = self.target.partition("?")[2].split("&")
        if self.method == "GET" and "list-type=2" in query:
            return "LIST"
        if self.method == "POST" and ("delete" in query or "delete=" in query):
            return "DELETE"
        return self.method


@dataclass
class FaultProxy:
    """A running proxy. Rules may be added and cleared while it runs; the first that applies counts."""

    upstream_port: int
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    _rules: list[Rule] = field(default_factory=list)
    _under_way: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spoil(
        self,
        operation: Operation,
        path: str,
        fault: Fault,
        *,
        status: int = 500,
        skip: int = 0,
        times: int = 1,
        delay_s: float = 0.0,
        after: Rule | None = None,
    ) -> Rule:
        rule = Rule(operation, path, fault, status, skip, times, delay_s, after)
        with self._guard:
            self._rules.append(rule)
        return rule

    def heal(self) -> None:
        """Forget all rules; from now on every request passes."""
        with self._guard:
            self._rules.clear()

    def count(self, operation: Operation, path: str = "") -> int:
        """How many such requests have come in."""
        with self._guard:
            asked = [each.path for each in self.requests if each.operation == operation]
            return sum(bool(re.search(path, each)) for each in asked)

    def settle(self, within_s: float = 120.0) -> None:
        """Wait until everything that is to land late has landed."""
        deadline = time.monotonic() + within_s
        while self._under_way:
            assert time.monotonic() < deadline, "a late request never arrived"
            time.sleep(0.02)

    def _rule_for(self, request: Request) -> Rule | None:
        with self._guard:
            self.requests.append(request)
            return next((rule for rule in self._rules if rule.applies(request)), None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read_request(reader)) is not None:
                rule = self._rule_for(request)
                if rule is None:
                    writer.write(await self._forward(request))
                    await writer.drain()
                elif not await self._misbehave(rule, request, writer):
                    return
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the proxy is shutting down
        finally:
            writer.close()

    async def _misbehave(self, rule: Rule, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Do what the rule says; true when the connection goes on."""
        fault = rule.fault
        if fault.startswith("landed-"):
            await self._forward(request)
        if fault == "late":
            self._under_way += 1
            try:
                await asyncio.sleep(rule.delay_s)
                await self._forward(request)
            finally:
                self._under_way -= 1
        if fault.endswith("status"):
            writer.write(_error_response(rule.status, request))
            await writer.drain()
            return True
        if fault.endswith("reset"):
            _reset(writer)
            return False
        await asyncio.sleep(3600)
        return False

    async def _forward(self, request: Request) -> bytes:
        """The server's whole answer, in a form that leaves the client's connection open."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        try:
            writer.write(request.head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + request.body)
            await writer.drain()
            answer = await reader.read(-1)
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return re.sub(rb"(?i)\r\nconnection: close", b"", head) + b"\r\n\r\n" + body


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    body = await reader.readexactly(int(length[1])) if length else b""
    head = re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", head)
    return Request(method, target, head, body)


def _error_response(status: int, request: Request) -> bytes:
    body = b"<Error><Code>Injected</Code><Message>by the fault proxy</Message></Error>"
    head = f"HTTP/1.1 {status} Injected\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return head if request.method == "HEAD" else head + body


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the client sees a reset, not an orderly end."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextmanager
def fault_proxy(upstream_port: int) -> Iterator[FaultProxy]:
    """A proxy to the server on this port, in a thread of its own."""
    proxy = FaultProxy(upstream_port)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(proxy._serve, "127.0.0.1", 0, limit=2**20))
    proxy.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, name="fault-proxy")
    thread.start()
    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(_shut_down(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _shut_down(server: asyncio.Server) -> None:
    server.close()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
