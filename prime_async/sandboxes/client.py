"""`AsyncSandboxClient`: everything about sandboxes in one client."""

from __future__ import annotations

from prime_async.sandboxes.access import AsyncSandboxAccess
from prime_async.sandboxes.volumes import AsyncVolumes

__all__ = ["AsyncSandboxClient"]


class AsyncSandboxClient(AsyncSandboxAccess):
    """Client of the sandboxes API: make sandboxes, run commands in them, move files.

    Its methods come in parts, each in a class of its own: :class:`AsyncSandboxControl` makes,
    finds and ends sandboxes, :class:`AsyncSandboxCommands` runs commands and processes,
    :class:`AsyncSandboxFiles` moves files, :class:`AsyncSandboxJobs` runs commands that outlive
    the caller, :class:`AsyncSandboxCheckpoints` keeps files,
    :class:`AsyncSandboxNetworks` connects sandboxes, :class:`AsyncSandboxAccess` opens ways into
    them. The constructor is that of the first.
    """

    @property
    def volumes(self) -> AsyncVolumes:
        """The folders that sandboxes share."""
        return AsyncVolumes(self)
