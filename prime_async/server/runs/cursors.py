"""Cursors of pages: opaque text that says where the next page begins."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from prime_async.server.failures import RequestError
from prime_async.server.store.numbers import storable

__all__ = ["read_cursor", "write_cursor"]

Place = TypeVar("Place", bound=tuple[Any, ...])


def write_cursor(place: Sequence[int | str | None]) -> str:
    """Write the place of the last item of a page."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode()


def read_cursor(text: str, kind: type[Place]) -> Place:
    """Read a cursor as a tuple of this type.

    Raises:
        RequestError: 400 ``invalid_cursor``: this list did not write it.
    """
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        place: Place = msgspec.json.decode(
            base64.b64decode(padded, b"-_", validate=True), type=kind
        )
    except (UnicodeEncodeError, binascii.Error, msgspec.DecodeError) as error:
        raise _not_usable() from error
    if not storable(place):
        raise _not_usable()
    return place


def _not_usable() -> RequestError:
    return RequestError(400, "invalid_cursor", "this cursor does not belong to this list")
