"""Files into sandboxes and out of them."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from prime_async import (
    APIError,
    AsyncSandboxClient,
    DownloadTimeoutError,
    SandboxFileNotFoundError,
    SandboxFileTooLargeError,
    SandboxNotRunningError,
    TransferProgress,
    UsageError,
)
from tests.sandbox_double import SandboxDouble

MIB = 2**20


async def test_an_upload_is_a_form_with_one_file(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """The official wire: path and id in the query, one part, and the answer's fields."""
    local = tmp_path / "a.json"
    local.write_bytes(b"{}")
    seen: list[TransferProgress] = []
    answer = await client.upload_file(
        box, str(double.folder / "b"), local, progress=seen.append, verify=True
    )
    assert (answer.success, answer.size, answer.path) == (True, 2, str(double.folder / "b"))
    assert seen == [TransferProgress(2, 2)]
    [sent] = double.requests("POST", "/upload")
    assert sent.query["sandbox_id"] == box
    assert sent.headers["Content-Type"].startswith("multipart/form-data")
    assert "Content-Length" in sent.headers


async def test_a_broken_upload_goes_on_where_it_was(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """Where the platform keeps what arrived, only the rest is sent again."""
    double.features = {"resumable-uploads"}
    await client.get(box)
    double.upload_limit = 9 * MIB
    data = bytes(range(256)) * (12 * MIB // 256)
    answer = await client.upload_bytes(box, str(double.folder / "f"), data)
    assert (double.folder / "f").read_bytes() == data
    assert answer.size == len(data)
    offsets = [int(sent.query["offset"]) for sent in double.requests("PUT", r"/uploads/\w+")]
    assert len(offsets) == 2
    assert offsets[1] >= 9 * MIB
    assert double.requests("POST", "/upload") == []


@pytest.mark.parametrize("ranges", [True, False])
async def test_a_broken_download_goes_on_where_it_was(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path, ranges: bool
) -> None:
    """With ranges the rest is asked for, without the whole; the file is right either way."""
    data = bytes(range(256)) * (8 * MIB // 256)
    (double.folder / "f").write_bytes(data)
    double.ranges, double.download_cut = ranges, 5 * MIB
    done: list[int] = []
    await client.download_file(
        box,
        str(double.folder / "f"),
        tmp_path / "f",
        progress=lambda progress: done.append(progress.done),
        verify=True,
    )
    assert (tmp_path / "f").read_bytes() == data
    first, second = double.requests("GET", "/download")
    assert ("Range" in second.headers) == ranges
    assert (done == sorted(done)) == ranges
    assert done[-1] == len(data)
    assert "Range" not in first.headers


async def test_a_download_of_a_changed_file_starts_again(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """Two versions are never mixed."""
    file = double.folder / "f"
    file.write_bytes(b"a" * 8 * MIB)
    double.ranges, double.download_cut = True, 5 * MIB

    def change(progress: TransferProgress) -> None:
        if not double.requests("GET", "/download")[1:]:
            file.write_bytes(b"b" * 6 * MIB)

    await client.download_file(box, str(file), tmp_path / "f", progress=change)
    assert (tmp_path / "f").read_bytes() == b"b" * 6 * MIB


async def test_a_damaged_transfer_is_told(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """A checksum that differs is an error, and the download has no name."""
    local = tmp_path / "f"
    local.write_bytes(b"abc")

    def spoil(progress: TransferProgress) -> None:
        local.write_bytes(b"abd")

    with pytest.raises(APIError, match="damaged") as caught:
        await client.upload_file(box, str(double.folder / "f"), local, progress=spoil, verify=True)
    assert caught.value.code == "checksum_mismatch"


async def test_windows_of_files_are_read(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """From the beginning, from an offset, from the end; with what is known of the rest."""
    (double.folder / "f").write_bytes("héllo wörld".encode())
    path = str(double.folder / "f")
    assert (await client.read_file(box, path)).content == "héllo wörld"
    window = await client.read_file(box, path, offset=-6, length=3)
    assert (window.content, window.offset, window.total_size, window.truncated) == (
        "wö",
        7,
        13,
        True,
    )
    for wrong in ({"length": -1}, {"offset": 1.5}, {"timeout": 0}):
        with pytest.raises(UsageError):
            await client.read_file(box, path, **wrong)  # type: ignore[arg-type]  # on purpose


async def test_missing_and_large_files_are_named(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """Missing files and folders, and files too large for one answer, have errors of their own."""
    for call in (
        client.read_file(box, "/no/file"),
        client.download_file(box, "/no/file", tmp_path / "x"),
        client.list_files(box, "/no/folder"),
    ):
        with pytest.raises(SandboxFileNotFoundError, match="/no/f"):
            await call
    assert list(tmp_path.iterdir()) == [double.folder]
    (double.folder / "big").write_bytes(bytes(11 * MIB))
    with pytest.raises(SandboxFileTooLargeError, match="big"):
        await client.read_file(box, str(double.folder / "big"))


async def test_wrong_local_paths_reach_nobody(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """They are errors of the system, before anything is sent."""
    before = len(double.seen)
    with pytest.raises(FileNotFoundError):
        await client.upload_file(box, "/x", tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        await client.upload_file(box, "/x", tmp_path)
    with pytest.raises(IsADirectoryError):
        await client.download_file(box, "/x", tmp_path)
    with pytest.raises(NotADirectoryError):
        await client.upload_tree(box, "/x", tmp_path / "nothing")
    for wrong in ("", "a\0b", "\udcff", 3):
        with pytest.raises(UsageError):
            await client.upload_bytes(box, wrong, b"")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(UsageError):
        await client.upload_bytes(box, "/x", "text")  # type: ignore[arg-type]  # on purpose
    assert len(double.seen) == before


async def test_a_full_disk_here_is_told(
    client: AsyncSandboxClient,
    double: SandboxDouble,
    box: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system's error comes through, and nothing is left."""
    (double.folder / "f").write_bytes(b"abc")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("prime_async.localfiles.AtomicFile._write", full)
    with pytest.raises(OSError, match="No space"):
        await client.download_file(box, str(double.folder / "f"), tmp_path / "f")
    assert list(tmp_path.iterdir()) == [double.folder]


async def test_errors_of_progress_callbacks_come_through(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """They end the transfer and are raised as they are."""

    def fail(progress: TransferProgress) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        await client.upload_bytes(box, str(double.folder / "f"), b"abc", progress=fail)
    (double.folder / "g").write_bytes(b"abc")
    with pytest.raises(ZeroDivisionError, match="mine"):
        await client.download_file(box, str(double.folder / "g"), tmp_path / "g", progress=fail)
    assert len(double.requests("POST", "/upload")) == 1


async def test_a_sandbox_that_ended_is_told_by_every_call(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """410 and 409 of a gateway become the error with the reason."""
    double.end(box, errorType="OOM_KILLED")
    gone: Any = {"json": {"error": "sandbox_terminated"}, "status": 410}
    double.fault("POST", "/upload", **gone)
    double.fault("GET", "/download", **gone)
    double.fault("GET", "/read-file", status=409)
    for call in (
        client.upload_bytes(box, "/x", b""),
        client.download_file(box, "/x", tmp_path / "x"),
        client.read_file(box, "/x"),
    ):
        with pytest.raises(SandboxNotRunningError) as caught:
            await call
        assert (caught.value.status, caught.value.error_type) == ("TERMINATED", "OOM_KILLED")


async def test_a_locked_sandbox_is_tried_again(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """409 while it runs passes; for too long it is the platform's error."""
    (double.folder / "f").write_bytes(b"abc")
    double.fault("GET", "/read-file", status=409, times=2)
    assert (await client.read_file(box, str(double.folder / "f"))).content == "abc"
    double.fault("GET", "/read-file", status=409, times=100)
    with pytest.raises(APIError) as caught:
        await client.read_file(box, str(double.folder / "f"))
    assert caught.value.status == 409


async def test_a_download_that_stands_still_ends(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """The given time counts in all."""
    double.fault("GET", "/download", does="silence", delay=3600)
    with pytest.raises(DownloadTimeoutError, match="/x") as caught:
        await client.download_file(box, "/x", tmp_path / "x", timeout=0.3)
    assert caught.value.timeout == 0.3
    assert isinstance(caught.value, RuntimeError)


async def test_listings_go_deep_on_demand(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """Names, types, sizes, modes, link targets; a folder before what is in it."""
    (double.folder / "b").mkdir()
    (double.folder / "b" / "c").write_bytes(b"abc")
    (double.folder / "b" / "c").chmod(0o640)
    (double.folder / "a").symlink_to("b/c")
    flat = await client.list_files(box, str(double.folder))
    assert [(entry.name, entry.type, entry.target) for entry in flat] == [
        ("a", "symlink", "b/c"),
        ("b", "directory", None),
    ]
    deep = await client.list_files(box, str(double.folder), recursive=True)
    assert [entry.name for entry in deep] == ["a", "b", "c"]
    assert (deep[2].size, deep[2].mode) == (3, 0o640)


async def test_many_transfers_at_a_time(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, tmp_path: Path
) -> None:
    """They do not disturb one another."""
    names = [f"f{index}" for index in range(40)]
    await asyncio.gather(
        *(client.upload_bytes(box, str(double.folder / n), n.encode() * 1000) for n in names)
    )
    await asyncio.gather(
        *(client.download_file(box, str(double.folder / n), tmp_path / n) for n in names)
    )
    assert all((tmp_path / n).read_bytes() == n.encode() * 1000 for n in names)
