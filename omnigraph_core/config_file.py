"""`omnigraph.toml` of a directory, and the user's own config file.

The nearest `omnigraph.toml` upwards says which graph a command works on. In a directory that others
may write to, that is somebody else's choice. So a file of another user is not obeyed, unless the
environment or the user's own config file trusts it; root's is, because root needs no config file
to do harm.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omnigraph_core import layout
from omnigraph_core.errors import RefusedError, UsageError
from omnigraph_core.records import dataclass

TRUST_VARIABLE = "OMNIGRAPH_TRUST_CONFIG"
_KEYS = frozenset({"store", "branch", "actor"})
_USER_KEYS = frozenset({"store", "branch", "actor", "color", "pager", "warm", "trust"})
_MAY_BE_EMPTY = frozenset({"pager"})
_ANY = "*"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The nearest `omnigraph.toml` upwards from the working directory."""

    path: Path
    store: str | None = None
    branch: str | None = None
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class UserConfig:
    """What the user's own config file says; nothing if there is none."""

    path: Path
    store: str | None = None
    branch: str | None = None
    actor: str | None = None
    color: str | None = None
    pager: str | None = None
    warm: str = ""
    trust: tuple[str, ...] = ()
    """Config files of other users to obey."""


class ConfigNotTrusted(RefusedError):
    """An `omnigraph.toml` that another user wrote, or can replace."""

    def __init__(self, path: Path, owner: int) -> None:
        super().__init__(
            f"{path} is not obeyed: it belongs to another user (uid {owner})",
            hint=f"if you trust it, set {TRUST_VARIABLE}=1, or list the file under `trust` in "
            f"~/.config/{layout.USER_CONFIG}",
        )
        self.path, self.owner = path, owner

    def details(self) -> Mapping[str, object]:
        return {"path": str(self.path), "owner": self.owner}


def find_config(directory: Path, user: UserConfig, *, trusts_all: bool) -> ConfigFile | None:
    """The nearest config file; `ConfigNotTrusted` if it is another user's."""
    for folder in (directory, *directory.parents):
        path = folder / layout.CONFIG_FILE
        try:
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode):
                continue
            _check_owner(path, found, user, trusts_all=trusts_all)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        content = _read(path, _KEYS)
        for key, value in content.items():
            _check_text(path, key, value)
        return ConfigFile(path=path, **content)
    return None


def read_user_config(env: Mapping[str, str]) -> UserConfig:
    home = env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or "/", ".config")
    path = Path(home, layout.USER_CONFIG)
    content = _read(path, _USER_KEYS)
    trust = content.pop("trust", [])
    if not isinstance(trust, list) or not all(isinstance(each, str) and each for each in trust):
        raise UsageError(f"{path}: 'trust' must be a list of paths", hint='such as ["/srv/omnigraph.toml"]')
    for key, value in content.items():
        _check_text(path, key, value)
    return UserConfig(path, trust=tuple(trust), **content)


def _check_owner(path: Path, found: os.stat_result, user: UserConfig, *, trusts_all: bool) -> None:
    """A link is its maker's choice, whoever owns what it leads to."""
    if trusts_all or _ANY in user.trust or str(path) in user.trust:
        return
    for owner in (found.st_uid, os.lstat(path).st_uid):
        if owner not in (os.geteuid(), 0):
            raise ConfigNotTrusted(path, owner)


def _read(path: Path, known: frozenset[str]) -> dict[str, Any]:
    """The keys of a config file; none if there is no file."""
    try:
        # Whatever is there: a FIFO must not keep us waiting.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path}: is not a file")
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    import tomllib

    try:
        content = tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    for key in content:
        if key not in known:
            raise UsageError(f"{path}: unknown key '{key}'", hint="known keys: " + ", ".join(sorted(known)))
    return content


def _check_text(path: Path, key: str, value: object) -> None:
    if not isinstance(value, str) or not (value or key in _MAY_BE_EMPTY):
        raise UsageError(f"{path}: '{key}' must be a non-empty string")
