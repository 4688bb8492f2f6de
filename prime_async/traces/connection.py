"""`AsyncTracesConnection`: what the parts of the traces client share, constructor and requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from prime_async.api import AsyncAPIClient
from prime_async.models import Record
from prime_async.requests import read_record
from prime_async.resources import AsyncResourceClient
from prime_async.traces.api import AsyncTracesAPIClient
from prime_async.traces.errors import TracesUsageError, in_family
from prime_async.transport import path_segment

__all__ = ["AsyncTracesConnection", "id_path"]

R = TypeVar("R", bound=Record)


class AsyncTracesConnection(AsyncResourceClient):
    """A client of the traces service, on a connection of its own or a shared one.

    Args:
        api_client: a shared :class:`AsyncTracesAPIClient`, which stays open when this client
            closes; or an :class:`AsyncAPIClient`, whose account is used on a connection of its own
            to the traces service; or an API key as text.
        api_key, base_url, team_id, context, timeout, user_agent: as for
            :class:`AsyncTracesAPIClient`, for a connection of its own.

    Raises:
        TracesConfigError: a configuration file is broken or the context is unknown.
        TracesUsageError: an argument is wrong, or given together with a shared client.
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
        user_agent: str | None = None,
    ) -> None:
        if user_agent is not None and isinstance(api_client, AsyncAPIClient):
            raise TracesUsageError(
                "user_agent belongs to the api_client that is given", field="user_agent"
            )
        self._user_agent = user_agent
        with in_family():
            super().__init__(
                api_client,
                api_key=api_key,
                base_url=base_url,
                team_id=team_id,
                context=context,
                timeout=timeout,
            )
        if isinstance(self._api, AsyncTracesAPIClient):
            self._wire = self._api
        else:
            self._wire = AsyncTracesAPIClient._beside(self._api)
            self._api, self._owned = self._wire, True

    @property
    def client(self) -> AsyncTracesAPIClient:
        """The connection this client uses, under the name the official client has for it."""
        return self._wire

    def _own_connection(self, settings: dict[str, Any]) -> AsyncAPIClient:
        return AsyncTracesAPIClient(**settings, user_agent=self._user_agent)

    async def _get(
        self,
        model: type[R],
        path: str,
        params: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> R:
        """GET a path and read the answer as a model."""
        with in_family():
            return read_record(
                await self._wire._send("GET", path, params=params, timeout=timeout), model
            )

    async def _get_bytes(self, path: str, timeout: float | None) -> bytes:
        """GET the exact bytes of a stored document."""
        response = await self._wire._send(
            "GET", path, params={"raw": True}, headers={"Accept": "*/*"}, timeout=timeout
        )
        return response.body


def id_path(collection: str, value: str, field: str) -> str:
    """Return the path of one thing.

    Raises:
        TracesUsageError: its id is empty or would change the path.
    """
    with in_family():
        return f"/{collection}/{path_segment(value, field)}"
