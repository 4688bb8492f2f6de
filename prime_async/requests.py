"""What every method does: check numbers, leave out what is not given, type the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from prime_async.errors import UsageError
from prime_async.models import Record
from prime_async.transport import Response

__all__ = ["check_range", "given", "read_record"]

R = TypeVar("R", bound=Record)


def given(body: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the fields that are None: on this wire, leaving out means leaving alone."""
    return {key: value for key, value in body.items() if value is not None}


def read_record(response: Response, model: type[R]) -> R:
    """Read the object of an answer as a model.

    Raises:
        ProtocolError: the answer does not fit; the message names the field.
    """
    try:
        return model.from_wire(response.json())
    except msgspec.ValidationError as error:
        raise response.broken(f"does not fit {model.__name__}: {error}") from error


def check_range(field: str, value: int, lowest: int, highest: int | None = None) -> None:
    """Check a whole number.

    Raises:
        UsageError: names the field and its bounds.
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < lowest or (highest is not None and value > highest):
        bounds = f"at least {lowest}" if highest is None else f"{lowest} to {highest}"
        raise UsageError(f"{field} is {value!r}; it must be a whole number, {bounds}", field=field)
