"""Files through the gateway: streams both ways, ranges, windows, listings, leftovers."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anyio
import pytest

from tests.server.sandboxes.boxes import Boxes

NAMES = [
    "plain.txt",
    "a b.txt",
    "naïve é.txt",
    "🤣.txt",
    'it\'s "x".txt',
    "-rf",
    "%2e%2e.txt",
    "a;b&c.txt",
    "new\nline",
]


def form(data: Any, name: str = "f") -> aiohttp.FormData:
    made = aiohttp.FormData()
    made.add_field("file", io.BytesIO(data) if isinstance(data, bytes) else data, filename=name)
    return made


async def send(boxes: Boxes, made: str, path: str, data: bytes, **params: str) -> Any:
    return await boxes.at(
        "POST",
        made,
        "/upload",
        params={"path": path, "sandbox_id": made, **params},
        data=form(data),
    )


async def get(boxes: Boxes, made: str, path: str, **headers: str) -> Any:
    return await boxes.at("GET", made, "/download", params={"path": path}, headers=headers)


@pytest.mark.parametrize("name", NAMES)
async def test_names_go_both_ways(boxes: Boxes, name: str) -> None:
    """The same bytes under the same name, whatever is in it."""
    made = await boxes.running()
    reply = await send(boxes, made, f"/app/{name}", b"content")
    assert reply.status == 200, reply
    assert (reply.json["success"], reply.json["path"], reply.json["size"]) == (
        True,
        f"/app/{name}",
        7,
    )
    assert (boxes.box(made).folder / "app" / name).read_bytes() == b"content"
    assert (await get(boxes, made, f"/app/{name}")).body == b"content"


async def test_a_large_file_is_streamed_both_ways(boxes: Boxes) -> None:
    """64 MiB, in memory nowhere; the digest is told when it is asked for."""
    made = await boxes.running()
    data = os.urandom(1024 * 1024) * 64
    digest = hashlib.sha256(data).hexdigest()
    reply = await send(boxes, made, "/app/deep/er/large.bin", data, digest="sha256")
    assert (reply.json["size"], reply.json["sha256"]) == (len(data), digest)
    back = await boxes.at(
        "GET", made, "/download", params={"path": "/app/deep/er/large.bin", "digest": "sha256"}
    )
    assert back.headers["X-Checksum-Sha256"] == digest
    assert hashlib.sha256(back.body).hexdigest() == digest


async def test_an_upload_that_breaks_off_leaves_nothing(boxes: Boxes) -> None:
    """No file under the name, and nothing half written beside it."""
    made = await boxes.running()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x" * 2_000_000
        raise ConnectionResetError("gone")

    with pytest.raises(aiohttp.ClientError):
        await boxes.at("POST", made, "/upload", params={"path": "/app/f"}, data=form(pieces()))
    folder = boxes.box(made).folder / "app"
    with anyio.fail_after(10):
        while list(folder.iterdir()):
            await anyio.sleep(0.02)


async def test_a_download_gives_ranges(boxes: Boxes) -> None:
    """One range, from the end too; a changed file is sent whole; outside is 416."""
    made = await boxes.running()
    await send(boxes, made, "/app/f", bytes(range(256)))
    whole = await get(boxes, made, "/app/f")
    assert whole.headers["Accept-Ranges"] == "bytes"
    tag = whole.headers["ETag"]
    part = await get(boxes, made, "/app/f", Range="bytes=10-19", **{"If-Range": tag})
    assert (part.status, part.body) == (206, bytes(range(10, 20)))
    assert part.headers["Content-Range"] == "bytes 10-19/256"
    assert (await get(boxes, made, "/app/f", Range="bytes=-6")).body == bytes(range(250, 256))
    assert (await get(boxes, made, "/app/f", Range="bytes=250-")).body == bytes(range(250, 256))
    stale = await get(boxes, made, "/app/f", Range="bytes=10-19", **{"If-Range": '"old"'})
    assert (stale.status, len(stale.body)) == (200, 256)
    outside = await get(boxes, made, "/app/f", Range="bytes=256-")
    assert (outside.status, outside.headers["Content-Range"]) == (416, "bytes */256")


@pytest.mark.parametrize(
    ("window", "content", "offset", "truncated"),
    [
        ({}, "0123456789", 0, False),
        ({"offset": -3}, "789", 7, True),
        ({"offset": 2, "length": 3}, "234", 2, True),
        ({"offset": -100}, "0123456789", 0, False),
        ({"offset": 50}, "", 10, True),
        ({"length": 0}, "", 0, True),
    ],
)
async def test_windows_of_a_file(
    boxes: Boxes, window: dict[str, int], content: str, offset: int, truncated: bool
) -> None:
    """Offsets count from the end when negative; the answer tells where it is."""
    made = await boxes.running()
    await send(boxes, made, "/app/f", b"0123456789")
    reply = await boxes.at("GET", made, "/read-file", params={"path": "/app/f", **window})
    assert reply.json == {
        "content": content,
        "size": len(content),
        "total_size": 10,
        "offset": offset,
        "truncated": truncated,
    }


async def test_a_tail_of_ten_mebibytes_is_served_and_too_much_refused(boxes: Boxes) -> None:
    """Job output reads such tails; a whole larger file is 413 with a way out."""
    made = await boxes.running()
    with (boxes.box(made).folder / "app" / "f").open("wb") as file:
        file.truncate(33 * 1024 * 1024)
    tail = {"path": "/app/f", "offset": -10 * 1024 * 1024}
    reply = await boxes.at("GET", made, "/read-file", params=tail)
    assert reply.json["size"] == 10 * 1024 * 1024
    refused = await boxes.at("GET", made, "/read-file", params={"path": "/app/f"})
    assert (refused.status, refused.json["code"]) == (413, "file_too_large")


async def test_bytes_that_are_no_text_are_replaced(boxes: Boxes) -> None:
    """The size counts the bytes."""
    made = await boxes.running()
    await send(boxes, made, "/app/f", b"ok\xff\xfe\x00end\n")
    answer = (await boxes.at("GET", made, "/read-file", params={"path": "/app/f"})).json
    assert answer["content"] == "ok��\x00end\n"
    assert answer["size"] == 9


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/app/missing", 404, "file_not_found"),
        ("/app", 400, "file_is_directory"),
        ("/app/pipe", 400, "file_not_regular"),
        ("/app/../../../../etc/hostname-of-the-host", 404, "file_not_found"),
    ],
)
async def test_what_cannot_be_read(boxes: Boxes, path: str, status: int, code: str) -> None:
    """Each with a status and a code of its own, over all ways to read."""
    made = await boxes.running()
    os.mkfifo(boxes.box(made).folder / "app" / "pipe")
    for call in ("/read-file", "/download"):
        reply = await boxes.at("GET", made, call, params={"path": path})
        assert (reply.status, reply.json["code"]) == (status, code), call


async def test_links_do_not_lead_out(boxes: Boxes, tmp_path: Any) -> None:
    """A link to a file of the host is no way to it, for no call."""
    secret = tmp_path / "secret"
    secret.write_text("host")
    made = await boxes.running()
    (boxes.box(made).folder / "app" / "out").symlink_to(secret)
    assert (await get(boxes, made, "/app/out")).status == 404
    reply = await send(boxes, made, "/app/out", b"new")
    assert reply.status == 200
    assert secret.read_text() == "host"


async def test_an_upload_in_parts_goes_on_where_it_was(boxes: Boxes) -> None:
    """What arrived is told, a wrong offset refused, and the file appears when it is whole."""
    made = await boxes.running()
    data = os.urandom(300_000)

    async def part(start: int, stop: int) -> Any:
        params = {"path": "/app/f", "offset": start, "size": len(data), "digest": "sha256"}
        return await boxes.at("PUT", made, "/uploads/u1", params=params, data=data[start:stop])

    first = await part(0, 100_000)
    assert (first.status, first.json) == (202, {"received": 100_000})
    assert not (boxes.box(made).folder / "app" / "f").exists()
    wrong = await part(150_000, 200_000)
    assert (wrong.status, wrong.json["code"]) == (409, "offset_mismatch")
    assert (await boxes.at("GET", made, "/uploads/u1")).json == {"received": 100_000}
    last = await part(100_000, len(data))
    assert (last.status, last.json["sha256"]) == (200, hashlib.sha256(data).hexdigest())
    assert (await get(boxes, made, "/app/f")).body == data
    assert (await boxes.at("GET", made, "/uploads/u1")).status == 404


async def test_an_upload_can_be_given_up(boxes: Boxes) -> None:
    """Nothing is left of it."""
    made = await boxes.running()
    params = {"path": "/app/f", "offset": 0, "size": 10}
    assert (await boxes.at("PUT", made, "/uploads/u1", params=params, data=b"12345")).status == 202
    assert (await boxes.at("DELETE", made, "/uploads/u1")).status == 204
    assert list((boxes.box(made).folder / "app").iterdir()) == []


async def test_folders_are_listed_line_by_line(boxes: Boxes) -> None:
    """One folder, or all below it; links are told, not followed; odd names keep their bytes."""
    made = await boxes.running()
    app = boxes.box(made).folder / "app"
    (app / "d").mkdir()
    (app / "d" / "f").write_bytes(b"12")
    (app / "link").symlink_to("d")
    os.close(os.open(os.fsencode(app) + b"/odd\xff", os.O_CREAT | os.O_WRONLY))

    async def listed(**params: Any) -> list[dict[str, Any]]:
        reply = await boxes.at("GET", made, "/list-files", params={"path": "/app", **params})
        assert reply.status == 200, reply
        return [json.loads(line) for line in reply.body.splitlines()]

    flat = await listed(recursive="false")
    assert [(one["path"], one["type"]) for one in flat] == [
        ("/app/d", "directory"),
        ("/app/link", "symlink"),
        ("/app/odd�", "file"),
    ]
    assert flat[1]["target"] == "d"
    assert flat[2]["path_base64"] == "L2FwcC9vZGT/"
    deep = await listed(recursive="true")
    assert [one["path"] for one in deep][:2] == ["/app/d", "/app/d/f"]
    missing = await boxes.at(
        "GET", made, "/list-files", params={"path": "/none", "recursive": "true"}
    )
    assert missing.json["code"] == "file_not_found"


async def test_a_file_is_described(boxes: Boxes) -> None:
    """With its digest when it is asked for."""
    made = await boxes.running()
    await send(boxes, made, "/app/f", b"123")
    params = {"path": "/app/f", "digest": "sha256"}
    info = (await boxes.at("GET", made, "/file-info", params=params)).json
    assert (info["type"], info["size"]) == ("file", 3)
    assert info["sha256"] == hashlib.sha256(b"123").hexdigest()


async def test_what_is_no_upload_is_refused(boxes: Boxes) -> None:
    """A body that is no form, a form without the file, a path that is missing."""
    made = await boxes.running()
    params = {"path": "/app/f"}
    plain = await boxes.at("POST", made, "/upload", params=params, data=b"x")
    assert plain.status == 415
    other = aiohttp.FormData()
    other.add_field("else", b"x", filename="f")
    empty = await boxes.at("POST", made, "/upload", params=params, data=other)
    assert empty.status == 422
    assert (await boxes.at("POST", made, "/upload", data=form(b"x"))).status == 422
    named = await boxes.at(
        "POST", made, "/upload", params={**params, "sandbox_id": "other"}, data=form(b"x")
    )
    assert named.status == 422
