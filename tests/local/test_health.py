"""The health check: an answer, or none, within its time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from prime_async.local.health import Health, probe

ANSWERS = {
    "ok": (b'HTTP/1.1 200 OK\r\n\r\n{"status": "ok", "version": "1.2"}', Health("1.2")),
    "live": (b'HTTP/1.1 200 OK\r\n\r\n{"version": "1.2", "live": 3}', Health("1.2", 3)),
    "error": (b"HTTP/1.1 503 Busy\r\n\r\n{}", None),
    "not HTTP": (b"220 smtp ready\r\n", None),
    "not JSON": (b"HTTP/1.1 200 OK\r\n\r\n<html>", None),
    "another program": (b'HTTP/1.1 200 OK\r\n\r\n{"hello": 1}', None),
    "a list": (b"HTTP/1.1 200 OK\r\n\r\n[]", None),
    "nothing": (b"", None),
    "endless": (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000, None),
}


@pytest.mark.parametrize("kind", ANSWERS)
async def test_answers(tmp_path: Path, kind: str) -> None:
    """Only a platform's answer counts; anything else is none."""
    answer, expected = ANSWERS[kind]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    path = str(tmp_path / "s")
    async with await asyncio.start_unix_server(serve, path):
        assert await probe(path, 0) == expected


async def test_silence_ends(tmp_path: Path) -> None:
    """A server that accepts and says nothing costs the time limit."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    path = str(tmp_path / "s")
    async with await asyncio.start_unix_server(serve, path):
        started = time.monotonic()
        assert await probe(path, 0, timeout=0.1) is None
        assert time.monotonic() - started < 5
        over.set()


async def test_nobody_listens(tmp_path: Path) -> None:
    """Neither a missing socket nor a path too long for one is an error."""
    assert await probe(str(tmp_path / "none"), 0) is None
    assert await probe("/" + "s" * 200, 0) is None
