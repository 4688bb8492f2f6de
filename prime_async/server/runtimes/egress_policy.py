"""Where the processes of a sandbox may connect to: the rules, without any I/O.

Grammar of an entry: a hostname, ``*.`` and a hostname (any number of labels in front of it), an
IPv4 address or network (host bits allowed), each with ``:port`` or ``:low-high`` behind it.
Hostnames take only ``:80`` and ``:443``. No list: open. An empty allow list: nothing is reachable.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from prime_async.errors import UsageError

__all__ = ["EgressPolicy", "EgressRule", "parse_rule"]

MAX_ENTRIES = 1024

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMERIC = re.compile(r"[0-9.]+")


@dataclass(frozen=True, slots=True)
class EgressRule:
    """One entry of a list.

    Attributes:
        host: hostname in lower case, or None for a network.
        wildcard: whether ``host`` stands for every name below it.
        network: IPv4 network, or None for a hostname.
        ports: lowest and highest port.
    """

    host: str | None
    wildcard: bool
    network: ipaddress.IPv4Network | None
    ports: tuple[int, int]

    def covers_port(self, port: int) -> bool:
        """Whether the entry speaks of this port."""
        return self.ports[0] <= port <= self.ports[1]

    def covers_name(self, name: str) -> bool:
        """Whether the entry names this host (lower case, without a final dot)."""
        if self.host is None:
            return False
        return name.endswith("." + self.host) if self.wildcard else name == self.host

    def covers_address(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        """Whether the entry's network holds this address."""
        return self.network is not None and address in self.network


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Allow list or deny list, not both; neither is open.

    Attributes:
        allow: only what an entry names is reachable; empty: nothing is.
        deny: all but what an entry names is reachable.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.allow is not None and self.deny is not None:
            raise UsageError("give an allow list or a deny list, not both", field="deny")
        self.rules()

    @classmethod
    def closed(cls) -> EgressPolicy:
        """Nothing is reachable."""
        return cls(allow=())

    def rules(self) -> tuple[EgressRule, ...]:
        """The entries, parsed.

        Raises:
            UsageError: an entry does not follow the grammar, or there are too many.
        """
        name, entries = ("deny", self.deny) if self.allow is None else ("allow", self.allow)
        return _parse(entries or (), name)


def _parse(entries: Iterable[str], field: str) -> tuple[EgressRule, ...]:
    listed = tuple(entries)
    if len(listed) > MAX_ENTRIES:
        raise UsageError(f"{len(listed)} entries; at most {MAX_ENTRIES} are allowed", field=field)
    return tuple(parse_rule(entry, field=f"{field}[{i}]") for i, entry in enumerate(listed))


def parse_rule(entry: str, *, field: str = "entry") -> EgressRule:
    """Parse one entry.

    Raises:
        UsageError: it does not follow the grammar.
    """
    text = entry.strip().lower()
    target, colon, ports = text.partition(":")
    if not target or (colon and not ports):
        raise _refused(entry, field, "host and port must not be empty")
    if _NUMERIC.fullmatch(target.partition("/")[0]):
        return EgressRule(None, False, _network(target, entry, field), _ports(ports, entry, field))
    wildcard = target.startswith("*.")
    host = target[2:] if wildcard else target
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise _refused(entry, field, "not a hostname, IPv4 address or IPv4 network")
    if ports and ports not in {"80", "443"}:
        raise _refused(entry, field, "a hostname takes only :80 or :443")
    return EgressRule(host, wildcard, None, _ports(ports, entry, field))


def _network(target: str, entry: str, field: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(target, strict=False)
    except ValueError as error:
        raise _refused(entry, field, "not an IPv4 address or network") from error


def _ports(text: str, entry: str, field: str) -> tuple[int, int]:
    if not text:
        return (1, 65535)
    low, dash, high = text.partition("-")
    if not (low.isascii() and low.isdigit() and (not dash or (high.isascii() and high.isdigit()))):
        raise _refused(entry, field, "a port is a number, or low-high")
    first, last = int(low), int(high if dash else low)
    if not 1 <= first <= last <= 65535:
        raise _refused(entry, field, "ports go from 1 to 65535, the lower one first")
    return (first, last)


def _refused(entry: str, field: str, why: str) -> UsageError:
    return UsageError(f"bad egress entry {entry!r}: {why}", field=field)
