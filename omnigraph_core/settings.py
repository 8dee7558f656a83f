"""All of the environment and the config file, read once into one frozen object.

Nothing else in OmniGraph looks at the environment: a function that needs a setting
takes `Settings` (or the part of it) as an argument, so that a test or a library
user can run two graphs with different settings side by side.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path

from omnigraph_core import layout
from omnigraph_core.config_file import (
    TRUST_VARIABLE,
    ConfigFile,
    UserConfig,
    find_config,
    read_user_config,
)
from omnigraph_core.errors import UsageError
from omnigraph_core.limits import (
    CACHE_DEFAULT_BYTES,
    EMBED_BACKOFF_DEFAULT_S,
    EMBED_DEADLINE_DEFAULT_S,
    EMBED_RETRIES_DEFAULT,
    EMBED_TIMEOUT_DEFAULT_S,
    LEASE_TTL_DEFAULT_S,
    LOAD_CONCURRENCY_DEFAULT,
    LOAD_CONCURRENCY_MAX,
    LOCK_TIMEOUT_DEFAULT_S,
    MAINTENANCE_CONCURRENCY_DEFAULT,
    MEMORY_DEFAULT_BYTES,
)
from omnigraph_core.patterns import pattern
from omnigraph_core.records import dataclass
from omnigraph_core.times import parse_duration

DEFAULT_REGION = "us-east-1"
_SIZE = pattern(r"(?P<number>\d+(?:\.\d+)?)\s*(?:(?P<unit>[kKmMgGtT])i?)?[bB]?")


class TraversalMode(StrEnum):
    """How a read finds the edges around nodes, when it must not choose for itself."""

    INDEXED = "indexed"
    CSR = "csr"


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach S3; the same for control objects and for Lance.

    Credentials are never part of the `repr`. Without them the S3 clients use their own provider
    chain (web identity, container, instance metadata).
    """

    region: str = DEFAULT_REGION
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    force_path_style: bool | None = None
    allow_http: bool = False
    lease_ttl_s: float = LEASE_TTL_DEFAULT_S
    lease_dead_after_s: float | None = None
    """How old a lease must be, by the store's clock, to be a dead process's; None: see `storage.lease`."""


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    """Which service turns a text into a vector. The key is never part of the `repr`.

    `provider` is `openai`, `openrouter`, `openai-compatible` (OpenRouter with either key), `gemini`
    or `mock`; without it, whichever key is set decides, OpenRouter first.
    """

    provider: str | None = None
    model: str | None = None
    base_url: str | None = field(default=None, repr=False)
    openai_key: str | None = field(default=None, repr=False)
    openrouter_key: str | None = field(default=None, repr=False)
    gemini_key: str | None = field(default=None, repr=False)
    timeout_s: float = EMBED_TIMEOUT_DEFAULT_S
    """For one try."""
    retries: int = EMBED_RETRIES_DEFAULT
    deadline_s: float = EMBED_DEADLINE_DEFAULT_S
    """For all of them together, with the pauses in between."""
    backoff_s: float = EMBED_BACKOFF_DEFAULT_S
    """The first pause; each is twice the one before."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where Java and Spark are, if the environment says so."""

    java_home: str | None = None
    spark_home: str | None = None
    java_on_path: str | None = None


_NO_FILE = ConfigFile(Path())
# Variables that other programs read, too.
_SHARED = frozenset({"NO_COLOR", "FORCE_COLOR", "PAGER"})


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment and the config file say; arguments of a call take precedence."""

    store: str | None = None
    branch: str | None = None
    actor: str | None = None
    lock_timeout_s: float = LOCK_TIMEOUT_DEFAULT_S
    fsync: bool = True
    failpoints: str = ""
    color: str | None = None
    is_dumb_terminal: bool = False
    config: ConfigFile | None = None
    user: UserConfig | None = None
    variables: frozenset[str] = frozenset()
    """Which of our variables the environment has."""
    state_home: Path | None = None
    """Where the user's own history is kept."""
    pager: str | None = None
    """What shows long output on a terminal; None if nobody says, "" for nothing."""
    cache_home: Path | None = None
    """Where copies of what a graph on S3 never changes are kept; None: nowhere."""
    cache_limit_bytes: int = CACHE_DEFAULT_BYTES
    working_directory: Path = Path(".")
    s3: S3Settings = S3Settings()
    traversal_mode: TraversalMode | None = None
    memory_limit_bytes: int = MEMORY_DEFAULT_BYTES
    load_concurrency: int = LOAD_CONCURRENCY_DEFAULT
    maintenance_concurrency: int = MAINTENANCE_CONCURRENCY_DEFAULT
    embed: EmbedSettings = EmbedSettings()
    spark: SparkSettings = SparkSettings()
    warm_idle_s: float | None = None
    """How long a background process for quick starts waits for the next command; None: there is none."""

    @property
    def named_actor(self) -> str | None:
        """The actor that the environment or the config file names."""
        return self.actor or (self.config or _NO_FILE).actor or (self.user or _NO_FILE).actor

    @property
    def default_branch(self) -> str:
        """The branch when none is given: environment, config files, else main."""
        named = (self.config or _NO_FILE).branch or (self.user or _NO_FILE).branch
        return self.branch or named or layout.MAIN_BRANCH

    @property
    def default_actor(self) -> str:
        """The actor when none is given: environment, config file, else `user@host`."""
        return self.named_actor or f"{_user_name()}@{socket.gethostname()}"


def load_settings(environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> Settings:
    """Read the process's environment and config file, or the ones given by a test."""
    env = os.environ if environment is None else environment
    directory = _working_directory() if cwd is None else cwd
    user = read_user_config(env)
    return Settings(
        store=_text(env, "OMNIGRAPH_STORE"),
        branch=_text(env, "OMNIGRAPH_BRANCH"),
        actor=_text(env, "OMNIGRAPH_ACTOR"),
        lock_timeout_s=_seconds(env, "OMNIGRAPH_LOCK_TIMEOUT", LOCK_TIMEOUT_DEFAULT_S),
        fsync=_switch(env, "OMNIGRAPH_FSYNC", default=True),
        failpoints=env.get("OMNIGRAPH_FAILPOINTS", ""),
        color=_color(env) or user.color,
        is_dumb_terminal=env.get("TERM") == "dumb",
        config=find_config(directory, user, trusts_all=_switch(env, TRUST_VARIABLE, default=False)),
        user=user,
        variables=frozenset(name for name in env if name.startswith("OMNIGRAPH_") or name in _SHARED),
        pager=_pager(env, user),
        state_home=_home(env, "XDG_STATE_HOME", ".local/state"),
        cache_home=_cache_home(env),
        cache_limit_bytes=_size(env, "OMNIGRAPH_CACHE_LIMIT", CACHE_DEFAULT_BYTES),
        working_directory=directory,
        s3=_s3(env),
        traversal_mode=_traversal_mode(env),
        memory_limit_bytes=_size(env, "OMNIGRAPH_MEMORY_LIMIT", MEMORY_DEFAULT_BYTES),
        load_concurrency=_count(env, "OMNIGRAPH_LOAD_CONCURRENCY", LOAD_CONCURRENCY_DEFAULT),
        maintenance_concurrency=_count(
            env, "OMNIGRAPH_MAINTENANCE_CONCURRENCY", MAINTENANCE_CONCURRENCY_DEFAULT
        ),
        embed=_embed(env),
        spark=SparkSettings(
            _text(env, "JAVA_HOME"), _text(env, "SPARK_HOME"), shutil.which("java", path=env.get("PATH", ""))
        ),
        warm_idle_s=_warm(env, user),
    )


def _home(env: Mapping[str, str], name: str, usual: str) -> Path | None:
    named = env.get(name)
    return Path(named) if named else Path(env["HOME"], usual) if env.get("HOME") else None


def _cache_home(env: Mapping[str, str]) -> Path | None:
    """OMNIGRAPH_CACHE_DIR, else a folder in the user's own cache."""
    named = _text(env, "OMNIGRAPH_CACHE_DIR")
    usual = _home(env, "XDG_CACHE_HOME", ".cache")
    return Path(named) if named else None if usual is None else usual / "omnigraph"


def _pager(env: Mapping[str, str], user: UserConfig) -> str | None:
    """OMNIGRAPH_PAGER, else the user's config, else PAGER."""
    own = env.get("OMNIGRAPH_PAGER")
    return own if own is not None else user.pager if user.pager is not None else env.get("PAGER")


def environment_for_child(settings: Settings, more: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child process: our own, with the S3 access of `settings`."""
    own = {name: value for name, value in os.environ.items() if name not in _S3_VARIABLES}
    return {**own, **s3_environment(settings.s3), **more}


_S3_VARIABLES = frozenset(
    {
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_S3_FORCE_PATH_STYLE",
        "AWS_ALLOW_HTTP",
        "OMNIGRAPH_LEASE_TTL",
        "OMNIGRAPH_LEASE_DEAD_AFTER",
    }
)


def s3_environment(s3: S3Settings) -> dict[str, str]:
    """Variables from which `load_settings` reads these settings again."""
    named = {
        "AWS_REGION": s3.region,
        "AWS_ACCESS_KEY_ID": s3.access_key_id,
        "AWS_SECRET_ACCESS_KEY": s3.secret_access_key,
        "AWS_SESSION_TOKEN": s3.session_token,
        "AWS_ENDPOINT_URL_S3": s3.endpoint,
        "AWS_S3_FORCE_PATH_STYLE": _written(s3.force_path_style),
        "AWS_ALLOW_HTTP": _written(s3.allow_http or None),
        "OMNIGRAPH_LEASE_TTL": str(s3.lease_ttl_s),
        "OMNIGRAPH_LEASE_DEAD_AFTER": None if s3.lease_dead_after_s is None else str(s3.lease_dead_after_s),
    }
    return {name: value for name, value in named.items() if value is not None}


def _written(switch: bool | None) -> str | None:
    return None if switch is None else str(switch).lower()


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            f"the working directory cannot be found: {error.strerror}", hint="cd to a directory that exists"
        ) from error


def _text(env: Mapping[str, str], name: str) -> str | None:
    """A variable whose value ends up in the graph or in a path: it must be text."""
    value = env.get(name) or None
    try:
        (value or "").encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"{name}: {value!a} is not UTF-8 text") from error
    return value


def _s3(env: Mapping[str, str]) -> S3Settings:
    """Checked only when an s3:// graph is opened: a local graph must not fail because of `AWS_*`."""
    path_style = env.get("AWS_S3_FORCE_PATH_STYLE", "").strip()
    return S3Settings(
        region=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or DEFAULT_REGION,
        access_key_id=env.get("AWS_ACCESS_KEY_ID") or None,
        secret_access_key=env.get("AWS_SECRET_ACCESS_KEY") or None,
        session_token=env.get("AWS_SESSION_TOKEN") or None,
        endpoint=env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or None,
        force_path_style=_is_truthy(path_style) if path_style else None,
        allow_http=_is_truthy(env.get("AWS_ALLOW_HTTP", "")),
        lease_ttl_s=_seconds(env, "OMNIGRAPH_LEASE_TTL", LEASE_TTL_DEFAULT_S),
        lease_dead_after_s=_seconds(env, "OMNIGRAPH_LEASE_DEAD_AFTER", 0.0) or None,
    )


def _traversal_mode(env: Mapping[str, str]) -> TraversalMode | None:
    text = env.get("OMNIGRAPH_TRAVERSAL_MODE", "").strip().lower()
    if not text or text == "auto":
        return None
    try:
        return TraversalMode(text)
    except ValueError:
        raise UsageError(f"OMNIGRAPH_TRAVERSAL_MODE: '{text}' is not one of auto, indexed, csr") from None


def _embed(env: Mapping[str, str]) -> EmbedSettings:
    """Checked only when a text is to be embedded."""
    mock = _is_truthy(env.get("OMNIGRAPH_EMBEDDINGS_MOCK", ""))
    return EmbedSettings(
        provider="mock" if mock else env.get("OMNIGRAPH_EMBED_PROVIDER") or None,
        model=env.get("OMNIGRAPH_EMBED_MODEL") or None,
        base_url=env.get("OMNIGRAPH_EMBED_BASE_URL") or None,
        openai_key=env.get("OPENAI_API_KEY") or None,
        openrouter_key=env.get("OPENROUTER_API_KEY") or None,
        gemini_key=env.get("GEMINI_API_KEY") or None,
        timeout_s=_seconds(env, "OMNIGRAPH_EMBED_TIMEOUT_MS", EMBED_TIMEOUT_DEFAULT_S * 1000) / 1000,
        retries=int(_seconds(env, "OMNIGRAPH_EMBED_RETRY_ATTEMPTS", EMBED_RETRIES_DEFAULT)),
        deadline_s=_seconds(env, "OMNIGRAPH_EMBED_DEADLINE_MS", EMBED_DEADLINE_DEFAULT_S * 1000) / 1000,
        backoff_s=_seconds(env, "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", EMBED_BACKOFF_DEFAULT_S * 1000) / 1000,
    )


def _is_truthy(text: str) -> bool:
    """Lenient, as the AWS tools are about their own variables; anything else means no."""
    return text.strip().lower() in ("1", "true", "yes", "on")


def _user_name() -> str:
    try:
        return getpass.getuser().encode("utf-8", "backslashreplace").decode("utf-8")
    except (KeyError, OSError):
        return f"uid{os.getuid()}"


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"{name}: '{text}' is not a number of seconds")
    return value


def _size(env: Mapping[str, str], name: str, default: int) -> int:
    """A number of bytes; `2GiB`, `500MB`, `64k` are understood."""
    text = env.get(name, "").strip()
    if not text:
        return default
    found = _SIZE.fullmatch(text)
    if found is None:
        raise UsageError(f"{name}: '{text}' is not a size", hint="write it as 2GiB or 500MB")
    power = "kmgt".find((found["unit"] or "").lower()) + 1 if found["unit"] else 0
    return int(float(found["number"]) * 1024**power)


def _count(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= LOAD_CONCURRENCY_MAX:
        raise UsageError(f"{name}: '{text}' is not a number from 1 to {LOAD_CONCURRENCY_MAX}")
    return int(text)


def _switch(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = env.get(name, "").strip().lower()
    if not text:
        return default
    if text in ("on", "1", "true", "yes"):
        return True
    if text in ("off", "0", "false", "no"):
        return False
    raise UsageError(f"{name}: '{text}' is neither on nor off")


def _color(env: Mapping[str, str]) -> str | None:
    """`always` or `never` when the environment decides it, None to ask the terminal."""
    if env.get("NO_COLOR") or env.get("TERM") == "dumb":
        return "never"
    if env.get("FORCE_COLOR"):
        return "always"
    return None


def _warm(env: Mapping[str, str], user: UserConfig) -> float | None:
    """OMNIGRAPH_WARM, else `warm` in the user's own config file: never in a graph's, which others write."""
    text, where = env.get("OMNIGRAPH_WARM"), "OMNIGRAPH_WARM"
    if text is None:
        text, where = user.warm, f"{user.path}: 'warm'"
    if text.strip().lower() in ("", "0", "off", "no", "false"):
        return None
    seconds = parse_duration(text)
    if seconds is None:
        raise UsageError(f"{where}: '{text}' is not a time", hint="such as 10m, 1h or off")
    return seconds
