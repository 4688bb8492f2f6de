"""Statuses of many sandboxes: a hundred in one request, one by one where the platform cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio

from prime_async.api import AsyncAPIClient
from prime_async.errors import (
    APIError,
    BatchStatusUnsupportedError,
    ForbiddenError,
    MethodNotAllowedError,
    NotFoundError,
    UsageError,
)
from prime_async.requests import read_record
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.coalescer import Coalescer
from prime_async.sandboxes.gateway import sandbox_not_found
from prime_async.sandboxes.models import (
    BatchSandboxStatusResponse,
    Sandbox,
    SandboxStatusLookupError,
    SandboxStatusSnapshot,
)
from prime_async.sandboxes.refusals import Refusals
from prime_async.transport import Replay, path_segment

__all__ = ["Statuses", "check_ids"]

_ONE_BY_ONE = 10


def check_ids(field: str, sandbox_ids: Sequence[str], *, most: int | None = None) -> list[str]:
    """Check a list of ids.

    Raises:
        UsageError: empty, too long, an id twice, or one that is none.
    """
    if isinstance(sandbox_ids, str) or not isinstance(sandbox_ids, Sequence) or not sandbox_ids:
        raise UsageError(f"{field} is empty or not a list of ids", field=field)
    for sandbox_id in sandbox_ids:
        path_segment(sandbox_id, field)
    if len(set(sandbox_ids)) != len(sandbox_ids):
        raise UsageError(f"{field} names a sandbox twice", field=field)
    if most is not None and len(sandbox_ids) > most:
        raise UsageError(f"{field} has {len(sandbox_ids)} ids; {most} are allowed", field=field)
    return list(sandbox_ids)


class Statuses:
    """Looks statuses up for one client; ``background`` owns the task that does."""

    def __init__(self, api: AsyncAPIClient, background: Background) -> None:
        self._api = api
        self._refusals = Refusals()
        self._coalescer: Coalescer[str, SandboxStatusSnapshot] = Coalescer(
            self._fetch, background, name="sandbox statuses"
        )

    async def one(self, sandbox_id: str) -> SandboxStatusSnapshot:
        """Return one status, asked for together with those that others wait for.

        Raises:
            APIError: it cannot be told; names id, code and message.
        """
        await self._api.connect()
        return await self._coalescer.get(sandbox_id)

    async def many(self, sandbox_ids: list[str]) -> BatchSandboxStatusResponse:
        """Return the statuses of at most 100 sandboxes, in one request where that is possible."""
        if self._refusals.worth_a_try:
            try:
                answer = await self.batch(sandbox_ids)
            except BatchStatusUnsupportedError:
                self._refusals.refused()
            else:
                self._refusals.accepted()
                return answer
        return await self._one_by_one(sandbox_ids)

    async def batch(self, sandbox_ids: list[str]) -> BatchSandboxStatusResponse:
        """Ask for all in one request.

        Raises:
            BatchStatusUnsupportedError: the platform does not know this request.
        """
        transport = await self._api.connect()
        try:
            response = await transport.request(
                "POST",
                "/sandbox/status:batchGet",
                json={"sandbox_ids": sandbox_ids},
                replay=Replay.SAFE,
            )
        except (NotFoundError, MethodNotAllowedError) as error:
            raise BatchStatusUnsupportedError(
                "the platform cannot tell many statuses in one answer", status=error.status
            ) from error
        return read_record(response, BatchSandboxStatusResponse)

    async def _fetch(
        self, sandbox_ids: list[str]
    ) -> Mapping[str, SandboxStatusSnapshot | Exception]:
        answer = await self.many(sandbox_ids)
        found: dict[str, SandboxStatusSnapshot | Exception] = {
            error.sandbox_id: _lookup_error(error) for error in answer.errors
        }
        found.update({status.sandbox_id: status for status in answer.statuses})
        for sandbox_id in sandbox_ids:
            missing = SandboxStatusLookupError(
                sandbox_id=sandbox_id, code="MISSING", message="left out of the platform's answer"
            )
            found.setdefault(sandbox_id, _lookup_error(missing))
        return found

    async def _one_by_one(self, sandbox_ids: list[str]) -> BatchSandboxStatusResponse:
        limiter = anyio.CapacityLimiter(_ONE_BY_ONE)
        found: dict[str, SandboxStatusSnapshot | SandboxStatusLookupError] = {}
        failures: list[APIError] = []

        async def look(sandbox_id: str) -> None:
            async with limiter:
                try:
                    found[sandbox_id] = await self._look(sandbox_id)
                except APIError as error:
                    failures.append(error)

        async with anyio.create_task_group() as group:
            for sandbox_id in sandbox_ids:
                group.start_soon(look, sandbox_id)
        if failures:
            raise failures[0]
        ordered = [found[sandbox_id] for sandbox_id in sandbox_ids]
        return BatchSandboxStatusResponse(
            statuses=[entry for entry in ordered if isinstance(entry, SandboxStatusSnapshot)],
            errors=[entry for entry in ordered if isinstance(entry, SandboxStatusLookupError)],
        )

    async def _look(self, sandbox_id: str) -> SandboxStatusSnapshot | SandboxStatusLookupError:
        transport = await self._api.connect()
        try:
            response = await transport.request(
                "GET", f"/sandbox/{path_segment(sandbox_id, 'sandbox_ids')}"
            )
        except (NotFoundError, ForbiddenError) as error:
            code = "NOT_FOUND" if isinstance(error, NotFoundError) else "FORBIDDEN"
            return SandboxStatusLookupError(sandbox_id=sandbox_id, code=code, message=error.message)
        sandbox = read_record(response, Sandbox)
        return SandboxStatusSnapshot(
            sandbox_id=sandbox_id,
            status=sandbox.status,
            error_type=sandbox.error_type,
            error_message=sandbox.error_message,
            pending_image_build_id=sandbox.pending_image_build_id,
        )


def _lookup_error(error: SandboxStatusLookupError) -> APIError:
    words = f"{error.sandbox_id}: {error.code}: {error.message}"
    if error.code == "NOT_FOUND":
        return sandbox_not_found(error.sandbox_id, APIError(words, code=error.code))
    return APIError(words, code=error.code)
