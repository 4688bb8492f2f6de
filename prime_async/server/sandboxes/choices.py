"""The user's choices for the sandboxes of this platform: ``sandboxes.toml`` in its folder.

network = "none"            # what a sandbox without lists may reach: "open" or "none"
runtime = "bubblewrap"      # or "process", which isolates nothing

[images]
"ghcr.io/acme/train:*" = "the host has what this image has"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli

from prime_async.errors import ConfigError
from prime_async.server.config import ServerConfig

__all__ = ["Choices", "read_choices"]

_ALLOWED = {"network": ("open", "none"), "runtime": ("bubblewrap", "process")}


@dataclass(frozen=True, slots=True)
class Choices:
    """What holds for sandboxes here.

    Attributes:
        images: names that the catalogue knows beside its own, and their notes.
    """

    network: str
    runtime: str
    images: Mapping[str, str] = field(default_factory=dict)


def read_choices(config: ServerConfig) -> Choices:
    """Read the file; what it does not say is as the server was told at its start.

    Raises:
        ConfigError: it cannot be read, or says something that is not known.
    """
    path = config.sandboxes_file
    found = _read(path)
    given = {"network": config.sandbox_network, "runtime": config.sandbox_runtime, **found}
    images = given.pop("images", {})
    for name, value in given.items():
        if name not in _ALLOWED:
            raise ConfigError(f"{path}: {name} is not known", hint="network, runtime, [images]")
        if value not in _ALLOWED[name]:
            raise ConfigError(f"{path}: {name} is one of {', '.join(_ALLOWED[name])}")
    if not isinstance(images, dict) or not all(isinstance(one, str) for one in images.values()):
        raise ConfigError(
            f"{path}: [images] is a table of names and notes",
            hint='"my-image:*" = "why the host will do for it"',
        )
    return Choices(given["network"], given["runtime"], images)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomli.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
