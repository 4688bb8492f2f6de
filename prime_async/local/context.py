"""The context file ``local``: how clients, the official ones too, find the running platform."""

from __future__ import annotations

from typing import Any

from prime_async.config import LOCAL, ConfigStore
from prime_async.config.files import read_object
from prime_async.local.address import LocalAddress
from prime_async.local.paths import LocalPaths

__all__ = ["publish", "published"]


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
