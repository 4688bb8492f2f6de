"""Long lines: not held while they arrive, read beside the server, as good as short ones."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from prime_async.server.config import Limits
from prime_async.server.traces.lines import LineReader
from prime_async.server.traces.records import Window
from prime_async.server.traces.seen import Seen
from prime_async.traces.codes import LineFormat
from tests.meters import TracedPeak
from tests.platform import ProcessPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.traces.uploads import NOW, episode, form, ids, lines, send, trace
from tests.server.wire import Wire

MIB = 1024 * 1024


def long(record: dict[str, Any]) -> dict[str, Any]:
    """The same with much in it that nobody reads."""
    return {**record, "padding": ["x" * 3_000]}


async def test_long_lines_are_read_as_short_ones_are(tmp_path: Path, clock: FakeClock) -> None:
    """The same rows and the same refusals, each by its line; the documents byte by byte."""
    limits = {"trace_long_line_bytes": 2_000, "trace_line_bytes": 50_000}
    async with (
        running_platform(tmp_path, clock=clock, limits=limits) as platform,
        Wire(platform.url) as wire,
    ):
        members = [long(trace("m1")), trace("m2", nodes=[])]
        good = lines(long(episode("e1", members)), episode("e2", []), episode("e3", [trace("m3")]))
        assert (await send(wire, good, episodes=True)).status == 201
        assert sorted(await ids(wire, "/episodes/e1/traces")) == ["m1", "m2"]
        for member in members:
            found = await wire.get(f"/traces/{member['id']}?raw=true")
            assert found.json == member
        data = b"".join(
            (
                lines(long(trace("t1")), trace("t2"), long(trace("t2")), trace("t1")),
                b" " * 3_000 + b"\n",
                lines(long({"id": "t5"}), long(trace("t6"))).replace(b"xxx", b"x\xffx", 1),
                b'{"x": ' + b"[" * 3_000 + b"]" * 3_000 + b"}\n",
                lines(trace("t7", text="x" * 50_000)),
                lines(long(trace("t8"))).rstrip(b"\n"),
            )
        )
        reply = await send(wire, data)
        told = [(one["line"], one["code"]) for one in reply.json["error"]["details"]["lines"]]
        assert told == [
            (1, "duplicate_trace_id"),
            (3, "duplicate_trace_id"),
            (6, "malformed_encoding"),
            (8, "invalid_trace"),
            (9, "trace_too_large"),
        ]


def test_a_line_is_not_held_while_it_arrives() -> None:
    """Only its place is noted, whatever its length, and whatever comes before and after."""
    reader = LineReader(LineFormat.TRACE, Limits(), Window(NOW))
    piece = b"x" * MIB
    short = lines(trace("a")) + b"  \n"
    with TracedPeak() as peak:
        for _ in range(3):
            assert list(reader.feed(short[:10])) == []
            list(reader.feed(short[10:]))
            for _ in range(40):
                assert list(reader.feed(piece)) == []
            assert list(reader.feed(b"\n")) == []
    assert peak.growth < 4 * MIB
    places = [(line.number, line.length) for line in reader.long]
    assert places == [(3, 40 * MIB), (6, 40 * MIB), (9, 40 * MIB)]


def test_ids_take_little_room() -> None:
    """However long they are; each is known again, and no other."""
    seen = Seen()
    with TracedPeak() as peak:
        assert all(seen.add(f"{number:0250}") for number in range(20_000))
    assert peak.growth < 2 * MIB
    assert not any(seen.add(f"{number:0250}") for number in range(0, 20_000, 7))
    assert seen.add("another")


async def test_no_row_is_as_long_as_its_document(wire: Wire) -> None:
    """Texts in columns and metrics in lists are bounded; the document is whole."""
    name = "n" * 5_000
    record = trace(
        "t1",
        stop_condition=name,
        task={"data": {"name": name}, "key": name},
        agent={"name": name, "config": {"model": name}},
        metrics={"good": 0.5, name: 1.0, **{f"m{number}": number for number in range(5_000)}},
    )
    assert (await send(wire, lines(record))).status == 201
    (found,) = (await wire.get("/traces")).json["items"]
    assert found["model"]["id"] == found["task_id"] == found["score"]["outcome"] == name[:1024]
    assert (found["agent_name"], found["task_key"]) == (name[:1024], name[:1024])
    assert len(found["metrics"]) == 1000
    assert found["metrics"]["good"] == 0.5
    assert name not in found["metrics"]
    assert (await wire.get("/traces/t1?raw=true")).json == record


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.mark.slow
async def test_many_of_the_longest_lines_at_the_same_time(tmp_path: Path) -> None:
    """Sixteen uploads of one huge message each: none is refused, and the server's own
    memory stays small.
    """
    now = time.time()
    with ProcessPlatform(tmp_path) as platform:
        async with Wire(platform.url) as wire:
            await send(wire, lines(trace("first", timing={"start": now})))
            before = peak_bytes(platform.pid)
            statuses = await asyncio.gather(*(_huge(wire, number, now) for number in range(16)))
            assert statuses == [201] * 16
            assert peak_bytes(platform.pid) - before < 128 * MIB
            assert len(await ids(wire, limit=100)) == 17


async def _huge(wire: Wire, number: int, now: float) -> int:
    parts = json.dumps([{"type": "text", "text": "hello"}] * 500_000).encode()
    data = b'{"id": "t%d", "timing": {"start": %f}, "nodes": [{"message": {"content": %s}}]}' % (
        number,
        now,
        parts,
    )
    packed = form(await asyncio.to_thread(_packed, data), encoding="zstd")
    return (await send(wire, data, body=packed)).status


def _packed(data: bytes) -> bytes:
    from backports import zstd

    return zstd.compress(data, 1)
