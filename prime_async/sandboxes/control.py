"""`AsyncSandboxControl`: making, finding, watching and ending sandboxes."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import msgspec

from prime_async import ids
from prime_async.api import AsyncAPIClient
from prime_async.errors import NotFoundError, SandboxNotFoundError, UsageError
from prime_async.requests import PageClock, check_range, given, read_record
from prime_async.resources import AsyncResourceClient
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.coalescer import BATCH
from prime_async.sandboxes.commands import CommandOptions
from prime_async.sandboxes.gateway import CONTEXT_SECONDS, Gateway, sandbox_not_found
from prime_async.sandboxes.lan import LanJoins
from prime_async.sandboxes.live import Leases, LiveSandboxes, Owner
from prime_async.sandboxes.models import (
    ENDED_STATUSES,
    BatchSandboxStatusResponse,
    BulkDeleteSandboxResponse,
    ErrorContext,
    Sandbox,
    SandboxListResponse,
)
from prime_async.sandboxes.requests import CreateSandboxRequest
from prime_async.sandboxes.running import execute
from prime_async.sandboxes.statuses import Statuses, check_ids
from prime_async.sandboxes.waiting import CreationWaiter, wait_for_all
from prime_async.transport import (
    DEFAULT_TIMEOUT,
    WIRE_KEY,
    Response,
    check_timeout,
    deadline,
    path_segment,
    time_left,
)

__all__ = ["AsyncSandboxControl"]

DEFAULT_CONNECTIONS = 1000
MAX_PAGE = 100

_PROBE_SECONDS = 10.0


class AsyncSandboxControl(AsyncResourceClient):
    """Makes, finds, watches and ends sandboxes; the first part of :class:`AsyncSandboxClient`.

    Args:
        api_client, api_key, base_url, team_id, context, timeout: see
            :class:`AsyncResourceClient`.
        max_connections: connections to a gateway at most; each running command holds one.
        max_live: sandboxes of this client that may live at a time; making one more waits for one to
            be deleted. None is no limit.

    Raises:
        ConfigError, UsageError: see :class:`AsyncResourceClient`.
    """

    def __init__(
        self,
        api_client: AsyncAPIClient | str | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        team_id: str | None = None,
        context: str | None = None,
        timeout: float | None = None,
        max_connections: int = DEFAULT_CONNECTIONS,
        max_live: int | None = None,
    ) -> None:
        super().__init__(
            api_client,
            api_key=api_key,
            base_url=base_url,
            team_id=team_id,
            context=context,
            timeout=timeout,
        )
        check_range("max_connections", max_connections, 1)
        self._background = Background()
        self._gateway = Gateway(self._api, max_connections, self._background)
        self._statuses = Statuses(self._api, self._background)
        self._phase = random.uniform(0, 10)  # noqa: S311 - spreads load, guards nothing
        self._joins = LanJoins(self._api, self._background)
        self._live = LiveSandboxes(max_live)
        leases = Leases(self._api, self._background)
        self._owner = Owner(self._live, leases, self._post, self._delete_quietly)

    async def aclose(self) -> None:
        """Close the connections; sandboxes go on living, unless their block ends them."""
        await self._background.aclose()
        await self._gateway.aclose()
        await super().aclose()

    async def create(
        self, request: CreateSandboxRequest, *, timeout: float | None = None
    ) -> Sandbox:
        """Create a sandbox and return it; it may not run yet (:meth:`wait_for_creation`).

        Carries an idempotency key: a repeated try makes no second one. Cancelled in the middle, it
        deletes what may have been made. With `max_live`, waits until one more may live.

        Args:
            request: what it is made from.
            timeout: seconds in all; default 60, and up to 10 more to delete what may have been
                made.

        Raises:
            UsageError: a rule is broken; before anything is sent.
            ValidationError, PaymentRequiredError, ForbiddenError: the platform refuses it.
        """
        request = _with_key(request)
        seconds = check_timeout(timeout, DEFAULT_TIMEOUT)
        with deadline(seconds, f"creating sandbox {request.name!r}"):
            return await self._owner.create(request)
        raise AssertionError("the deadline above returns or raises")

    def sandbox(
        self,
        request: CreateSandboxRequest,
        *,
        wait: bool = True,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[Sandbox]:
        """Create a sandbox for a block; it is deleted when the block ends: by its end, an
        exception, cancellation, Ctrl-C or SIGTERM.

        On platforms that know leases it also ends about 90 seconds after this process is gone
        without a word.

        Args:
            request: what it is made from.
            wait: give it when it can be used (default), or as soon as it exists.
            timeout: seconds until it can be used, after its turn came; None keeps to the limits of
                :meth:`create` and :meth:`wait_for_creation`.

        Raises:
            UsageError, APIError: as :meth:`create`.
            SandboxNotRunningError: as :meth:`wait_for_creation`.
        """
        seconds = check_timeout(timeout, math.inf)

        async def ready(sandbox_id: str, until: float) -> Sandbox:
            if wait:
                await self.wait_for_creation(sandbox_id, timeout=time_left(until))
            return await self.get(sandbox_id, timeout=min(time_left(until), DEFAULT_TIMEOUT))

        return self._owner.own(_with_key(request), ready, seconds)

    async def get(self, sandbox_id: str, *, timeout: float | None = None) -> Sandbox:
        """Return one sandbox.

        Raises:
            SandboxNotFoundError: there is no such sandbox.
        """
        response = await self._send(sandbox_id, "GET", "", timeout=timeout)
        return self._seen(read_record(response, Sandbox))

    async def list(
        self,
        team_id: str | None = None,
        status: str | None = None,
        labels: Sequence[str] | None = None,
        page: int = 1,
        per_page: int = 50,
        exclude_terminated: bool | None = None,
        user_id: str | None = None,
        *,
        timeout: float | None = None,
    ) -> SandboxListResponse:
        """Return one page of sandboxes, newest first.

        Args:
            team_id: those of this team; default is the client's, "" the account itself.
            status, user_id: only those.
            labels: only those that have all of them.
            page: from 1.
            per_page: sandboxes per page, 1 to 100.
            exclude_terminated: True leaves out those that have ended.
            timeout: seconds in all; default 60.

        Raises:
            UsageError: `page` or `per_page` is out of range.
        """
        check_range("page", page, 1)
        check_range("per_page", per_page, 1, MAX_PAGE)
        params: dict[str, Any] = {
            "page": page,
            "per_page": per_page,
            "team_id": (self._api.team_id if team_id is None else team_id) or None,
            "user_id": user_id or None,
            "status": status or None,
            "labels": None if labels is None else [str(label) for label in labels],
            "is_active": exclude_terminated,
        }
        transport = await self._api.connect()
        response = await transport.request("GET", "/sandbox", params=params, timeout=timeout)
        found = read_record(response, SandboxListResponse)
        for sandbox in found.sandboxes:
            self._seen(sandbox)
        return found

    async def iter_sandboxes(
        self,
        team_id: str | None = None,
        status: str | None = None,
        labels: Sequence[str] | None = None,
        exclude_terminated: bool | None = None,
        user_id: str | None = None,
        *,
        page_size: int = 100,
        timeout: float | None = None,
    ) -> AsyncIterator[Sandbox]:
        """Yield every sandbox, newest first, reading page by page; arguments as :meth:`list`.

        Args:
            page_size: sandboxes per request, 1 to 100.
            timeout: seconds for all of it, the caller's own work in between included; default
                86,400 (a day), and 60 for each page.

        Raises:
            UsageError: `page_size` is out of range.
            APITimeoutError: it took too long.
        """
        page, clock = 1, PageClock(timeout)
        while True:
            found = await self.list(
                team_id,
                status,
                labels,
                page,
                page_size,
                exclude_terminated,
                user_id,
                timeout=clock.next(),
            )
            for sandbox in found.sandboxes:
                yield sandbox
            if not found.has_next or not found.sandboxes:
                return
            page += 1

    async def delete(self, sandbox_id: str, *, timeout: float | None = None) -> dict[str, Any]:
        """End a sandbox and delete what is in it; returns the answer ({} for an empty one).

        A sandbox of this client that is gone already counts as deleted.

        Raises:
            SandboxNotFoundError: there is no such sandbox.
        """
        mine = sandbox_id in self._live
        answer: dict[str, Any] = {}
        try:
            answer = (await self._send(sandbox_id, "DELETE", "", timeout=timeout)).json()
        except SandboxNotFoundError:
            if not mine:
                raise
        self._ended(sandbox_id)
        return answer

    async def bulk_delete(
        self,
        sandbox_ids: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        team_id: str | None = None,
        user_id: str | None = None,
        all_users: bool = False,
        *,
        timeout: float | None = None,
    ) -> BulkDeleteSandboxResponse:
        """End many sandboxes: those named, or all that have the labels.

        Args:
            sandbox_ids, labels: one of them at least.
            team_id, user_id: only those of this team or user.
            all_users: those of other users of the team too.
            timeout: seconds in all; default 60.

        Raises:
            UsageError: nothing says which.
        """
        if not sandbox_ids and not labels:
            raise UsageError("neither ids nor labels say which sandboxes", field="sandbox_ids")
        body = {
            "sandbox_ids": check_ids("sandbox_ids", sandbox_ids) if sandbox_ids else None,
            "labels": None if labels is None else [str(label) for label in labels],
            "team_id": team_id,
            "user_id": user_id,
            "all_users": all_users,
        }
        transport = await self._api.connect()
        response = await transport.request("DELETE", "/sandbox", json=given(body), timeout=timeout)
        outcome = read_record(response, BulkDeleteSandboxResponse)
        for sandbox_id in outcome.succeeded:
            self._ended(sandbox_id)
        return outcome

    async def wait_for_creation(
        self,
        sandbox_id: str,
        max_attempts: int = 60,
        stability_checks: int = 1,
        image_build_timeout_seconds: int = 3000,
        *,
        timeout: float | None = None,
    ) -> None:
        """Wait until a sandbox runs and a command in it answers, and it is in its network.

        Args:
            sandbox_id: which one.
            max_attempts: sets the time it has, twice: to start and to answer. 60 are 115 seconds.
            stability_checks: commands in a row that have to answer.
            image_build_timeout_seconds: time for an image that is built first.
            timeout: seconds in all; None keeps to the limits above.

        Raises:
            SandboxNotRunningError: it ended, or the time was over; the child of its reason.
            SandboxNotFoundError: there is no such sandbox.
            LanJoinError: it runs, and did not join the network of its request in 120 seconds.
            APITimeoutError: `timeout` was over first.
        """
        path_segment(sandbox_id, "sandbox_id")
        waiter = self._waiter(max_attempts, stability_checks, image_build_timeout_seconds)
        with deadline(check_timeout(timeout, math.inf), f"waiting for sandbox {sandbox_id}"):
            await waiter.wait(sandbox_id, nullcontext())
            await self._joins.complete(sandbox_id)

    async def bulk_wait_for_creation(
        self,
        sandbox_ids: Sequence[str],
        max_attempts: int = 60,
        image_build_timeout_seconds: int = 3000,
        *,
        timeout: float | None = None,
    ) -> dict[str, str]:
        """Wait until all of many sandboxes run, answer and are in their networks; returns
        ``{id: "RUNNING"}``.

        They are waited for side by side, their statuses asked for a hundred at a time.

        Raises:
            SandboxBulkWaitError: some cannot be used; ``.failures`` has the error of each.
            APITimeoutError: `timeout` was over first.
        """
        wanted = check_ids("sandbox_ids", sandbox_ids)
        waiter = self._waiter(max_attempts, 1, image_build_timeout_seconds)
        with deadline(check_timeout(timeout, math.inf), f"waiting for {len(wanted)} sandboxes"):
            return await wait_for_all(waiter, wanted, self._joins.complete)
        raise AssertionError("the deadline above returns or raises")

    async def get_sandbox_statuses(
        self, sandbox_ids: Sequence[str], *, timeout: float | None = None
    ) -> BatchSandboxStatusResponse:
        """Return the statuses of up to 100 sandboxes, in one request where the platform can.

        Raises:
            UsageError: none, more than 100, or one twice.
        """
        wanted = check_ids("sandbox_ids", sandbox_ids, most=BATCH)
        with deadline(check_timeout(timeout, DEFAULT_TIMEOUT), "asking for statuses"):
            answer = await self._statuses.many(wanted)
            for seen in answer.statuses:
                if seen.status in ENDED_STATUSES:
                    self._ended(seen.sandbox_id)
            return answer
        raise AssertionError("the deadline above returns or raises")

    async def get_logs(self, sandbox_id: str, *, timeout: float | None = None) -> str:
        """Return what the sandbox's start command has written so far.

        Raises:
            SandboxNotFoundError: there is no such sandbox.
        """
        response = await self._send(sandbox_id, "GET", "/logs", timeout=timeout)
        return str(response.json().get("logs") or "")

    async def get_error_context(
        self, sandbox_id: str, *, timeout: float | None = None
    ) -> ErrorContext:
        """Return why a sandbox is not well; empty when the platform does not tell in time.

        Args:
            sandbox_id: which.
            timeout: seconds in all; default 10.
        """
        seconds = check_timeout(timeout, CONTEXT_SECONDS)
        return await self._gateway.error_context(sandbox_id, seconds)

    async def clear_auth_cache(self) -> None:
        """Forget the tokens of all sandboxes of this account, in memory and on disk."""
        await self._gateway.tokens.clear()

    def _waiter(self, attempts: int, checks: int, build_seconds: int) -> CreationWaiter:
        return CreationWaiter(
            self._statuses.one,
            self._probe,
            attempts=attempts,
            checks=checks,
            build_seconds=build_seconds,
            phase=self._phase,
        )

    async def _probe(self, sandbox_id: str) -> None:
        options = CommandOptions("echo ready", seconds=_PROBE_SECONDS)
        await execute(self._gateway, sandbox_id, options, None)

    async def _post(self, request: CreateSandboxRequest, lease: int | None) -> Sandbox:
        wire = request.to_wire()
        wire.setdefault("team_id", self._api.team_id or None)
        wire["lease_seconds"] = lease
        transport = await self._api.connect()
        response = await transport.request(
            "POST", "/sandbox", json=given(wire), deduplicated_by=WIRE_KEY
        )
        sandbox = self._gateway.learn(read_record(response, Sandbox))
        self._joins.note(sandbox.id, request)
        return sandbox

    async def _delete_quietly(self, sandbox_id: str) -> None:
        try:
            await self.delete(sandbox_id)
        except NotFoundError:
            self._ended(sandbox_id)

    def _seen(self, sandbox: Sandbox) -> Sandbox:
        if sandbox.status in ENDED_STATUSES:
            self._ended(sandbox.id)
            return sandbox
        return self._gateway.learn(sandbox)

    def _ended(self, sandbox_id: str) -> None:
        self._gateway.forget(sandbox_id)
        self._joins.forget(sandbox_id)
        self._live.ended(sandbox_id)

    async def _send(self, sandbox_id: str, method: str, rest: str, **options: Any) -> Response:
        """Send a request about one sandbox; a 404 says which."""
        path = f"/sandbox/{path_segment(sandbox_id, 'sandbox_id')}{rest}"
        transport = await self._api.connect()
        try:
            return await transport.request(method, path, **options)
        except NotFoundError as error:
            raise sandbox_not_found(sandbox_id, error) from error


def _with_key(request: CreateSandboxRequest) -> CreateSandboxRequest:
    """Check a request and give a copy of it a key of its own where it has none."""
    if not isinstance(request, CreateSandboxRequest):
        raise UsageError(
            f"request is a {type(request).__name__}, not a CreateSandboxRequest", field="request"
        )
    request.check()
    return msgspec.structs.replace(
        request, idempotency_key=request.idempotency_key or ids.new_id("create")
    )
