"""The bytes of the spool: one file header, then frames. No I/O here; docs/spool.md describes the
format.

The marker cannot occur in UTF-8 text, and the header has a checksum of its own: a damaged payload
costs one record, and behind a damaged header the next frame can be found again.
"""

from __future__ import annotations

import functools
import importlib
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any
from zlib import crc32

import msgspec

__all__ = [
    "FILE_HEADER",
    "FORMAT_VERSION",
    "FRAME_HEADER_BYTES",
    "MARKER",
    "MAX_PAYLOAD_BYTES",
    "FrameHeader",
    "FrameType",
    "decode_header",
    "encode_header",
    "file_version",
]

FORMAT_VERSION = 1
MARKER = b"\xf5\xfa"
MAX_PAYLOAD_BYTES = 128 * 1024 * 1024
"""A frame that claims more is damaged; nothing larger is written."""

_MAGIC = b"PRIMESPL"
_FILE = struct.Struct("<8sII")
_HEADER = struct.Struct("<2sBBIQI")
_CHECK = struct.Struct("<I")
_PIECE_BYTES = 5 * 1024
FRAME_HEADER_BYTES = _HEADER.size + _CHECK.size
FILE_HEADER = _FILE.pack(
    _MAGIC, FORMAT_VERSION, crc32(_MAGIC + FORMAT_VERSION.to_bytes(4, "little"))
)


class FrameType(IntEnum):
    """What a frame holds. Numbers are for ever; a reader passes over those it does not know."""

    META = 1
    DATA = 2
    CUT = 3
    ACK = 4
    REFUSE = 5
    RELEASE = 6
    END = 7
    CHECKPOINT = 8


class FrameHeader(msgspec.Struct, frozen=True):
    """A frame without its payload: type, index (data and refusals; else 0), payload length and
    checksum."""

    type: int
    index: int
    length: int
    checksum: int


def encode_header(
    kind: FrameType, index: int, payload: bytes | bytearray | memoryview, *, held: bool = False
) -> bytes:
    """Return the header that goes before a payload.

    Args:
        held: keep the interpreter meanwhile.
    """
    checksum = _held_checksum(payload) if held else _crc32()(payload, 0)
    head = _HEADER.pack(MARKER, kind, 0, len(payload), index, checksum)
    return head + _CHECK.pack(crc32(head))


def decode_header(raw: bytes) -> FrameHeader | None:
    """Return the header in exactly these bytes, or None when they are no intact header."""
    head = raw[: _HEADER.size]
    if raw[:2] != MARKER or _CHECK.unpack(raw[_HEADER.size :])[0] != crc32(head):
        return None
    _, kind, _, length, index, checksum = _HEADER.unpack(head)
    return FrameHeader(kind, index, length, checksum) if length <= MAX_PAYLOAD_BYTES else None


def file_version(raw: bytes) -> int | None:
    """Return the format version a file header names, or None when it is no intact file header."""
    if len(raw) != _FILE.size:
        return None
    magic, version, checksum = _FILE.unpack(raw)
    return int(version) if magic == _MAGIC and checksum == crc32(raw[:12]) else None


def _held_checksum(payload: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32 of a payload, in pieces: one call for more than 5 KiB lets go of the
    interpreter.
    """
    crc, view, checksum = _crc32(), memoryview(payload), 0
    for start in range(0, len(payload), _PIECE_BYTES):
        checksum = crc(view[start : start + _PIECE_BYTES], checksum)
    return checksum


@functools.cache
def _crc32() -> Callable[[Any, int], int]:
    """Return the function that computes it: isal, where it is installed, is four times as fast."""
    try:
        found: Callable[[Any, int], int] = importlib.import_module("isal.isal_zlib").crc32
    except ImportError:
        return crc32
    return found
