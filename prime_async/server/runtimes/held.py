"""A command that a holder keeps: the server reads and writes it, and another server after it."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from prime_async.server.runtimes.commands import Command, check_size, large_pipe, resize_refusal
from prime_async.server.runtimes.conversation import Answer, SpawnerError
from prime_async.server.runtimes.errors import (
    SandboxRuntimeError,
    StdinClosedError,
)
from prime_async.server.runtimes.protocol import TerminalSize
from prime_async.server.runtimes.spawner.messages import Message
from prime_async.server.runtimes.streams import PipeOutput, closed_output

__all__ = ["HeldCommand", "Talk"]

_FOREVER = 86_400.0 * 365
"""A command may take its time to read its input; whoever writes to it has a limit of his own."""


class Talk:
    """How a held command reaches its holder.

    Args:
        ask: sends a request with descriptors and waits so many seconds for the answer.
        post: sends something that is not answered.
    """

    def __init__(
        self, ask: Callable[..., Awaitable[Answer]], post: Callable[[Message], None]
    ) -> None:
        self.ask = ask
        self.post = post


class HeldOutput:
    """One output of a held command; see :class:`prime_async.server.runtimes.protocol.OutputStream`.

    Args:
        talk: to the holder.
        host_pid, stream: which command's, and which of its outputs.
    """

    def __init__(self, talk: Talk, host_pid: int, stream: int) -> None:
        self.dropped = 0
        self._talk = talk
        self._which = {"host_pid": host_pid, "stream": stream}
        self._pipe: PipeOutput | None = None
        self._at = 0

    def __aiter__(self) -> Any:
        return self._chunks()

    async def _chunks(self) -> Any:
        while data := await self.read():
            yield data

    async def resume(self, at: int | None = None) -> int:
        """Go on from an offset; return where it really goes on.

        When the holder was killed there is nothing more, and the command is lost.
        """
        self.detach()
        ours, theirs = large_pipe()
        os.set_blocking(ours, False)
        try:
            answer = await self._talk.ask({"op": "follow", **self._which, "at": at}, (theirs,))
        except SpawnerError:
            os.close(ours)
            self._pipe = closed_output()
            return self._at if at is None else at
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._at = int(answer.fields["at"])
        self._pipe = PipeOutput(ours)
        return self._at

    async def read(self, limit: int = 65536) -> bytes:
        """Return 1 to ``limit`` bytes, or nothing at the end."""
        if self._pipe is None:
            await self.resume()
        assert self._pipe is not None
        data = await self._pipe.read(limit)
        self._at += len(data)
        return data

    def detach(self) -> None:
        """Nobody listens: what was not read stays with the holder."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()
            self._talk.post({"op": "rest", **self._which, "at": self._at})

    def command_ended(self) -> None:
        """Its holder gives what it wrote and then ends the stream."""

    def leave(self) -> None:
        """Nobody will ever read again."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()


class HeldCommand(Command):
    """A command whose streams and end a holder keeps.

    Args:
        talk: to the holder.
        on_left: called when it is forgotten.
    """

    def __init__(
        self,
        talk: Talk,
        *,
        pid: int,
        host_pid: int,
        pty: bool,
        on_left: Callable[[], None],
    ) -> None:
        super().__init__(talk.ask, pid=pid, host_pid=host_pid)
        self.pty = pty
        self.stdout = HeldOutput(talk, host_pid, 0)
        self.stderr = closed_output() if pty else HeldOutput(talk, host_pid, 1)
        self._talk = talk
        self._on_left = on_left
        self._left = False

    async def write_stdin(self, data: bytes, key: str | None = None) -> None:
        """Write to its standard input; the holder writes what has the same key once."""
        memory = os.memfd_create("input", os.MFD_CLOEXEC)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(memory, view) :]
            await self._feed({"op": "write", "key": key, "size": len(data)}, (memory,))
        finally:
            os.close(memory)

    async def close_stdin(self) -> None:
        """End its standard input."""
        with suppress(StdinClosedError):
            await self._feed({"op": "finish"})

    async def _feed(self, request: Message, descriptors: Sequence[int] = ()) -> None:
        try:
            await self._talk.ask({**request, "host_pid": self.host_pid}, descriptors, _FOREVER)
        except SpawnerError as error:
            if error.errno in {errno.EPIPE, errno.ESRCH}:
                raise StdinClosedError("the command has no open standard input") from error
            raise

    async def resize(self, size: TerminalSize) -> None:
        """Give its terminal another size."""
        check_size(size)
        if not self.pty:
            raise resize_refusal()
        if self.running:
            await self._talk.ask(
                {"op": "resize", "host_pid": self.host_pid, "size": [size.cols, size.rows]}
            )

    async def aclose(self) -> None:
        """Kill it if it runs, and have it forgotten."""
        try:
            with suppress(SandboxRuntimeError):
                await super().aclose()
        finally:
            if not self._left:
                self._left = True
                self._talk.post({"op": "forget", "host_pid": self.host_pid})
                self._on_left()
