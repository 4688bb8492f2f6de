"""A bounded window over what a command writes: kept here, read from anywhere in it, by one reader.

Every byte has an offset: how many the command had written before it. The window holds the newest
ones, those that were handed on already among them, so that a reader that lost some on its way can
ask again. A reader gets a pipe of its own and reads that as fast as it likes; while there is one,
the command waits when the reader does; while there is none, it never waits.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import select
import termios
from collections.abc import Callable

from prime_async.server.runtimes.spawner.loop import Loop

__all__ = ["WINDOW_BYTES", "Window"]

WINDOW_BYTES = 1024 * 1024

_AHEAD_BYTES = 256 * 1024
"""What waits for a reader before the command has to."""

_PIECE_BYTES = 65536
_TERMINAL_SECONDS = 0.2
"""How long a terminal may take, after its command's end, to hand over what was written to it."""


class Window:
    """One output of a command.

    Args:
        loop: watches the descriptors.
        source: our end of its pipe or terminal; owned by this object; -1 for an output that has
            ended before it began.
        terminal: whether it is the master of a terminal.
        on_closed: called when the source is closed: nobody can write to it any more.
    """

    def __init__(
        self,
        loop: Loop,
        source: int,
        *,
        terminal: bool = False,
        on_closed: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._source = source
        self._terminal = terminal
        self._on_closed = on_closed
        self._data = bytearray()
        self._start = 0
        self._sent = 0
        self._reader = -1
        self._writing = False
        self._complete = source < 0
        self._watching = False
        if source >= 0:
            os.set_blocking(source, False)
        self._adjust()

    @property
    def open(self) -> bool:
        """Whether somebody may still write."""
        return self._source >= 0

    def follow(self, reader: int, at: int | None) -> int:
        """Hand on to a pipe, from an offset on; return where that is, which is later when the
        window does not reach back.

        Args:
            reader: the writing end; owned by this object.
            at: None for where the last reader stopped.
        """
        self._let_go()
        wanted = self._sent if at is None else at
        begin = self._sent = min(max(wanted, self._start), self._end)
        os.set_blocking(reader, False)
        self._reader = reader
        # Even with nothing to write it is told that the other end is closed.
        self._loop.watch(reader, self._on_reader, 0)
        self._writing = False
        self._push()
        return begin

    def rest(self, at: int) -> None:
        """The reader has stopped: it took what is before this offset."""
        self._let_go()
        self._sent = min(max(at, self._start), self._end)
        self._adjust()

    def ended(self) -> None:
        """The command ended: what it wrote is handed on, what others write later is not."""
        if self._terminal and self._source >= 0:
            # What was written to a terminal passes through a queue of the kernel.
            self._loop.later(_TERMINAL_SECONDS, self._settle)
        else:
            self._settle()

    def leave(self) -> None:
        """Nobody will read any more. Who still writes must not be killed by a broken pipe."""
        self._let_go()
        self._data.clear()
        self._complete = True
        if self._terminal:
            self._close_source()
        self._adjust()

    def close(self) -> None:
        """Let go of everything."""
        self._let_go()
        self._close_source()

    @property
    def _end(self) -> int:
        return self._start + len(self._data)

    def _settle(self) -> None:
        if self._complete or self._source < 0:
            return
        left = _waiting_bytes(self._source)
        while left > 0:
            piece = self._read(min(left, _PIECE_BYTES))
            if not piece:
                break
            self._keep(piece)
            left -= len(piece)
        self._complete = True
        if self._terminal:
            self._close_source()
        self._push()

    def _on_source(self, _: int) -> None:
        if self._source < 0:
            return
        piece = self._read(_PIECE_BYTES)
        if self._complete or not piece:
            return  # What descendants write after the end is thrown away.
        self._keep(piece)
        self._push()

    def _read(self, limit: int) -> bytes:
        """Read without waiting; nothing when there is nothing, or the end."""
        try:
            piece = os.read(self._source, limit)
        except BlockingIOError:
            return b""
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            piece = b""  # How a terminal says that nobody holds its other side.
        if not piece:
            self._close_source()
            self._complete = True
            self._push()
        return piece

    def _keep(self, piece: bytes) -> None:
        self._data += piece
        spare = len(self._data) - WINDOW_BYTES
        if self._reader >= 0:
            spare = min(spare, self._sent - self._start)
        if spare > 0:
            del self._data[:spare]
            self._start += spare

    def _push(self) -> None:
        """Hand on what the reader takes."""
        while self._reader >= 0 and self._sent < self._end:
            begin = self._sent - self._start
            try:
                done = os.write(self._reader, self._data[begin : begin + _PIECE_BYTES])
            except BlockingIOError:
                break
            except OSError:
                self._lost_reader()
                break
            self._sent += done
        if self._reader >= 0:
            waiting = self._sent < self._end
            if not waiting and self._complete:
                self._let_go()
            elif waiting is not self._writing:
                self._writing = waiting
                events = select.POLLOUT if waiting else 0
                self._loop.watch(self._reader, self._on_reader, events)
        self._adjust()

    def _on_reader(self, events: int) -> None:
        if self._reader < 0:
            return
        if events & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            self._lost_reader()
            self._adjust()
        else:
            self._push()

    def _lost_reader(self) -> None:
        """It closed its end; what it had not read is still ours to give."""
        self._sent = max(self._start, self._sent - _waiting_bytes(self._reader))
        self._let_go()

    def _let_go(self) -> None:
        if self._reader >= 0:
            self._loop.unwatch(self._reader)
            os.close(self._reader)
            self._reader = -1

    def _close_source(self) -> None:
        if self._source >= 0:
            if self._watching:
                self._loop.unwatch(self._source)
                self._watching = False
            os.close(self._source)
            self._source = -1
            self._on_closed()

    def _adjust(self) -> None:
        """Read from the command, or let it wait."""
        if self._source < 0:
            return
        full = self._reader >= 0 and self._end - self._sent >= _AHEAD_BYTES
        wanted = self._complete or not full
        if wanted and not self._watching:
            self._loop.watch(self._source, self._on_source)
        elif self._watching and not wanted:
            self._loop.unwatch(self._source)
        self._watching = wanted


def _waiting_bytes(descriptor: int) -> int:
    size = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.FIONREAD, size)
    except OSError:
        return 0
    return size[0]
