"""The way into a sandbox: its gateway's address, its token, and what a refusal there means."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar
from urllib.parse import quote, urlsplit

import anyio

from prime_async.api import AsyncAPIClient
from prime_async.errors import (
    APIError,
    ConflictError,
    NotFoundError,
    PrimeError,
    ProtocolError,
    SandboxImagePullError,
    SandboxNotFoundError,
    SandboxNotRunningError,
    SandboxOOMError,
    SandboxTimeoutError,
    TransportError,
    UnauthorizedError,
)
from prime_async.requests import read_record
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.grouping import Groups
from prime_async.sandboxes.models import ENDED_STATUSES, ErrorContext, GatewayAccess, Sandbox
from prime_async.sandboxes.tokenfile import TokenFile
from prime_async.sandboxes.tokenrequests import AccessRequests
from prime_async.sandboxes.tokens import TokenCache, account_of
from prime_async.transport import Replay, Transport, path_segment

__all__ = [
    "CONTEXT_SECONDS",
    "OFFSET_MISMATCH",
    "Gateway",
    "Link",
    "not_running",
    "sandbox_not_found",
]

CONTEXT_SECONDS = 10.0
"""Seconds to ask why a sandbox is not well."""

_EXPLAIN_SECONDS = 4.0  # less where a failure already waits to be raised

OFFSET_MISMATCH = "offset_mismatch"
"""Code of a gateway that is elsewhere in an upload than the request."""

_LOCKED_TRIES = 4
_LOCKED_DELAY = 0.25
_GONE = ("sandbox_terminated", "sandbox_not_found")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Link:
    """One way to one sandbox: what a request needs.

    Attributes:
        transport: to the gateway's host.
        path: what stands before every path there.
        headers: the authorization.
        token: the token in it, to tell later whether it was this one that was refused.
    """

    transport: Transport
    path: str
    headers: Mapping[str, str] = field(repr=False)
    token: str = field(repr=False)


class Gateway:
    """The gateways of one client's sandboxes.

    Args:
        api: the control plane.
        connections: how many are held at most per gateway.
        background: owns the tasks that write the token file, ask for many and read for many.

    Attributes:
        tokens: the access to each sandbox.
        groups: commands that are started together.
    """

    def __init__(self, api: AsyncAPIClient, connections: int, background: Background) -> None:
        self._api = api
        self._connections = connections
        self._transports: dict[str, Transport] = {}
        self._kinds: dict[str, bool] = {}
        self.groups = Groups(self, background)
        accesses = AccessRequests(api, self._authorize, background)
        self.tokens = TokenCache(accesses.fetch, self._account, background, TokenFile.of_user())

    async def aclose(self) -> None:
        """Write the tokens that are not on disk yet and close the connections."""
        await self.tokens.flush()
        for transport in self._transports.values():
            await transport.aclose()

    async def has(self, feature: str) -> bool:
        """Say whether the platform announces an addition of ours."""
        return self.knows(feature) or feature in (await self._api.connect()).features

    def knows(self, feature: str) -> bool:
        """Say whether a gateway has announced an addition of ours so far."""
        return any(feature in transport.features for transport in self._transports.values())

    def learn(self, sandbox: Sandbox) -> Sandbox:
        """Note what a sandbox is, and take the token that came with it out of the record: records
        are printed and stored.
        """
        self._kinds[sandbox.id] = sandbox.vm
        wire = sandbox.to_wire()
        access = wire.pop("gatewayAuth", None) or wire.pop("gateway_auth", None)
        if isinstance(access, dict) and access.get("expires_at"):
            self.tokens.put(sandbox.id, GatewayAccess.from_wire(access))
        return sandbox

    def forget(self, sandbox_id: str) -> None:
        """Drop what is known of a sandbox that is gone."""
        self._kinds.pop(sandbox_id, None)
        self.tokens.drop(sandbox_id)

    @property
    def knows_containers(self) -> bool:
        """Whether any sandbox is known to be a container."""
        return False in self._kinds.values()

    def known_container(self, sandbox_id: str) -> bool:
        """Say whether a sandbox is known to be a container."""
        return self._kinds.get(sandbox_id, True) is False

    async def is_container(self, sandbox_id: str) -> bool:
        """Ask the control plane what a sandbox is."""
        transport = await self._api.connect()
        path = f"/sandbox/{path_segment(sandbox_id, 'sandbox_id')}"
        self.learn(read_record(await transport.request("GET", path), Sandbox))
        return self.known_container(sandbox_id)

    async def link(self, sandbox_id: str) -> Link:
        """Return the way to a sandbox.

        Raises:
            SandboxNotFoundError, SandboxNotRunningError: there is none.
        """
        try:
            access = await self.tokens.get(sandbox_id)
        except APIError as error:
            error.spent = True
            raise
        if access.is_vm is not None:
            self._kinds.setdefault(sandbox_id, access.is_vm)
        parts = urlsplit(access.gateway_url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ProtocolError(f"the gateway address of sandbox {sandbox_id} is not http")
        namespace, job = quote(access.user_ns, safe=""), quote(access.job_id, safe="")
        return Link(
            self._transport(f"{parts.scheme}://{parts.netloc}"),
            f"{parts.path.rstrip('/')}/{namespace}/{job}",
            {"Authorization": f"Bearer {access.token}"},
            access.token,
        )

    async def call(self, sandbox_id: str, send: Callable[[Link], Awaitable[T]]) -> T:
        """Run one exchange with a sandbox: with a fresh token after a refusal, and again while it
        says that it is locked.

        Raises:
            UnauthorizedError: a fresh token was refused too.
            SandboxNotRunningError: the sandbox is gone or going.
            APIError: whatever else the exchange raised.
        """
        refused = False
        locked = 0
        while True:
            link = await self.link(sandbox_id)
            try:
                return await send(link)
            except UnauthorizedError as error:
                self.tokens.drop(sandbox_id, link.token)
                if refused:
                    raise self.refused_twice(sandbox_id, error) from error
                refused = True
            except ConflictError as error:
                if error.code == OFFSET_MISMATCH:
                    raise
                locked += 1
                await self._wait_if_running(sandbox_id, error, locked)
            except APIError as error:
                await self.explain(sandbox_id, error)
                raise

    def refused_twice(self, sandbox_id: str, error: APIError) -> UnauthorizedError:
        """Make the error for a token that was refused right after it was made."""
        return UnauthorizedError(
            f"the gateway of sandbox {sandbox_id} refuses a token that was made just now",
            status=401,
            code=error.code,
            url=error.url,
            method=error.method,
            hint="check the key of the current context, and this machine's clock",
        )

    async def explain(
        self,
        sandbox_id: str,
        error: PrimeError,
        *,
        command: str | None = None,
        gone: bool = False,
        doubtful: bool = False,
    ) -> None:
        """Raise the better error when a failure has its reason in the end of the sandbox.

        Args:
            gone: the gateway said that there is no such sandbox.
            doubtful: ask the platform even if the failure does not look like it.
        """
        gone = gone or (isinstance(error, APIError) and error.code in _GONE)
        doubtful = (
            doubtful
            or isinstance(error, TransportError | TimeoutError)
            or (
                isinstance(error, APIError)
                and (error.status or 500) in (408, 409, 410, 500, 502, 503, 504)
            )
        )
        if not gone and not doubtful:
            return
        context = await self.error_context(sandbox_id, _EXPLAIN_SECONDS)
        if context.status in ENDED_STATUSES or gone:
            self.forget(sandbox_id)
            raise not_running(
                sandbox_id,
                # Of one that never was, nothing is known.
                "TERMINATED" if gone and context.status is not None else context.status,
                context.error_type or ("SANDBOX_NOT_FOUND" if gone else None),
                command,
                context.error_message,
            ) from error

    async def error_context(
        self, sandbox_id: str, seconds: float = CONTEXT_SECONDS
    ) -> ErrorContext:
        """Ask why a sandbox is not well; empty when that cannot be told."""
        path = f"/sandbox/{path_segment(sandbox_id, 'sandbox_id')}/error-context"
        try:
            transport = await self._api.connect()
            response = await transport.request("GET", path, timeout=seconds)
            return read_record(response, ErrorContext)
        except APIError:
            return ErrorContext()  # this is asked about a failure, which it must not hide

    async def _wait_if_running(self, sandbox_id: str, error: ConflictError, tries: int) -> None:
        context = await self.error_context(sandbox_id)
        if context.status in ENDED_STATUSES:
            raise not_running(
                sandbox_id, context.status, context.error_type, None, context.error_message
            ) from error
        if context.status != "RUNNING" or tries >= _LOCKED_TRIES:
            raise error
        await anyio.sleep(_LOCKED_DELAY * 2 ** (tries - 1))

    def _transport(self, origin: str) -> Transport:
        transport = self._transports.get(origin)
        if transport is None:
            transport = self._transports[origin] = Transport(
                base_url=origin, prefix="", connections=self._connections, follow_redirects=False
            )
        return transport

    async def _authorize(self, sandbox_id: str) -> GatewayAccess:
        segment = path_segment(sandbox_id, "sandbox_id")
        transport = await self._api.connect()
        try:
            response = await transport.request(
                "POST", f"/sandbox/{segment}/auth", replay=Replay.SAFE
            )
        except APIError as error:
            await self._raise_not_authorized(sandbox_id, error)
        return read_record(response, GatewayAccess)

    async def _raise_not_authorized(self, sandbox_id: str, error: APIError) -> NoReturn:
        if error.status in (404, 409, 410):
            await self.explain(sandbox_id, error, doubtful=True)
        if isinstance(error, NotFoundError):
            raise sandbox_not_found(sandbox_id, error) from error
        raise error

    def _account(self) -> str:
        return account_of(self._api.base_url, self._api.api_key)


def sandbox_not_found(sandbox_id: str, error: APIError) -> SandboxNotFoundError:
    """Make the error for a sandbox that does not exist."""
    made = SandboxNotFoundError(
        f"there is no sandbox {sandbox_id}",
        status=404,
        code=error.code,
        detail=error.detail,
        request_id=error.request_id,
        method=error.method,
        url=error.url,
    )
    made.sandbox_id = sandbox_id
    return made


_KINDS: dict[str, type[SandboxNotRunningError]] = {
    "OOM_KILLED": SandboxOOMError,
    "TIMEOUT": SandboxTimeoutError,
    "IMAGE_PULL_FAILED": SandboxImagePullError,
}


def not_running(
    sandbox_id: str,
    status: str | None,
    error_type: str | None = None,
    command: str | None = None,
    message: str | None = None,
) -> SandboxNotRunningError:
    """Make the error whose class fits the reason."""
    kind = _KINDS.get(error_type or "", SandboxNotRunningError)
    return kind(sandbox_id, status, error_type, command, message)
