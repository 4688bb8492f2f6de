"""Every public call of the clients, with arguments that suit it, as the classes have them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from prime_async import (
    AsyncAPIClient,
    AsyncEvalsClient,
    AsyncImageClient,
    AsyncRunsClient,
    AsyncSandboxClient,
    AsyncTracesAPIClient,
    AsyncTracesClient,
    AsyncVolumes,
)
from tests.faces import Face
from tests.rules.arguments import arguments_of

__all__ = [
    "ALL_CALLS",
    "CALLS",
    "NO_DEADLINE",
    "PLATFORM_CALLS",
    "TOLD_INSIDE",
    "PublicCall",
    "clients",
]

NO_DEADLINE = {
    "aclose": "it waits for nobody: rule 1 shows what becomes of the calls under way",
    "connect": "it sends nothing; starting the embedded platform has limits of its own",
    "clear_auth_cache": "it sends nothing: it empties a file",
}
"""Public coroutines without ``timeout=``, and why."""

TOLD_INSIDE = {
    "get_error_context": "it is asked about a failure, which it must not hide: empty",
    "wait_background_jobs": "of many jobs, each has its own error",
    "as_completed": "as wait_background_jobs",
    "sync_pushes": "of what was kept, each push has its own problem",
}
"""Public calls that raise nothing when the platform refuses, and what they do instead."""

_BLOCK = "AbstractAsyncContextManager["


class PublicCall:
    """One method of one client.

    Attributes:
        kind: the class.
        owner: the class of the client, where that is another.
        name: of the method.
        takes_timeout: whether the caller can say how long.
    """

    def __init__(self, kind: type, name: str, parameters: frozenset[str]) -> None:
        self.kind = kind
        self.owner = AsyncSandboxClient if kind is AsyncVolumes else kind
        self.name = name
        self.takes_timeout = "timeout" in parameters
        self._parameters = parameters

    @property
    def of_traces(self) -> bool:
        """Whether all it raises is of the family that traces and runs have."""
        return self.kind in (AsyncRunsClient, AsyncTracesAPIClient, AsyncTracesClient)

    def __repr__(self) -> str:
        return f"{self.kind.__name__}.{self.name}"

    async def on(self, all_clients: Mapping[type, Any], **more: Any) -> Any:
        """Carry it out: an iterator is read to its end, a block is entered and left.

        Args:
            all_clients: one of each class; see :func:`clients`.
            more: arguments beside those it has anyway.
        """
        client = all_clients[self.owner]
        part = client.volumes if self.kind is AsyncVolumes else client
        given = arguments_of(repr(self), self._parameters) | more
        made = getattr(part, self.name)(**given)
        if hasattr(made, "__aenter__"):
            async with made as inside:
                return await _read(inside)
        return await (_read(made) if hasattr(made, "__aiter__") else made)


async def _read(source: Any) -> Any:
    """Read an iterator to its end; anything else is what it is."""
    return [item async for item in source] if hasattr(source, "__aiter__") else source


def _public_calls(kind: type) -> Iterator[PublicCall]:
    for name, member in inspect.getmembers(kind, inspect.isfunction):
        if name.startswith("_") or name in NO_DEADLINE or not _is_call(member):
            continue
        yield PublicCall(kind, name, frozenset(inspect.signature(member).parameters))


def _is_call(member: Any) -> bool:
    """Tell whether it sends something: a coroutine, an iteration, a block."""
    if inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member):
        return True
    return str(inspect.signature(member).return_annotation).startswith(_BLOCK)


CALLS = [*_public_calls(AsyncEvalsClient), *_public_calls(AsyncAPIClient)]
"""Of evaluations, and plain requests."""

PLATFORM_CALLS = [
    call
    for kind in (
        AsyncSandboxClient,
        AsyncVolumes,
        AsyncImageClient,
        AsyncTracesClient,
        AsyncTracesAPIClient,
        AsyncRunsClient,
    )
    for call in _public_calls(kind)
]
"""Of sandboxes, their background jobs, images, traces and runs that are read."""

ALL_CALLS = [*CALLS, *PLATFORM_CALLS]


@asynccontextmanager
async def clients(face: Face) -> AsyncIterator[Mapping[type, Any]]:
    """Give a client of each class, which all calls of a scenario share."""
    async with AsyncExitStack() as stack:
        kinds = dict.fromkeys(call.owner for call in ALL_CALLS)
        made = {kind: getattr(face, kind.__name__)() for kind in kinds}
        yield {kind: await stack.enter_async_context(client) for kind, client in made.items()}
