"""Parts of the sandbox surface that this platform does not have yet: said so, never pretended."""

from __future__ import annotations

import re

from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError

__all__ = ["FIXED", "OF_ONE", "not_here"]

_HOSTED = "or use the hosted platform (context production)"

_WORDS = {
    "networks": (
        "networks between sandboxes",
        f"let sandboxes share a volume, expose a port, {_HOSTED}",
    ),
    "ssh-session": (
        "SSH sessions",
        f"run commands, open a process with a terminal, {_HOSTED}",
    ),
    "images": (
        "builds and lists of images",
        f"name what stands in for an image in sandboxes.toml, {_HOSTED}",
    ),
}
"""Part of a path to what is missing, and what to do instead."""


def not_here(what: str, remedy: str) -> RequestError:
    """The 501 for something that this platform does not have."""
    return RequestError(
        501, "not_implemented", f"this local platform does not have {what}: {remedy}"
    )


def _refused(method: str, path: str) -> Endpoint:
    what, remedy = next(words for part, words in _WORDS.items() if f"/{part}" in path)

    async def refuse(call: Call) -> Reply:
        _ = call.key_text  # malformed ones are refused everywhere alike
        raise not_here(what, remedy)

    # The OpenAPI document names operations by their handlers.
    refuse.__name__ = re.sub(r"[^a-z]+", "_", f"{method.lower()}{path}").strip("_")
    return Endpoint(method, path, refuse, f"{what}: not on this platform", {501: ErrorAnswer})


FIXED: tuple[Endpoint, ...] = tuple(
    _refused(method, path)
    for method, path in (
        ("GET", "/sandbox/networks"),
        ("POST", "/sandbox/networks"),
        ("GET", "/sandbox/networks/{network_id}"),
        ("DELETE", "/sandbox/networks/{network_id}"),
        ("PUT", "/sandbox/networks/{network_id}/rules"),
        ("PUT", "/sandbox/networks/{network_id}/members/{sandbox_id}"),
        ("DELETE", "/sandbox/networks/{network_id}/members/{sandbox_id}"),
        ("GET", "/images"),
        ("PATCH", "/images"),
        ("POST", "/images/build"),
        ("GET", "/images/build/{build_id}"),
        ("POST", "/images/build/{build_id}/start"),
    )
)
"""Paths that have to be matched before ``/sandbox/{sandbox_id}``."""

OF_ONE: tuple[Endpoint, ...] = tuple(
    _refused(method, f"/sandbox/{{sandbox_id}}{path}")
    for method, path in (
        ("POST", "/ssh-session"),
        ("DELETE", "/ssh-session/{session_id}"),
    )
)
