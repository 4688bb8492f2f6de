"""Running a command to its end and keeping the newest part of what it wrote."""

from __future__ import annotations

import signal
from collections import deque
from dataclasses import dataclass, field

import anyio

from prime_async.server.runtimes.protocol import ExecSpec, OutputStream, RunningSandbox

__all__ = ["Done", "Kept", "run_to_end"]

_KILLED_SECONDS = 5.0


class Kept:
    """The newest bytes of an output.

    Attributes:
        size: how many were written.
    """

    def __init__(self, limit: int) -> None:
        self.size = 0
        self._limit = limit
        self._held = 0
        self._pieces: deque[bytes] = deque()

    @property
    def truncated(self) -> bool:
        """Whether the beginning is missing."""
        return self.size > self._held

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._pieces.append(piece)
        self.size += len(piece)
        self._held += len(piece)
        while self._held > self._limit:
            first = self._pieces.popleft()
            kept = first[min(len(first), self._held - self._limit) :]
            self._held -= len(first) - len(kept)
            if kept:
                self._pieces.appendleft(kept)

    def text(self) -> str:
        """The bytes as text; what is not UTF-8 is replaced."""
        return b"".join(self._pieces).decode("utf-8", "replace")


@dataclass(slots=True)
class Done:
    """What a command wrote and how it ended; None when its time was over."""

    stdout: Kept
    stderr: Kept
    exit_code: int | None = field(default=None)


async def run_to_end(
    running: RunningSandbox, spec: ExecSpec, seconds: float | None, limit: int
) -> Done:
    """Run a command; one that does not end in time, or whose caller goes away, is killed with all
    it started in its session.

    Args:
        limit: bytes of each output that are kept.
    """
    done = Done(Kept(limit), Kept(limit))
    command = await running.exec(spec)
    try:
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as pumps:
                pumps.start_soon(_keep, command.stdout, done.stdout)
                pumps.start_soon(_keep, command.stderr, done.stderr)
            done.exit_code = (await command.wait()).code
    finally:
        with anyio.move_on_after(_KILLED_SECONDS, shield=True):
            if command.exit is None:
                await command.signal(signal.SIGKILL)
            await command.aclose()
    return done


async def _keep(stream: OutputStream, kept: Kept) -> None:
    async for piece in stream:
        kept.add(piece)
