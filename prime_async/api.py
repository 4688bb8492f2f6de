"""`AsyncAPIClient`: settings plus transport; the plain way to any endpoint, shared by the clients
of all areas.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio

from prime_async.config import Settings, load_settings
from prime_async.errors import UnauthorizedError, UsageError

if TYPE_CHECKING:
    from prime_async.transport import Replay, RetryPolicy, Transport

__all__ = ["AsyncAPIClient"]


class AsyncAPIClient:
    """A configured connection to the platform.

    Made without arguments it uses what the environment and the configuration files say. It belongs
    to the event loop that uses it; connections open at the first request and close with
    :meth:`aclose`, with ``async with``, or with the loop.

    Args:
        api_key: key to use in place of the configured one.
        base_url: platform address in place of the configured one.
        team_id: team to act for; "" acts as the account itself.
        context: name of a saved context, or ``"local"`` for the embedded platform, which is started
            on first use.
        timeout: seconds a call may take in all, retries included; default 60.
        require_auth: refuse to send anything without a key (default True).
        user_agent: text to send as ``User-Agent`` in place of the default.
        retry: how often and how soon failed requests are repeated.

    Raises:
        ConfigError: a configuration file is broken or the context is unknown.
        UsageError: an argument is wrong.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        team_id: str | None = None,
        context: str | None = None,
        timeout: float | None = None,
        require_auth: bool = True,
        user_agent: str | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        _check_texts(
            api_key=api_key,
            base_url=base_url,
            team_id=team_id,
            context=context,
            user_agent=user_agent,
        )
        if not callable(getattr(retry, "delay", None)) and retry is not None:
            raise UsageError(f"retry is a {type(retry).__name__}, no RetryPolicy", field="retry")
        self._load = functools.partial(
            load_settings, api_key=api_key, base_url=base_url, team_id=team_id, context=context
        )
        self._settings = self._load()
        self._timeout = timeout
        self._require_auth = require_auth
        self._user_agent = user_agent
        self._retry = retry
        self._transport: Transport | None = None
        self._connecting = anyio.Lock()
        self._check_timeout(timeout)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(base_url={self.base_url!r}, context={self._settings.context!r})"
        )

    @property
    def settings(self) -> Settings:
        """Every setting in force and where it came from."""
        return self._settings

    @property
    def config(self) -> Settings:
        """The settings under the name the official clients use."""
        return self._settings

    @property
    def api_key(self) -> str | None:
        """The key requests carry."""
        return self._settings.api_key

    @property
    def base_url(self) -> str:
        """The platform's address, without ``/api/v1``."""
        return self._settings.base_url

    @property
    def team_id(self) -> str | None:
        """The team requests act for; None is the account itself."""
        return self._settings.team_id

    async def connect(self) -> Transport:
        """Return the transport, first starting the embedded platform where the context is
        ``local``.

        Raises:
            UnauthorizedError: no key is configured; the message names both ways out.
            LocalPlatformError: the embedded platform does not start.
            WrongLoopError: the client is in use on another loop that is still alive.
            ConfigError: proxy or certificate variables are broken.
            PrimeError: no event loop of asyncio is running.
        """
        if self._transport is None:
            async with self._connecting:
                if self._transport is None:
                    self._transport = await self._make_transport()
        # Here and not with the first request: a push makes that in a task of a group, from which
        # an error would come out as a group.
        await self._transport.open()
        return self._transport

    async def aclose(self) -> None:
        """Close the connections. The client opens new ones when it is used again."""
        if self._transport is not None:
            await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        replay: Replay | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Send a request below ``/api/v1`` and return the JSON object of the answer ({} for an
        empty one).

        Args:
            method: HTTP method.
            path: such as ``/evaluations/``; a missing leading slash is added.
            params: query; None values are left out.
            json: body; anything msgspec can encode.
            headers: further headers.
            timeout: seconds in all, retries included; None is the client's default, ``math.inf``
                unlimited.
            replay: whether a repeat is harmless; by default decided by the method.
            idempotency_key: makes a repeated POST harmless where the platform knows keys.

        Raises:
            UsageError: the method or a header cannot be sent.
            APIError: the child of the answer's status, or of what broke (see
                ``prime_async.errors``).
        """
        from prime_async.transport import Replay as _Replay

        transport = await self.connect()
        response = await transport.request(
            method.upper(),
            path if path.startswith("/") else f"/{path}",
            params=params,
            json=json,
            headers=headers,
            timeout=timeout,
            replay=_Replay.AUTO if replay is None else replay,
            idempotency_key=idempotency_key,
        )
        return response.json()

    async def get(
        self, path: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """GET a path; see :meth:`request`."""
        return await self.request("GET", path, params=params, timeout=timeout)

    async def post(
        self, path: str, json: Any = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """POST a JSON body; see :meth:`request`."""
        return await self.request("POST", path, json=json, timeout=timeout)

    async def put(
        self, path: str, json: Any = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """PUT a JSON body; see :meth:`request`."""
        return await self.request("PUT", path, json=json, timeout=timeout)

    async def patch(
        self, path: str, json: Any = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """PATCH with a JSON body; see :meth:`request`."""
        return await self.request("PATCH", path, json=json, timeout=timeout)

    async def delete(self, path: str, *, timeout: float | None = None) -> dict[str, Any]:
        """DELETE a path; see :meth:`request`."""
        return await self.request("DELETE", path, timeout=timeout)

    async def _make_transport(self) -> Transport:
        from prime_async.transport import DEFAULT_TIMEOUT, Transport

        if self._settings.context == "local":
            await self._start_local()
        if self._require_auth and not self.api_key:
            raise self._no_key()
        at_platform = self.base_url == self._settings.base_url
        return Transport(
            base_url=self.base_url,
            api_key=self.api_key,
            unix_socket=self._settings.unix_socket if at_platform else None,
            user_agent=self._user_agent,
            headers=self._headers(),
            timeout=DEFAULT_TIMEOUT if self._timeout is None else self._timeout,
            retry=self._retry,
        )

    def _no_key(self) -> UnauthorizedError:
        """Make the error for a request that has no key to go with."""
        return UnauthorizedError(
            f"no API key is configured for {self.base_url}",
            hint="set PRIME_API_KEY, or use the embedded platform with PRIME_CONTEXT=local",
        )

    def _headers(self) -> dict[str, str]:
        """Return what every request carries besides the key."""
        return {}

    async def _start_local(self) -> None:
        from prime_async import local

        address = await local.ensure_running()
        for note in address.notes:  # another port than before, another version: see LocalAddress
            logging.getLogger("prime_async.local").warning(note)
        self._settings = self._load()

    @staticmethod
    def _check_timeout(timeout: float | None) -> None:
        number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if timeout is not None and not (number and timeout > 0):
            raise UsageError(
                f"timeout is {timeout!r}; it must be a positive number of seconds", field="timeout"
            )


def _check_texts(**arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{name} is a {type(value).__name__}, not text", field=name)
    if not str(arguments["user_agent"]).isprintable():
        raise UsageError("user_agent is not one line of text", field="user_agent")
