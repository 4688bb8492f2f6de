"""One scenario, both faces: written once as async code, run through the async client and the sync.

    from tests.faces import Face, both_faces

    @both_faces
    async def test_round_trip(face: Face, stub: Stub) -> None:
        async with face.AsyncEvalsClient("key", base_url=stub.url) as client:
            evaluation = await client.create_evaluation("n", dataset="d")
            async for sample in client.iter_samples(evaluation["evaluation_id"]):
                ...

``face.NAME`` is the class or function ``NAME`` of ``prime_async``. On the sync face it gives an
object with the same async methods that carries each call out on the generated sync client, in a
worker thread: the loop of the test, where a stub or platform may run, stays free. Use
``face.name`` ("async" or "sync") where an expectation differs, and pass objects of the face only
to the same face. Cancelling is not for both faces: a sync call is ended by Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Self

import pytest

import prime_async
import prime_sync
from prime_sync import CloseableIterator

__all__ = ["Face", "awaited", "both_faces"]

_RENAMED = {"aclose": "close"}
_END = object()


class Face:
    """The async names of one face."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if self.name == "async":
            return getattr(prime_async, name)
        sync = getattr(prime_sync, name.removeprefix("Async"))
        return functools.partial(_make, sync) if inspect.isclass(sync) else awaited(sync)


both_faces = pytest.mark.parametrize("face", [Face("async"), Face("sync")], ids=["async", "sync"])
"""Runs a test twice; its parameter is ``face``."""


class _Awaited:
    """A sync client behind the methods of its async twin."""

    def __init__(self, sync: Any) -> None:
        self._sync = sync

    def __getattr__(self, name: str) -> Any:
        return _adapted(getattr(self._sync, _RENAMED.get(name, name)))

    def __repr__(self) -> str:
        return f"awaited {self._sync!r}"

    def __aiter__(self) -> AsyncIterator[Any]:
        return _iterate(iter(self._sync))

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._sync.__enter__)
        return self

    async def __aexit__(self, *exc_info: object) -> Any:
        return await asyncio.to_thread(self._sync.__exit__, *exc_info)


def _make(sync: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return _adapted(sync(*map(_plain, args), **{k: _plain(v) for k, v in options.items()}))


def _plain(value: Any) -> Any:
    return value._sync if isinstance(value, _Awaited) else value


def _adapted(value: Any) -> Any:
    """Give what came from the sync face the form it has on the async one."""
    if inspect.ismethod(value):
        return awaited(value)
    if isinstance(value, CloseableIterator):
        return _iterate(value)
    if isinstance(value, list):
        return [_adapted(item) for item in value]
    return _Awaited(value) if hasattr(type(value), "_from_async") else value


def awaited(sync: Callable[..., Any]) -> Callable[..., Any]:
    """Make the async form of a sync method; its annotation tells which form that is."""
    returns = str(inspect.signature(sync).return_annotation)

    def call(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return sync(*map(_plain, args), **{k: _plain(v) for k, v in options.items()})

    if returns.startswith("CloseableIterator["):
        return lambda *args, **options: _iterate(call(args, options))
    if returns.startswith("AbstractContextManager["):
        return lambda *args, **options: _enter(call(args, options))

    async def carried_out(*args: Any, **options: Any) -> Any:
        return _adapted(await asyncio.to_thread(call, args, options))

    return carried_out


async def _iterate(source: CloseableIterator[Any]) -> AsyncIterator[Any]:
    try:
        while (item := await asyncio.to_thread(next, source, _END)) is not _END:
            yield item
    finally:
        await asyncio.to_thread(source.close)


def _enter(block: AbstractContextManager[Any]) -> AbstractAsyncContextManager[Any]:
    @contextlib.asynccontextmanager
    async def entered() -> AsyncIterator[Any]:
        value = await asyncio.to_thread(block.__enter__)
        try:
            yield _adapted(value)
        except BaseException as error:
            if not await asyncio.to_thread(block.__exit__, type(error), error, error.__traceback__):
                raise
        else:
            await asyncio.to_thread(block.__exit__, None, None, None)

    return entered()
