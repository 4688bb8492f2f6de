"""Whole folders of a sandbox as one stream each way.

The sandbox's own ``tar`` packs and unpacks, as a command inside: nothing of an archive is looked at
out here, and nothing is stored on the way.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
from aiohttp import web
from msgspec import Struct

from prime_async.server.answers import answer
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import RequestError, invalid
from prime_async.server.routes.gateway_files import FileQuery, counted, file_endpoint, raw_body
from prime_async.server.runtimes.errors import StdinClosedError
from prime_async.server.runtimes.protocol import ExecSpec, OutputStream, RunningCommand
from prime_async.server.sandboxes.collecting import Kept
from prime_async.server.sandboxes.fleet import Live

__all__ = ["ENDPOINTS"]

_TAR = "application/x-tar"
_PIECE = 256 * 1024
_WORDS = 4096
_CHANGED = 1
"""Exit code of a `tar` that saw a file change while it was read: what it sent is whole."""

_UNPACK = 'mkdir -p -- "$1" && exec tar -xpvf - -C "$1" --no-same-owner'
_KILLED_SECONDS = 5.0


class TreeReceived(Struct, kw_only=True):
    """How many entries an unpacked folder had, and the bytes of its archive."""

    entries: int
    bytes: int


async def download_tree(call: Call, live: Live) -> Reply:
    """Stream what is in a folder, packed; cut off where it could not be read to its end."""
    query: FileQuery = call.query
    info = await live.running.files.stat(query.path)
    if info.kind != "directory":
        raise invalid(["query", "path"], "is not a folder")
    spec = ExecSpec(("tar", "-cf", "-", "--format=pax", "-C", _plain(query.path), "."))
    response = web.StreamResponse(headers={"Content-Type": _TAR})
    words = Kept(_WORDS)
    async with _running(live, spec) as command, _reading(_keep(command.stderr, words)):
        await response.prepare(call.request)
        while piece := await command.stdout.read(_PIECE):
            await response.write(piece)
            live.used_at = call.platform.clock.now()
            call.platform.metrics.downloaded.inc(len(piece))
        if (await command.wait()).code not in (0, _CHANGED):
            raise ConnectionResetError(f"tar could not read all of it: {words.text()}")
        await response.write_eof()
    return response


async def upload_tree(call: Call, live: Live) -> Reply:
    """Unpack a folder as it arrives, below a path that is made where it is missing."""
    query: FileQuery = call.query
    if call.request.content_type != _TAR:
        raise RequestError(415, "unsupported_media_type", f"the body must be {_TAR}")
    spec = ExecSpec(("/bin/sh", "-c", _UNPACK, "tree", _plain(query.path)), stdin=True)
    words, names, size = Kept(_WORDS), _Lines(), 0
    async with (
        _running(live, spec) as command,
        _reading(_keep(command.stderr, words), _keep(command.stdout, names)),
    ):
        async for piece in counted(call, raw_body(call)):
            live.used_at = call.platform.clock.now()
            size += len(piece)
            try:
                await command.write_stdin(piece)
            except StdinClosedError:
                continue  # it has given up, and says why; the client gets to hear it in the end
        await command.close_stdin()
        ended = await command.wait()
    if ended.code:
        raise RequestError(422, "tree_refused", f"it could not be unpacked: {words.text()}")
    return answer(TreeReceived(entries=names.count, bytes=size))


@asynccontextmanager
async def _running(live: Live, spec: ExecSpec) -> AsyncIterator[RunningCommand]:
    """A command for the length of a block; whoever goes away takes it along."""
    command = await live.running.exec(spec)
    try:
        yield command
    finally:
        with anyio.move_on_after(_KILLED_SECONDS, shield=True):
            if command.exit is None:
                await command.signal(signal.SIGKILL)
            await command.aclose()


@asynccontextmanager
async def _reading(*reads: Awaitable[None]) -> AsyncIterator[None]:
    """Read what else a command writes meanwhile; what the block raises stays what it is."""
    try:
        async with anyio.create_task_group() as group:
            for read in reads:
                group.start_soon(_finish, read)
            yield
    except BaseExceptionGroup as errors:
        if len(errors.exceptions) == 1:
            raise errors.exceptions[0] from None
        raise


async def _finish(read: Awaitable[None]) -> None:
    await read


async def _keep(stream: OutputStream, kept: _Sink) -> None:
    async for piece in stream:
        kept.add(piece)


class _Sink(Protocol):
    def add(self, piece: bytes) -> None: ...


class _Lines:
    """Counts lines."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, piece: bytes) -> None:
        self.count += piece.count(b"\n")


def _plain(path: str) -> str:
    """A path that no tool takes for an option."""
    return path if path.startswith("/") else f"./{path}"


ENDPOINTS: tuple[Endpoint, ...] = (
    file_endpoint("GET", "/tree", download_tree, "Stream a folder as a tar", {200: None}),
    file_endpoint("PUT", "/tree", upload_tree, "Unpack a tar below a path", {200: TreeReceived}),
)
