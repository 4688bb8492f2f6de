"""The entries of allow and deny lists: hosts, wildcard hosts, IPv4 addresses and networks."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Any

from prime_async.errors import UsageError

__all__ = ["MAX_ENTRIES", "check_egress_list", "policy_of"]

MAX_ENTRIES = 1024
"""Entries a list may have."""

_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_WEB_PORTS = ("80", "443")
_MAX_PORT = 65535


def check_egress_list(field: str, entries: Sequence[str]) -> list[str]:
    """Return the entries, trimmed.

    An entry is a host, ``*.`` and a host, an IPv4 address or an IPv4 network, each with an optional
    ``:port`` or ``:low-high``; hosts take the ports 80 and 443 only.

    Raises:
        UsageError: too many entries, or one that is none of these; names field and position.
    """
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise UsageError(f"{field} is not a list of entries", field=field)
    if len(entries) > MAX_ENTRIES:
        raise UsageError(
            f"{field} has {len(entries):,} entries; {MAX_ENTRIES:,} are allowed", field=field
        )
    return [_checked(f"{field}[{index}]", entry) for index, entry in enumerate(entries)]


def policy_of(allow: Sequence[str] | None, deny: Sequence[str] | None) -> dict[str, Any]:
    """Return the policy of one list, as the wire has it: always with both keys.

    Raises:
        UsageError: not exactly one list, an empty one, ``*`` beside others, or a wrong entry.
    """
    if (allow is None) == (deny is None):
        raise UsageError(
            "exactly one of allow and deny is needed", field="allow" if deny is None else "deny"
        )
    field, entries = ("allow", allow) if allow is not None else ("deny", deny)
    given = _trimmed(field, entries)
    if given == ["*"]:  # everything: the other list, and nothing in it
        field, given = ("deny" if field == "allow" else "allow"), []
    return {
        "allowlist": given if field == "allow" else None,
        "denylist": given if field == "deny" else None,
    }


def _trimmed(field: str, entries: Sequence[str] | None) -> list[str]:
    if isinstance(entries, str) or not isinstance(entries, Sequence) or not entries:
        raise UsageError(f"{field} is empty or not a list of entries", field=field)
    stars = [isinstance(entry, str) and entry.strip() == "*" for entry in entries]
    if any(stars):
        if len(entries) > 1:
            raise UsageError(f"{field} has other entries beside '*'", field=field)
        return ["*"]
    return check_egress_list(field, entries)


def _checked(field: str, entry: object) -> str:
    if not isinstance(entry, str):
        raise UsageError(f"{field} is a {type(entry).__name__}, not text", field=field)
    text = entry.strip()
    host, colon, ports = text.partition(":")
    numeric = _is_network(host)
    if not numeric and not _is_host(host):
        raise _refused(field, text)
    if colon and not (_is_range(ports) if numeric else ports in _WEB_PORTS):
        raise _refused(field, text)
    return text


def _refused(field: str, text: str) -> UsageError:
    return UsageError(
        f"{field} is {text!r}, which is no host, IPv4 address or IPv4 network",
        field=field,
        hint="such as api.example.com, *.example.com:443, 10.0.0.0/8 or 192.0.2.7:1000-2000",
    )


def _is_network(text: str) -> bool:
    if not text[:1].isdigit():
        return False
    try:
        ipaddress.IPv4Network(text, strict=False)
    except ValueError:
        return False
    return True


def _is_host(text: str) -> bool:
    host = text.removeprefix("*.")
    looks_numeric = host.replace(".", "").isdigit()  # an address that is none, not a name
    labels = host.split(".")
    return len(host) <= 253 and not looks_numeric and all(map(_LABEL.fullmatch, labels))


def _is_range(text: str) -> bool:
    low, dash, high = text.partition("-")
    bounds = [low, high] if dash else [low]
    if not all(part.isascii() and part.isdigit() and len(part) <= 5 for part in bounds):
        return False
    numbers = [int(part) for part in bounds]
    return numbers == sorted(numbers) and numbers[0] >= 1 and numbers[-1] <= _MAX_PORT
