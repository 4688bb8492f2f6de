"""Refuses every connection of the test process that would leave this machine."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest

__all__ = ["OutsideConnectionError", "refuse_outside"]


class OutsideConnectionError(AssertionError):
    """A test tried to reach something other than loopback or a unix socket."""


def refuse_outside(patch: pytest.MonkeyPatch) -> None:
    """Replace connect and name look-up, which asyncio, aiohttp, httpx and http.client end in."""
    getaddrinfo = socket.getaddrinfo
    connect, connect_ex, sendto = (
        socket.socket.connect,
        socket.socket.connect_ex,
        socket.socket.sendto,
    )

    def checked_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        _check_host(host)
        return getaddrinfo(host, *args, **kwargs)

    def checked_connect(self: socket.socket, address: Any) -> None:
        _check_address(self, address)
        connect(self, address)

    def checked_connect_ex(self: socket.socket, address: Any) -> int:
        _check_address(self, address)
        return connect_ex(self, address)

    def checked_sendto(self: socket.socket, data: Any, *args: Any) -> int:
        _check_address(self, args[-1])
        return sendto(self, data, *args)

    patch.setattr(socket, "getaddrinfo", checked_getaddrinfo)
    patch.setattr(socket.socket, "connect", checked_connect)
    patch.setattr(socket.socket, "connect_ex", checked_connect_ex)
    patch.setattr(socket.socket, "sendto", checked_sendto)


def _check_address(sock: socket.socket, address: Any) -> None:
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        _check_host(address[0])


def _check_host(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return
    try:
        inside = ipaddress.ip_address(name).is_loopback or name in ("0.0.0.0", "::")
    except ValueError:
        inside = False
    if not inside:
        raise OutsideConnectionError(f"tests reach loopback only, not {name!r}")
