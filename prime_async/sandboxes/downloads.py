"""Bytes out of a sandbox: streamed, gone on with where the platform can, in place when whole."""

from __future__ import annotations

from typing import NoReturn

import anyio

from prime_async.errors import (
    APIError,
    APITimeoutError,
    DownloadTimeoutError,
    NotFoundError,
    PayloadTooLargeError,
    SandboxFileNotFoundError,
    SandboxFileTooLargeError,
    TransportError,
)
from prime_async.localfiles import AtomicFile, windows_of
from prime_async.sandboxes.gateway import Gateway, Link
from prime_async.sandboxes.pace import STILL_SECONDS, Pace
from prime_async.transport import RetryPolicy, StreamedResponse

__all__ = ["Download", "raise_file_error"]

_TRIES = 4
_PARTIAL = 206


class Download:
    """One download into an open file."""

    def __init__(
        self, gateway: Gateway, sandbox_id: str, path: str, target: AtomicFile, pace: Pace
    ) -> None:
        self._gateway = gateway
        self._sandbox_id = sandbox_id
        self._path = path
        self._target = target
        self._pace = pace
        self._done = 0
        self._etag: str | None = None

    async def run(self) -> None:
        """Read it to its end; the file still has no name then.

        Raises:
            DownloadTimeoutError: it took too long, or nothing moved.
            SandboxFileNotFoundError: there is no such file.
            SandboxNotRunningError: the sandbox has ended.
            APIError: the gateway refuses it.
        """
        try:
            with self._pace.scope:
                await self._over_breaks()
        except APITimeoutError as error:
            raise self._late(str(error)) from error
        if self._pace.failure is not None:
            raise self._pace.failure
        if self._pace.over:
            raise self._late(self._pace.why)

    async def _over_breaks(self) -> None:
        policy = RetryPolicy()
        failures = 0
        while True:
            began_at = self._done
            try:
                await self._gateway.call(self._sandbox_id, self._read)
            except TransportError as error:
                resumed = self._etag is not None and self._done > began_at
                failures = 1 if resumed else failures + 1
                if error.spent or failures >= _TRIES:
                    raise
                await anyio.sleep(policy.delay(failures, error.retry_after))
            except APIError as error:
                raise_file_error(error, self._path)
            else:
                return

    async def _read(self, link: Link) -> None:
        async with link.transport.stream(
            "GET",
            f"{link.path}/download",
            params={"path": self._path, "sandbox_id": self._sandbox_id},
            headers={**link.headers, "Accept": "*/*", **self._range()},
            idle_timeout=STILL_SECONDS,
        ) as response:
            await self._begin(response)
            async for window in windows_of(response.iter_bytes()):
                await self._target.write(window)
                self._done += len(window)
                await self._pace.moved(self._done)

    def _range(self) -> dict[str, str]:
        if not self._done or self._etag is None:
            return {}
        return {"Range": f"bytes={self._done}-", "If-Range": self._etag}

    async def _begin(self, response: StreamedResponse) -> None:
        if self._done and response.status != _PARTIAL:
            await self._target.restart()
            self._done = 0
        headers = response.headers
        ranges = headers.get("Accept-Ranges") == "bytes" or response.status == _PARTIAL
        etag = headers.get("ETag", "")
        self._etag = etag if ranges and etag.startswith('"') else None
        length = headers.get("Content-Length", "")
        if length.isdigit():
            self._pace.know(self._done + int(length))

    def _late(self, why: str | None) -> DownloadTimeoutError:
        return DownloadTimeoutError(self._sandbox_id, self._path, self._pace.seconds, hint=why)


def file_error(error: APIError, path: str) -> APIError:
    """Return the error that names the file, for an answer about one."""
    kind: type[APIError]
    if isinstance(error, NotFoundError):
        kind, what = SandboxFileNotFoundError, f"there is no file {path!r} in the sandbox"
    elif isinstance(error, PayloadTooLargeError):
        kind, what = SandboxFileTooLargeError, f"{path!r} is too large to be read in one answer"
    else:
        return error
    return kind(
        what,
        status=error.status,
        code=error.code,
        detail=error.detail,
        request_id=error.request_id,
        method=error.method,
        url=error.url,
    )


def raise_file_error(error: APIError, path: str) -> NoReturn:
    """Raise what :func:`file_error` makes of an error, which is never its own cause."""
    made = file_error(error, path)
    if made is error:
        raise error
    raise made from error
