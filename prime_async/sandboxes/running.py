"""Running commands the ways users ask for: for the result, or line by line as it is written."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

from prime_async.sandboxes.command_stream import AsyncCommandStream
from prime_async.sandboxes.commands import Command, CommandOptions
from prime_async.sandboxes.gateway import Gateway
from prime_async.sandboxes.models import CommandResponse
from prime_async.sandboxes.output import OutputLine

__all__ = ["OnOutput", "execute", "open_stream"]

OnOutput = Callable[[OutputLine], Awaitable[None] | None]


@asynccontextmanager
async def open_stream(
    gateway: Gateway, sandbox_id: str, options: CommandOptions
) -> AsyncIterator[AsyncCommandStream]:
    """Give a command to be read, and end it when the block is left before it has ended."""
    stream = AsyncCommandStream(gateway, sandbox_id, options)
    try:
        yield stream
    finally:
        await stream.aclose()


async def execute(
    gateway: Gateway, sandbox_id: str, options: CommandOptions, output: OnOutput | None
) -> CommandResponse:
    """Run a command to its end, handing its lines on where asked to."""
    if output is None and not gateway.known_container(sandbox_id):
        command = Command(gateway, sandbox_id, options)
        if await command.run_grouped():
            return command.result()
    async with open_stream(gateway, sandbox_id, options) as stream:
        if output is None:
            async with aclosing(stream.outputs()) as outputs:
                async for _ in outputs:
                    pass
            return stream.result
        async for line in stream:
            answer = output(line)
            if inspect.isawaitable(answer):
                await answer
        return stream.result
