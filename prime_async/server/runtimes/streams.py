"""The three streams of a command, on the event loop: nothing is held here while somebody reads."""

from __future__ import annotations

import array
import asyncio
import errno
import fcntl
import os
import termios
from collections import deque
from collections.abc import AsyncIterator

from prime_async.server.runtimes.errors import StdinClosedError
from prime_async.server.runtimes.protocol import RETAINED_BYTES

__all__ = ["InputStream", "PipeOutput", "closed_output"]

_WINDOW = 65536
_TERMINAL_SECONDS = 0.2
"""How long a terminal may take, after its command's end, to hand over what was written to it."""


class PipeOutput:
    """What a command writes, read from our end of its pipe or terminal.

    Reading is done when somebody asks for it, so the kernel's buffer is the only one and a command
    that writes faster than it is read waits. After ``detach`` a ring of the newest bytes is kept
    instead. After the command's end exactly what is in the kernel's buffer is still given; what
    descendants write later is read and thrown away, so that they are not killed by a broken pipe.

    Args:
        descriptor: our end, non-blocking; owned by this object.
        terminal: whether it is the master of a terminal.
    """

    def __init__(self, descriptor: int, *, terminal: bool = False) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._terminal = terminal
        self._loop = asyncio.get_running_loop()
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._left: int | None = None
        self._over = descriptor < 0
        self._waiter: asyncio.Future[None] | None = None
        self._discarding = False
        self._detached = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def read(self, limit: int = _WINDOW) -> bytes:
        """Return 1 to ``limit`` bytes, or nothing at the end."""
        self._unwatch()
        self._detached = False
        while True:
            if self._kept:
                return self._from_kept(limit)
            if self._over:
                return b""
            data = self._take(limit)
            if data:
                return data
            if data is None:
                await self._readable()

    def detach(self) -> None:
        """Nobody listens: keep the newest bytes, drop and count the rest."""
        if not self._over and self._waiter is None:
            self._detached = True
            self._loop.add_reader(self._descriptor, self._keep)

    def command_ended(self) -> None:
        """The command ended: give what it wrote, and no more than that."""
        if self._over:
            return
        if self._terminal:
            # What was written to a terminal passes through a queue of the kernel.
            self._loop.call_later(_TERMINAL_SECONDS, self._settle)
        else:
            self._settle()
        self._wake()

    def close(self) -> None:
        """Let go; whoever still writes is told so by the kernel."""
        self._over = True
        self._wake()
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def leave(self) -> None:
        """Nobody will ever read again: close, or, after the end, throw away for descendants."""
        self._kept.clear()
        self._kept_bytes = 0
        if self._left is None:
            self.close()
        elif not self._over:
            self._end()

    def _settle(self) -> None:
        if self._over or self._left is not None:
            return
        self._left = _waiting_bytes(self._descriptor)
        if self._left == 0:
            self._end()
        while self._detached and not self._over:
            self._keep()
        self._wake()

    def _take(self, limit: int) -> bytes | None:
        """Read without waiting; None when there is nothing yet, nothing at the end."""
        if self._left is not None:
            limit = min(limit, self._left)
        try:
            data = os.read(self._descriptor, limit)
        except BlockingIOError:
            if self._left is None:
                return None
            self._end()
            return b""
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""  # How a terminal says that nobody holds its other side.
        if not data:
            self.close()
        elif self._left is not None:
            self._left -= len(data)
            if self._left == 0:
                self._end()
        return data

    def _end(self) -> None:
        """All of the command's output was read; descendants may still hold the other side."""
        if self._terminal:
            self.close()
            return
        self._over = True
        self._throw_away()  # most commands have no descendants: then this is all
        if self._descriptor >= 0:
            self._discarding = True
            self._loop.add_reader(self._descriptor, self._throw_away)

    def _throw_away(self) -> None:
        try:
            data = os.read(self._descriptor, _WINDOW)
        except BlockingIOError:
            return
        if not data:
            self.close()

    def _keep(self) -> None:
        data = self._take(_WINDOW)
        if not data:
            return
        self._kept.append(data)
        self._kept_bytes += len(data)
        while self._kept_bytes > RETAINED_BYTES:
            gone = len(self._kept.popleft())
            self._kept_bytes -= gone
            self.dropped += gone

    def _from_kept(self, limit: int) -> bytes:
        data = self._kept.popleft()
        if len(data) > limit:
            self._kept.appendleft(data[limit:])
            data = data[:limit]
        self._kept_bytes -= len(data)
        return data

    async def _readable(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("one reader at a time")
        self._waiter = self._loop.create_future()
        self._loop.add_reader(self._descriptor, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._unwatch()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _unwatch(self) -> None:
        if self._descriptor >= 0 and not self._discarding:
            self._loop.remove_reader(self._descriptor)


def closed_output() -> PipeOutput:
    """An output that has ended."""
    return PipeOutput(-1)


def _waiting_bytes(descriptor: int) -> int:
    size = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.FIONREAD, size)
    except OSError:
        return 0
    return size[0]


class InputStream:
    """What a command reads.

    Args:
        descriptor: our end, non-blocking, owned by this object; -1 for none.
        terminal: whether it is the master of a terminal.
    """

    def __init__(self, descriptor: int, *, terminal: bool = False) -> None:
        self._descriptor = descriptor
        self._terminal = terminal
        self._turn = asyncio.Lock()
        self._waiter: asyncio.Future[None] | None = None

    async def write(self, data: bytes) -> None:
        """Write all of it, in order with other calls.

        Raises:
            StdinClosedError: it is closed, or the command does not read it any more.
        """
        async with self._turn:
            self._require_open()
            view = memoryview(data)
            while view:
                self._require_open()
                try:
                    view = view[os.write(self._descriptor, view) :]
                except BlockingIOError:
                    await self._writable()
                    continue
                except OSError as error:
                    self.close()
                    raise StdinClosedError("the command reads no input any more") from error

    async def finish(self) -> None:
        """Say that there is no more."""
        if self._descriptor < 0:
            return
        if not self._terminal:
            async with self._turn:
                self.close()
            return
        await self.write(termios.tcgetattr(self._descriptor)[6][termios.VEOF])

    def close(self) -> None:
        """Let go."""
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        self._wake()

    def _require_open(self) -> None:
        if self._descriptor < 0:
            raise StdinClosedError("the command has no open standard input")

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        loop.add_writer(self._descriptor, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if self._descriptor >= 0:
                loop.remove_writer(self._descriptor)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
