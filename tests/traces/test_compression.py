"""Compression of batches: readable by anybody, reproducible, in pieces."""

from __future__ import annotations

import gzip
import hashlib
import sys
import zlib
from typing import Any

import pytest
from backports import zstd
from isal import isal_zlib

from prime_async.traces import compress_batch, compression, iter_batches
from prime_async.traces.compression import plain_body
from tests.traces.records import line, trace

LINES = [line(trace(f"t-{number}")) for number in range(50)]
CHUNKS = [b"small", b"x" * 3_000_000, b"", bytes(range(256)) * 1000]


@pytest.fixture(autouse=True)
def _looked_for_anew() -> Any:
    yield
    compression._zstd.cache_clear()
    compression._zlib.cache_clear()


async def test_gzip_is_one_member_without_a_time() -> None:
    """The standard library reads it, and the same bytes give the same bytes."""
    body = await compress_batch(CHUNKS, frozenset())
    sent = b"".join(body.chunks)
    assert (body.encoding, body.size) == ("gzip", len(sent))
    assert gzip.decompress(sent) == b"".join(CHUNKS)
    assert sent[4:8] == b"\0\0\0\0"
    assert await compress_batch(CHUNKS, frozenset()) == body


@pytest.mark.parametrize("writer", [isal_zlib, zlib], ids=["isal", "zlib"])
async def test_gzip_is_the_same_lines_whoever_wrote_it(
    monkeypatch: pytest.MonkeyPatch, writer: Any
) -> None:
    """With the extra ``fast`` or without: it holds the lines, whose digest names the batch."""
    found = writer if writer is isal_zlib else None
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", found)
    compression._zlib.cache_clear()
    assert compression._zlib() is writer
    [batch] = iter_batches(LINES)
    body = await compress_batch(batch.chunks, frozenset())
    plain = gzip.decompress(b"".join(body.chunks))
    assert plain == b"".join(LINES)
    assert batch.digest == hashlib.sha256(plain).hexdigest()
    assert body.size < len(plain)


async def test_zstandard_where_the_platform_takes_it() -> None:
    """Announced as ``traces-zstd``."""
    body = await compress_batch(CHUNKS, {"traces-zstd", "idempotency"})
    assert body.encoding == "zstd"
    assert zstd.decompress(b"".join(body.chunks)) == b"".join(CHUNKS)


async def test_gzip_where_this_python_cannot_write_zstandard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the extra, whatever the platform announces."""
    compression._zstd.cache_clear()
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    assert (await compress_batch(CHUNKS, {"traces-zstd"})).encoding == "gzip"


def test_plain_bytes_stay_the_objects_they_are() -> None:
    """Nothing is copied."""
    body = plain_body(CHUNKS)
    assert (body.encoding, body.size) == (None, sum(map(len, CHUNKS)))
    assert all(one is other for one, other in zip(body.chunks, CHUNKS, strict=True))
