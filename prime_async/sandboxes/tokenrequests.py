"""Asks for the access to sandboxes: those that are needed at the same time in one request, where
the platform announces that it knows such requests.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from prime_async.api import AsyncAPIClient
from prime_async.errors import APIConnectionError, APIError
from prime_async.requests import read_record
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.models import BatchAccessResponse, GatewayAccess
from prime_async.transport import Replay

__all__ = ["AUTH_BATCH", "AccessRequests"]

AUTH_BATCH = "auth-batch"
"""Feature of platforms that hand out the access to many sandboxes at once."""

_MOST = 100


class AccessRequests:
    """Asks the control plane.

    Args:
        alone: asks for one sandbox, and knows what its refusals mean.
        background: owns the tasks that ask for many.
    """

    def __init__(
        self,
        api: AsyncAPIClient,
        alone: Callable[[str], Awaitable[GatewayAccess]],
        background: Background,
    ) -> None:
        self._api = api
        self._alone = alone
        self._background = background
        self._answered = False
        self._first: anyio.Event | None = None
        self._waiting: dict[str, asyncio.Future[GatewayAccess | None]] = {}
        self._numbers = itertools.count()

    async def fetch(self, sandbox_id: str) -> GatewayAccess:
        """Ask for the access to a sandbox; one request at a time for each.

        Raises:
            SandboxNotFoundError, SandboxNotRunningError, APIError: it was refused.
        """
        if not self._answered:
            # Nobody knows yet what the platform can do: one asks, the others wait for its answer.
            if self._first is None:
                return await self._be_first(sandbox_id)
            await self._first.wait()
        if AUTH_BATCH in (await self._api.connect()).features:
            access = await self._together(sandbox_id)
            if access is not None:
                return access
        return await self._alone(sandbox_id)

    async def _be_first(self, sandbox_id: str) -> GatewayAccess:
        first = self._first = anyio.Event()
        try:
            return await self._alone(sandbox_id)
        finally:
            self._answered = True
            first.set()

    async def _together(self, sandbox_id: str) -> GatewayAccess | None:
        """Ask together with others of this turn of the loop; None when it has to be asked alone."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._depart)
        future: asyncio.Future[GatewayAccess | None] = loop.create_future()
        self._waiting[sandbox_id] = future
        return await future

    def _depart(self) -> None:
        waiting, self._waiting = self._waiting, {}
        asked = [(name, future) for name, future in waiting.items() if not future.done()]
        if len(asked) == 1:
            asked[0][1].set_result(None)
            return
        for start in range(0, len(asked), _MOST):
            part = dict(asked[start : start + _MOST])
            self._background.run(f"access {next(self._numbers)}", partial(self._ask, part))

    async def _ask(self, asked: dict[str, asyncio.Future[GatewayAccess | None]]) -> None:
        try:
            transport = await self._api.connect()
            response = await transport.request(
                "POST",
                "/sandbox/auth:batchGet",
                json={"sandbox_ids": list(asked)},
                replay=Replay.SAFE,
            )
            for access in read_record(response, BatchAccessResponse).accesses:
                _settle(asked.get(access.sandbox_id), access)
        except APIError as error:
            if error.status is None:
                for future in asked.values():
                    _fail(future, error)
        finally:
            # What was refused, or not spoken of, is asked for alone: it is told why.
            for future in asked.values():
                _settle(future, None)


def _settle(
    future: asyncio.Future[GatewayAccess | None] | None, access: GatewayAccess | None
) -> None:
    if future is not None and not future.done():
        future.set_result(access)


def _fail(future: asyncio.Future[GatewayAccess | None], error: APIError) -> None:
    """Give each its own error: what is added to it must not show in the others'."""
    if not future.done():
        made = APIConnectionError(
            str(error), method=error.method, url=error.url, retryable=error.retryable
        )
        made.__cause__ = error
        future.set_exception(made)
