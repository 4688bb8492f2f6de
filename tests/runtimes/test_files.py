"""Files of a sandbox: names, windows, transfers, and nothing that leads out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator

import anyio
import pytest
import pytest_asyncio

from prime_async.server.runtimes.base import BaseRuntime
from prime_async.server.runtimes.errors import SandboxFileError
from prime_async.server.runtimes.sandbox import Sandbox
from tests.runtimes.boxes import MIB, chunks, sh, spec

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_box(shared_runtime: BaseRuntime) -> Sandbox:
    """One sandbox for all tests."""
    return await shared_runtime.start(spec(timeout_seconds=3600.0))


@pytest_asyncio.fixture(loop_scope="module")
async def box(shared_box: Sandbox) -> AsyncIterator[Sandbox]:
    """The same, with an empty working directory again after each test."""
    try:
        yield shared_box
    finally:
        for entry in await shared_box.files.list("/app"):
            await shared_box.files.delete(entry.path, recursive=True)


NAMES = [
    "🤣.txt",
    "naïve é.txt",
    "naïve é.txt",
    "a b.txt",
    'it\'s "x".txt',
    "-rf",
    "%2e%2e.txt",
    "a;b&c.txt",
    "new\nline",
    "\udcff not text",
    "x" * 255,
]


@pytest.mark.parametrize("name", NAMES)
async def test_FR17_every_name_goes_both_ways(box: Sandbox, name: str) -> None:
    """Same bytes, same name: by upload, read, list, stat and delete."""
    path = f"/app/{name}"
    info = await box.files.upload(path, chunks(b"one", b"two"))
    assert (info.path, info.name, info.size) == (path, name, 6)
    assert (await box.files.read(path)).data == b"onetwo"
    assert [entry.name for entry in await box.files.list("/app")] == [name]
    assert (await box.files.stat(path)).kind == "file"
    await box.files.delete(path)
    assert await box.files.list("/app") == []


async def test_an_upload_is_owned_by_the_sandbox(box: Sandbox) -> None:
    """Its commands may change it; missing folders are made."""
    await box.files.upload("/app/a/b/run.sh", chunks(b"echo ran\n"), mode=0o755)
    done = await sh(box, "./a/b/run.sh && echo more >> a/b/run.sh && stat -c '%U %a' a/b/run.sh")
    assert done.stdout.startswith("ran\n")
    assert done.stdout.endswith(" 755\n")


@pytest.mark.parametrize(
    ("offset", "length", "expected", "start"),
    [
        (0, None, b"0123456789", 0),
        (3, 4, b"3456", 3),
        (-3, None, b"789", 7),
        (-3, 2, b"78", 7),
        (-100, 2, b"01", 0),
        (8, 100, b"89", 8),
        (10, 5, b"", 10),
        (99, None, b"", 10),
        (2, 0, b"", 2),
    ],
)
async def test_windows(
    box: Sandbox, offset: int, length: int | None, expected: bytes, start: int
) -> None:
    """From the start, from the end, beyond both; always with the size of the whole."""
    await box.files.upload("/app/digits", chunks(b"0123456789"))
    window = await box.files.read("/app/digits", offset=offset, length=length)
    assert (window.data, window.offset, window.total) == (expected, start, 10)
    assert window.truncated == (len(expected) < 10)


async def test_a_window_beyond_the_limit_is_refused(box: Sandbox) -> None:
    """Typed, before anything is read."""
    await box.files.upload("/app/large", chunks(b"x" * 1000))
    with pytest.raises(SandboxFileError) as refused:
        await box.files.read("/app/large", limit=999)
    assert refused.value.code == "too_large"


async def test_large_files_stream_both_ways(box: Sandbox) -> None:
    """64 MiB up and down in windows, by their digest."""
    block = os.urandom(MIB)
    expected = hashlib.sha256(block * 64).hexdigest()
    info = await box.files.upload("/app/large", chunks(*[block] * 64), sha256=expected)
    assert info.sha256 == expected
    found = hashlib.sha256()
    largest = 0
    async with box.files.open("/app/large") as file:
        async for data in file:
            largest = max(largest, len(data))
            found.update(data)
    assert (found.hexdigest(), largest) == (expected, MIB)
    assert await box.files.digest("/app/large") == expected


async def test_a_wrong_digest_leaves_the_old_file(box: Sandbox) -> None:
    """And no temporary name."""
    await box.files.upload("/app/file", chunks(b"old"))
    with pytest.raises(SandboxFileError) as refused:
        await box.files.upload("/app/file", chunks(b"new"), sha256="0" * 64, upload_id="u1")
    assert refused.value.code == "checksum"
    assert (await box.files.read("/app/file")).data == b"old"
    assert [entry.name for entry in await box.files.list("/app")] == ["file"]


async def test_FR19_a_broken_upload_leaves_nothing(box: Sandbox) -> None:
    """An error of the source, and a cancellation: no partial file, under no name."""

    async def breaking() -> AsyncIterator[bytes]:
        yield b"x" * (2 * MIB)
        raise ConnectionResetError

    async def hanging() -> AsyncIterator[bytes]:
        yield b"x" * (2 * MIB)
        await anyio.sleep_forever()

    with pytest.raises(ConnectionResetError):
        await box.files.upload("/app/file", breaking())
    with anyio.move_on_after(0.2):
        await box.files.upload("/app/file", hanging())
    assert await box.files.list("/app") == []


async def test_an_upload_goes_on_where_it_broke_off(box: Sandbox) -> None:
    """Under its id; an offset that does not fit is refused; the digest is of the whole."""

    async def breaking() -> AsyncIterator[bytes]:
        yield b"a" * MIB
        yield b"b" * 1000
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await box.files.upload("/app/file", breaking(), upload_id="u1")
    size = await box.files.partial_size("/app/file", "u1")
    assert size == MIB
    with pytest.raises(SandboxFileError) as refused:
        await box.files.upload("/app/file", chunks(b"c"), upload_id="u1", offset=size - 1)
    assert refused.value.code == "offset"
    whole = b"a" * MIB + b"c"
    info = await box.files.upload(
        "/app/file",
        chunks(b"c"),
        upload_id="u1",
        offset=size,
        sha256=hashlib.sha256(whole).hexdigest(),
    )
    assert info.size == MIB + 1
    assert [entry.name for entry in await box.files.list("/app")] == ["file"]


async def test_an_upload_in_parts(box: Sandbox) -> None:
    """Parts that are not final leave the old file; what is not wanted any more can be discarded."""
    part = await box.files.upload("/app/file", chunks(b"12"), upload_id="u2", final=False)
    assert part.size == 2
    with pytest.raises(SandboxFileError):
        await box.files.stat("/app/file")
    await box.files.upload("/app/file", chunks(b"34"), upload_id="u2", offset=2)
    assert (await box.files.read("/app/file")).data == b"1234"
    await box.files.upload("/app/file", chunks(b"x"), upload_id="u3", final=False)
    assert await box.files.discard_partial("/app/file", "u3")
    assert not await box.files.discard_partial("/app/file", "u3")


async def test_an_upload_larger_than_the_disk_is_refused(box: Sandbox) -> None:
    """Before the disk is full, and with nothing left."""
    room = box.limits.disk_bytes

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(room // MIB + 2):
            yield bytes(MIB)

    with pytest.raises(SandboxFileError) as refused:
        await box.files.upload("/app/file", endless())
    assert refused.value.code == "no_space"
    assert await box.files.list("/app") == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/app/none", "not_found"),
        ("/app", "is_directory"),
        ("/app/file/below", "not_directory"),
        ("/app/pipe", "not_regular"),
        ("/app/loop", "bad_path"),
        ("", "bad_path"),
        ("a\0b", "bad_path"),
        ("/" + "x/" * 4000, "bad_path"),
        ("/app/" + "x" * 256, "bad_path"),
        ("/app/dangling", "not_found"),
    ],
)
async def test_what_cannot_be_read_is_told_by_kind(box: Sandbox, path: str, code: str) -> None:
    """Nothing of it ever blocks: a pipe without a writer neither."""
    await sh(box, "echo > file; mkfifo pipe; ln -s loop loop; ln -s nowhere dangling")
    with pytest.raises(SandboxFileError) as refused, anyio.fail_after(10):
        await box.files.read(path)
    assert refused.value.code == code


@pytest.mark.parametrize("path", ["/app/folder", "/", "/app/..", "/app/file/below"])
async def test_what_cannot_be_written_is_told(box: Sandbox, path: str) -> None:
    """Typed, before a byte is taken."""
    await sh(box, "mkdir folder; echo > file")
    with pytest.raises(SandboxFileError):
        await box.files.upload(path, chunks(b"x"))


async def test_an_upload_replaces_a_link(box: Sandbox) -> None:
    """It never writes through one."""
    await sh(box, "echo target > target; ln -s target link")
    await box.files.upload("/app/link", chunks(b"new"))
    assert (await box.files.read("/app/target")).data == b"target\n"
    assert (await box.files.stat("/app/link", follow=False)).kind == "file"


async def test_links_are_followed_inside_when_read(box: Sandbox) -> None:
    """Absolute ones and ``..`` end at the sandbox's root."""
    await sh(box, "echo here > /workspace/file 2>/dev/null || echo here > ../workspace/file")
    root = box.state.folder / "root"
    (root / "app" / "link").symlink_to("/../../../workspace/file")
    assert (await box.files.read("/app/link")).data == b"here\n"
    assert (await box.files.stat("/app/link", follow=False)).target == "/../../../workspace/file"


async def test_trees_are_walked_without_following_links(box: Sandbox) -> None:
    """FR-16: relative, absolute, dangling links, a loop, a pipe: told by kind, and it ends."""
    script = (
        "mkdir -p t/a/b; echo 1 > t/a/b/f; ln -s .. t/a/up; ln -s /etc t/abs; ln -s no t/dangling;"
        "mkfifo t/pipe"
    )
    await sh(box, script)
    found = [(entry.path, entry.kind) async for entry in box.files.tree("/app/t")]
    assert found == [
        ("/app/t/a", "directory"),
        ("/app/t/a/b", "directory"),
        ("/app/t/a/b/f", "file"),
        ("/app/t/a/up", "symlink"),
        ("/app/t/abs", "symlink"),
        ("/app/t/dangling", "symlink"),
        ("/app/t/pipe", "other"),
    ]


async def test_folders_are_made_and_deleted(box: Sandbox) -> None:
    """With their parents, once or again; deleting wants ``recursive`` for what is not empty."""
    files = box.files
    assert (await files.mkdir("/app/a/b/c")).kind == "directory"
    await files.mkdir("/app/a/b/c")
    with pytest.raises(SandboxFileError) as refused:
        await files.mkdir("/app/a/b/c", exist_ok=False)
    assert refused.value.code == "exists"
    with pytest.raises(SandboxFileError) as refused:
        await files.mkdir("/app/x/y", parents=False)
    assert refused.value.code == "not_found"
    with pytest.raises(SandboxFileError) as refused:
        await files.delete("/app/a")
    assert refused.value.code == "not_empty"
    await files.delete("/app/a", recursive=True)
    assert await files.list("/app") == []


async def test_deleting_does_not_follow_links(box: Sandbox) -> None:
    """Neither the last name nor what is below it."""
    await sh(box, "mkdir -p keep d; echo 1 > keep/f; ln -s ../keep d/link; ln -s keep top")
    await box.files.delete("/app/d", recursive=True)
    await box.files.delete("/app/top")
    assert (await box.files.read("/app/keep/f")).data == b"1\n"


async def test_relative_paths_start_at_the_working_directory(box: Sandbox) -> None:
    """As those of commands do."""
    await box.files.upload("relative.txt", chunks(b"x"))
    assert (await box.files.stat("/app/relative.txt")).size == 1


async def test_files_hold_the_loop_for_no_time(box: Sandbox) -> None:
    """LAG of the field reports: 10 ms sleeps stay 10 ms sleeps beside transfers of 64 MiB."""
    worst = 0.0

    async def lag() -> None:
        nonlocal worst
        while True:
            before = anyio.current_time()
            await anyio.sleep(0.01)
            worst = max(worst, anyio.current_time() - before - 0.01)

    async with anyio.create_task_group() as group:
        group.start_soon(lag)
        await box.files.upload("/app/large", chunks(*[bytes(MIB)] * 64))
        async with box.files.open("/app/large") as file:
            async for _ in file:
                pass
        group.cancel_scope.cancel()
    assert worst < 0.2
