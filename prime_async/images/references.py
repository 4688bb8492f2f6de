"""Names of images in registries."""

from __future__ import annotations

__all__ = ["is_docker_hub", "sources_of"]

_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


def sources_of(text: str) -> list[str]:
    """Return the names of a list with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def is_docker_hub(reference: str) -> bool:
    """Say whether a name means an image of Docker Hub: one without a registry, or with its."""
    host, slash, _ = reference.partition("@")[0].partition("/")
    host = host.lower()
    if not slash or host in _DOCKER_HUB:
        return True
    return not (host == "localhost" or "." in host or ":" in host)
