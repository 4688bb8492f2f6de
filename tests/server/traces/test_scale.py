"""Large uploads: memory does not grow with them, and many small traces are a matter of seconds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from backports import zstd

from tests.platform import ProcessPlatform
from tests.server.traces.uploads import form, ids, lines, send, trace
from tests.server.wire import Wire

MIB = 1024 * 1024


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.mark.slow
async def test_memory_does_not_grow_with_an_upload(tmp_path: Path) -> None:
    """Some 50 MiB in lines of half a MiB, then a bomb of 400 MiB: some MiB more than before."""
    now = time.time()
    with ProcessPlatform(tmp_path) as platform:
        async with Wire(platform.url) as wire:
            await send(wire, lines(trace("first", timing={"start": now})))
            before = peak_bytes(platform.pid)
            data = lines(
                *(trace(f"t{n}", timing={"start": now}, text=f"{n}é" * 100_000) for n in range(120))
            )
            body = form(zstd.compress(data, 1), encoding="zstd")
            assert (await send(wire, data, body=body)).status == 201
            assert peak_bytes(platform.pid) - before < 48 * MIB
            for filler, code in ((b" ", "upload_too_large"), (b"\n", "too_many_traces_in_upload")):
                bomb = form(zstd.compress(filler * MIB * 400, 1), encoding="zstd")
                assert (await send(wire, b"", body=bomb)).code == code
            # A line may have 64 MiB, and is in memory as a whole.
            assert peak_bytes(platform.pid) - before < (64 + 48) * MIB
            assert len(await ids(wire, limit=100)) == 100


@pytest.mark.slow
async def test_tens_of_thousands_of_traces_in_one_upload(tmp_path: Path) -> None:
    """Stored, counted, listed to the end, deleted; memory for rows is bounded as well."""
    now = time.time()
    many = range(30_000)
    data = lines(
        *({"id": f"t{n}", "timing": {"start": now - n % 97}, "run": {"id": "r"}} for n in many)
    )
    with ProcessPlatform(tmp_path) as platform:
        async with Wire(platform.url) as wire:
            before = peak_bytes(platform.pid)
            assert (await send(wire, data)).status == 201
            assert peak_bytes(platform.pid) - before < 64 * MIB
            run = (await wire.get("/runs/r")).json
            assert run["trace_count"] == 30_000
            exported = await wire.get("/traces/export?format=raw&run_id=r")
            assert sorted(exported.body.splitlines()) == sorted(data.splitlines())
            reply = await wire.send("DELETE", "/traces", params={"run_id": "r"})
            assert reply.json["deleted_traces"] == 30_000
            assert (await send(wire, data)).status == 201
