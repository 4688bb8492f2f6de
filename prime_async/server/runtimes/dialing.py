"""Opening a connection for a sandbox: resolve, judge every address, connect to a judged one."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from anyio import to_thread

from prime_async.server.runtimes.egress_policy import EgressPolicy, EgressRule

__all__ = ["Address", "Dialer", "GuardedDialer", "Refused", "judge", "own_addresses"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_WINDOW = 64 * 1024


class Refused(Exception):  # noqa: N818  # an answer, not a fault
    """The rules forbid it; the text says which."""


class Dialer(Protocol):
    """Opens connections under rules."""

    async def open(self, host: str, port: int, policy: EgressPolicy) -> Streams:
        """Connect.

        Raises:
            Refused: the rules forbid it.
            OSError: nothing answers there.
        """
        ...


class GuardedDialer:
    """Connects from the server's network, to nothing that is the host's own.

    Args:
        resolve: from name to addresses.
        connect: opens a judged address.
        own: this host's own addresses.
    """

    def __init__(
        self,
        *,
        resolve: Resolve | None = None,
        connect: Callable[[str, int], Awaitable[Streams]] | None = None,
        own: frozenset[Address] | None = None,
    ) -> None:
        self._resolve = resolve or _resolve
        self._connect = connect or _connect
        self._own = own

    async def open(self, host: str, port: int, policy: EgressPolicy) -> Streams:
        """Connect to the first address that the rules allow and that answers."""
        if self._own is None:
            self._own = await to_thread.run_sync(own_addresses)
        name = host.lower().rstrip(".")
        literal = _literal(name)
        if literal is None and not _named(policy, name, port):
            # Before resolving: not even the question may leave.
            raise Refused(f"the rules of this sandbox forbid {host}:{port}")
        found = [str(literal)] if literal else await self._resolve(name, port)
        allowed = [
            address
            for address in map(ipaddress.ip_address, found)
            if judge(policy, None if literal else name, address, port, self._own)
        ]
        if not allowed:
            raise Refused(f"the rules of this sandbox forbid {host}:{port} ({', '.join(found)})")
        return await self._first(allowed, port)

    async def _first(self, addresses: list[Address], port: int) -> Streams:
        errors: list[OSError] = []
        for address in addresses:
            try:
                return await self._connect(str(address), port)
            except OSError as error:
                errors.append(error)
        raise errors[-1]


def _literal(name: str) -> Address | None:
    with suppress(ValueError):
        return ipaddress.ip_address(name)
    # What the C library takes for an address, though no list would: 127.1, 0x7f000001, 2130706433.
    with suppress(OSError):
        return ipaddress.IPv4Address(socket.inet_aton(name))
    return None


def _named(policy: EgressPolicy, name: str, port: int) -> bool:
    """Whether a name may be looked up: it is not denied, and may turn out to be allowed."""
    rules = [rule for rule in policy.rules() if rule.covers_port(port)]
    if policy.deny is not None:
        return not any(rule.covers_name(name) for rule in rules)
    if policy.allow is None:
        return True
    return any(rule.covers_name(name) or rule.network is not None for rule in rules)


def judge(
    policy: EgressPolicy, name: str | None, address: Address, port: int, own: frozenset[Address]
) -> bool:
    """Whether a connection to this address, asked for by this name, is allowed."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address in own or _special(address):
        return False
    rules = [rule for rule in policy.rules() if rule.covers_port(port)]
    if policy.deny is not None:
        return address.is_global and not _covered(rules, name, address)
    if policy.allow is None:
        return address.is_global
    if any(rule.covers_address(address) for rule in rules):
        return True
    return address.is_global and name is not None and any(r.covers_name(name) for r in rules)


def _covered(rules: Sequence[EgressRule], name: str | None, address: Address) -> bool:
    return any(
        rule.covers_address(address) or (name is not None and rule.covers_name(name))
        for rule in rules
    )


def _special(address: Address) -> bool:
    """Addresses that are never anybody else: this machine, this link, everybody, nobody."""
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
        or (isinstance(address, ipaddress.IPv4Address) and address.packed[0] == 0)
        or (isinstance(address, ipaddress.IPv6Address) and _carries_ipv4(address))
    )


def _carries_ipv4(address: ipaddress.IPv6Address) -> bool:
    """Addresses by which a gateway reaches an IPv4 one that nobody has judged."""
    nat64 = ipaddress.IPv6Network("64:ff9b::/96")
    return address.sixtofour is not None or address.teredo is not None or address in nat64


def own_addresses() -> frozenset[Address]:
    """Every address of this host. Blocks: reads the kernel's tables."""
    found: set[Address] = set()
    with suppress(OSError):
        lines = Path("/proc/net/fib_trie").read_text().splitlines()
        for line, after in pairwise(lines):
            if "host LOCAL" in after and "|--" in line:
                found.add(ipaddress.ip_address(line.split("|--")[1].strip()))
    with suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            found.add(ipaddress.IPv6Address(bytes.fromhex(line.split()[0])))
    return frozenset(found)


async def _resolve(name: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]).partition("%")[0] for info in infos))


async def _connect(address: str, port: int) -> Streams:
    return await asyncio.open_connection(address, port, limit=_WINDOW)
