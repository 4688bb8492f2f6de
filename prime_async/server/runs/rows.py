"""Metric rows and distributions as they are sent, made ready for the store.

Numbers are kept as the text that was sent. Pure CPU work, a few ms per MB.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from prime_async.runs.wire import LARGEST_STEP, LogMetrics
from prime_async.server.decoding import decode_fields
from prime_async.server.failures import invalid

__all__ = ["Row", "Rows", "Series", "read_distributions", "read_rows", "text_of"]

Row = dict[str, msgspec.Raw]

_rows = msgspec.json.Decoder(list[Row])
_row = msgspec.json.Decoder(Row)


@dataclass(slots=True)
class Rows:
    """The rows of a request: one per step, and those without a step by the digest of their text."""

    by_step: dict[int, Row] = field(default_factory=dict)
    by_digest: dict[bytes, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.by_step) + len(self.by_digest)


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one name, as the JSON text that was sent."""

    name: str
    text: bytes

    @property
    def digest(self) -> bytes:
        """What tells two of them without a step apart."""
        return hashlib.sha256(self.text).digest()


def read_rows(raw: bytes, body: LogMetrics) -> Rows:
    """Read the rows of a body that :class:`LogMetrics` accepted.

    Raises:
        RequestError: 422: neither or both of ``metrics`` and ``rows``, or a step that is not a
            whole number.
    """
    if (body.metrics is None) == (body.rows is None):
        raise invalid(["body", "rows"], "give either rows or metrics")
    fields = decode_fields(raw)
    rows = Rows()
    if body.metrics is not None:
        _add(rows, _row.decode(fields["metrics"]), body.metrics, ["metrics"])
        return rows
    decoded = body.rows or []
    for index, row in enumerate(_rows.decode(fields["rows"])):
        _add(rows, row, decoded[index], ["rows", index])
    return rows


def _add(rows: Rows, row: Row, decoded: Mapping[str, Any], place: Sequence[str | int]) -> None:
    step = _step(decoded.get("step"), place)
    if step is not None:
        rows.by_step.setdefault(step, {}).update(row)
    elif row:
        text = text_of(row)
        rows.by_digest[hashlib.sha256(text).digest()] = text


def _step(value: Any, place: Sequence[str | int]) -> int | None:
    if value is None:
        return None
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    if not whole or abs(value) > LARGEST_STEP:
        raise invalid(["body", *place, "step"], "must be a whole number of at most 2**53")
    return int(value)


def text_of(row: Row) -> bytes:
    """A row as JSON text."""
    return msgspec.json.encode(row)


def read_distributions(raw: bytes) -> list[Series]:
    """Read the distributions of a body that :class:`LogDistributions` accepted."""
    named = _row.decode(decode_fields(raw)["distributions"])
    return [Series(name, bytes(values)) for name, values in named.items()]
