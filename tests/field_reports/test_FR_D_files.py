"""Field reports, group D: moving files."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from pathlib import Path

import pytest

from prime_async import AsyncSandboxClient, UploadTimeoutError
from tests.meters import LoopLag, PeakRss
from tests.sandbox_double import SandboxDouble

MIB = 2**20


async def test_FR16_links_and_pipes(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """One rule before sending; what is left out is listed; what was sent can be unpacked."""
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "inner" / "file").write_bytes(b"x" * 3000)
    (tree / "empty").mkdir()
    (tree / "relative").symlink_to("inner/file")
    (tree / "dangling").symlink_to("nowhere")
    (tree / "absolute").symlink_to("/etc/passwd")
    (tree / "outside").symlink_to("../secret")
    (tree / "inner" / "loop").symlink_to("..")
    os.mkfifo(tree / "pipe")
    sent = await client.upload_tree(box, str(double.folder / "up"), tree)
    assert (sent.files, sent.directories, sent.links, sent.size) == (1, 2, 3, 3000)
    assert {entry.path for entry in sent.skipped} == {"absolute", "outside", "pipe"}
    got = await client.download_tree(box, str(double.folder / "up"), tmp_path / "down")
    assert (got.files, got.directories, got.links, got.skipped) == (1, 2, 3, [])
    down = tmp_path / "down"
    assert (down / "relative").read_bytes() == b"x" * 3000
    assert (down / "inner" / "loop").readlink() == Path("..")
    assert (down / "empty").is_dir()


async def test_FR16_an_evil_sandbox_writes_nothing_outside(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """Links that leave the tree, and files behind links, are left out on the way here."""
    evil, target = double.folder / "evil", tmp_path / "target"
    evil.mkdir()
    (evil / "out").symlink_to("/tmp")
    (evil / "up").symlink_to("../../..")
    (evil / "fine").write_bytes(b"fine")
    os.link(evil / "fine", evil / "twin")
    target.mkdir()
    (target / "behind").symlink_to(tmp_path)
    (evil / "behind").mkdir()
    (evil / "behind" / "file").write_bytes(b"evil")
    got = await client.download_tree(box, str(evil), target)
    assert {entry.path for entry in got.skipped} == {"out", "up"}
    assert (target / "twin").read_bytes() == b"fine"
    assert not (tmp_path / "file").exists()


NAMES = [
    "🤣.txt",
    unicodedata.normalize("NFC", "naïve é.txt"),
    unicodedata.normalize("NFD", "naïve é.txt"),
    "a b.txt",
    'it\'s "x".txt',
    "-rf",
    "%2e%2e.txt",
    "a;b&c.txt",
    "a+b=c?#.txt",
    "new\nline\r.txt",
    "*$(id)`id`\\",
]


@pytest.mark.parametrize("name", NAMES)
async def test_FR17_names_with_anything_in_them(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path, name: str
) -> None:
    """Same bytes, same name, both ways, by every call."""
    local = tmp_path / "here" / name
    local.parent.mkdir()
    local.write_bytes(name.encode())
    remote = double.folder / name
    answer = await client.upload_file(box, str(remote), local)
    assert answer.path == str(remote)
    assert os.listdir(double.folder) == [name]
    await client.download_file(box, str(remote), tmp_path / "back" / name)
    assert (tmp_path / "back" / name).read_bytes() == name.encode()
    assert (await client.read_file(box, str(remote))).content == name
    assert [entry.path for entry in await client.list_files(box, str(double.folder))] == [
        str(remote)
    ]
    await client.upload_tree(box, str(double.folder / "tree" / name), local.parent)
    await client.download_tree(box, str(double.folder / "tree" / name), tmp_path / "tree")
    assert os.listdir(tmp_path / "tree") == [name]


async def test_FR18_a_platform_that_stops_reading(
    client: AsyncSandboxClient,
    double: SandboxDouble,
    box: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A timeout error that names the file, within the limit, on every upload path."""
    monkeypatch.setattr("prime_async.sandboxes.pace.STILL_SECONDS", 0.5)
    local = tmp_path / "big"
    local.write_bytes(bytes(20 * MIB))
    for call in (
        client.upload_file(box, "/srv/big", local),
        client.upload_bytes(box, "/srv/big", bytes(20 * MIB)),
    ):
        double.fault("POST", "/upload", does="silence", delay=3600)
        with pytest.raises(UploadTimeoutError, match="/srv/big") as caught:
            await call
        assert "0.5 s" in str(caught.value)
        assert caught.value.file_path == "/srv/big"


async def test_FR18_a_slow_platform_succeeds(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only standing still ends a transfer, not being slow."""
    monkeypatch.setattr("prime_async.sandboxes.pace.STILL_SECONDS", 1.0)
    double.upload_pause = 0.02
    size = 4 * MIB
    await client.upload_bytes(box, str(double.folder / "f"), bytes(size))
    assert (double.folder / "f").stat().st_size == size


async def test_FR19_memory_and_loop_stay_free(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """128 MiB up and down: memory grows by a few windows, the loop is never held."""
    local = tmp_path / "big"
    with local.open("wb") as file:
        for _ in range(128):
            file.write(os.urandom(MIB))
    with PeakRss() as peak:
        async with LoopLag() as lag:
            await client.upload_file(box, str(double.folder / "big"), local)
            await client.download_file(box, str(double.folder / "big"), tmp_path / "back")
    assert peak.growth < 64 * MIB
    assert lag.ticks
    assert (tmp_path / "back").read_bytes() == local.read_bytes()


async def test_FR19_a_cancelled_download_leaves_nothing(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """No partial file, under the final name or any other; an old file stays."""
    (double.folder / "big").write_bytes(bytes(64 * MIB))
    target = tmp_path / "there" / "big"
    target.parent.mkdir()
    target.write_bytes(b"old")
    begun = asyncio.Event()
    task = asyncio.create_task(
        client.download_file(
            box, str(double.folder / "big"), target, progress=lambda progress: begun.set()
        )
    )
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert os.listdir(target.parent) == ["big"]
    assert target.read_bytes() == b"old"
