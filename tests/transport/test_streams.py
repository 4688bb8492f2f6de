"""Streamed answers: bytes and lines come whole however they are cut; silence has a limit."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prime_async.errors import APIConnectionError, APITimeoutError, NotFoundError
from prime_async.transport import Transport
from prime_async.transport.streams import StreamedResponse
from tests.stub import Answer, Stub


class _Cut:
    """Stands in for aiohttp's answer: a body in given pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.content = self
        self._pieces = iter(pieces)

    def exception(self) -> None:
        return None

    def read_nowait(self) -> bytes:
        return b""

    async def readany(self) -> bytes:
        return next((piece for piece in self._pieces if piece), b"")


def _lines_of(text: bytes) -> list[bytes]:
    """What must come out: split at newlines, one carriage return before them cut off."""
    *whole, last = text.split(b"\n")
    return [line.removesuffix(b"\r") for line in whole] + ([last] if last else [])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text("ab\r\n☕", max_size=6).map(str.encode), max_size=12), st.data())
def test_FR14_lines_however_they_are_cut(parts: list[bytes], data: st.DataObject) -> None:
    """The cuts of the network, inside characters and line ends too, never show in the lines."""
    text = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    async def read() -> list[bytes]:
        stream = StreamedResponse(_Cut(pieces), "GET", "u", float("inf"), 5)  # type: ignore[arg-type]
        return [line async for line in stream.iter_lines()]

    assert asyncio.run(read()) == _lines_of(text)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sizes=st.lists(st.integers(1, 70_000), min_size=1, max_size=5))
def test_bytes_over_a_socket(sizes: list[int]) -> None:
    """What is streamed is what was sent, over a real connection."""
    pieces = [bytes([65 + place]) * size for place, size in enumerate(sizes)]

    async def main() -> bytes:
        async with Stub() as stub:
            stub.script(Answer(pieces=pieces))
            made = Transport(base_url=stub.url)
            async with made.stream("GET", "/a") as stream:
                got = b"".join([piece async for piece in stream.iter_bytes()])
            await made.aclose()
            return got

    assert asyncio.run(main()) == b"".join(pieces)


async def test_what_came_is_there_before_the_rest(stub: Stub, transport: Transport) -> None:
    """A line is handed over when it is complete, not when the stream ends."""
    stub.script(Answer(pieces=[b"one\ntwo", 30.0, b"\n"]))
    async with asyncio.timeout(10), transport.stream("GET", "/a") as stream:
        lines = stream.iter_lines()
        assert await anext(lines) == b"one"
        await lines.aclose()  # type: ignore[attr-defined]  # an async generator


async def test_silence_has_a_limit(stub: Stub, transport: Transport) -> None:
    """A stream that says nothing for longer than the idle limit is dead."""
    stub.script(Answer(pieces=[b"one\n", 30.0]))
    async with transport.stream("GET", "/a", idle_timeout=0.1) as stream:
        lines = stream.iter_lines()
        assert await anext(lines) == b"one"
        with pytest.raises(APITimeoutError, match=r"silent for 0\.1 s") as caught:
            await anext(lines)
    assert caught.value.budget == "idle"


async def test_a_deadline_over_a_lively_stream(stub: Stub, transport: Transport) -> None:
    """A total limit ends a stream that never falls silent."""
    stub.script(Answer(pieces=[piece for _ in range(200) for piece in (b"x", 0.01)]))
    async with transport.stream("GET", "/a", timeout=0.2) as stream:
        with pytest.raises(APITimeoutError, match="the deadline passed") as caught:
            [piece async for piece in stream.iter_bytes()]
    assert caught.value.budget == "total"


async def test_a_stream_that_breaks_off(stub: Stub, transport: Transport) -> None:
    """A cut in the middle is an error after what came, never a quiet end."""
    stub.script(Answer(pieces=[b"one\ntwo"], end="cut"))
    async with transport.stream("GET", "/a") as stream:
        lines = stream.iter_lines()
        assert await anext(lines) == b"one"
        with pytest.raises(APIConnectionError):
            await anext(lines)


async def test_a_refused_stream(stub: Stub, transport: Transport) -> None:
    """A status that is no success is the error of that status; a passing one is tried again."""
    stub.script(Answer(503), Answer(404, json={"detail": "no such log"}))
    with pytest.raises(NotFoundError, match="no such log"):
        async with transport.stream("GET", "/a"):
            pass
    assert len(stub.requests) == 2


async def test_left_early_frees_the_connection(stub: Stub, transport: Transport) -> None:
    """Leaving the block ends the stream; the next call is not held up by what is still coming."""
    stub.script(Answer(pieces=[b"x" * 1000, 30.0]))
    async with asyncio.timeout(10):
        async with transport.stream("GET", "/a"):
            pass
        await transport.request("GET", "/b")
    assert stub.connections == 2
