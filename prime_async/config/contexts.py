"""Named contexts: which account and address a name stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prime_async.config.files import PrimePaths, fault, key_position, read_object
from prime_async.config.values import SettingError, is_loopback, normal_key, normal_url
from prime_async.errors import ConfigError

__all__ = [
    "ACCOUNT_KEYS",
    "LOCAL",
    "NOT_STARTED",
    "PRODUCTION",
    "Stored",
    "check_name",
    "context_names",
    "read_config",
    "read_context",
]

PRODUCTION = "production"
LOCAL = "local"

NOT_STARTED = "http://127.0.0.1:0"
"""Address of the embedded platform before its first start: nothing can ever be sent there."""

ACCOUNT_KEYS = (
    "api_key",
    "team_id",
    "team_name",
    "team_role",
    "user_id",
    "user_name",
    "base_url",
    "frontend_url",
    "inference_url",
    "traces_url",
)
"""What a context file holds: everything that belongs to one account at one address."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class Stored:
    """The settings of one file, read with checks that name file, line and column.

    Attributes:
        name: name of the context they belong to.
        label: how a setting's origin is written: ``config.json`` or ``context NAME``.
        path: the file, or None where there is none.
        values: the JSON object.
    """

    name: str
    label: str
    path: Path | None = None
    values: dict[str, Any] = field(default_factory=dict, repr=False)

    def text(self, key: str) -> str | None:
        """Return a text setting; None when it is absent, null or blank."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._fault(key, f"must be text, not {type(value).__name__}")
        return value.strip() or None

    def flag(self, key: str) -> bool | None:
        """Return a switch, None when absent; the official command may store it as text."""
        value = self.values.get(key)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is None or isinstance(value, bool):
            return value
        raise self._fault(key, "must be true or false")

    def key(self) -> str | None:
        """Return the API key, or None when it is absent or blank."""
        try:
            return normal_key(self.text("api_key"))
        except SettingError as error:
            raise self._fault("api_key", str(error)) from error

    def url(self, key: str, *, strip_api: bool = False) -> str | None:
        """Return an address in its normal form, or None when it is absent."""
        value = self.text(key)
        if value is None:
            return None
        try:
            return normal_url(value, strip_api=strip_api)
        except SettingError as error:
            raise self._fault(key, str(error)) from error

    def _fault(self, key: str, what: str) -> ConfigError:
        if self.path is None:
            return ConfigError(f"{self.label}: {key} {what}")
        line, column = key_position(self.path, key) or (None, None)
        return fault(self.path, f"{key} {what}", line=line, column=column)


def check_name(name: str, *, source: str) -> str:
    """Return a context name in its normal form: the built-in ones in lower case.

    Raises:
        ConfigError: it has characters other than letters, digits, ``-`` and ``_``.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{source}: {name!r} is not a context name", hint="use letters, digits, '-' and '_'"
        )
    return name.lower() if name.lower() in (PRODUCTION, LOCAL) else name


def context_names(paths: PrimePaths | None) -> list[str]:
    """Return the names of all contexts: the two built-in ones, then the saved ones in order."""
    saved: set[str] = set()
    if paths is not None and paths.environments.is_dir():
        saved = {
            file.stem for file in paths.environments.glob("*.json") if _NAME.fullmatch(file.stem)
        }
    return [
        PRODUCTION,
        LOCAL,
        *sorted(name for name in saved if name.lower() not in (PRODUCTION, LOCAL)),
    ]


def read_config(paths: PrimePaths | None) -> Stored:
    """Read ``config.json``; nothing there is the same as an empty object."""
    values = read_object(paths.config) if paths is not None else None
    if paths is None or values is None:
        return Stored(PRODUCTION, "config.json")
    stored = Stored(PRODUCTION, "config.json", paths.config, values)
    name = stored.text("current_environment") or PRODUCTION
    return Stored(check_name(name, source=str(paths.config)), "config.json", paths.config, values)


def read_context(paths: PrimePaths | None, name: str, config: Stored, *, source: str) -> Stored:
    """Read a named context.

    ``production`` is what ``config.json`` holds while no other context is in use, and its own file
    after that (the official command leaves another context's key behind there). ``local`` may have
    no file yet: it is written when the embedded platform first starts.

    Raises:
        ConfigError: there is no such context (the nearest name is told), or its file cannot be
            used.
    """
    name = check_name(name, source=source)
    if name == LOCAL:
        return _read_local(paths)
    label = f"context {name}"
    if name == PRODUCTION and config.name == PRODUCTION:
        return Stored(name, label, config.path, config.values)
    path = paths.context(name) if paths is not None else None
    values = read_object(path) if path is not None else None
    if values is None:
        if name != PRODUCTION:
            raise _unknown(paths, name, source)
        return Stored(name, label)
    return Stored(name, label, path, values)


def _read_local(paths: PrimePaths | None) -> Stored:
    """Read what the embedded platform wrote.

    A context of this name saved by other means counts as none: whoever says ``local`` wants
    nothing to leave this machine.
    """
    label = f"context {LOCAL}"
    path = paths.context(LOCAL) if paths is not None else None
    values = read_object(path) if path is not None else None
    stored = Stored(LOCAL, label, path, values or {})
    if path is not None and is_loopback(stored.url("base_url")):
        return stored
    return Stored(LOCAL, label, None, {"base_url": NOT_STARTED})


def _unknown(paths: PrimePaths | None, name: str, source: str) -> ConfigError:
    import difflib

    names = context_names(paths)
    near = difflib.get_close_matches(name, names, n=1)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return ConfigError(
        f"{source}: there is no context {name!r}{guess}",
        hint=f"there are: {', '.join(names)}",
    )
