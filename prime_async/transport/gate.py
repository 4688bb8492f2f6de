"""The pause a platform asks for with ``Retry-After``, kept by all calls of one client."""

from __future__ import annotations

import logging

import anyio

__all__ = ["Gate"]

_LOGGER = logging.getLogger("prime_async.transport")


class Gate:
    """Open, or closed until a moment; every request of the client waits while it is closed."""

    def __init__(self) -> None:
        self._until = 0.0
        self._warned = False

    def close_for(self, seconds: float) -> None:
        """Close the gate for the given seconds from now; a longer closing stays."""
        self._until = max(self._until, anyio.current_time() + seconds)
        if seconds > 0 and not self._warned:  # one line per client, not one per refused request
            self._warned = True
            _LOGGER.warning(
                "rate_limited pause=%.1fs: the platform asks to wait, requests go on by themselves",
                seconds,
            )

    async def wait(self) -> None:
        """Return when the gate is open."""
        # A moment and not an event: another answer may move it meanwhile.
        while self._until > anyio.current_time():  # noqa: ASYNC110
            await anyio.sleep_until(self._until)
