"""Event loops that a forked child can let go of without touching what it shares with its parent."""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import sys
import weakref
from collections.abc import Mapping
from typing import Any

__all__ = ["abandon_loop", "new_loop"]


class _Selector(selectors.DefaultSelector):
    """A selector that can be emptied in a forked child.

    After fork the epoll object is still the parent's. To unregister a socket from it, as closing a
    transport does, would make the parent deaf on that socket.
    """

    def abandon(self) -> None:
        keys = list(self.get_map().values())
        _ABANDONED.append(keys)  # their transports, if destroyed here, would complain
        null = os.open(os.devnull, os.O_RDWR)
        for key in keys:
            # What a destructor still writes (a TLS goodbye) must not reach the parent's peers.
            os.dup2(null, key.fd, inheritable=False)
        os.close(null)
        self.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return nothing when closed, where None would make a late ``remove_reader()`` fail."""
        return super().get_map() or {}


class _Loop(asyncio.SelectorEventLoop):
    """A loop that can resolve names while the interpreter exits, when executors take no work."""

    async def getaddrinfo(self, host: Any, port: Any, **hints: int) -> list[Any]:
        try:
            return await super().getaddrinfo(host, port, **hints)
        except RuntimeError:
            # Nothing but what ends at exit runs on this loop any more: it may wait.
            return list(socket.getaddrinfo(host, port, **hints))


_SELECTORS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Selector] = (
    weakref.WeakKeyDictionary()
)
_ABANDONED: list[object] = []


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop.

    Never uvloop's, which a forked child cannot let go of: its sockets stay shared, and the child
    crashes when it exits.
    """
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    selector = _Selector()
    loop = _Loop(selector)
    _SELECTORS[loop] = selector
    return loop


def abandon_loop(loop: asyncio.AbstractEventLoop) -> None:
    """In a forked child: keep the parent's loop for ever, deaf and mute; closing would disturb."""
    _ABANDONED.append(loop)
    loop.set_exception_handler(_ignore)
    selector = _SELECTORS.get(loop)
    if selector is not None:
        selector.abandon()


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Complaints about tasks and sessions of the parent mean nothing in the child."""
