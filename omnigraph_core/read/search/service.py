"""JSON over HTTP within a deadline, from a service that is not trusted.

A redirect is never followed: it could carry the key to another host. A whole call, from the
name of the host to the last byte of the answer, ends with the deadline, however slowly the
service drips: it runs on a thread of its own, and is left to itself then. Keys and passwords
travel in headers; no message has them, nor anything that a service said.
"""

from __future__ import annotations

import base64
import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from omnigraph_core.errors import StorageError, UsageError
from omnigraph_core.settings import EmbedSettings

if TYPE_CHECKING:
    import urllib3

_ANSWER_BYTES_MAX = 16 << 20
_PIECE_BYTES = 1 << 16
_WORTH_RETRYING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class EmbedderFailed(StorageError):
    """The service could not be reached, or did not answer with a vector."""

    retryable = True


class _Failure(Exception):
    """One failed attempt."""

    def __init__(self, reason: str, *, may_pass: bool) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


class Service:
    """One service. `left_s` tells how many seconds the caller has left, None for any number."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        settings: EmbedSettings,
        left_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        from urllib3.exceptions import HTTPError
        from urllib3.util import parse_url

        try:
            parsed = parse_url(url)
        except HTTPError:
            parsed = parse_url("")
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise UsageError("OMNIGRAPH_EMBED_BASE_URL is not an http(s) address")
        plain = parsed._replace(auth=None, query=None, fragment=None)
        self.url = plain.url.rstrip("/")
        """Without the user and the password that it may have had."""
        self._query = "" if parsed.query is None else f"?{parsed.query}"
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if parsed.auth is not None:
            coded = base64.b64encode(unquote(parsed.auth).encode()).decode()
            self._headers["Authorization"] = f"Basic {coded}"
        self._headers |= headers
        self._settings = settings
        self._left_s = left_s

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        """The answer, after as many tries as the settings allow and the deadline leaves time for."""
        data = json.dumps(body).encode("utf-8")
        ends = time.monotonic() + self._settings.deadline_s
        left_s = self._left_s()
        if left_s is not None:
            ends = min(ends, time.monotonic() + left_s)
        pause, tries = self._settings.backoff_s, self._settings.retries
        while True:
            try:
                return self._in_time(path, data, ends)
            except _Failure as failure:
                if not failure.may_pass or tries <= 0 or time.monotonic() + pause >= ends:
                    raise self.failed(str(failure)) from None
            tries -= 1
            time.sleep(pause)
            pause *= 2

    def failed(self, reason: str) -> EmbedderFailed:
        return EmbedderFailed(f"the embedder at {self.url} failed: {reason}")

    def _in_time(self, path: str, data: bytes, ends: float) -> Any:
        """One try, on a thread that nobody waits for when its time is over."""
        seconds = min(self._settings.timeout_s, ends - time.monotonic())
        if seconds <= 0:
            raise _Failure("there was no time left", may_pass=False)
        outcome: queue.SimpleQueue[tuple[Any, _Failure | None]] = queue.SimpleQueue()

        def work() -> None:
            try:
                outcome.put((self._posted(path, data, seconds), None))
            except _Failure as failure:
                outcome.put((None, failure))
            except Exception as error:  # whatever else the bytes of a stranger may cause
                outcome.put(
                    (None, _Failure(f"its answer is malformed ({type(error).__name__})", may_pass=False))
                )

        threading.Thread(target=work, name="embedder", daemon=True).start()
        try:
            answer, failure = outcome.get(timeout=seconds)
        except queue.Empty:
            raise _Failure(f"it did not answer within {seconds:.3g} s", may_pass=True) from None
        if failure is not None:
            raise failure
        return answer

    def _posted(self, path: str, data: bytes, seconds: float) -> Any:
        import urllib3

        with urllib3.PoolManager(num_pools=1) as pool:
            try:
                response = pool.request(
                    "POST",
                    f"{self.url}/{path}{self._query}",
                    body=data,
                    headers=self._headers,
                    redirect=False,
                    retries=False,
                    timeout=urllib3.Timeout(total=seconds),
                    preload_content=False,
                )
                return _parsed(_content(response))
            except urllib3.exceptions.ProtocolError:
                raise _Failure("its answer is malformed or was cut short", may_pass=True) from None
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise _Failure(f"it cannot be reached ({type(error).__name__})", may_pass=True) from None


def _content(response: urllib3.BaseHTTPResponse) -> bytes:
    if 300 <= response.status < 400:
        raise _Failure(f"HTTP {response.status}, and redirects are not followed", may_pass=False)
    if response.status != 200:
        raise _Failure(f"HTTP {response.status}", may_pass=response.status in _WORTH_RETRYING)
    pieces: list[bytes] = []
    size = 0
    for piece in response.stream(_PIECE_BYTES, decode_content=False):
        size += len(piece)
        if size > _ANSWER_BYTES_MAX:
            raise _Failure(f"its answer is longer than {_ANSWER_BYTES_MAX >> 20} MiB", may_pass=False)
        pieces.append(piece)
    return b"".join(pieces)


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise _Failure("its answer is not JSON", may_pass=False) from None
