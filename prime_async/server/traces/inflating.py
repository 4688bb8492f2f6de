"""Undoes the encoding of a part, in slices of bounded size whatever the input promises."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Protocol

__all__ = ["ENCODINGS", "HAS_ZSTD", "BrokenPartError", "Inflater", "inflater"]

SLICE_BYTES = 1024 * 1024

HAS_ZSTD = sys.version_info >= (3, 14) or (
    # Asked for a module of a package that is not there, find_spec raises.
    find_spec("backports") is not None and find_spec("backports.zstd") is not None
)
"""Whether parts may come as zstd here."""

ENCODINGS = ("identity", "gzip", "zstd") if HAS_ZSTD else ("identity", "gzip")


class BrokenPartError(ValueError):
    """The bytes are not what the part's Content-Encoding says, or they are cut short."""


class Inflater(Protocol):
    """One part on its way through."""

    def inflate(self, piece: bytes) -> Iterator[bytes]:
        """The bytes behind a piece, in slices of at most 1 MiB.

        Raises:
            BrokenPartError: the piece cannot follow the ones before.
        """

    def close(self) -> None:
        """No more pieces come.

        Raises:
            BrokenPartError: the content is cut short.
        """


def inflater(encoding: str) -> Inflater:
    """What undoes one of :data:`ENCODINGS`."""
    if encoding == "gzip":
        return _Gzip()
    return _Zstd() if encoding == "zstd" else _Identity()


class _Identity:
    def inflate(self, piece: bytes) -> Iterator[bytes]:
        for start in range(0, len(piece), SLICE_BYTES):
            yield piece[start : start + SLICE_BYTES]

    def close(self) -> None:
        """Any bytes are whole."""


class _Gzip:
    """Members one after another count as one content, as the format says."""

    def __init__(self) -> None:
        self._member = self._new()
        self._begun = False

    @staticmethod
    def _new() -> Any:
        return zlib.decompressobj(zlib.MAX_WBITS | 16)

    def inflate(self, piece: bytes) -> Iterator[bytes]:
        while piece:
            if self._member.eof:
                self._member = self._new()
            self._begun = True
            inflated = self._some(piece)
            piece = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            while inflated:
                yield inflated
                # With no input left there may be output still, held back by the limit.
                inflated = b"" if piece or self._member.eof else self._some(b"")

    def _some(self, piece: bytes) -> bytes:
        try:
            inflated: bytes = self._member.decompress(piece, SLICE_BYTES)
        except zlib.error as error:
            raise BrokenPartError(f"the gzip content is broken: {error}") from error
        return inflated

    def close(self) -> None:
        if not (self._begun and self._member.eof):
            raise BrokenPartError("the gzip content is cut short")


class _Zstd:
    """Frames one after another count as one content, as the format says."""

    def __init__(self) -> None:
        self._zstd = _zstd_module()
        self._frame = self._new()
        self._begun = False

    def _new(self) -> Any:
        # A window of 8 MiB is what every decoder has to support; more would be memory for asking.
        options = {self._zstd.DecompressionParameter.window_log_max: 23}
        return self._zstd.ZstdDecompressor(options=options)

    def inflate(self, piece: bytes) -> Iterator[bytes]:
        while piece or (self._begun and not self._frame.eof and not self._frame.needs_input):
            if self._frame.eof:
                self._frame = self._new()
            self._begun = True
            try:
                inflated = self._frame.decompress(piece, SLICE_BYTES)
            except self._zstd.ZstdError as error:
                raise BrokenPartError(f"the zstd content is broken: {error}") from error
            piece = self._frame.unused_data if self._frame.eof else b""
            if inflated:
                yield inflated

    def close(self) -> None:
        if not (self._begun and self._frame.eof):
            raise BrokenPartError("the zstd content is cut short")


def _zstd_module() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
