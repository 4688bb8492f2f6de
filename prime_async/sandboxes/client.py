"""`AsyncSandboxClient`: everything about sandboxes in one client."""

from __future__ import annotations

from prime_async.sandboxes.storage import AsyncSandboxFiles

__all__ = ["AsyncSandboxClient"]


class AsyncSandboxClient(AsyncSandboxFiles):
    """Client of the sandboxes API: make sandboxes, run commands in them, move files.

    Its methods come in parts, each in a class of its own: :class:`AsyncSandboxControl` makes,
    finds and ends sandboxes, :class:`AsyncSandboxCommands` runs commands and processes,
    :class:`AsyncSandboxFiles` moves files. The constructor is that of the first.
    """
