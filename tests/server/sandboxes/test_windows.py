"""Windows of large files: exact, and no more in memory than a piece of them."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import aiohttp
import pytest

from tests.meters import TracedPeak
from tests.server.sandboxes.boxes import Boxes

GIB = 1024**3
MIB = 1024**2
TAIL = ('naïve 🤣 " \\ \n' * 800_000).encode()[: 10 * MIB]


@pytest.fixture
async def box(boxes: Boxes) -> str:
    """A sandbox with a file of 1 GiB, whose last 10 MiB are text and whose rest is a hole."""
    made = await boxes.running()
    path = boxes.box(made).folder / "tmp" / "job_0000000a.stdout.log"
    with path.open("wb") as file:
        file.truncate(GIB)
        os.pwrite(file.fileno(), TAIL, GIB - len(TAIL))
    return made


async def window(boxes: Boxes, box: str, **params: int) -> dict[str, object]:
    reply = await boxes.at(
        "GET", box, "/read-file", params={"path": "/tmp/job_0000000a.stdout.log", **params}
    )
    assert reply.status == 200, reply
    told: dict[str, object] = reply.json
    return told


@pytest.mark.parametrize(
    ("offset", "length", "start", "size"),
    [
        (-10 * MIB, 10 * MIB, GIB - 10 * MIB, 10 * MIB),
        (-10 * MIB - 5, 300_001, GIB - 10 * MIB - 5, 300_001),
        (GIB - 10 * MIB + 7, 3 * MIB, GIB - 10 * MIB + 7, 3 * MIB),
        (GIB - 3, 100, GIB - 3, 3),
        (-5, 2, GIB - 5, 2),
        (GIB + 5, 10, GIB, 0),
        (5, 0, 5, 0),
    ],
)
async def test_windows_are_exact(
    boxes: Boxes, box: str, offset: int, length: int, start: int, size: int
) -> None:
    """From either end, beyond it, of any length; characters cut at the edges become U+FFFD."""
    told = await window(boxes, box, offset=offset, length=length)
    hole = max(0, GIB - 10 * MIB - start)
    text = start - (GIB - 10 * MIB) + hole
    expected = bytes(min(hole, size)) + TAIL[text : text + size - min(hole, size)]
    assert told.pop("content") == expected.decode("utf-8", "replace")
    assert told == {"size": size, "total_size": GIB, "offset": start, "truncated": True}


async def test_a_window_of_a_gibibyte_costs_a_piece_of_it(boxes: Boxes, box: str) -> None:
    """Server and client together hold less than the window while it is sent."""
    params = {"path": "/tmp/job_0000000a.stdout.log", "offset": -10 * MIB, "length": 10 * MIB}
    url = f"{boxes.gateway(box)}/read-file"
    seen = size = 0
    with TracedPeak() as peak:
        async with (
            aiohttp.ClientSession(headers=boxes.token(box)) as session,
            session.get(url, params=params) as response,
        ):
            async for piece in response.content.iter_chunked(64 * 1024):
                seen, size = zlib.crc32(piece, seen), size + len(piece)
    expected = json.dumps(
        {
            "content": TAIL.decode("utf-8", "replace"),
            "size": 10 * MIB,
            "total_size": GIB,
            "offset": GIB - 10 * MIB,
            "truncated": True,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()
    assert (seen, size) == (zlib.crc32(expected), len(expected))
    assert peak.growth < 8 * MIB


async def test_the_whole_of_it_is_refused(boxes: Boxes, box: str) -> None:
    """413 at once; nothing was read."""
    with TracedPeak() as peak:
        reply = await boxes.at(
            "GET", box, "/read-file", params={"path": "/tmp/job_0000000a.stdout.log"}
        )
    assert (reply.status, reply.code) == (413, "file_too_large")
    assert f"{GIB} bytes are more than" in reply.json["detail"]
    assert peak.growth < MIB


async def test_a_file_that_is_shorter_by_now(boxes: Boxes, box: str, tmp_path: Path) -> None:
    """The window says what it holds."""
    path = boxes.box(box).folder / "tmp" / "job_0000000a.stdout.log"
    os.truncate(path, 3)
    told = await window(boxes, box, offset=1, length=10 * MIB)
    assert told == {
        "content": "\0\0", "size": 2, "total_size": 3, "offset": 1, "truncated": True,
    }  # fmt: skip
