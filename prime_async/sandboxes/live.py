"""Sandboxes that this client owns: never more than allowed, and none left behind."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from prime_async import ids, signals
from prime_async.api import AsyncAPIClient
from prime_async.errors import APIError, NotFoundError, PrimeError, UsageError
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.models import Sandbox
from prime_async.sandboxes.requests import CreateSandboxRequest
from prime_async.transport import deadline, path_segment

__all__ = ["CLEANUP_SECONDS", "LEASE_SECONDS", "Leases", "LiveSandboxes", "Owner"]

CLEANUP_SECONDS = 10.0
"""Seconds to delete a sandbox when its block ends, whatever ended it."""

LEASE_SECONDS = 90
"""Seconds after which a platform that knows leases deletes the sandbox of a client that is gone."""

_REFUSALS = frozenset({400, 402, 404, 413, 422})
"""Answers that say of a request that it was not carried out, however often it is sent."""

_RENEW_EVERY = LEASE_SECONDS / 3
_LEASES = "sandbox-leases"
_LOGGER = logging.getLogger("prime_async.sandboxes")


class LiveSandboxes:
    """The sandboxes a client has made and not ended, up to a limit.

    Args:
        limit: how many may live at a time; None is no limit.

    Raises:
        UsageError: the limit is not a whole number of at least 1.
    """

    def __init__(self, limit: int | None) -> None:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise UsageError(f"max_live is {limit!r}, not a whole number", field="max_live")
        if limit is not None and limit < 1:
            raise UsageError(f"max_live is {limit}; at least 1 is needed", field="max_live")
        self._limit = limit
        self._ids: set[str] = set()
        self._reserved = 0
        self._freed = anyio.Event()

    def __contains__(self, sandbox_id: str) -> bool:
        return sandbox_id in self._ids

    @property
    def count(self) -> int:
        """How many live, or are being made."""
        return len(self._ids) + self._reserved

    async def reserve(self) -> None:
        """Wait until one more may live, and take its place."""
        while self._limit is not None and self.count >= self._limit:
            await self._freed.wait()
        self._reserved += 1

    def settle(self, sandbox_id: str | None) -> None:
        """Put a sandbox into a place that was reserved, or give the place back."""
        self._reserved -= 1
        if sandbox_id is None:
            self._free()
        else:
            self._ids.add(sandbox_id)

    def ended(self, sandbox_id: str) -> None:
        """Note that a sandbox is gone."""
        if sandbox_id in self._ids:
            self._ids.remove(sandbox_id)
            self._free()

    def _free(self) -> None:
        self._freed.set()
        self._freed = anyio.Event()


class Leases:
    """Keeps the sandboxes of open blocks alive on a platform that ends abandoned ones."""

    def __init__(self, api: AsyncAPIClient, background: Background) -> None:
        self._api = api
        self._background = background
        self._held: set[str] = set()

    async def hold(self, sandbox_id: str) -> None:
        """Renew the lease of a sandbox from now on."""
        if _LEASES in (await self._api.connect()).features:
            self._held.add(sandbox_id)
            self._background.run("sandbox leases", self._renew)

    def release(self, sandbox_id: str) -> None:
        """Stop renewing."""
        self._held.discard(sandbox_id)

    async def _renew(self) -> None:
        while self._held:
            await anyio.sleep(_RENEW_EVERY)
            async with anyio.create_task_group() as group:
                for sandbox_id in list(self._held):
                    group.start_soon(self._renew_one, sandbox_id)

    async def _renew_one(self, sandbox_id: str) -> None:
        transport = await self._api.connect()
        path = f"/sandbox/{path_segment(sandbox_id, 'sandbox_id')}/lease"
        try:
            await transport.request(
                "POST",
                path,
                json={"seconds": LEASE_SECONDS},
                timeout=_RENEW_EVERY,
                idempotency_key=ids.new_id("lease"),
            )
        except NotFoundError:
            self._held.discard(sandbox_id)
        except APIError as error:
            _LOGGER.warning("the lease of sandbox %s was not renewed: %s", sandbox_id, error)


class Owner:
    """Makes sandboxes within the limit, and ends those whose block ends.

    Args:
        post: sends a request, with the seconds of its lease or None, and returns the sandbox.
        delete: ends one; harmless when it is gone.
    """

    def __init__(
        self,
        live: LiveSandboxes,
        leases: Leases,
        post: Callable[[CreateSandboxRequest, int | None], Awaitable[Sandbox]],
        delete: Callable[[str], Awaitable[None]],
    ) -> None:
        self._live = live
        self._leases = leases
        self._post = post
        self._delete = delete

    async def create(self, request: CreateSandboxRequest, lease: int | None = None) -> Sandbox:
        """Make one, as soon as one more may live. Its request has a key.

        When nobody will hear of it any more, it is found by its key and deleted.
        """
        await self._live.reserve()
        return await self._make(request, lease)

    async def _make(self, request: CreateSandboxRequest, lease: int | None) -> Sandbox:
        """Make the one whose place is reserved."""
        made: str | None = None
        try:
            sandbox = await self._post(request, lease)
            made = sandbox.id
        except BaseException as error:
            if not isinstance(error, PrimeError) or getattr(error, "ambiguous", False):
                with anyio.move_on_after(CLEANUP_SECONDS, shield=True):
                    await self._undo(request, lease)
            raise
        finally:
            self._live.settle(made)
        return sandbox

    @asynccontextmanager
    async def own(
        self,
        request: CreateSandboxRequest,
        ready: Callable[[str, float], Awaitable[Sandbox]],
        seconds: float,
    ) -> AsyncIterator[Sandbox]:
        """Give a sandbox that is deleted when the block ends, whatever ends it.

        Args:
            ready: waits until it can be used, up to a moment on the clock of the loop.
            seconds: how long all that may take once its turn has come.

        Raises:
            APITimeoutError: it could not be made in time.
        """
        with signals.armed():
            made: str | None = None
            try:
                await self._live.reserve()
                until = anyio.current_time() + seconds
                with deadline(seconds, f"creating sandbox {request.name!r}"):
                    made = (await self._make(request, LEASE_SECONDS)).id
                assert made is not None  # the deadline raises otherwise
                await self._leases.hold(made)
                yield await ready(made, until)
            finally:
                if made is not None:
                    self._leases.release(made)
                    await self._clean_up(made)

    async def _undo(self, request: CreateSandboxRequest, lease: int | None) -> None:
        try:
            sandbox = await self._post(request, lease)  # the same key: the same sandbox
            await self._delete(sandbox.id)
        except PrimeError as error:
            refused = isinstance(error, APIError) and error.status in _REFUSALS
            if not refused:  # else nothing was made under this key, the first time either
                _LOGGER.warning(
                    "sandbox %r may have been made and be alive: %s", request.name, error
                )

    async def _clean_up(self, sandbox_id: str) -> None:
        with anyio.move_on_after(CLEANUP_SECONDS, shield=True) as scope:
            try:
                await self._delete(sandbox_id)
            except PrimeError as error:
                _LOGGER.error("sandbox %s was not deleted: %s", sandbox_id, error)
                raise
        if scope.cancelled_caught:
            _LOGGER.error("sandbox %s was not deleted in %g s", sandbox_id, CLEANUP_SECONDS)
