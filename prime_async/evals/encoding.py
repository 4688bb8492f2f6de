"""From a Python value or a JSON line to the bytes of one sample: encoded once, measured, trimmed or refused."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from prime_async import values
from prime_async.errors import ValueEncodingError
from prime_async.evals.receipts import RefusedSample

__all__ = ["SLICE_BYTES", "SampleEncoder", "Slice"]

SLICE_BYTES = 128 * 1024
"""Bytes encoded on the event loop before others get their turn."""

SLICE_SECONDS = 0.002
"""Time after which a slice ends even when it is small."""

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(slots=True)
class Slice:
    """What a source hands over at a time: encoded samples, each with its input index. Empty means: nothing new now."""

    samples: list[tuple[int, bytes]] = field(default_factory=list)


class SampleEncoder:
    """Encodes samples for one push and keeps count of what is odd about them.

    Args:
        limit: bytes a sample may have.
        strict: refuse NaN and infinities.
        trim: fields left out, in this order, of a sample beyond the limit until it fits.

    Attributes:
        refused: samples that cannot be sent, with their reasons.
        trimmed: index to the fields left out.
        nonfinite: place (``reward``, ``metrics.<name>``) to how often a non-finite score became null there.
    """

    def __init__(self, *, limit: int, strict: bool = False, trim: Sequence[str] = ()) -> None:
        self.limit = limit
        self._strict = strict
        self._trim = tuple(trim)
        self.refused: list[RefusedSample] = []
        self.trimmed: dict[int, tuple[str, ...]] = {}
        self.nonfinite: Counter[str] = Counter()

    def encode(self, index: int, sample: Any) -> bytes | None:
        """Return the sample as JSON bytes, or None after noting why it is refused."""
        root = f"samples[{index}]"
        try:
            if self._strict:
                values.refuse_nonfinite(sample, root=root)
            data = values.encode_record(sample, root=root)
        except ValueEncodingError as error:
            self.refused.append(RefusedSample(index, error.message, error.path))
            return None
        if scores := values.nonfinite_scores(sample):
            self.nonfinite.update(scores)
        return self.fit(index, data)

    def fit(self, index: int, data: bytes) -> bytes | None:
        """Return an encoded sample that is within the limit, trimmed if need be, or None after refusing it."""
        if len(data) <= self.limit:
            return data
        if self._trim and (shorter := self._trimmed(index, data)) is not None:
            return shorter
        reason = f"{len(data):,} bytes, more than the {self.limit:,} a request can hold"
        self.refused.append(RefusedSample(index, reason, f"samples[{index}]", size=len(data)))
        return None

    def encode_slice(self, numbered: Iterable[tuple[int, Any]]) -> Slice:
        """Encode until a slice is full, its time is over or the input ends."""
        slice_ = Slice()
        size = 0
        over = time.perf_counter() + SLICE_SECONDS
        for index, sample in numbered:
            data = self.encode(index, sample)
            if data is not None:
                slice_.samples.append((index, data))
                size += len(data)
            if size >= SLICE_BYTES or time.perf_counter() >= over:
                break
        return slice_

    def _trimmed(self, index: int, data: bytes) -> bytes | None:
        fields = _FIELDS.decode(data)
        gone: list[str] = []
        for name in self._trim:
            if fields.pop(name, None) is not None:
                gone.append(name)
                shorter = msgspec.json.encode(fields)
                if len(shorter) <= self.limit:
                    self.trimmed[index] = tuple(gone)
                    return shorter
        return None
