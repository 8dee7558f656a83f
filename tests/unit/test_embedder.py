"""Embedders beside a real server that answers as no service should."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph_core.errors import RefusedError, UsageError
from omnigraph_core.read.search.embedding import embedder_of
from omnigraph_core.read.search.service import EmbedderFailed
from omnigraph_core.settings import EmbedSettings, load_settings

LARGE = "openai/text-embedding-3-large"
SETTINGS = EmbedSettings(provider="openai", openai_key="sk-secret", retries=0, timeout_s=5.0)


class Server:
    """Answers every connection with the same bytes, and keeps what it was asked."""

    def __init__(self, answer: bytes, *, pause_s: float = 0.0, stays: bool = False) -> None:
        self.asked: list[bytes] = []
        self._answer, self._pause_s, self._stays = answer, pause_s, stays
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._reply, args=(connection,), daemon=True).start()

    def _reply(self, connection: socket.socket) -> None:
        with connection:
            try:
                self.asked.append(connection.recv(65536))
                size = 1 if self._pause_s else max(len(self._answer), 1)
                for start in range(0, len(self._answer), size):
                    connection.sendall(self._answer[start : start + size])
                    time.sleep(self._pause_s)
                if self._stays:
                    time.sleep(30)
            except OSError:
                return

    def close(self) -> None:
        self._socket.close()


Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[Server] = []

    def start(answer: bytes, **options: object) -> Server:
        servers.append(Server(answer, **options))  # type: ignore[arg-type]
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def vector(text: str) -> bytes:
    return http(b'{"data":[{"embedding":' + text.encode() + b"}]}")


MALFORMED = {
    "no status line": b"hello\r\n\r\n",
    "nothing": b"",
    "status out of range": b"HTTP/1.1 99999 X\r\n\r\n",
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n0\r\n\r\n",
    "huge chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nabc",
    "cut short": b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"data":',
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500,
    "long header": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
    "no JSON": http(b"<html>"),
    "not UTF-8": http(b'"\xff\xfe"'),
    "deep JSON": http(b"[" * 200_000),
    "other shape": http(b'{"data":{"0":1}}'),
    "huge integer": vector("[" + "9" * 400 + ",1]"),
    "thousands of digits": vector("[" + "9" * 5000 + ",1]"),
    "NaN": vector("[NaN,1]"),
    "Infinity": vector("[Infinity,1]"),
    "too large together": vector("[1e308,1e308,1e308]"),
    "zero": vector("[0,0]"),
    "texts": vector('["1","2"]'),
    "booleans": vector("[true,false]"),
    "too few": vector("[1]"),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_answer_is_one_error(name: str, serve: Serve) -> None:
    server = serve(MALFORMED[name])
    embedder = embedder_of(replace(SETTINGS, base_url=server.url))
    with pytest.raises(EmbedderFailed, match=f"^the embedder at {server.url} failed: ") as failed:
        embedder.embed("text", 2)
    assert "secret" not in str(failed.value)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 Other", "307 Temporary", "308 Permanent"])
def test_a_redirect_never_carries_the_key_away(status: str, serve: Serve) -> None:
    other = serve(vector("[1,0]"))
    server = serve(http(b"", status, f"Location: {other.url}/v1/embeddings"))
    with pytest.raises(EmbedderFailed, match="redirects are not followed"):
        embedder_of(replace(SETTINGS, base_url=server.url)).embed("text", 2)
    assert other.asked == []


def test_a_slow_service_is_given_up_in_time(serve: Serve) -> None:
    """Neither ever comes to an end by itself. How many tries the deadline leaves time for is bounded."""
    dripping = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000, pause_s=0.05)
    silent = serve(b"", stays=True)
    for server in (dripping, silent):
        settings = replace(SETTINGS, base_url=server.url, timeout_s=0.3, retries=100, deadline_s=1.0)
        with pytest.raises(EmbedderFailed, match=r"failed: it (did not answer|cannot be reached)"):
            embedder_of(settings).embed("text", 2)
        assert len(server.asked) <= 2
    settings = replace(SETTINGS, base_url=silent.url, timeout_s=60, deadline_s=60)
    with pytest.raises(EmbedderFailed):
        embedder_of(settings, lambda: 0.2).embed("text", 2)


def test_a_busy_service_is_asked_again_as_the_variables_say(serve: Serve) -> None:
    busy = serve(http(b"", "503 Busy"))
    variables = {"OMNIGRAPH_EMBED_PROVIDER": "openai", "OPENAI_API_KEY": "k"}
    variables |= {"OMNIGRAPH_EMBED_BASE_URL": busy.url, "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "3"}

    def times_asked(backoff_ms: str, deadline_ms: str) -> int:
        busy.asked.clear()
        waits = {"OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": backoff_ms, "OMNIGRAPH_EMBED_DEADLINE_MS": deadline_ms}
        settings = load_settings({**variables, **waits}, Path("/")).embed
        with pytest.raises(EmbedderFailed, match="HTTP 503"):
            embedder_of(settings).embed("text", 2)
        return len(busy.asked)

    assert times_asked("1", "600000") == 4
    assert times_asked("600000", "60000") == 1  # there is no time left to wait as long as that


def test_a_password_in_the_address_is_sent_and_never_shown(serve: Serve) -> None:
    server = serve(http(b"", "401 Unauthorized"))
    address = f"http://ann:hunter2@127.0.0.1:{server.port}/v1?token=hunter3"
    settings = EmbedSettings(provider="openai", base_url=address, retries=0)
    assert "hunter" not in repr(settings)
    with pytest.raises(EmbedderFailed, match="HTTP 401") as failed:
        embedder_of(settings).embed("text", 2)
    assert "hunter" not in str(failed.value)
    assert b"Authorization: Basic YW5uOmh1bnRlcjI=" in server.asked[0]
    assert server.asked[0].startswith(b"POST /v1/embeddings?token=hunter3 ")
    for wrong in ("ftp://ann:hunter2@x", "http://", "//ann:hunter2@x", "http://ann:hunter2@[x"):
        with pytest.raises(UsageError) as refused:
            embedder_of(replace(settings, base_url=wrong))
        assert "hunter" not in str(refused.value)


def test_the_vector_has_length_one(serve: Serve) -> None:
    server = serve(vector("[3, 4]"))
    found = embedder_of(replace(SETTINGS, base_url=server.url)).embed("text", 2)
    assert found == pytest.approx([0.6, 0.8])
    assert math.hypot(*found) == pytest.approx(1)


@pytest.mark.parametrize(
    ("settings", "model", "key"),
    [
        (EmbedSettings(openai_key="o"), "text-embedding-3-large", b"Bearer o"),
        (EmbedSettings(openrouter_key="r"), "openai/text-embedding-3-large", b"Bearer r"),
        (EmbedSettings(openai_key="o", openrouter_key="r"), "openai/text-embedding-3-large", b"Bearer r"),
        (EmbedSettings("openai-compatible", openai_key="o"), "openai/text-embedding-3-large", b"Bearer o"),
        (
            EmbedSettings("openai-compatible", openrouter_key="r"),
            "openai/text-embedding-3-large",
            b"Bearer r",
        ),
        (EmbedSettings("openai", openai_key="o", openrouter_key="r"), "text-embedding-3-large", b"Bearer o"),
    ],
)
def test_providers_models_and_keys(settings: EmbedSettings, model: str, key: bytes, serve: Serve) -> None:
    server = serve(vector("[1,0]"))
    embedder = embedder_of(replace(settings, base_url=server.url))
    assert embedder.model == model
    embedder.embed("text", 2)
    head, _, body = server.asked[0].partition(b"\r\n\r\n")
    assert b"Authorization: " + key in head
    assert not body or json.loads(body)["model"] == model


def test_gemini_and_nothing() -> None:
    assert embedder_of(EmbedSettings(gemini_key="g")).model == "gemini-embedding-2"
    with pytest.raises(RefusedError):
        embedder_of(EmbedSettings())
