"""The configuration of a run: a mapping, or a file that is stored word for word."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_async import values
from prime_async.errors import ValueEncodingError
from prime_async.runs.errors import ConfigurationError

__all__ = ["CONFIG_SOURCE_KEY", "ConfigSource", "checked_config"]

CONFIG_SOURCE_KEY = "config_source"
"""Key of a configuration that holds the file it came from."""

MAX_SOURCE_BYTES = 256 * 1024
_FORMATS = {".toml": "toml", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_REDACTED = "[redacted]"


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """A configuration as it was written.

    Attributes:
        format: ``toml``, ``json``, ``yaml`` or ``text``.
        text: the whole of it, at most 256 KiB.
        filename: name of the file, without its folder.
    """

    format: str
    text: str
    filename: str | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> ConfigSource:
        """Read a file; its suffix says the format.

        Raises:
            ConfigurationError: it cannot be read, is no UTF-8, or is too large.
        """
        file = Path(path)
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"config {file} cannot be read: {error}", field="config"
            ) from error
        return cls(_FORMATS.get(file.suffix.lower(), "text"), text, file.name)


def checked_config(config: object, secret: str) -> dict[str, Any]:
    """Return what is stored as the configuration of a run.

    Args:
        config: a path, a `ConfigSource`, a mapping, or None.
        secret: text that is never stored, such as the key of the platform; "" is none.

    Raises:
        ConfigurationError: it is something else, too large, or holds what cannot be written.
    """
    if config is None:
        return {}
    if isinstance(config, str | os.PathLike):
        config = ConfigSource.read(config)
    if isinstance(config, ConfigSource):
        size = len(config.text.encode())
        if size > MAX_SOURCE_BYTES:
            raise ConfigurationError(
                f"the text of config has {size:,} bytes, more than {MAX_SOURCE_BYTES:,}",
                field="config",
            )
        parts = {"format": config.format, "text": config.text, "filename": config.filename}
        config = {CONFIG_SOURCE_KEY: parts}
    if not isinstance(config, Mapping):
        raise ConfigurationError(
            f"config is a {type(config).__name__}", field="config", hint="a path or a mapping"
        )
    return _as_written(config, secret)


def _as_written(config: Mapping[str, Any], secret: str) -> dict[str, Any]:
    import msgspec

    try:
        text = values.encode_record(config, root="config").decode()
    except ValueEncodingError as error:
        raise ConfigurationError(error.message, field=error.path, hint=error.hint) from error
    written: dict[str, Any] = msgspec.json.decode(
        text.replace(secret, _REDACTED) if secret else text
    )
    return written
