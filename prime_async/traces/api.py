"""`AsyncTracesAPIClient`: the connection to the traces service, and the plain way to its
endpoints.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from prime_async.api import AsyncAPIClient
from prime_async.errors import UnauthorizedError
from prime_async.traces.batches import digest_of
from prime_async.traces.codes import LineFormat
from prime_async.traces.deleting import delete
from prime_async.traces.errors import in_family
from prime_async.traces.sending import DEFAULT_ATTEMPTS, Delivery, deliver

if TYPE_CHECKING:
    from prime_async.transport import Replay, Response, RetryPolicy, Transport

__all__ = ["AsyncTracesAPIClient"]


class AsyncTracesAPIClient(AsyncAPIClient):
    """A configured connection to the traces service.

    Args:
        api_key: key to use in place of the configured one; "" sends none and asks no configuration.
        base_url: address of the service. Default is ``PRIME_TRACES_URL``, then ``traces_url`` of
            the configuration, then the platform's own address; in the context ``local`` always the
            embedded platform.
        team_id: team to act for, sent with every request; "" acts as the account itself.
        user_agent: text to send as ``User-Agent`` in place of the default.
        timeout: seconds a call may take in all, retries included; default 60, an upload longer.
        context: name of a saved context, or ``"local"`` for the embedded platform.
        require_auth: refuse to send anything without a key (default True).
        retry: how often and how soon failed requests are repeated.

    Raises:
        TracesConfigError: a configuration file is broken or the context is unknown.
        TracesUsageError: an argument is wrong.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        team_id: str | None = None,
        user_agent: str | None = None,
        timeout: float | None = None,
        *,
        context: str | None = None,
        require_auth: bool = True,
        retry: RetryPolicy | None = None,
    ) -> None:
        with in_family():
            super().__init__(
                api_key,
                base_url=base_url or None,
                team_id=team_id,
                context=context,
                timeout=timeout,
                require_auth=require_auth,
                user_agent=user_agent,
                retry=retry,
            )
        self._here = bool(base_url)
        self._keyless = api_key == ""

    @classmethod
    def _beside(cls, api: AsyncAPIClient) -> Self:
        """Make the connection to the traces service that goes with one to the platform."""
        made = cls.__new__(cls)
        made.__dict__.update(api.__dict__)
        made._transport = None
        made._here = made._keyless = False
        return made

    @property
    def base_url(self) -> str:
        """The service's address, without ``/api/v1``."""
        return self._settings.base_url if self._here else self._settings.traces_url

    @property
    def api_key(self) -> str | None:
        """The key requests carry."""
        if self._keyless:
            return None
        return self._settings.api_key if self._here else self._settings.key_for("traces_url")

    async def connect(self) -> Transport:
        """Return the transport; see :meth:`AsyncAPIClient.connect`.

        Raises:
            PrimeTracesError: the member of the family that says what happened.
        """
        with in_family():
            return await super().connect()

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
        empty one); arguments as for :meth:`AsyncAPIClient.request`.

        Raises:
            PrimeTracesError: the member of the family that says what happened.
        """
        with in_family():
            return await super().request(
                method,
                path,
                params=params,
                json=json,
                headers=headers,
                timeout=timeout,
                replay=replay,
                idempotency_key=idempotency_key,
            )

    async def get_json(
        self,
        endpoint: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """GET an endpoint such as ``/traces`` and return the JSON object of the answer.

        Args:
            endpoint: below ``/api/v1``.
            params: query; None values are left out, lists repeat the name.
            timeout: seconds in all; default 60.
        """
        return await self.request("GET", endpoint, params=params, timeout=timeout)

    async def delete(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """DELETE a path; sent again only when the service provably did nothing.

        Raises:
            AmbiguousDeleteError: it may have been carried out, and no answer tells.
        """
        with in_family():
            return (await delete(await self.connect(), _rooted(path), params, timeout)).json()

    async def stream_bytes(
        self,
        endpoint: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> AsyncIterator[bytes]:
        """GET an endpoint and yield the body as it arrives; tried again only before its first byte.

        Args:
            endpoint: below ``/api/v1``.
            params: query; None values are left out, lists repeat the name.
            timeout: seconds for all of it; default unlimited, 60 without a byte.
        """
        with in_family():
            transport = await self.connect()
            async with transport.stream(
                "GET", _rooted(endpoint), params=params, headers=_ANY, timeout=timeout
            ) as response:
                async for piece in response.iter_bytes():
                    yield piece

    async def upload_batch(
        self,
        body: bytes | Sequence[bytes],
        idempotency_key: str | None = None,
        *,
        line_format: LineFormat = LineFormat.TRACE,
        schema_version: int = 1,
        context: Mapping[str, str] | None = None,
        compress: bool = True,
        max_attempts: int = DEFAULT_ATTEMPTS,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Send one request of lines and return the answer as it is.

        Args:
            body: the exact lines, as bytes or in pieces.
            idempotency_key: ``sha256:<digest of body>``; computed when None.
            line_format: what a line is.
            schema_version: of the records.
            context: what is said of every record.
            compress: whether to compress them on the way.
            max_attempts: requests at most, the first one included.
            timeout: seconds in all; default 600.
        """
        chunks = (body,) if isinstance(body, bytes) else tuple(body)
        digest = (idempotency_key or digest_of(chunks)).removeprefix("sha256:")
        delivery = Delivery.checked(
            line_format=line_format,
            schema_version=schema_version,
            context=context,
            compress=compress,
            max_attempts=max_attempts,
        )
        with in_family():
            return (await deliver(self, chunks, digest, delivery, timeout=timeout)).to_wire()

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Response:
        """Send a request and return the whole answer."""
        with in_family():
            transport = await self.connect()
            return await transport.request(
                method, path, params=params, headers=headers, timeout=timeout
            )

    def _headers(self) -> dict[str, str]:
        team = self._settings.team_id
        return {"X-Prime-Team-ID": team} if team else {}

    def _no_key(self) -> UnauthorizedError:
        error = super()._no_key()
        if self._settings.api_key is not None and not self._keyless:
            error.hint = (
                "the stored key is not sent to an address from the environment "
                "(PRIME_TRACES_URL): set PRIME_API_KEY too"
            )
        return error


_ANY = {"Accept": "*/*"}


def _rooted(endpoint: str) -> str:
    return endpoint if endpoint.startswith("/") else f"/{endpoint}"
