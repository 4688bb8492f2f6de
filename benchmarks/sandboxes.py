"""Many sandboxes and many commands: ours, the official async client, and bare aiohttp.

``tokens_3000``: the access to 3,000 sandboxes, from a server that hands it out at once; what each
client keeps on disk is written by the end. The official client writes its whole file per token,
so its time grows with the square of their number: it is measured once, the others three times.

``exec_100``: 100 commands at a time in four sandboxes of the embedded platform. The floor opens the
same Connect streams with aiohttp and counts their events: no deadline, no result, no clean-up.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from benchmarks import jobs
from benchmarks.files import reach
from benchmarks.harness import Contender, Figures, case, measured, race
from benchmarks.platform import Boxes, become_official
from benchmarks.server import Server

__all__ = ["run"]

TOKENS = 3000
COMMANDS = 100
BOXES = 4
_ROUNDS = 3
_COMMAND = "echo hello"


def run() -> dict[str, Any]:
    """Measure tokens, commands and background jobs."""
    with Server.start(features=True) as server:
        tokens = _tokens(server)
    with Boxes.start(BOXES) as boxes:
        contenders = [
            Contender(role, f"benchmarks.sandboxes:exec_{role}", boxes.arguments)
            for role in ("ours", "peer", "floor")
        ]
        commands = case(race(contenders, rounds=_ROUNDS))
    cases = {"tokens_3000": tokens, "exec_100": commands, **jobs.cases()}
    return {"name": "sandboxes", "cases": cases}


def _tokens(server: Server) -> dict[str, Any]:
    def contender(role: str) -> Contender:
        return Contender(role, f"benchmarks.sandboxes:tokens_{role}", {"count": TOKENS})

    raced = race([contender("ours"), contender("floor")], rounds=_ROUNDS, server=server)
    raced |= race([contender("peer")], rounds=1, server=server)
    for role, figures in raced.items():
        if figures["server_tokens"] != TOKENS:
            raise RuntimeError(f"{role}: {figures['server_tokens']:,.0f} tokens were handed out")
    return case(raced)


async def tokens_ours(url: str, count: int) -> Figures:
    """Contender: ours."""
    from prime_async.sandboxes import AsyncSandboxClient

    async with AsyncSandboxClient(api_key="bench", base_url=url) as client:
        tokens = client._gateway.tokens

        async def work() -> None:
            await asyncio.gather(*(tokens.get(f"box{number}") for number in range(count)))
            await tokens.flush()

        return await measured(work)


async def tokens_peer(url: str, count: int) -> Figures:
    """Contender: the official async client."""
    from prime_sandboxes import AsyncSandboxClient

    async with AsyncSandboxClient() as client:
        cache = client._auth_cache

        async def work() -> None:
            asked = (cache.get_or_refresh(f"box{number}") for number in range(count))
            await asyncio.gather(*asked)

        return await measured(work)


async def tokens_floor(url: str, count: int) -> Figures:
    """Contender: as many answers, read and forgotten."""
    headers = {"Authorization": "Bearer bench"}
    async with aiohttp.ClientSession(headers=headers) as session:

        async def ask(number: int) -> None:
            async with session.post(f"{url}/api/v1/sandbox/box{number}/auth") as response:
                await response.json()

        async def work() -> None:
            await asyncio.gather(*(ask(number) for number in range(count)))

        return await measured(work)


async def exec_ours(url: str, key: str, ids: list[str]) -> Figures:
    """Contender: ours."""
    from prime_async.sandboxes import AsyncSandboxClient

    async with AsyncSandboxClient(api_key=key, base_url=url) as client:
        return await _all_at_once(client, ids)


async def exec_peer(url: str, key: str, ids: list[str]) -> Figures:
    """Contender: the official async client."""
    become_official(url, key)
    from prime_sandboxes import AsyncSandboxClient

    async with AsyncSandboxClient() as client:
        return await _all_at_once(client, ids)


async def _all_at_once(client: Any, ids: list[str]) -> Figures:
    await asyncio.gather(*(client.execute_command(one, _COMMAND) for one in ids))

    async def work() -> None:
        results = await asyncio.gather(
            *(client.execute_command(ids[n % len(ids)], _COMMAND) for n in range(COMMANDS))
        )
        if any(result.stdout != "hello\n" or result.exit_code for result in results):
            raise RuntimeError("a command did not do what it was told")

    return await measured(work)


async def exec_floor(url: str, key: str, ids: list[str]) -> Figures:
    """Contender: the streams themselves."""
    from prime_async.connect import encode_envelope
    from prime_async.sandboxes.wire import CommandSpec, StartRequest

    message = StartRequest(CommandSpec("/bin/bash", ("-c", _COMMAND), {}, None, None), stdin=False)
    body = encode_envelope(message.encode())
    headers = {"Content-Type": "application/connect+proto", "connect-protocol-version": "1"}
    async with aiohttp.ClientSession() as session:
        reached = [(await reach(session, url, key, one), dict(session.headers)) for one in ids]

        async def start(number: int) -> None:
            base, token = reached[number % len(reached)]
            where = f"{base}/command_session.CommandSession/Start"
            async with session.post(where, data=body, headers=headers | token) as response:
                if b"hello\n" not in await response.read():
                    raise RuntimeError("a command did not do what it was told")

        async def work() -> None:
            await asyncio.gather(*(start(number) for number in range(COMMANDS)))

        return await measured(work)
