"""Calls of the command-session service: one message each way, or a stream of events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

from prime_async.connect import (
    STREAM_TYPE,
    UNARY_TYPE,
    Code,
    Decoder,
    Failure,
    decode_end,
    encode_envelope,
    failure_of_answer,
    stream_headers,
    unary_headers,
)
from prime_async.errors import APIError, ProtocolError, error_class_for_status
from prime_async.sandboxes.wire import Event, KeepAlive, Rpc, decode_event, rpc_path
from prime_async.transport import BytesBody, Replay, StreamedResponse

if TYPE_CHECKING:
    from prime_async.sandboxes.gateway import Gateway, Link

__all__ = ["AnswerStream", "EventStream", "code_of", "error_of", "unary"]

IDLE_SECONDS = 300.0
"""Silence after which a stream of events counts as dead; gateways send a sign of life earlier."""

_DRAIN_SECONDS = 1.0
_RETRYABLE = (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED)


def code_of(error: BaseException | None) -> Code | None:
    """Say which code an error stands for; None when it is no answer of the service."""
    if not isinstance(error, APIError) or error.status is None:
        return None
    try:
        return Code(error.code or "")
    except ValueError:
        return failure_of_answer(error.status, b"").code


async def unary(
    gateway: Gateway, sandbox_id: str, rpc: Rpc, message: bytes, *, timeout: float
) -> bytes:
    """Send one message and return the answer's; safe to repeat, since every message that must not
    be carried out twice has an id of its own.

    Raises:
        APIError: with the service's code as ``code``.
    """

    async def send(link: Link) -> bytes:
        response = await link.transport.request(
            "POST",
            link.path + rpc_path(rpc),
            body=BytesBody(message, UNARY_TYPE),
            headers={**link.headers, **unary_headers(timeout)},
            timeout=timeout,
            replay=Replay.SAFE,
        )
        return response.body

    return await gateway.call(sandbox_id, send)


Item = TypeVar("Item")


class AnswerStream(Generic[Item]):
    """The streamed answer to one call, item by item.

    Args:
        link: the way to the sandbox.
        rpc: the call.
        message: the encoded request.
        decode: reads what one message of the answer holds.
        seconds: when the service must end it; sent as a header.
        repeatable: the request may be sent again before the answer begins.
    """

    def __init__(
        self,
        link: Link,
        rpc: Rpc,
        message: bytes,
        decode: Callable[[bytes], Iterable[Item]],
        seconds: float | None,
        *,
        repeatable: bool,
    ) -> None:
        self._link = link
        self._rpc = rpc
        self._message = message
        self._decode = decode
        self._seconds = seconds
        self._repeatable = repeatable
        self._opened: AbstractAsyncContextManager[StreamedResponse] | None = None
        self._response: StreamedResponse
        self._decoder: Decoder
        self._events: deque[Item] = deque()
        self._failure: APIError | None = None
        self._ended = False

    async def open(self) -> None:
        """Send the request and wait for the first event, so that a refusal is told here.

        Raises:
            APIError: as the transport does.
        """
        opened = self._link.transport.stream(
            "POST",
            self._link.path + rpc_path(self._rpc),
            body=BytesBody(encode_envelope(self._message), STREAM_TYPE),
            headers={**self._link.headers, **stream_headers(self._seconds)},
            idle_timeout=IDLE_SECONDS,
            replay=Replay.SAFE if self._repeatable else Replay.NEVER,
        )
        self._response = await opened.__aenter__()
        self._opened = opened
        kind = self._response.headers.get("Content-Type", "")
        if kind.partition(";")[0].strip() != STREAM_TYPE:
            await self.aclose()
            raise self._protocol_error(f"the answer is {kind or 'of no type'}, not {STREAM_TYPE}")
        encoding = self._response.headers.get("connect-content-encoding", "identity")
        self._decoder = Decoder(encoding=encoding)
        try:
            await self._fill()
        except BaseException:
            await self.aclose()
            raise

    def take(self) -> Item | None:
        """Return the next event if it is here already; never waits."""
        return self._events.popleft() if self._events else None

    async def next(self) -> Item | None:
        """Return the next event; None after the last one.

        Raises:
            APIError: the service reports a failure, or the stream broke off.
        """
        await self._fill()
        return self._events.popleft() if self._events else None

    async def _fill(self) -> None:
        """Wait until an event is there, or the end."""
        while not self._events and not self._ended:
            piece = await self._response.next_piece()
            if piece:
                self._take(piece)
            else:
                self._decoder.finish()
                self._ended = True
        if not self._events and self._failure is not None:
            raise self._failure

    async def aclose(self) -> None:
        """Let the stream go; what has not been read is lost."""
        opened, self._opened = self._opened, None
        if opened is not None:
            if self._ended and not self._response.at_end:
                # Read to its very end the connection can be used again.
                with anyio.move_on_after(_DRAIN_SECONDS):
                    await self._response.next_piece()
            await opened.__aexit__(None, None, None)

    def _take(self, piece: bytes) -> None:
        for frame in self._decoder.feed(piece):
            if frame.end:
                failure = decode_end(frame.data)
                self._failure = None if failure is None else error_of(self._rpc, failure)
                self._ended = True
                break
            self._events.extend(self._decode(frame.data))

    def _protocol_error(self, what: str) -> ProtocolError:
        return ProtocolError(f"{self._rpc.value}: {what}", status=200, method="POST")


class EventStream(AnswerStream[Event]):
    """The answer to ``Start`` or ``Connect``, event by event; signs of life are left out."""

    def __init__(
        self, link: Link, rpc: Rpc, message: bytes, seconds: float | None, *, repeatable: bool
    ) -> None:
        super().__init__(link, rpc, message, _events, seconds, repeatable=repeatable)


def _events(data: bytes) -> tuple[Event, ...]:
    event = decode_event(data)
    return () if event is None or isinstance(event, KeepAlive) else (event,)


def error_of(rpc: Rpc, failure: Failure) -> APIError:
    """Make the error for what the service says went wrong."""
    kind = error_class_for_status(failure.code.status)
    return kind(
        f"{rpc.value} failed ({failure.code.value}): {failure.message}",
        status=failure.code.status,
        code=failure.code.value,
        detail=list(failure.details) or failure.message,
        method="POST",
        retryable=failure.code in _RETRYABLE,
    )
