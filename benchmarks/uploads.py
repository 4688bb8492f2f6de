"""Counts the traces in what a client has uploaded, once the clock has stopped."""

from __future__ import annotations

import importlib
import sys
import zlib

__all__ = ["records_in"]


def records_in(body: bytes, mark: bytes) -> int:
    """Count a mark in the lines of a multipart upload, whatever compresses them."""
    head, _, data = body.partition(b'name="traces"')[2].partition(b"\r\n\r\n")
    return _inflated(head.lower(), data).count(mark)


def _inflated(head: bytes, data: bytes) -> bytes:
    """Undo the encoding; what follows the compressed bytes, the last border, is not looked at."""
    if b"gzip" in head:
        return zlib.decompressobj(zlib.MAX_WBITS + 16).decompress(data)
    if b"zstd" in head:
        name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        inflated: bytes = importlib.import_module(name).ZstdDecompressor().decompress(data)
        return inflated
    return data
