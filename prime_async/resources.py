"""`AsyncResourceClient`: what the clients of all areas share, constructor and connection."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from prime_async.api import AsyncAPIClient
from prime_async.errors import UsageError

__all__ = ["AsyncResourceClient"]


class AsyncResourceClient:
    """A client of one area of the platform, on a connection of its own or a shared one.

    Args:
        api_client: a shared :class:`AsyncAPIClient`, which stays open when this client closes; a
            text is taken as the API key, as the official async clients take it.
        api_key, base_url, team_id, context, timeout: as for :class:`AsyncAPIClient`, for a
            connection of its own.

    Raises:
        ConfigError: a configuration file is broken or the context is unknown.
        UsageError: an argument is wrong, or given together with a shared client.
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
    ) -> None:
        own: dict[str, Any] = {
            "api_key": api_key,
            "base_url": base_url,
            "team_id": team_id,
            "context": context,
            "timeout": timeout,
        }
        given: object = api_client  # callers without a type checker may pass anything
        if isinstance(given, AsyncAPIClient):
            _refuse_extra(own)
            self._api, self._owned = given, False
            return
        if isinstance(given, str):
            if api_key is not None:
                raise UsageError("the key is given twice", field="api_key")
            own["api_key"] = given
        elif given is not None:
            raise UsageError(
                f"api_client is a {type(given).__name__}",
                field="api_client",
                hint="an AsyncAPIClient, or an API key as text",
            )
        self._api, self._owned = self._own_connection(own), True

    @property
    def api_client(self) -> AsyncAPIClient:
        """The connection this client uses."""
        return self._api

    def _own_connection(self, settings: dict[str, Any]) -> AsyncAPIClient:
        return AsyncAPIClient(**settings)

    async def aclose(self) -> None:
        """Close the connection, unless it is shared."""
        if self._owned:
            await self._api.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def _refuse_extra(own: dict[str, Any]) -> None:
    extra = next((name for name, value in own.items() if value is not None), None)
    if extra is not None:
        raise UsageError(f"{extra} belongs to the api_client that is given", field=extra)
