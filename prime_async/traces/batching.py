"""`aiter_batches`: the batches of any source of lines, made off the event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing

import anyio.to_thread

from prime_async.feeds import close_source
from prime_async.traces.batches import (
    DEFAULT_TARGET_BATCH_BYTES,
    MAX_BATCH_LINES,
    Batch,
    Draft,
    Packer,
)
from prime_async.traces.feeds import ThreadFeed
from prime_async.traces.lines import MAX_LINE_BYTES

__all__ = ["aiter_batches"]


async def aiter_batches(
    lines: Iterable[bytes] | AsyncIterable[bytes],
    *,
    target_bytes: int = DEFAULT_TARGET_BATCH_BYTES,
    max_line_bytes: int = MAX_LINE_BYTES,
    max_lines: int = MAX_BATCH_LINES,
) -> AsyncIterator[Batch]:
    """Yield the batches of lines, in order: the same as :func:`iter_batches`.

    A plain iterable is read in a thread; of an asynchronous one, the digests are computed in
    threads. The source is closed when the batches are given up.

    Args and errors as for :func:`iter_batches`.
    """
    packer = Packer(target_bytes=target_bytes, max_line_bytes=max_line_bytes, max_lines=max_lines)
    if isinstance(lines, AsyncIterable):
        batches = _of_async(lines, packer)
    else:
        batches = _of_plain(lines, packer)
    async with aclosing(batches):
        async for batch in batches:
            yield batch


async def _of_async(lines: AsyncIterable[bytes], packer: Packer) -> AsyncGenerator[Batch, None]:
    iterator = aiter(lines)
    try:
        async for line in iterator:
            if draft := packer.add(line):
                yield await anyio.to_thread.run_sync(draft.sealed)
        if draft := packer.finish():
            yield await anyio.to_thread.run_sync(draft.sealed)
    finally:
        await close_source(iterator)


async def _of_plain(lines: Iterable[bytes], packer: Packer) -> AsyncGenerator[Batch, None]:
    feed = ThreadFeed(lambda: lines, _Plain(packer))
    feed.begin()
    try:
        while batch := await feed.next_batch():
            yield batch
    finally:
        await feed.finished()


class _Plain:
    """Packs lines and refuses none: what cannot be packed ends the reading."""

    def __init__(self, packer: Packer) -> None:
        self._packer = packer

    def take(self, item: bytes) -> Draft | None:
        return self._packer.add(item)

    def finish(self) -> Draft | None:
        return self._packer.finish()
