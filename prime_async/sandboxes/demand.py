"""Two streams out of one, read on demand: who needs something reads for everybody.

There is no task of its own: while nobody reads, nothing is taken from the connection, and the other
end has to wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

import anyio

from prime_async.sandboxes.wire import Ended, Event, Output

__all__ = ["Demand", "MAX_UNREAD", "Unread"]

MAX_UNREAD = 8 * 2**20
"""Bytes of one stream that wait to be read while the other one is."""


class Unread:
    """What has arrived of one stream and was not read yet.

    Attributes:
        readers: how many are reading it.
        dropped: bytes that went because nobody read them while the other stream was needed.
    """

    def __init__(self) -> None:
        self.readers = 0
        self.dropped = 0
        self._pieces: deque[bytes] = deque()
        self._held = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def full(self) -> bool:
        return self._held >= MAX_UNREAD

    def put(self, piece: bytes) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self._held += len(piece)

    def take(self) -> bytes:
        """Return all that waits."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        return data

    def drop_oldest(self) -> None:
        """Make room."""
        while self.full:
            piece = self._pieces.popleft()
            self._held -= len(piece)
            self.dropped += len(piece)


class Demand:
    """Reads events for whoever waits.

    Args:
        fetch: returns the next event; raises when there will be none.

    Attributes:
        end: the event that ended it, or None.
        error: why there will be no more, or None.
    """

    def __init__(self, fetch: Callable[[], Awaitable[Event]]) -> None:
        self.stdout = Unread()
        self.stderr = Unread()
        self.end: Ended | None = None
        self.error: Exception | None = None
        self._fetch = fetch
        self._reading = False
        self._changed = anyio.Event()

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self.end is not None or self.error is not None

    async def read(self, stream: Unread) -> bytes:
        """Return the next bytes of a stream, b"" after the last.

        Raises:
            Exception: the reason why there will be no more.
        """
        stream.readers += 1
        try:
            while not stream and not self.over:
                await self._advance(stream)
        finally:
            stream.readers -= 1
        self._tell()
        if not stream and self.error is not None:
            raise self.error
        return stream.take()

    async def until_over(self) -> None:
        """Return when nothing more comes."""
        while not self.over:
            await self._advance(None)

    async def _advance(self, wanted: Unread | None) -> None:
        """Read one event, or wait until somebody else has."""
        other = [stream for stream in (self.stdout, self.stderr) if stream is not wanted]
        blocked = any(stream.full and stream.readers for stream in other)
        if self._reading or blocked:
            await self._changed.wait()
            return
        for stream in other:
            if stream.full:
                stream.drop_oldest()
        self._reading = True
        try:
            event = await self._fetch()
        except Exception as error:  # kept for every reader, now and later
            self.error = error
        else:
            self._put(event)
        finally:
            self._reading = False
            self._tell()

    def _put(self, event: Event) -> None:
        if isinstance(event, Output):
            (self.stderr if event.stream == "stderr" else self.stdout).put(event.data)
        elif isinstance(event, Ended):
            self.end = event

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
