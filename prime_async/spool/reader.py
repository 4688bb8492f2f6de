"""`SegmentReader`: goes through the frames of one file in bounded memory, past damage, up to a torn
tail."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

import msgspec

from prime_async.errors import SpoolError
from prime_async.spool.frames import (
    FILE_HEADER,
    FORMAT_VERSION,
    FRAME_HEADER_BYTES,
    MARKER,
    FrameHeader,
    FrameType,
    decode_header,
    file_version,
)
from prime_async.spool.writer import spool_error

__all__ = ["Damage", "Frame", "SegmentReader"]

_BUFFER_BYTES = 256 * 1024
_SCAN_BYTES = 1024 * 1024


class Frame(msgspec.Struct, frozen=True):
    """One intact frame: ``type`` (see `FrameType`), ``index``, where it begins, its payload and
    that payload's length.

    The payload is empty when only headers are read.
    """

    type: int
    index: int
    offset: int
    length: int
    payload: bytes


class Damage(NamedTuple):
    """A stretch of a segment that cannot be read although the file goes on behind it."""

    path: Path
    offset: int
    length: int
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.length} bytes at offset {self.offset} are damaged ({self.reason})"
        )


class SegmentReader:
    """Reads one segment. May read while its writer is still appending, and as often as wanted.

    A crash in the middle of a write leaves a torn tail, cut short or filled with zeros: it is no
    error, `torn` counts its bytes.
        Anything else that is
    wrong is listed in `damage` and passed over; every intact frame before and behind it is still
    read.

    Args:
        path: the segment file.

    Attributes:
        path: the file.
        damage: what `frames` had to pass over, in its last run.
        torn: bytes of an unfinished frame at the end, in its last run.
        end: offset behind the last intact frame, in its last run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: list[Damage] = []
        self.torn = 0
        self.end = 0

    def frames(self, *, payloads: bool = True, start: int = 0) -> Iterator[Frame]:
        """Go through the intact frames in file order.

        Args:
            payloads: False reads the headers of ``data`` frames only: quicker, and their payloads
                go unchecked. Control frames always come with their payload.
            start: offset of the frame to begin with, such as an earlier `end`; 0 is the beginning.

        Raises:
            SpoolError: the file cannot be read, is no segment, or was written by a newer version in
                a format this one does not know.
        """
        self.damage, self.torn, self.end = [], 0, start
        try:
            with self.path.open("rb", buffering=_BUFFER_BYTES) as file:
                yield from self._walk(file, payloads, start)
        except SpoolError:
            raise
        except OSError as error:
            raise spool_error("cannot read the spool segment", self.path, error) from error

    def _walk(self, file: BinaryIO, payloads: bool, start: int) -> Iterator[Frame]:
        position = start or self._after_file_header(file)
        while position is not None:
            position = yield from self._run(file, payloads, position)

    def _run(
        self, file: BinaryIO, payloads: bool, position: int
    ) -> Generator[Frame, None, int | None]:
        """Go through frames up to a broken header; return where to go on, or None at the end."""
        size = _size(file)
        file.seek(position)
        while raw := file.read(FRAME_HEADER_BYTES):
            header = decode_header(raw) if len(raw) == FRAME_HEADER_BYTES else None
            if header is None:
                return self._next_frame(file, position, raw, "no frame begins here")
            behind = position + FRAME_HEADER_BYTES + header.length
            if behind > size and behind > (size := _size(file)):
                self.torn = size - position
                return None
            if header.type == FrameType.DATA and not payloads:
                payload: bytes | None = b""
                file.seek(behind)
            else:
                payload = self._payload(file, header, position)
            if payload is not None:
                self.end = behind
                yield Frame(header.type, header.index, position, header.length, payload)
            position = behind
        return None

    def _payload(self, file: BinaryIO, header: FrameHeader, position: int) -> bytes | None:
        payload = file.read(header.length)
        if crc32(payload) == header.checksum:
            return payload
        if len(payload) == header.length:
            behind = position + FRAME_HEADER_BYTES + header.length
            self._note(position, behind, "its checksum does not match")
        else:
            # Its writer ran out of disk and took the frame back between our two looks.
            self.torn = len(payload) + FRAME_HEADER_BYTES
        return None

    def _note(self, position: int, behind: int, reason: str) -> None:
        self.damage.append(Damage(self.path, position, behind - position, reason))

    def _after_file_header(self, file: BinaryIO) -> int | None:
        raw = file.read(len(FILE_HEADER))
        version = file_version(raw)
        if version is None:
            return self._next_frame(file, 0, raw, "the file header is broken")
        if version > FORMAT_VERSION:
            raise SpoolError(
                f"{self.path} has spool format {version}; this one reads up to {FORMAT_VERSION}",
                path=self.path,
                hint="deliver it with a newer prime-async",
            )
        self.end = max(self.end, len(raw))
        return len(raw)

    def _next_frame(self, file: BinaryIO, position: int, raw: bytes, reason: str) -> int | None:
        """Return where the next intact header begins behind broken bytes, or None at the end."""
        found = _find_header(file, position + 1)
        size = _size(file)
        if found is None and (size - position < FRAME_HEADER_BYTES or not any(raw)):
            # Cut short, or never filled in: what a crash or a power cut leaves of the last write.
            self.torn = size - position
        else:
            self._note(position, size if found is None else found, reason)
        return found


def _find_header(file: BinaryIO, position: int) -> int | None:
    file.seek(position)
    window = b""
    while chunk := file.read(_SCAN_BYTES):
        window += chunk
        at = window.find(MARKER)
        while at >= 0:
            raw = window[at : at + FRAME_HEADER_BYTES]
            if len(raw) == FRAME_HEADER_BYTES and decode_header(raw) is not None:
                return position + at
            at = window.find(MARKER, at + 1)
        kept = min(len(window), FRAME_HEADER_BYTES - 1)
        position += len(window) - kept
        window = window[-kept:]
    return None


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size
