"""Whole folders, packed and unpacked by the sandbox itself, streamed both ways."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from prime_async.errors import APIError
from prime_async.sandboxes import AsyncSandboxClient
from tests.platform import KEY
from tests.server.sandboxes.boxes import Boxes
from tests.server.sandboxes.usable import needs_bubblewrap

NAME = "with space 'quote'\nline é"


@needs_bubblewrap
@pytest.mark.asyncio(loop_scope="module")
async def test_folders_come_back_as_they_were(isolated: Boxes, tmp_path: Path) -> None:
    """Names, modes, links inside, empty folders; nothing is stored on the way."""
    source, back = tmp_path / "source", tmp_path / "back"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "empty").mkdir()
    (source / NAME).write_bytes(os.urandom(3 << 20))
    (source / "deep" / "er" / "run").write_text("#!/bin/sh\n")
    (source / "deep" / "er" / "run").chmod(0o755)
    (source / "link").symlink_to("deep/er/run")
    box = await isolated.running()
    async with AsyncSandboxClient(api_key=KEY, base_url=isolated.platform.url) as client:
        await client.execute_command(box, ":")
        sent = await client.upload_tree(box, "/app/-tree", source)
        assert (sent.files, sent.size) == (2, (3 << 20) + 10)
        await client.download_tree(box, "/app/-tree", back)
        with pytest.raises(APIError):
            await client.download_tree(box, "/app/no-such-tree", tmp_path / "none")
        left = await client.execute_command(box, "ls -A /tmp")
        assert left.stdout == ""
    assert (back / NAME).read_bytes() == (source / NAME).read_bytes()
    assert (back / "deep" / "er" / "run").stat().st_mode & 0o777 == 0o755
    assert os.readlink(back / "link") == "deep/er/run"
    assert (back / "empty").is_dir()


async def test_what_is_no_tree_is_refused(boxes: Boxes) -> None:
    """A file as the folder, another type of body, bytes that are no archive."""
    made = await boxes.running()
    await boxes.sh(made, "echo x > file; mkdir folder; echo y > folder/y")
    reply = await boxes.at("GET", made, "/tree", params={"path": "file"})
    assert (reply.status, b"not a folder" in reply.body) == (422, True)
    assert (await boxes.at("GET", made, "/tree", params={"path": "nowhere"})).status == 404
    put = {"params": {"path": "new"}, "data": b"this is no archive" * 1000}
    assert (await boxes.at("PUT", made, "/tree", **put)).status == 415
    put["headers"] = {"Content-Type": "application/x-tar"}
    reply = await boxes.at("PUT", made, "/tree", **put)
    assert (reply.status, reply.json["error"]["code"]) == (422, "tree_refused")


async def test_the_wire_is_plain_tar(boxes: Boxes) -> None:
    """Entries and bytes are counted; a relative path lies below the working directory."""
    made = await boxes.running()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("a/b")
        entry.size = 5
        archive.addfile(entry, io.BytesIO(b"hello"))
    put = {"params": {"path": "new"}, "headers": {"Content-Type": "application/x-tar"}}
    reply = await boxes.at("PUT", made, "/tree", data=packed.getvalue(), **put)
    assert reply.json == {"entries": 1, "bytes": len(packed.getvalue())}
    reply = await boxes.at("GET", made, "/tree", params={"path": "new"})
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as archive:
        found = archive.extractfile("./a/b")
        assert found is not None
        assert found.read() == b"hello"
