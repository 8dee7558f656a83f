"""Turning the text of a vector search into a vector, with the service that the settings name.

Keys travel in a header and nowhere else: what a service answers to a bad request may
quote the key, so its text is never shown.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from omnigraph_core.errors import RefusedError, StorageError, UsageError
from omnigraph_core.records import dataclass
from omnigraph_core.settings import EmbedSettings

_OPENAI_URL = "https://api.openai.com/v1"
_OPENROUTER_URL = "https://openrouter.ai/api/v1"
_GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"
_OPENAI_MODEL = "text-embedding-3-small"
_OPENROUTER_MODEL = "openai/text-embedding-3-small"
_GEMINI_MODEL = "gemini-embedding-001"
_MOCK_MODEL = "mock"

_ANSWER_BYTES_MAX = 16 << 20
_FIRST_PAUSE_S = 0.2
_WORTH_RETRYING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class EmbedderFailed(StorageError):
    """The service could not be reached, or did not answer with a vector."""

    retryable = True


class Embedder(Protocol):
    """`model` is the model it uses; vectors of different models cannot be compared."""

    @property
    def model(self) -> str: ...

    def embed(self, text: str, dimension: int) -> Sequence[float]: ...


def embedder_of(settings: EmbedSettings) -> Embedder:
    """The provider that is named, else the one with a key."""
    provider = settings.provider or _provider_by_key(settings)
    if provider == "mock":
        return MockEmbedder(settings.model or _MOCK_MODEL)
    if provider == "gemini":
        key = _needed(settings.gemini_key, "GEMINI_API_KEY")
        url = settings.base_url or _GEMINI_URL
        return GeminiEmbedder(
            _Service(url, {"x-goog-api-key": key}, settings), settings.model or _GEMINI_MODEL
        )
    if provider == "openrouter":
        key = _needed(settings.openrouter_key, "OPENROUTER_API_KEY")
        return _openai_like(settings, _OPENROUTER_URL, key, _OPENROUTER_MODEL)
    if provider in ("openai", "openai-compatible"):
        if settings.openai_key is None and settings.base_url is not None:
            return _openai_like(settings, settings.base_url, None, _OPENAI_MODEL)
        return _openai_like(
            settings, _OPENAI_URL, _needed(settings.openai_key, "OPENAI_API_KEY"), _OPENAI_MODEL
        )
    raise UsageError(f"OMNIGRAPH_EMBED_PROVIDER: '{provider}' is not one of openai, openrouter, gemini, mock")


def _provider_by_key(settings: EmbedSettings) -> str:
    for provider, key in (
        ("openai", settings.openai_key),
        ("openrouter", settings.openrouter_key),
        ("gemini", settings.gemini_key),
    ):
        if key is not None:
            return provider
    raise RefusedError(
        "searching vectors by text needs an embedder, and none is configured",
        hint="set OPENAI_API_KEY, OPENROUTER_API_KEY or GEMINI_API_KEY, or search by a vector",
    )


def _needed(key: str | None, name: str) -> str:
    if key is None:
        raise RefusedError("searching vectors by text needs an embedder with a key", hint=f"set {name}")
    return key


def _openai_like(settings: EmbedSettings, url: str, key: str | None, model: str) -> OpenAIEmbedder:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return OpenAIEmbedder(_Service(settings.base_url or url, headers, settings), settings.model or model)


@dataclass(frozen=True, slots=True)
class MockEmbedder:
    """A vector made from the hash of the text: the same text, the same vector, anywhere."""

    model: str = _MOCK_MODEL

    def embed(self, text: str, dimension: int) -> Sequence[float]:
        digests = (hashlib.sha256(f"{number}\0{text}".encode()).digest() for number in range(dimension))
        numbers = [int.from_bytes(digest[:4], "big") / 2**31 - 1 for digest in digests]
        length = math.sqrt(sum(number * number for number in numbers)) or 1.0
        return [number / length for number in numbers]


class OpenAIEmbedder:
    """Any service with the protocol of OpenAI's `/embeddings`."""

    def __init__(self, service: _Service, model: str) -> None:
        self._service = service
        self.model = model

    def embed(self, text: str, dimension: int) -> Sequence[float]:
        body = {"model": self.model, "input": text, "dimensions": dimension, "encoding_format": "float"}
        answer = self._service.post("embeddings", body)
        try:
            numbers = answer["data"][0]["embedding"]
        except (KeyError, IndexError, TypeError):
            numbers = None
        return _vector(numbers, dimension, self._service)


class GeminiEmbedder:
    def __init__(self, service: _Service, model: str) -> None:
        self._service = service
        self.model = model

    def embed(self, text: str, dimension: int) -> Sequence[float]:
        body = {
            "model": f"models/{self.model}",
            "content": {"parts": [{"text": text}]},
            "taskType": "RETRIEVAL_QUERY",
            "outputDimensionality": dimension,
        }
        answer = self._service.post(f"models/{self.model}:embedContent", body)
        try:
            numbers = answer["embedding"]["values"]
        except (KeyError, TypeError):
            numbers = None
        return _vector(numbers, dimension, self._service)


class _Failure(Exception):
    """One failed attempt."""

    def __init__(self, reason: str, *, may_pass: bool) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


class _Service:
    """JSON over HTTP, retried when the service is busy."""

    def __init__(self, url: str, headers: Mapping[str, str], settings: EmbedSettings) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"OMNIGRAPH_EMBED_BASE_URL: '{url}' is not an http(s) address")
        self.url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json", **headers}
        self._settings = settings

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        data = json.dumps(body).encode("utf-8")
        pause = _FIRST_PAUSE_S
        left = self._settings.retries
        while True:
            try:
                return self._posted(path, data)
            except _Failure as failure:
                if not failure.may_pass or left <= 0:
                    raise EmbedderFailed(f"the embedder at {self.url} failed: {failure}") from None
            left -= 1
            time.sleep(pause)
            pause *= 2

    def _posted(self, path: str, data: bytes) -> Any:
        request = urllib.request.Request(f"{self.url}/{path}", data, self._headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=self._settings.timeout_s) as response:
                return json.loads(response.read(_ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            raise _Failure(f"HTTP {error.code}", may_pass=error.code in _WORTH_RETRYING) from None
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise _Failure(f"it cannot be reached ({reason})", may_pass=True) from None
        except ValueError:
            raise _Failure("its answer is not JSON", may_pass=False) from None


def _vector(numbers: object, dimension: int, service: _Service) -> list[float]:
    if not isinstance(numbers, list) or not all(isinstance(each, int | float) for each in numbers):
        raise EmbedderFailed(f"the embedder at {service.url} failed: its answer has no vector")
    if len(numbers) != dimension:
        raise EmbedderFailed(
            f"the embedder at {service.url} gave {len(numbers)} numbers, the property is Vector({dimension})"
        )
    return [float(each) for each in numbers]
