"""The end of an upload: its digest is right, its long lines are read, everything is on the disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prime_async.server.traces.apart import read_apart
from prime_async.server.traces.lines import LineReader, LongLine
from prime_async.server.traces.staging import Staging

if TYPE_CHECKING:
    from prime_async.server.platform import Platform

__all__ = ["seal"]


async def seal(
    platform: Platform, staging: Staging, reader: LineReader | None, digest: str
) -> None:
    """Finish a staging that has all its bytes.

    Raises:
        RequestError: 400, nothing of it can be stored; 503, not now.
        OSError: the disk refuses it.
    """
    long = await platform.in_thread(staging.finish, digest)
    if reader is not None:
        for some in _portions(long, platform.config.limits.trace_line_bytes):
            async with platform.traces.readers:
                read = await read_apart(staging.path, reader.line_format, reader.window, some)
            rows = [one.rows for one in read]
            await platform.in_thread(staging.admit, list(zip(some, rows, strict=True)))
    await platform.in_thread(staging.seal)


def _portions(lines: Iterable[LongLine], limit: int) -> Iterator[list[LongLine]]:
    """Lines in portions of about as much as one line may have."""
    portion: list[LongLine] = []
    size = 0
    for line in lines:
        if portion and size + line.length > limit:
            yield portion
            portion, size = [], 0
        portion.append(line)
        size += line.length
    if portion:
        yield portion
