"""Compression of batches: once per batch, in a thread, in pieces.

The digest of a batch is over its plain bytes; compression belongs to the transport alone. Retries
send the same compressed bytes.
"""

from __future__ import annotations

import functools
import importlib
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio.to_thread

__all__ = ["TRACES_ZSTD", "EncodedBody", "compress_batch", "compressed", "load", "plain_body"]

TRACES_ZSTD = "traces-zstd"
"""Feature of platforms that take a batch compressed with Zstandard."""

_WINDOW = 4 * 2**20
"""Bytes given to the compressor at a time: bounds what one of its answers can be."""

_GZIP_LEVEL = 1
"""Five times as fast as level 9 for a twentieth more bytes."""

_ZSTD_LEVEL = 1
"""On rollouts with token ids and logprobs level 3 takes three times as long for the same size."""

_GZIP_CONTAINER = 16 + zlib.MAX_WBITS
"""Makes zlib write one gzip member whose head holds no time, so that its bytes are reproducible."""


@dataclass(frozen=True, slots=True)
class EncodedBody:
    """The bytes of a batch as they travel.

    Attributes:
        chunks: the bytes in pieces.
        encoding: ``gzip``, ``zstd``, or None for plain bytes.
        size: how many bytes.
    """

    chunks: tuple[bytes, ...] = field(repr=False)
    encoding: str | None
    size: int


class _Compressor(Protocol):
    def compress(self, data: Any, /) -> bytes: ...

    def flush(self) -> bytes: ...


def plain_body(chunks: Iterable[bytes]) -> EncodedBody:
    """Return bytes as they are."""
    pieces = tuple(chunks)
    return EncodedBody(pieces, None, sum(map(len, pieces)))


async def compress_batch(chunks: Iterable[bytes], peer_features: Collection[str]) -> EncodedBody:
    """Compress the bytes of a batch in a thread: Zstandard where the platform announces
    ``traces-zstd`` and this Python can write it (3.14, or the extra ``zstd``), gzip elsewhere.

    Args:
        chunks: the plain bytes, in pieces.
        peer_features: what the platform announces (``transport.features``).
    """
    return await anyio.to_thread.run_sync(compressed, chunks, peer_features)


def compressed(
    chunks: Iterable[bytes | memoryview],
    peer_features: Collection[str],
    gzip_level: int | None = None,
) -> EncodedBody:
    """Compress the bytes of a batch in this thread; see :func:`compress_batch`.

    Args:
        gzip_level: 0 to 9: gzip of this level of zlib, whatever the platform announces.
    """
    if gzip_level is not None:
        return _zipped(zlib.compressobj(gzip_level, zlib.DEFLATED, _GZIP_CONTAINER), chunks)
    zstd = _zstd() if TRACES_ZSTD in peer_features else None
    if zstd is None:
        gzip = _zlib().compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_CONTAINER)
        return _zipped(gzip, chunks)
    return _framed(zstd.ZstdCompressor(level=_ZSTD_LEVEL), chunks)


def load() -> None:
    """Import what compresses now: later the import would compete with a program at full speed, in a
    hundred waits for the interpreter.
    """
    _zstd()
    _zlib()


def _zipped(compressor: _Compressor, chunks: Iterable[bytes | memoryview]) -> EncodedBody:
    pieces = [piece for window in _windows(chunks) if (piece := compressor.compress(window))]
    pieces.append(compressor.flush())
    return EncodedBody(tuple(pieces), "gzip", sum(map(len, pieces)))


def _framed(compressor: Any, chunks: Iterable[bytes | memoryview]) -> EncodedBody:
    """Compress with Zstandard. The last window ends the frame in the same call: when it is the only
    one, the compressor reads it where it is.
    """
    pieces: list[bytes] = []
    last: bytes | memoryview = b""
    for window in _windows(chunks):
        if last and (piece := compressor.compress(last)):
            pieces.append(piece)
        last = window
    pieces.append(compressor.compress(last, compressor.FLUSH_FRAME))
    return EncodedBody(tuple(pieces), "zstd", sum(map(len, pieces)))


def _windows(chunks: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    for chunk in chunks:
        if len(chunk) <= _WINDOW:
            yield chunk
            continue
        view = memoryview(chunk)
        for start in range(0, len(chunk), _WINDOW):
            yield view[start : start + _WINDOW]


@functools.cache
def _zstd() -> Any:
    """Return the module that writes Zstandard, or None; it is looked for at the first use."""
    return _found("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


@functools.cache
def _zlib() -> Any:
    """Return the module that writes gzip: isal, where it is installed, is three times as fast."""
    return _found("isal.isal_zlib") or zlib


def _found(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
