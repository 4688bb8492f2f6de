"""Reads long lines in an interpreter of their own.

A decoder keeps its interpreter for as long as one call takes: a quarter of a second, and for odd
documents seconds, for the largest line. In another process that holds up nobody, and what it takes
of memory is given back when it ends. The lines are not handed over: they are in the file of the
upload.

``python -m prime_async.server.traces.apart`` reads a :class:`_Task` from its standard input and
writes what became of each line to its standard output.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import msgspec

from prime_async.server.logs import log_event
from prime_async.server.traces.lines import LongLine
from prime_async.server.traces.projection import EpisodeRow, TraceRow
from prime_async.server.traces.records import Row, UnfitError, Window, read_line
from prime_async.server.traces.refusals import BUSY_SECONDS, refused
from prime_async.traces.codes import ErrorCode, LineFormat

__all__ = ["Outcome", "main", "read_apart"]

_SPARE_BYTES = 512 * 1024 * 1024
_BYTES_PER_BYTE = 24
"""What a line may take while it is read, for each of its bytes: odd ones take ten times as much as
usual ones, and none may take the machine.
"""


class Outcome(msgspec.Struct, array_like=True):
    """What became of one line: its rows, an episode first, or why it cannot be stored."""

    episodes: list[EpisodeRow] = []
    traces: list[TraceRow] = []
    code: ErrorCode | None = None
    message: str = ""

    def rows(self) -> list[Row]:
        """The rows.

        Raises:
            UnfitError: the line cannot be stored.
        """
        if self.code is not None:
            raise UnfitError(self.code, self.message)
        return [*self.episodes, *self.traces]


class _Task(msgspec.Struct, array_like=True):
    path: str
    line_format: LineFormat
    window: Window
    places: list[tuple[int, int]]


async def read_apart(
    path: Path, line_format: LineFormat, window: Window, lines: Sequence[LongLine]
) -> list[Outcome]:
    """Read some lines of a file; ends the process when it is cancelled.

    Raises:
        RequestError: 503, they could not be read; they may be another time.
    """
    places = [(line.offset, line.length) for line in lines]
    task = msgspec.msgpack.encode(_Task(str(path), line_format, window, places))
    # -P: no code from the folder that the platform happens to run in.
    command = [sys.executable, "-P", "-m", "prime_async.server.traces.apart"]
    done = await anyio.run_process(command, input=task, check=False)
    if done.returncode:
        error = done.stderr.decode(errors="replace")[-500:]
        log_event(logging.ERROR, "reading_apart_failed", code=done.returncode, told=error)
        raise refused(
            ErrorCode.INGEST_UNAVAILABLE,
            "a long line could not be read now; nothing of the upload was stored",
            status=503,
            headers={"Retry-After": BUSY_SECONDS},
        )
    return msgspec.msgpack.decode(done.stdout, type=list[Outcome])


def main() -> None:
    """Do one task."""
    task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Task)
    longest = max((length for _, length in task.places), default=0)
    limit = _SPARE_BYTES + _BYTES_PER_BYTE * longest
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.stdout.buffer.write(msgspec.msgpack.encode(list(_outcomes(task))))


def _outcomes(task: _Task) -> Iterator[Outcome]:
    with Path(task.path).open("rb", buffering=0) as file:
        for offset, length in task.places:
            line = os.pread(file.fileno(), length, offset)
            yield _outcome(line, offset, task)


def _outcome(line: bytes, offset: int, task: _Task) -> Outcome:
    try:
        rows = read_line(line, offset, task.line_format, task.window)
    except UnfitError as unfit:
        return Outcome(code=unfit.code, message=unfit.message)
    except MemoryError:
        return Outcome(code=ErrorCode.TRACE_TOO_LARGE, message="reading it takes too much memory")
    episodes = [row for row in rows if isinstance(row, EpisodeRow)]
    return Outcome(episodes, [row for row in rows if isinstance(row, TraceRow)])


if __name__ == "__main__":
    main()
