"""The context ``local``: how clients, the official ones too, find the running platform."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prime_async.config import LOCAL, PRODUCTION, ConfigStore, load_settings
from prime_async.config.files import read_object
from prime_async.local.address import LocalAddress
from prime_async.local.paths import LocalPaths

__all__ = ["make_current_if_unset", "publish", "published"]


def make_current_if_unset(
    *, home: Path | None = None, environ: Mapping[str, str] | None = None
) -> bool:
    """Make ``local`` the current context where no other place was ever chosen; say whether it was.

    Chosen means: a key, an address or a context, in the environment or in the configuration files.
    Reads and writes files: from a coroutine, call it in a thread.

    Args:
        home: home directory; default that of the user.
        environ: environment variables; default those of the process.

    Raises:
        ConfigError: a configuration file cannot be read or written.
    """
    settings = load_settings(home=home, environ=environ)
    said = settings.origins["context"].startswith("environment")
    untouched = settings.api_key is None and settings.origins["base_url"] == "default"
    if settings.context != PRODUCTION or said or not untouched:
        return False
    ConfigStore(home).use_context(LOCAL)
    return True


def publish(paths: LocalPaths, address: LocalAddress) -> None:
    """Write the context file where it does not say the same already.

    Raises:
        ConfigError: a configuration file cannot be read or written.
    """
    if not published(paths, address):
        ConfigStore(paths.home).write_local(_values(address))


def published(paths: LocalPaths, address: LocalAddress) -> bool:
    """Whether the context file says where the platform is.

    Raises:
        ConfigError: the file cannot be read.
    """
    found = read_object(paths.prime.context(LOCAL)) or {}
    return all(found.get(key) == value for key, value in _values(address).items())


def _values(address: LocalAddress) -> dict[str, Any]:
    return {
        "api_key": address.api_key,
        "base_url": address.base_url,
        "frontend_url": address.base_url,
        "inference_url": f"{address.base_url}/api/v1",
        "traces_url": address.base_url,
        "unix_socket": address.unix_socket,
    }
