"""Public keys for SSH, told apart from everything else before they are sent."""

from __future__ import annotations

import base64
import binascii

from prime_async.errors import UsageError

__all__ = ["check_public_key"]

_HINT = "one line as in ~/.ssh/id_ed25519.pub: ssh-ed25519 AAAA... comment"
_FIELD = "public_key"


def check_public_key(public_key: str) -> str:
    """Return a key as it is sent: one line, trimmed.

    Raises:
        UsageError: it is a private key, or no key; the message never shows it.
    """
    if not isinstance(public_key, str):
        raise UsageError(f"{_FIELD} is a {type(public_key).__name__}, not text", field=_FIELD)
    if "PRIVATE KEY" in public_key:
        raise UsageError(f"{_FIELD} is a private key", field=_FIELD, hint=_HINT)
    line = public_key.strip()
    kind, _, rest = line.partition(" ")
    if "\n" in line or not kind or _kind_inside(rest.split(" ")[0]) != kind:
        raise UsageError(f"{_FIELD} is no public key of SSH", field=_FIELD, hint=_HINT)
    return line


def _kind_inside(text: str) -> str | None:
    """Return the kind that the key itself names: a length of four bytes, and so many letters."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    size = int.from_bytes(data[:4], "big")
    return data[4 : 4 + size].decode("ascii", "replace") if 0 < size < len(data) - 4 else None
