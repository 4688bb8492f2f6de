"""`AsyncSandboxFiles`: files and folders, into sandboxes and out of them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator

from prime_async.errors import APIError, UsageError
from prime_async.localfiles import WINDOW, AtomicFile, LocalFile, given_path, sha256_of
from prime_async.requests import check_range, read_record
from prime_async.sandboxes.downloads import Download, raise_file_error
from prime_async.sandboxes.execution import AsyncSandboxCommands
from prime_async.sandboxes.gateway import Link
from prime_async.sandboxes.listing import digest_in_sandbox, list_folder
from prime_async.sandboxes.models import FileInfo, FileUploadResponse, ReadFileResponse
from prime_async.sandboxes.pace import OnProgress, Pace
from prime_async.sandboxes.treerules import TreeTransfer
from prime_async.sandboxes.trees import download_tree, upload_tree
from prime_async.sandboxes.uploads import Upload, check_digest
from prime_async.transport import Response, check_timeout, deadline, path_segment

__all__ = ["AsyncSandboxFiles"]

READ_SECONDS = 30.0
LIST_SECONDS = 300.0
TREE_SECONDS = 86_400.0


class AsyncSandboxFiles(AsyncSandboxCommands):
    """Moves files; the third part of :class:`AsyncSandboxClient`.

    Names may hold anything but NUL. Transfers hold at most a few windows of 1 MiB in memory and
    end after 60 seconds in which no byte moved.
    """

    async def upload_file(
        self,
        sandbox_id: str,
        file_path: str,
        local_file_path: str | os.PathLike[str],
        timeout: float | None = None,
        *,
        progress: OnProgress | None = None,
        verify: bool = False,
    ) -> FileUploadResponse:
        """Send a file of this machine into a sandbox, where it appears when it is whole.

        On platforms that can, a large upload that breaks off goes on where it was.

        Args:
            sandbox_id: which one.
            file_path: where it goes; an existing file is replaced.
            local_file_path: the file.
            timeout: seconds in all; default 300 and one more for each MiB.
            progress: called with the bytes that are over.
            verify: compare the SHA-256 of both.

        Raises:
            FileNotFoundError, IsADirectoryError, OSError: of the file here, before anything is
                sent.
            UploadTimeoutError: it took too long, or nothing moved.
            SandboxNotRunningError, SandboxNotFoundError: there is nothing to send it to.
            APIError: the gateway refuses it; ``checksum_mismatch`` when it arrived damaged.
        """
        self._check(sandbox_id, file_path)
        seconds = _seconds(timeout)
        file = await LocalFile.at(given_path(local_file_path, "local_file_path"))
        upload = Upload(
            self._gateway,
            sandbox_id,
            file_path,
            file.windows,
            file.size,
            Pace(seconds, file.size, progress),
            filename=file.path.name,
            digest=verify,
        )
        answer = await upload.run()
        if verify:
            theirs = answer.sha256 or await digest_in_sandbox(self._gateway, sandbox_id, file_path)
            check_digest(file_path, await sha256_of(file.path), theirs)
        return answer

    async def upload_bytes(
        self,
        sandbox_id: str,
        file_path: str,
        file_bytes: bytes,
        filename: str | None = None,
        timeout: float | None = None,
        *,
        progress: OnProgress | None = None,
    ) -> FileUploadResponse:
        """Send bytes into a file of a sandbox; see :meth:`upload_file`.

        Args:
            filename: the name the form tells; by default that of `file_path`.
        """
        self._check(sandbox_id, file_path)
        seconds = _seconds(timeout)
        if not isinstance(file_bytes, bytes | bytearray | memoryview):
            raise UsageError(
                f"file_bytes is a {type(file_bytes).__name__}, not bytes", field="file_bytes"
            )
        view = memoryview(file_bytes).cast("B")

        async def windows(offset: int) -> AsyncGenerator[bytes, None]:
            for start in range(offset, len(view), WINDOW):
                yield bytes(view[start : start + WINDOW])

        pace = Pace(seconds, len(view), progress)
        return await Upload(
            self._gateway, sandbox_id, file_path, windows, len(view), pace, filename=filename
        ).run()

    async def download_file(
        self,
        sandbox_id: str,
        file_path: str,
        local_file_path: str | os.PathLike[str],
        timeout: float | None = None,
        *,
        progress: OnProgress | None = None,
        verify: bool = False,
    ) -> None:
        """Read a file of a sandbox into a file here, which appears when it is whole.

        Folders on the way to it are made. On platforms that can, a download that breaks off goes on
        where it was, unless the file has changed.

        Args:
            sandbox_id: which one.
            file_path: the file in the sandbox.
            local_file_path: where it goes; an existing file is replaced.
            timeout: seconds in all; default 300 and one more for each MiB.
            progress: called with the bytes that are there.
            verify: compare the SHA-256 of both.

        Raises:
            SandboxFileNotFoundError: there is no such file.
            IsADirectoryError, OSError: it cannot be written here.
            DownloadTimeoutError: it took too long, or nothing moved.
            SandboxNotRunningError, SandboxNotFoundError: there is nothing to read from.
            APIError: the gateway refuses it; ``checksum_mismatch`` when it arrived damaged.
        """
        self._check(sandbox_id, file_path)
        pace = Pace(_seconds(timeout), None, progress)
        async with AtomicFile(given_path(local_file_path, "local_file_path")) as target:
            await Download(self._gateway, sandbox_id, file_path, target, pace).run()
            if verify:
                theirs = await digest_in_sandbox(self._gateway, sandbox_id, file_path)
                check_digest(file_path, await target.sha256(), theirs)
            await target.commit()

    async def read_file(
        self,
        sandbox_id: str,
        file_path: str,
        timeout: float | None = None,
        offset: int | None = None,
        length: int | None = None,
    ) -> ReadFileResponse:
        """Return the text of a file, or of a window of it.

        Args:
            sandbox_id: which one.
            file_path: the file in the sandbox.
            timeout: seconds in all; default 30.
            offset: where the window begins, in bytes; negative from the end.
            length: how many bytes it has.

        Raises:
            SandboxFileNotFoundError: there is no such file.
            SandboxFileTooLargeError: it is too large for one answer; read a window or download it.
            APITimeoutError: it took too long.
            SandboxNotRunningError, SandboxNotFoundError: there is nothing to read from.
        """
        self._check(sandbox_id, file_path)
        if offset is not None:
            check_range("offset", offset, -(2**63))
        if length is not None:
            check_range("length", length, 0)
        seconds = check_timeout(timeout, READ_SECONDS)

        async def send(link: Link) -> Response:
            return await link.transport.request(
                "GET",
                f"{link.path}/read-file",
                params={"path": file_path, "offset": offset, "length": length},
                headers=link.headers,
                timeout=seconds,
            )

        try:
            with deadline(seconds, f"reading {file_path!r} in sandbox {sandbox_id}"):
                response = await self._gateway.call(sandbox_id, send)
        except APIError as error:
            raise_file_error(error, file_path)
        return read_record(response, ReadFileResponse)

    async def list_files(
        self,
        sandbox_id: str,
        file_path: str,
        *,
        recursive: bool = False,
        timeout: float | None = None,
    ) -> list[FileInfo]:
        """Return what is in a folder, sorted by name, each folder before what is in it.

        Args:
            sandbox_id: which one.
            file_path: the folder in the sandbox.
            recursive: what is in its folders too; links are not followed.
            timeout: seconds in all; default 300.

        Raises:
            SandboxFileNotFoundError: there is no such folder.
            APIError: it cannot be listed.
        """
        self._check(sandbox_id, file_path)
        with deadline(check_timeout(timeout, LIST_SECONDS), f"listing {file_path!r}"):
            found = list_folder(self._gateway, sandbox_id, file_path, recursive=recursive)
            return [entry async for entry in found]
        raise AssertionError("the deadline above returns or raises")

    async def upload_tree(
        self,
        sandbox_id: str,
        file_path: str,
        local_path: str | os.PathLike[str],
        timeout: float | None = None,
        *,
        progress: OnProgress | None = None,
    ) -> TreeTransfer:
        """Send a folder's content below a path of a sandbox; what is there and not here stays.

        Files, folders, and relative links that stay inside travel; everything else is left out and
        listed in ``.skipped``.

        Args:
            sandbox_id: which one.
            file_path: the folder in the sandbox; made where needed.
            local_path: the folder here.
            timeout: seconds in all; default a day.
            progress: called with the bytes that are over.

        Raises:
            NotADirectoryError, OSError: of the folder here.
            UploadTimeoutError: it took too long, or nothing moved.
            SandboxNotRunningError, SandboxNotFoundError: there is nothing to send it to.
            APIError: it cannot be sent or unpacked.
        """
        self._check(sandbox_id, file_path)
        pace = Pace(check_timeout(timeout, TREE_SECONDS), None, progress)
        return await upload_tree(
            self._gateway, sandbox_id, given_path(local_path, "local_path"), file_path, pace
        )

    async def download_tree(
        self,
        sandbox_id: str,
        file_path: str,
        local_path: str | os.PathLike[str],
        timeout: float | None = None,
        *,
        progress: OnProgress | None = None,
    ) -> TreeTransfer:
        """Read a folder of a sandbox into a folder here; the rule for links is that of
        :meth:`upload_tree`.

        Nothing is written outside `local_path`, whatever the sandbox sends; each file appears when
        it is whole.

        Args:
            sandbox_id: which one.
            file_path: the folder in the sandbox.
            local_path: the folder here; made where needed.
            timeout: seconds in all; default a day.
            progress: called with the bytes that are there.

        Raises:
            SandboxFileNotFoundError: there is no such folder.
            OSError: something cannot be written here.
            DownloadTimeoutError: it took too long, or nothing moved.
            SandboxNotRunningError, SandboxNotFoundError: there is nothing to read from.
            APIError: it cannot be packed or read.
        """
        self._check(sandbox_id, file_path)
        pace = Pace(check_timeout(timeout, TREE_SECONDS), None, progress)
        return await download_tree(
            self._gateway, sandbox_id, file_path, given_path(local_path, "local_path"), pace
        )

    @staticmethod
    def _check(sandbox_id: str, file_path: str) -> None:
        path_segment(sandbox_id, "sandbox_id")
        if not isinstance(file_path, str) or not file_path:
            raise UsageError("file_path is empty or not text", field="file_path")
        if "\0" in file_path:
            raise UsageError("file_path has a NUL in it, which no name can have", field="file_path")
        try:
            file_path.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"file_path is not valid text ({error.reason})", field="file_path"
            ) from error


def _seconds(timeout: float | None) -> float | None:
    return None if timeout is None else check_timeout(timeout, 0.0)
