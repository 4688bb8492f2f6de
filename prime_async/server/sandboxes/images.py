"""The catalogue: which image names this machine can stand in for.

There are no images here: a sandbox sees the host's own system. The usual names of plain Linux and
Python images map to it, with a note in the sandbox's record; the user can add names
(:mod:`prime_async.server.sandboxes.choices`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

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
            "for them) and what sandboxes.toml in the platform's folder adds"
        )
