"""Where the next page begins: opaque to clients, good for the same question only."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

import msgspec

from prime_async.server.endpoints import Call
from prime_async.server.store.numbers import storable
from prime_async.server.traces.owners import owner_of
from prime_async.server.traces.refusals import refused
from prime_async.traces.codes import ErrorCode

__all__ = ["Position", "read_cursor", "write_cursor"]

Position = tuple[Any, ...]
"""The values that the rows of a page are ordered by, of the last one of the page."""

_NOT_PART_OF_THE_QUESTION = frozenset({"cursor", "limit"})


def write_cursor(call: Call, position: Position) -> str:
    """A cursor for the question that a call asks."""
    packed = _fingerprint(call) + msgspec.msgpack.encode(position)
    return base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def read_cursor(call: Call, text: str | None, kind: Any) -> Any:
    """The position in a cursor, as a value of a type ``kind``; None without a cursor.

    Raises:
        RequestError: 400 ``invalid_cursor``: it is none, or one of another question.
    """
    if text is None:
        return None
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        position = msgspec.msgpack.decode(packed[_SIZE:], type=kind)
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise _not_usable() from error
    if packed[:_SIZE] != _fingerprint(call) or not storable(position):
        raise _not_usable()
    return position


_SIZE = 8


def _fingerprint(call: Call) -> bytes:
    asked = sorted(
        item for item in call.request.query.items() if item[0] not in _NOT_PART_OF_THE_QUESTION
    )
    question = msgspec.msgpack.encode([owner_of(call), call.request.path, asked])
    return hashlib.blake2b(question, digest_size=_SIZE).digest()


def _not_usable() -> Exception:
    return refused(
        ErrorCode.INVALID_CURSOR,
        "the cursor is not one of this question; begin without one, or repeat the same filters",
    )
