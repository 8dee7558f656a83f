"""Turning the text of a vector search into a vector of length 1, with the service that the settings name."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from omnigraph_core.errors import RefusedError, UsageError
from omnigraph_core.read.search.service import Service
from omnigraph_core.records import dataclass
from omnigraph_core.settings import EmbedSettings

_OPENAI_URL = "https://api.openai.com/v1"
_OPENROUTER_URL = "https://openrouter.ai/api/v1"
_GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"
_OPENAI_MODEL = "text-embedding-3-large"
_OPENROUTER_MODEL = "openai/text-embedding-3-large"
_GEMINI_MODEL = "gemini-embedding-2"
_MOCK_MODEL = "mock"


class Embedder(Protocol):
    """`model` is the model it uses; vectors of different models cannot be compared."""

    @property
    def model(self) -> str: ...

    def embed(self, text: str, dimension: int) -> Sequence[float]: ...


def embedder_of(settings: EmbedSettings, left_s: Callable[[], float | None] = lambda: None) -> Embedder:
    """The provider that is named, else the one with a key; `left_s` as `Service` takes it."""
    provider = settings.provider or _provider_by_key(settings)
    if provider == "mock":
        return MockEmbedder(settings.model or _MOCK_MODEL)
    if provider == "gemini":
        key = _needed(settings.gemini_key, "GEMINI_API_KEY")
        service = Service(settings.base_url or _GEMINI_URL, {"x-goog-api-key": key}, settings, left_s)
        return GeminiEmbedder(service, settings.model or _GEMINI_MODEL)
    if provider not in ("openai", "openrouter", "openai-compatible"):
        raise UsageError(
            f"OMNIGRAPH_EMBED_PROVIDER: '{provider}' is not one of openai, openrouter, openai-compatible, "
            "gemini, mock"
        )
    url, model = (
        (_OPENAI_URL, _OPENAI_MODEL) if provider == "openai" else (_OPENROUTER_URL, _OPENROUTER_MODEL)
    )
    found = _openai_key(settings, provider)
    headers = {} if found is None else {"Authorization": f"Bearer {found}"}
    return OpenAIEmbedder(
        Service(settings.base_url or url, headers, settings, left_s), settings.model or model
    )


def _openai_key(settings: EmbedSettings, provider: str) -> str | None:
    """The key for a service with the protocol of OpenAI; one of one's own may do without."""
    if provider == "openrouter":
        return _needed(settings.openrouter_key, "OPENROUTER_API_KEY")
    key = settings.openai_key
    if provider == "openai-compatible":
        key = settings.openrouter_key or settings.openai_key
    if key is None and settings.base_url is not None:
        return None
    return _needed(key, "OPENAI_API_KEY" if provider == "openai" else "OPENROUTER_API_KEY")


def _provider_by_key(settings: EmbedSettings) -> str:
    for provider, key in (
        ("openrouter", settings.openrouter_key),
        ("openai", settings.openai_key),
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

    def __init__(self, service: Service, model: str) -> None:
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
    def __init__(self, service: Service, model: str) -> None:
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


def _vector(numbers: object, dimension: int, service: Service) -> list[float]:
    """The vector of an answer with length 1; only finite numbers of the right count make one."""
    if not isinstance(numbers, list) or not all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in numbers
    ):
        raise service.failed("its answer has no vector")
    if len(numbers) != dimension:
        raise service.failed(f"it gave {len(numbers)} numbers, the property is Vector({dimension})")
    try:
        vector = [float(each) for each in numbers]
        length = math.hypot(*vector)
    except OverflowError:
        length = math.inf
    if not math.isfinite(length) or not length:
        raise service.failed("the vector of its answer is zero or not finite")
    return [each / length for each in vector]
