"""What a command is given to read: each piece once, in order, as fast as it takes it."""

from __future__ import annotations

import os
import select
import termios
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from prime_async.server.runtimes.spawner.loop import Loop

__all__ = ["Intake"]

Done = Callable[[bool], None]

_PIECE_BYTES = 65536
_REMEMBERED = 1024
_WAITING = 256


@dataclass(slots=True)
class _Piece:
    """Something to write: the memory file it is in (-1 for the end of input), how far it got, and
    who wants to know when it is written, or never will be."""

    key: str | None
    memory: int
    size: int
    at: int = 0
    told: list[Done] = field(default_factory=list)


class Intake:
    """The standard input of a command.

    Args:
        loop: watches the descriptor.
        descriptor: our end; owned by this object; -1 for none.
        terminal: whether it is the master of a terminal.
    """

    def __init__(self, loop: Loop, descriptor: int, *, terminal: bool = False) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._terminal = terminal
        self._waiting: deque[_Piece] = deque()
        self._written: OrderedDict[str, None] = OrderedDict()
        if descriptor >= 0:
            os.set_blocking(descriptor, False)

    def write(self, key: str | None, memory: int, size: int, done: Done) -> None:
        """Write what is in a memory file; a key that was seen before is not written again.

        Args:
            memory: owned by this object.
            done: called with whether it was written.
        """
        known = next((one for one in self._waiting if key is not None and one.key == key), None)
        if known is not None:
            known.told.append(done)
        if known is not None or key in self._written:
            os.close(memory)
            if known is None:
                done(True)
            return
        if self._descriptor < 0 or len(self._waiting) >= _WAITING:
            os.close(memory)
            done(False)
            return
        self._waiting.append(_Piece(key, memory, size, told=[done]))
        self._push()

    def finish(self, done: Done) -> None:
        """End the input behind what waits; with a terminal, its end-of-file character."""
        if self._descriptor < 0:
            done(True)
            return
        memory, size = -1, 0
        if self._terminal:
            character = termios.tcgetattr(self._descriptor)[6][termios.VEOF]
            memory = os.memfd_create("input", os.MFD_CLOEXEC)
            size = os.write(memory, character)
        self._waiting.append(_Piece(None, memory, size, told=[done]))
        self._push()

    def close(self) -> None:
        """Nothing more is written; who waits is told so."""
        if self._descriptor >= 0:
            self._loop.unwatch(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        while self._waiting:
            self._drop(False)

    def _push(self) -> None:
        while self._waiting and self._descriptor >= 0:
            piece = self._waiting[0]
            if piece.memory < 0:
                self._drop(True)
                self.close()
                return
            data = os.pread(piece.memory, min(_PIECE_BYTES, piece.size - piece.at), piece.at)
            try:
                piece.at += os.write(self._descriptor, data) if data else 0
            except BlockingIOError:
                self._loop.watch(self._descriptor, lambda _: self._push(), select.POLLOUT)
                return
            except OSError:
                self.close()
                return
            if not data or piece.at >= piece.size:
                self._drop(True)
        if self._descriptor >= 0:
            self._loop.unwatch(self._descriptor)

    def _drop(self, written: bool) -> None:
        piece = self._waiting.popleft()
        if piece.memory >= 0:
            os.close(piece.memory)
        if written and piece.key is not None:
            self._written[piece.key] = None
            while len(self._written) > _REMEMBERED:
                self._written.popitem(last=False)
        for done in piece.told:
            done(written)
