"""`ConfigStore`: the only writer of ``~/.prime/config.json`` and of the named contexts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prime_async.config.contexts import (
    ACCOUNT_KEYS,
    LOCAL,
    PRODUCTION,
    Stored,
    check_name,
    context_names,
    read_config,
    read_context,
)
from prime_async.config.files import (
    PrimePaths,
    home_directory,
    make_private_directory,
    read_object,
    write_object,
)
from prime_async.config.locks import FileLock
from prime_async.config.values import checked_key, checked_url
from prime_async.errors import ConfigError, UsageError

__all__ = ["ConfigStore"]

_URLS = {"base_url": True, "traces_url": True, "frontend_url": False, "inference_url": False}
_SWITCHES = ("share_resources_with_team", "traces_opt_out", "strict_local")
# Keys that the official command expects to be text where they are present.
_NEVER_NULL = {"base_url", "frontend_url", "inference_url", "ssh_key_path", "current_environment"}


class ConfigStore:
    """Reads and changes the configuration files.

    Every change is a read and an atomic replacement under a lock between processes: of two that
    happen at once neither is lost, and readers never see half a file. Keys this version does not
    know are kept. A file that cannot be read is never overwritten. Files are created 0600, folders
    0700. The calls block for milliseconds and at most ten seconds: from a coroutine, run them in a
    thread.

    Args:
        home: home directory; default that of the user.

    Raises:
        ConfigError: the system knows no home directory.
    """

    def __init__(self, home: Path | None = None) -> None:
        found = home if home is not None else home_directory()
        if found is None:
            raise ConfigError("no home directory is known", hint="set HOME")
        self.paths = PrimePaths(found)

    def read(self) -> dict[str, Any]:
        """Return what ``config.json`` holds; ``{}`` where there is none.

        Raises:
            ConfigError: the file cannot be used.
        """
        return read_object(self.paths.config) or {}

    def update(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change settings in ``config.json`` and the saved context in use; return the new content.

        Args:
            changes: setting -> value; None clears a setting.

        Raises:
            ConfigError: the file cannot be read or written, or a value is not usable.
            UsageError: key or address of the context ``local``, which the embedded platform sets
                itself.
        """
        checked = {key: _checked(key, value) for key, value in changes.items()}
        with self._locked():
            config = read_config(self.paths)
            account = {key: value for key, value in checked.items() if key in ACCOUNT_KEYS}
            if config.name == LOCAL and account.keys() & {"api_key", *_URLS}:
                raise UsageError(
                    "key and addresses of the context 'local' are set by the embedded platform",
                    hint="choose another context first: prime-async config use production",
                )
            values = _merged(config.values, checked)
            write_object(self.paths.config, values)
            self._mirror(config.name, account)
        return values

    def _mirror(self, name: str, account: Mapping[str, Any]) -> None:
        """The saved context in use follows: using it again must not undo the change."""
        path = self.paths.context(name)
        if account and name != PRODUCTION:
            values = read_object(path)
            if values is not None:
                write_object(path, _merged(values, account))

    def set_aside(self) -> Path | None:
        """Move ``config.json`` away, readable or not; return where it is now, None if absent.

        Raises:
            ConfigError: it cannot be moved.
        """
        with self._locked():
            if not self.paths.config.exists() and not self.paths.config.is_symlink():
                return None
            backup = self._backup_name()
            try:
                self.paths.config.rename(backup)
            except OSError as error:
                raise ConfigError(
                    f"cannot move {self.paths.config} aside: {error.strerror}",
                    path=self.paths.config,
                ) from error
            if backup.is_file() and not backup.is_symlink():
                backup.chmod(0o600)
        return backup

    def reset(self) -> Path | None:
        """Start afresh from defaults; return the path of the copy that is kept, or None.

        Raises:
            ConfigError: the file cannot be moved aside.
        """
        return self.set_aside()

    def _backup_name(self) -> Path:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        for number in range(1, 1000):
            backup = self.paths.root / f"config.json.{stamp}-{number}.bak"
            if not backup.exists():
                return backup
        raise ConfigError(f"too many backups in {self.paths.root}", path=self.paths.root)

    def contexts(self) -> list[str]:
        """Return the names of all contexts, ``production`` and ``local`` first."""
        return context_names(self.paths)

    def current(self) -> str:
        """Return the name of the context in use.

        Raises:
            ConfigError: ``config.json`` cannot be used.
        """
        return read_config(self.paths).name

    def read_context(self, name: str) -> dict[str, Any]:
        """Return what a context holds, its key included; ``{}`` for a built-in one never set.

        Raises:
            ConfigError: there is no such context, or its file cannot be used.
        """
        return dict(self._context(name, read_config(self.paths)).values)

    def save_context(self, name: str, values: Mapping[str, Any] | None = None) -> Path:
        """Save an account under a name and return the file; unknown keys in it are kept.

        Args:
            name: letters, digits, ``-`` and ``_``; not ``production``, nor ``local``, which the
                platform writes.
            values: key, team, user and addresses; default those in ``config.json`` (never those of
                the environment).

        Raises:
            ConfigError: the name is reserved or not usable, a value is not usable, or the file
                cannot be written.
        """
        name = self._free_name(name, "save")
        with self._locked():
            source = self.read() if values is None else values
            account = {key: _checked(key, source.get(key)) for key in ACCOUNT_KEYS}
            path = self.paths.context(name)
            self._write_context(path, _merged(read_object(path) or {}, account))
        return path

    def delete_context(self, name: str) -> None:
        """Delete a saved context.

        Raises:
            ConfigError: there is none, it is built in, or it is in use.
        """
        name = self._free_name(name, "delete")
        with self._locked():
            config = read_config(self.paths)
            if config.name.lower() == name.lower():
                raise ConfigError(
                    f"the context {name!r} is in use",
                    hint="choose another first: prime-async config use production",
                )
            path = self._context(name, config).path
            if path is not None:
                path.unlink(missing_ok=True)

    def use_context(self, name: str) -> None:
        """Make a context the current one: its account is copied into ``config.json``.

        The login of ``production`` is kept in a file of its own meanwhile and comes back with it.

        Raises:
            ConfigError: there is no such context, or a file cannot be used or written.
        """
        with self._locked():
            config = read_config(self.paths)
            chosen = self._context(name, config)
            if config.name == PRODUCTION and chosen.name != PRODUCTION and config.text("api_key"):
                account = {key: config.values.get(key) for key in ACCOUNT_KEYS}
                self._write_context(self.paths.context(PRODUCTION), _merged({}, account))
            # All of it, so that no key or address of the account before stays behind.
            account = {key: chosen.values.get(key) for key in ACCOUNT_KEYS}
            account["current_environment"] = chosen.name
            write_object(self.paths.config, _merged(config.values, account))

    def write_local(self, values: Mapping[str, Any]) -> Path:
        """Write the context ``local`` (for the platform's daemon), and its copy while it is in use.

        Raises:
            ConfigError: a file cannot be written.
        """
        path = self.paths.context(LOCAL)
        with self._locked():
            before = self._own_local(path, values.get("api_key"))
            after = _merged(dict.fromkeys(ACCOUNT_KEYS), {**before, **values})
            self._write_context(path, after)
            config = read_config(self.paths)
            if config.name == LOCAL:
                account = {key: after.get(key) for key in ACCOUNT_KEYS}
                write_object(self.paths.config, _merged(config.values, account))
        return path

    def _own_local(self, path: Path, own_key: Any) -> dict[str, Any]:
        """What the platform's own context holds; one saved by other means gets another name."""
        values = read_object(path)
        if values is None or values.get("api_key") == own_key or "unix_socket" in values:
            return values or {}
        self._write_context(self.paths.context(f"{LOCAL}-saved"), values)
        return {}

    def _context(self, name: str, config: Stored) -> Stored:
        return read_context(self.paths, name, config, source="context")

    def _write_context(self, path: Path, values: Mapping[str, Any]) -> None:
        make_private_directory(self.paths.environments)
        write_object(path, values)

    def _free_name(self, name: str, verb: str) -> str:
        name = check_name(name, source="context")
        if name in (PRODUCTION, LOCAL):
            raise ConfigError(f"cannot {verb} the context {name!r}: it is built in")
        return name

    def _locked(self) -> FileLock:
        make_private_directory(self.paths.root)
        return FileLock(self.paths.lock)


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content after a change, in the form that the official command takes too."""
    merged = {**values, **changes}
    if "api_key" in changes:
        merged["api_key"] = changes["api_key"] or ""
    return {
        key: value for key, value in merged.items() if value is not None or key not in _NEVER_NULL
    }


def _checked(key: str, value: Any) -> Any:
    """Return a setting in the form it is stored in."""
    if key == "api_key":
        return checked_key(_text(key, value), source=key)
    if key in _URLS:
        text = _text(key, value)
        return checked_url(text, source=key, strip_api=_URLS[key]) if text else None
    if key in _SWITCHES:
        if not isinstance(value, bool | None):
            raise ConfigError(f"{key} must be true or false, not {value!r}")
        return bool(value)
    return _text(key, value) if key in ACCOUNT_KEYS else value


def _text(key: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return (value or "").strip() or None
    raise ConfigError(f"{key} must be text, not {type(value).__name__}")
