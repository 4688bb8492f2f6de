"""Archives of folders that belong to sandboxes: written while a sandbox lives, unpacked into a new
one.

An archive is a tar of the host's own `tar`, which reads by descriptors and follows no link, keeps
holes, times, modes and owners, and works beside the event loop. GNU's it has to be: Python's
`tarfile` and busybox write holes out in full (a sparse file of a terabyte would fill the disk), and
walk by paths, which ends at 4,096 bytes. Links are stored as links: what
they point to is only ever resolved in a sandbox. An archive is only ever unpacked into a folder
that nothing else can reach yet.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import anyio
from anyio import to_thread

from prime_async.server.runtimes.errors import SandboxRuntimeError

__all__ = ["SnapshotError", "TarMissingError", "find_tar", "restore_snapshot", "write_snapshot"]

_TARS = ("/bin/tar", "/usr/bin/tar", "/usr/local/bin/tar", "/usr/bin/gtar", "/usr/local/bin/gtar")
_GNU = b"tar (GNU tar)"
_ENVIRONMENT = {"LC_ALL": "C"}
_CHANGED = 1
"""Exit code of tar when a file changed or went away while it was read; the archive is whole."""

_LOOK_SECONDS = 0.1
_SHOWN = 4096


class SnapshotError(SandboxRuntimeError):
    """An archive could not be written or unpacked; nothing of it is left."""

    code = "snapshot_failed"


class TarMissingError(SandboxRuntimeError):
    """This machine has no GNU tar, and without it no archive is made or unpacked."""

    code = "tar_missing"


@cache
def find_tar() -> str:
    """Find GNU tar. Blocks the first time.

    Raises:
        TarMissingError: there is none.
    """
    for path in _TARS:
        if os.access(path, os.X_OK) and _says(path).startswith(_GNU):
            return path
    raise TarMissingError(
        "checkpoints need GNU tar, which this machine does not have",
        hint="install the package tar on the machine of the platform (Alpine: apk add tar)",
    )


def _says(path: str) -> bytes:
    done = subprocess.run(  # noqa: S603  # a program by its absolute path, no shell
        [path, "--version"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_ENVIRONMENT,
    )
    return done.stdout


async def write_snapshot(folder: Path, archive: Path, check: Callable[[int], None]) -> int:
    """Write what is in a folder to an archive, which appears when it is whole and on the disk.

    Args:
        check: called with the bytes written so far while it grows; raises to end it.

    Returns:
        The archive's bytes.

    Raises:
        SnapshotError, OSError: it could not be written; and what ``check`` raises.
    """
    part = archive.with_suffix(".part")
    tar = await to_thread.run_sync(find_tar)
    command = [
        tar, "--create", "--format=posix", "--sparse", "--numeric-owner", "--one-file-system",
        f"--directory={folder}", f"--file={part}", ".",
    ]  # fmt: skip
    try:
        await _create(command, part, check)
        return await to_thread.run_sync(_keep, part, archive)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(lambda: part.unlink(missing_ok=True))
        raise


async def _create(command: list[str], part: Path, check: Callable[[int], None]) -> None:
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.close(descriptor)
    # A file: a pipe that nobody empties would hold tar up after some thousand complaints.
    with tempfile.TemporaryFile() as words:
        async with await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            env=_ENVIRONMENT,
        ) as process:
            try:
                while process.returncode is None:
                    with anyio.move_on_after(_LOOK_SECONDS):
                        await process.wait()
                    check(part.stat().st_size)  # noqa: ASYNC240  # waits for nothing
            except BaseException:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGKILL)
                raise
        words.seek(0)
        _require(command[0], process.returncode, words.read(_SHOWN))


def _require(tar: str, code: int | None, words: bytes) -> None:
    if code in {0, _CHANGED}:
        return
    text = words.decode("utf-8", "replace")
    if "No space left" in text:
        raise SnapshotError("the machine's disk is full")
    # Of names in the archive only: others are this machine's.
    own = [line for line in text.splitlines() if line.startswith(f"{tar}: ./")]
    reason = own[0].removeprefix(f"{tar}: .") if own else "tar failed"
    raise SnapshotError(f"its files could not all be read or written: {reason}")


def _keep(part: Path, archive: Path) -> int:
    descriptor = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        size = os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    part.rename(archive)
    folder = os.open(archive.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size


def restore_snapshot(archive: Path, folder: Path) -> None:
    """Unpack an archive into an empty folder. Blocks.

    Raises:
        SnapshotError: it is not there, not whole, or there is no room for it.
        TarMissingError: nothing can unpack it.
    """
    # Owners of more than one are only there where the server may give files away.
    owner = "--same-owner" if os.geteuid() == 0 else "--no-same-owner"
    tar = find_tar()
    done = subprocess.run(  # noqa: S603  # a program by its absolute path, no shell
        [
            tar, "--extract", "--numeric-owner", owner, "--preserve-permissions",
            f"--directory={folder}", f"--file={archive}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_ENVIRONMENT,
    )  # fmt: skip
    _require(tar, done.returncode, done.stderr[:_SHOWN])
