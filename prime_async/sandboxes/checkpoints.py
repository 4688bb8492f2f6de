"""`AsyncSandboxCheckpoints`: the files of a sandbox, kept to make other sandboxes from."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from prime_async import ids
from prime_async.requests import read_record, send_about
from prime_async.sandboxes.checkpoint_lookup import (
    CheckpointLookup,
    check_checkpoint_ids,
    checkpoint_path,
)
from prime_async.sandboxes.checkpoint_models import (
    BatchCheckpointResponse,
    DeleteSandboxCheckpointsResponse,
    SandboxCheckpoint,
    SandboxCheckpointList,
)
from prime_async.sandboxes.jobs.client import AsyncSandboxJobs
from prime_async.sandboxes.once import make_once
from prime_async.transport import DEFAULT_TIMEOUT, check_timeout, deadline

__all__ = ["AsyncSandboxCheckpoints"]

DURABLE_SECONDS = 300.0
"""Seconds a checkpoint has to become durable."""


class AsyncSandboxCheckpoints(AsyncSandboxJobs):
    """Keeps the files of sandboxes; the fifth part of :class:`AsyncSandboxClient`.

    A sandbox is made from a checkpoint with ``CreateSandboxRequest(checkpoint_id=...)``, in place
    of an image.
    """

    async def checkpoint(
        self, sandbox_id: str, *, timeout: float | None = None
    ) -> SandboxCheckpoint:
        """Begin to keep the files of a sandbox, which goes on running.

        The checkpoint can be used when :meth:`wait_for_checkpoint` returns. When the outcome of
        the request is unknown it is not sent again: the checkpoints of the sandbox are compared
        with those before.

        Args:
            sandbox_id: which one.
            timeout: seconds in all; default 60, and up to 10 more to find out what became of it.

        Raises:
            SandboxNotFoundError: there is no such sandbox.
            APIError: it could not be made; ``.ambiguous`` when it may have been.
        """
        key = ids.new_id("checkpoint")

        async def send(seconds: float) -> SandboxCheckpoint:
            response = await self._send(
                sandbox_id, "POST", "/checkpoints", idempotency_key=key, timeout=seconds
            )
            return read_record(response, SandboxCheckpoint)

        async def look(seconds: float) -> dict[str, SandboxCheckpoint]:
            found = await self.list_checkpoints(sandbox_id, timeout=seconds)
            return {checkpoint.id: checkpoint for checkpoint in found}

        return await make_once(self._api, send, look, timeout)

    async def list_checkpoints(
        self, sandbox_id: str, checkpoint_id: str | None = None, *, timeout: float | None = None
    ) -> list[SandboxCheckpoint]:
        """Return the checkpoints of a sandbox, the oldest first.

        Args:
            sandbox_id: which one; it may have ended.
            checkpoint_id: only this one.
            timeout: seconds in all; default 60.

        Raises:
            SandboxNotFoundError: there is no such sandbox.
        """
        if checkpoint_id is not None:
            checkpoint_path(checkpoint_id)
        response = await self._send(
            sandbox_id,
            "GET",
            "/checkpoints",
            params={"checkpoint_id": checkpoint_id},
            timeout=timeout,
        )
        return read_record(response, SandboxCheckpointList).checkpoints

    async def get_checkpoint(
        self, checkpoint_id: str, *, timeout: float | None = None
    ) -> SandboxCheckpoint:
        """Return one checkpoint.

        Raises:
            NotFoundError: there is no such checkpoint.
        """
        return await self._lookup.one(checkpoint_id, timeout=timeout)

    async def delete_checkpoint(self, checkpoint_id: str, *, timeout: float | None = None) -> None:
        """Delete a checkpoint.

        Raises:
            NotFoundError: there is no such checkpoint.
            ConflictError: it is not durable yet, or a sandbox that runs builds on it.
        """
        path, what = checkpoint_path(checkpoint_id), f"checkpoint {checkpoint_id}"
        await send_about(self._api, what, "DELETE", path, timeout=timeout)

    async def delete_sandbox_checkpoints(
        self, sandbox_id: str, *, timeout: float | None = None
    ) -> DeleteSandboxCheckpointsResponse:
        """Delete all checkpoints of a sandbox; those that could not be deleted are in ``errors``.

        Raises:
            SandboxNotFoundError: there is no such sandbox.
        """
        response = await self._send(sandbox_id, "DELETE", "/checkpoints", timeout=timeout)
        return read_record(response, DeleteSandboxCheckpointsResponse)

    async def get_checkpoints(
        self, checkpoint_ids: Sequence[str], *, timeout: float | None = None
    ) -> BatchCheckpointResponse:
        """Return up to 100 checkpoints, in one request where the platform can.

        Raises:
            UsageError: none, more than 100, or one twice.
        """
        wanted = check_checkpoint_ids(checkpoint_ids)
        with deadline(check_timeout(timeout, DEFAULT_TIMEOUT), "asking for checkpoints"):
            return await self._lookup.many(wanted)
        raise AssertionError("the deadline above returns or raises")

    async def wait_for_checkpoint(
        self,
        checkpoint_id: str,
        timeout_seconds: float = DURABLE_SECONDS,
        *,
        timeout: float | None = None,
    ) -> SandboxCheckpoint:
        """Wait until sandboxes can be made from a checkpoint, and return it.

        All that wait at a time are asked for together.

        Args:
            checkpoint_id: which one.
            timeout_seconds: seconds in all; ``math.inf`` is unlimited.
            timeout: the same under the name that it has everywhere; goes before.

        Raises:
            NotFoundError: there is no such checkpoint.
            CheckpointFailedError: it failed, or is being deleted.
            APITimeoutError: it took too long.
        """
        checkpoint_path(checkpoint_id)
        seconds = check_timeout(timeout, check_timeout(timeout_seconds, DURABLE_SECONDS))
        with deadline(seconds, f"waiting for checkpoint {checkpoint_id}"):
            return await self._lookup.until_durable(checkpoint_id)
        raise AssertionError("the deadline above returns or raises")

    @functools.cached_property
    def _lookup(self) -> CheckpointLookup:
        return CheckpointLookup(self._api, self._background)
