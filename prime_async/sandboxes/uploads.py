"""Bytes into a sandbox: streamed, and gone on with where the platform can."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import PurePath

import anyio

from prime_async import ids
from prime_async.errors import (
    APIError,
    APITimeoutError,
    ConflictError,
    NotFoundError,
    ProtocolError,
    ServerError,
    TransportError,
    UploadTimeoutError,
)
from prime_async.requests import read_record
from prime_async.sandboxes.gateway import OFFSET_MISMATCH, Gateway, Link
from prime_async.sandboxes.models import FileUploadResponse
from prime_async.sandboxes.multipart import FormBody, RawBody
from prime_async.sandboxes.pace import Pace
from prime_async.transport import Replay, Response, RetryPolicy

__all__ = ["RESUMABLE", "Source", "Upload", "check_digest"]

RESUMABLE = "resumable-uploads"
_WORTH_RESUMING = 8 * 2**20
_TRIES = 5
_PARTS_ACCEPTED = 202

Source = Callable[[int], AsyncGenerator[bytes, None]]
"""Produces the bytes from an offset on, any number of times."""


class Upload:
    """One upload.

    Args:
        path: where to in the sandbox.
        size: how many bytes; None when that is not known.
        filename: the name in the form.
        digest: ask for a checksum.
    """

    def __init__(
        self,
        gateway: Gateway,
        sandbox_id: str,
        path: str,
        source: Source,
        size: int | None,
        pace: Pace,
        *,
        filename: str | None = None,
        digest: bool = False,
    ) -> None:
        self._gateway = gateway
        self._sandbox_id = sandbox_id
        self._path = path
        self._source = source
        self._size = size
        self._pace = pace
        self._filename = filename or PurePath(path).name or "file"
        self._digest = digest

    async def run(self) -> FileUploadResponse:
        """Send it.

        Raises:
            UploadTimeoutError: it took too long, or nothing moved.
            SandboxNotRunningError: the sandbox has ended.
            APIError: the gateway refuses it.
        """
        response: Response | None = None
        try:
            with self._pace.scope:
                response = await self._send()
        except APITimeoutError as error:
            raise self._late(str(error)) from error
        if self._pace.failure is not None:
            raise self._pace.failure
        if response is None:
            raise self._late(self._pace.why)
        return read_record(response, FileUploadResponse)

    async def _send(self) -> Response:
        worth = self._size is not None and self._size >= _WORTH_RESUMING
        if worth and await self._gateway.has(RESUMABLE):
            return await self._in_parts()
        return await self._gateway.call(self._sandbox_id, self._whole)

    async def _whole(self, link: Link) -> Response:
        body = FormBody(self._filename, self._size, lambda: self._pieces(0))
        return await link.transport.request(
            "POST",
            f"{link.path}/upload",
            params={**self._names(), "digest": "sha256" if self._digest else None},
            body=body,
            headers=link.headers,
            timeout=self._pace.left(),
            replay=Replay.SAFE,  # the same bytes under the same name
        )

    async def _in_parts(self) -> Response:
        """Send from where the gateway is; after a broken try ask it where that is."""
        upload_id = ids.new_id("upload")
        policy = RetryPolicy()
        offset = failures = 0
        while True:
            try:
                response = await self._part(upload_id, offset)
                if response.status != _PARTS_ACCEPTED:
                    return response
                reached = int(response.json().get("received", 0))
            except (TransportError, ServerError, ConflictError) as error:
                failures += 1
                known = isinstance(error, ConflictError) and error.code != OFFSET_MISMATCH
                if known or error.spent or failures >= _TRIES:
                    raise
                await anyio.sleep(policy.delay(failures, error.retry_after))
                reached = await self._received(upload_id)
            if reached > offset:
                failures = 0
            offset = reached

    async def _part(self, upload_id: str, offset: int) -> Response:
        assert self._size is not None
        left = self._size - offset

        async def send(link: Link) -> Response:
            return await link.transport.request(
                "PUT",
                f"{link.path}/uploads/{upload_id}",
                params={
                    **self._names(),
                    "offset": offset,
                    "size": self._size,
                    "digest": "sha256" if self._digest else None,
                },
                body=RawBody(left, lambda: self._pieces(offset)),
                headers=link.headers,
                timeout=self._pace.left(),
                replay=Replay.NEVER,  # what arrived is asked for, and only the rest sent again
            )

        return await self._gateway.call(self._sandbox_id, send)

    async def _received(self, upload_id: str) -> int:
        async def ask(link: Link) -> Response:
            return await link.transport.request(
                "GET", f"{link.path}/uploads/{upload_id}", headers=link.headers
            )

        try:
            received = (await self._gateway.call(self._sandbox_id, ask)).json().get("received")
        except NotFoundError:
            return 0
        if not isinstance(received, int) or not 0 <= received <= (self._size or 0):
            raise ProtocolError(f"the gateway says that it received {received!r} bytes")
        return received

    async def _pieces(self, offset: int) -> AsyncGenerator[bytes, None]:
        done = offset
        try:
            async with aclosing(self._source(offset)) as pieces:
                async for piece in pieces:
                    yield piece
                    done += len(piece)
                    await self._pace.moved(done)
        except OSError as error:  # of the file: for the connection it would be one of its own
            self._pace.fail(error)
            raise
        self._pace.settle()

    def _names(self) -> dict[str, str]:
        return {"path": self._path, "sandbox_id": self._sandbox_id}

    def _late(self, why: str | None) -> UploadTimeoutError:
        return UploadTimeoutError(self._sandbox_id, self._path, self._pace.seconds, hint=why)


def check_digest(path: str, ours: str, theirs: str | None) -> None:
    """Compare checksums.

    Raises:
        APIError: they differ.
    """
    if theirs is not None and theirs.lower() != ours:
        raise APIError(
            f"{path!r} arrived damaged: its SHA-256 is {theirs}, not {ours}",
            code="checksum_mismatch",
            retryable=True,
        )
