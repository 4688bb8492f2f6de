"""A bound on the bytes of all request bodies held at the same time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["ByteBudget"]


class ByteBudget:
    """Hands out bytes in the order they are asked for; who does not fit waits."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._free = total
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def used(self) -> int:
        """Bytes handed out now."""
        return self._total - self._free

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold bytes for the length of a block; asking for more than all means all."""
        size = min(size, self._total)
        await self._take(size)
        try:
            yield
        finally:
            self._free += size
            self._serve()

    async def _take(self, size: int) -> None:
        if not self._queue and size <= self._free:
            self._free -= size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The bytes were handed over in the same moment: give them back.
                self._free += size
            elif (size, turn) in self._queue:
                self._queue.remove((size, turn))
            self._serve()
            raise

    def _serve(self) -> None:
        while self._queue and self._queue[0][0] <= self._free:
            size, turn = self._queue.popleft()
            if not turn.done():
                self._free -= size
                turn.set_result(None)
