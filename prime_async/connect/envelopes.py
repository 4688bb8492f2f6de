"""Envelopes: the frames of a Connect stream, written and read in bounded memory.

A frame is one flag byte, four bytes of length (big-endian) and the message. The frame with the end
flag is the last one and holds JSON: ``{}``, or ``{"error": {...}, "metadata": {...}}``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from prime_async.connect.failures import Failure
from prime_async.errors import ProtocolError

__all__ = [
    "COMPRESSED",
    "END",
    "MAX_MESSAGE",
    "Decoder",
    "Envelope",
    "decode_end",
    "encode_end",
    "encode_envelope",
]

COMPRESSED = 0b01
END = 0b10

MAX_MESSAGE = 16 * 2**20
"""Bytes a message may have by default, compressed or not."""

_HEADER = struct.Struct(">BI")
_GZIP_WINDOW = 31


class Envelope(NamedTuple):
    """One frame: its message, inflated, and whether it is the end of the stream."""

    data: bytes
    end: bool = False


def encode_envelope(message: bytes, *, flags: int = 0) -> bytes:
    """Frame a message."""
    return _HEADER.pack(flags, len(message)) + message


def encode_end(
    failure: Failure | None = None, metadata: Mapping[str, Sequence[str]] | None = None
) -> bytes:
    """Frame the end of a stream, with why it failed if it did."""
    wire: dict[str, Any] = {}
    if failure is not None:
        wire["error"] = failure.to_object()
    if metadata:
        wire["metadata"] = {name: list(values) for name, values in metadata.items()}
    return encode_envelope(msgspec.json.encode(wire), flags=END)


def decode_end(data: bytes) -> Failure | None:
    """Read the message of an end frame: None means success.

    Raises:
        ProtocolError: it is not the JSON object it must be.
    """
    try:
        wire = msgspec.json.decode(data) if data else {}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the end of the stream is not JSON ({error})") from error
    if not isinstance(wire, dict):
        raise ProtocolError("the end of the stream is not a JSON object")
    failure = wire.get("error")
    if failure is None:
        return None
    if not isinstance(failure, dict):
        raise ProtocolError("the error at the end of the stream is not a JSON object")
    return Failure.from_object(failure)


class Decoder:
    """Takes a stream apart, whatever the pieces it arrives in.

    Holds at most one incomplete message and the piece that was fed last. Feeding after an error
    raises it again.

    Args:
        limit: bytes a message may have, before and after inflating.
        encoding: what the stream's ``connect-content-encoding`` says; with ``identity`` a
            compressed frame is an error.

    Raises:
        ProtocolError: the encoding is neither ``identity`` nor ``gzip``.
    """

    def __init__(self, *, limit: int = MAX_MESSAGE, encoding: str = "identity") -> None:
        if encoding not in ("", "identity", "gzip"):
            raise ProtocolError(f"the stream is compressed with {encoding!r}, which is not known")
        self._limit = limit
        self._inflates = encoding == "gzip"
        self._held = bytearray()
        self._ended = False
        self._fault: ProtocolError | None = None

    @property
    def held(self) -> int:
        """Bytes of an incomplete frame."""
        return len(self._held)

    def feed(self, piece: bytes) -> list[Envelope]:
        """Take the next bytes and return the frames they complete.

        Raises:
            ProtocolError: a message is too large or broken, a flag unknown, or the end not the end.
        """
        if self._fault is not None:
            raise self._fault
        self._held += piece
        frames: list[Envelope] = []
        try:
            start = self._take(frames)
        except ProtocolError as fault:
            self._fault = fault
            self._held.clear()
            raise
        del self._held[:start]
        return frames

    def finish(self) -> None:
        """Note that no more bytes come.

        Raises:
            ProtocolError: the stream stopped inside a frame.
        """
        if self._fault is not None:
            raise self._fault
        if self._held:
            raise ProtocolError("the stream stopped in the middle of a message")

    def _take(self, frames: list[Envelope]) -> int:
        start = 0
        while len(self._held) - start >= _HEADER.size:
            flags, length = _HEADER.unpack_from(self._held, start)
            self._check(flags, length)
            stop = start + _HEADER.size + length
            if stop > len(self._held):
                break
            data = bytes(memoryview(self._held)[start + _HEADER.size : stop])
            frames.append(Envelope(self._inflated(flags, data), bool(flags & END)))
            self._ended = bool(flags & END)
            start = stop
        if self._ended and len(self._held) > start:
            raise ProtocolError("the stream goes on after its end")
        return start

    def _check(self, flags: int, length: int) -> None:
        if self._ended:
            raise ProtocolError("the stream goes on after its end")
        if flags & ~(COMPRESSED | END):
            raise ProtocolError(f"a message of the stream has unknown flags ({flags:#04x})")
        if flags & COMPRESSED and not self._inflates:
            raise ProtocolError("a message is compressed although the stream is not")
        if length > self._limit:
            raise ProtocolError(
                f"a message of the stream has {length:,} bytes; {self._limit:,} are allowed"
            )

    def _inflated(self, flags: int, data: bytes) -> bytes:
        if not flags & COMPRESSED or not data:
            return data
        inflater = zlib.decompressobj(_GZIP_WINDOW)
        try:
            plain = inflater.decompress(data, self._limit + 1)
        except zlib.error as error:
            raise ProtocolError(f"a compressed message is broken ({error})") from error
        if len(plain) > self._limit:
            raise ProtocolError(f"a message inflates to more than {self._limit:,} bytes")
        if not inflater.eof or inflater.unused_data:
            raise ProtocolError("a compressed message is cut short or has bytes after its end")
        return plain
