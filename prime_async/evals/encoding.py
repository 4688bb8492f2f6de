"""From Python values and JSON lines to chunks of JSON: encoded once, measured, trimmed or refused.

A chunk holds neighbouring samples, already joined by commas. Several samples are encoded by one
call of the C encoder, because a Python call per sample would cost as much as the encoding itself;
where a single sample matters later (it is to be refused, or a batch must be split) the chunk is
taken apart again without a second encoding.
"""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from prime_async import values
from prime_async.errors import ValueEncodingError
from prime_async.evals.receipts import RefusedSample

__all__ = ["SLICE_BYTES", "SLICE_SECONDS", "Chunk", "SampleEncoder", "join"]

SLICE_BYTES = 128 * 1024
"""Bytes encoded on the event loop before others get their turn."""

SLICE_SECONDS = 0.002
"""Time after which a slice ends even when it is small."""

_MOST_AT_ONCE = 32
"""Samples per call of the encoder: bounds the stall when large samples follow small ones."""

_LARGE = 8 * SLICE_BYTES
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])


class Chunk(NamedTuple):
    """Samples ``start`` to ``start + number - 1`` of the input, as JSON joined by commas."""

    start: int
    number: int
    data: bytes

    def samples(self) -> list[tuple[int, bytes]]:
        """Take the chunk apart: input index and JSON of each sample."""
        if self.number == 1:
            return [(self.start, self.data)]
        raws = _RAWS.decode(b"[" + self.data + b"]")
        return [(self.start + place, bytes(raw)) for place, raw in enumerate(raws)]


def join(samples: Sequence[tuple[int, bytes]], most: int = SLICE_BYTES) -> list[Chunk]:
    """Join encoded samples in rising order into chunks without holes.

    Args:
        samples: input index and JSON of each.
        most: bytes a chunk of several samples may have, at most 128 KiB; a larger sample is a chunk
            of its own.
    """
    most = min(most, SLICE_BYTES)
    chunks: list[Chunk] = []
    run: list[bytes] = []
    size = 0
    start = following = -1
    for index, data in samples:
        if run and (index != following or size + len(data) > most):
            chunks.append(Chunk(start, len(run), b",".join(run)))
            run, size = [], 0
        if not run:
            start = index
        run.append(data)
        size += len(data) + 1
        following = index + 1
    if run:
        chunks.append(Chunk(start, len(run), b",".join(run)))
    return chunks


class SampleEncoder:
    """Encodes samples for one push and keeps count of what is odd about them.

    Args:
        limit: bytes a sample may have.
        strict: refuse NaN and infinities.
        trim: fields left out, in this order, of a sample beyond the limit until it fits.

    Attributes:
        refused: samples that cannot be sent, with their reasons.
        trimmed: index to the fields left out.
        nonfinite: place (``reward``, ``metrics.<name>``) to how often a non-finite score became
            null there.
    """

    def __init__(self, *, limit: int, strict: bool = False, trim: Sequence[str] = ()) -> None:
        self.limit = limit
        self._strict = strict
        self._trim = tuple(trim)
        self._usual_size = SLICE_BYTES
        self._not_ascii = False
        self.refused: list[RefusedSample] = []
        self.trimmed: dict[int, tuple[str, ...]] = {}
        self.nonfinite: Counter[str] = Counter()

    @property
    def at_once(self) -> int:
        """How many samples like the last ones make a slice."""
        return max(1, min(_MOST_AT_ONCE, SLICE_BYTES // self._usual_size))

    def encode(self, index: int, sample: Any) -> bytes | None:
        """Return one sample as JSON, or None after noting why it is refused."""
        root = f"samples[{index}]"
        try:
            data = values.encode_record(sample, root=root, strict=self._strict)
        except ValueEncodingError as error:
            self.refused.append(RefusedSample(index, error.message, error.path))
            return None
        if scores := values.nonfinite_scores(sample):
            self.nonfinite.update(scores)
        return self.fit(index, data)

    def encode_together(self, start: int, samples: list[Any]) -> list[Chunk]:
        """Encode neighbouring samples with one call where all of them are plain, one by one
        otherwise.
        """
        data = None if self._strict else values.encode_plain_records(self._fresh(samples))
        if data is None:
            return self._encode_apart(start, samples)
        self._usual_size = max(1, len(data) // len(samples))
        self._not_ascii = not data.isascii()
        for sample in samples:
            if not values.scores_are_finite(sample):
                self.nonfinite.update(values.nonfinite_scores(sample))
        chunk = Chunk(start, len(samples), data)
        if len(data) <= min(self.limit, _LARGE):
            return [chunk]
        fitting = [(index, self.fit(index, one)) for index, one in chunk.samples()]
        return [Chunk(index, 1, one) for index, one in fitting if one is not None]

    def fit(self, index: int, data: bytes) -> bytes | None:
        """Return an encoded sample that is within the limit, trimmed if need be, or None after
        refusing it.
        """
        if len(data) <= self.limit:
            return data
        if self._trim and (shorter := self._trimmed(index, data)) is not None:
            return shorter
        reason = f"{len(data):,} bytes, more than the {self.limit:,} a request can hold"
        self.refused.append(RefusedSample(index, reason, f"samples[{index}]", size=len(data)))
        return None

    def _encode_apart(self, start: int, samples: list[Any]) -> list[Chunk]:
        encoded = [
            (index, self.encode(index, sample)) for index, sample in enumerate(samples, start)
        ]
        chunks = [Chunk(index, 1, data) for index, data in encoded if data is not None]
        if chunks:
            self._usual_size = max(1, sum(len(chunk.data) for chunk in chunks) // len(chunks))
        return chunks

    def _fresh(self, samples: list[Any]) -> list[Any]:
        """Copy samples whose text is not ASCII.

        CPython keeps the UTF-8 form of such a text attached to the object once it was asked for, so
        encoding the caller's own objects would grow them by the size of the whole push. marshal
        copies in C and leaves nothing behind; what it cannot copy is encoded as it is. Guarded by
        the benchmark case ``push_unicode``.
        """
        if not self._not_ascii:
            return samples
        try:
            copies: list[Any] = marshal.loads(marshal.dumps(samples))  # noqa: S302 - our own bytes, this very moment
        except ValueError:
            return samples
        return copies

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
