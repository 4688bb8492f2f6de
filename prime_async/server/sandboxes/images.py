"""The catalogue: which image names this machine can stand in for.

There are no images here: a sandbox sees the host's own system. The usual names of plain Linux and
Python images map to it, with a note in the sandbox's record; further names come from the user's
catalogue, a TOML file in the platform's folder:

    [images]
    "ghcr.io/acme/train:*" = "the host has what this image has"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import tomli

from prime_async.errors import ConfigError

__all__ = ["HOST_IMAGE", "Catalogue"]

HOST_IMAGE = "ubuntu:latest"
"""The name under which the runtime knows the host's own system."""

_BUILT_IN = ("ubuntu", "debian", "python")
_HUB = re.compile(r"^(?:docker\.io/|index\.docker\.io/)?(?:library/)?(?P<name>[a-z0-9._-]+)$")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Names of images and what stands in for them.

    Attributes:
        added: patterns of the user and their notes.
    """

    added: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Catalogue:
        """Read the user's catalogue; a file that is not there adds nothing.

        Raises:
            ConfigError: it is not what it must be.
        """
        try:
            found = tomli.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError) as error:
            raise ConfigError(f"cannot read the catalogue of images {path}: {error}") from error
        images = found.get("images", {})
        if not isinstance(images, dict) or not all(isinstance(one, str) for one in images.values()):
            raise ConfigError(
                f"the catalogue of images {path} needs a table [images] of names and notes",
                hint='[images]\n"my-image:*" = "why the host will do for it"',
            )
        return cls(images)

    def find(self, image: str) -> str | None:
        """The note on what stands in for an image; None when the catalogue does not know it."""
        for pattern, note in self.added.items():
            if fnmatchcase(image, pattern):
                return f"image {image} runs on the host's own system: {note}"
        name = image.partition("@")[0].rpartition(":")[0] or image.partition("@")[0]
        match = _HUB.match(name)
        if match is None or match["name"] not in _BUILT_IN:
            return None
        what = "the host's own Python" if match["name"] == "python" else "the host's own system"
        return f"image {image} is not downloaded: the sandbox sees {what}, read-only"

    def unknown(self, image: str) -> str:
        """Say why an image cannot be had."""
        return (
            f"the image {image} is not in the catalogue of this local platform, which downloads "
            "no images. Known are ubuntu:*, debian:*, python:* (the host's own system stands in "
            "for them) and what images.toml in the platform's folder adds"
        )
