"""Commands that are started at the same time in one sandbox go in one request.

A hundred calls under one ``gather`` would be a hundred requests on as many connections, most of
whose cost is HTTP. Here the calls of one turn of the event loop are put together per sandbox, where
the platform announces that it knows such requests; their events come back over one stream. Only
commands whose output is gathered take part: what they write is taken as it comes, so that none of
them can hold up the others.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prime_async.connect import Failure
from prime_async.errors import APIConnectionError, APIError, PrimeError, ProtocolError
from prime_async.sandboxes.background import Background
from prime_async.sandboxes.rpc import AnswerStream, error_of
from prime_async.sandboxes.wire import (
    Ended,
    Event,
    NumberedEvent,
    Rpc,
    StartManyRequest,
    StartRequest,
    TimedStart,
    decode_events,
)

if TYPE_CHECKING:
    from prime_async.sandboxes.gateway import Gateway, Link

__all__ = ["START_MANY", "Groups"]

START_MANY = "start-many"
"""Feature of platforms that start several commands by one request."""

_MOST = 64
"""Commands in one request."""

_LONGEST_MS = 2**32 - 1


@dataclass(slots=True, eq=False)
class _Member:
    """One command of a group; ``done`` says whether it was carried out here."""

    start: StartRequest
    seconds: float
    sent: Callable[[], None]
    take: Callable[[Event], object]
    done: asyncio.Future[bool]

    def timed(self) -> TimedStart:
        if math.isinf(self.seconds):
            return TimedStart(self.start)
        return TimedStart(self.start, min(max(1, math.ceil(self.seconds * 1000)), _LONGEST_MS))

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class Groups:
    """Puts commands together.

    Args:
        gateway: the way to the sandboxes.
        background: owns the tasks that read the answers.
    """

    def __init__(self, gateway: Gateway, background: Background) -> None:
        self._gateway = gateway
        self._background = background
        self._waiting: dict[str, list[_Member]] = {}
        self._numbers = itertools.count()

    async def run(
        self,
        sandbox_id: str,
        start: StartRequest,
        seconds: float,
        sent: Callable[[], None],
        take: Callable[[Event], object],
    ) -> bool:
        """Run a command together with others; False when it was not started and has to go alone.

        Args:
            start: with a session id.
            seconds: how long it may take; infinity is no limit.
            sent: called when it is about to be sent.
            take: called with each of its events.

        Raises:
            APIError: it failed, or the answer broke off.
        """
        if not self._gateway.knows(START_MANY):
            return False
        loop = asyncio.get_running_loop()
        member = _Member(start, seconds, sent, take, loop.create_future())
        waiting = self._waiting.get(sandbox_id)
        if waiting is None:
            waiting = self._waiting[sandbox_id] = []
            loop.call_soon(self._depart, sandbox_id)
        waiting.append(member)
        return await member.done

    def _depart(self, sandbox_id: str) -> None:
        members = [one for one in self._waiting.pop(sandbox_id) if not one.done.done()]
        if len(members) == 1:
            members[0].done.set_result(False)
            return
        for first in range(0, len(members), _MOST):
            group = _Group(self._gateway, sandbox_id, members[first : first + _MOST])
            self._background.run(f"commands {next(self._numbers)}", group.run)


class _Group:
    """The commands of one request."""

    def __init__(self, gateway: Gateway, sandbox_id: str, members: list[_Member]) -> None:
        self._gateway = gateway
        self._sandbox_id = sandbox_id
        self._members = members
        self._left = len(members)

    async def run(self) -> None:
        """Send it and give every command its events, until the last one has ended."""
        error: Exception = ProtocolError("the output of a command stopped without its exit code")
        try:
            stream = await self._open()
            if stream is None:
                return
            try:
                while self._left and (event := await self._next(stream)) is not None:
                    self._give(event)
            finally:
                await stream.aclose()
        except PrimeError as broken:
            error = broken
        finally:
            for member in self._members:
                member.fail(_broken_off(error))

    async def _open(self) -> AnswerStream[NumberedEvent] | None:
        """Send the request; when it was refused every command goes alone and is told why itself."""
        message = StartManyRequest(tuple(one.timed() for one in self._members)).encode()

        async def send(link: Link) -> AnswerStream[NumberedEvent]:
            stream = AnswerStream(
                link, Rpc.START_MANY, message, decode_events, None, repeatable=False
            )
            for member in self._members:
                member.sent()
            await stream.open()
            return stream

        try:
            return await self._gateway.call(self._sandbox_id, send)
        except PrimeError as error:
            if isinstance(error, APIError) and error.ambiguous:
                raise
            for member in self._members:
                if not member.done.done():
                    member.done.set_result(False)
            return None

    async def _next(self, stream: AnswerStream[NumberedEvent]) -> NumberedEvent | None:
        return stream.take() or await stream.next()

    def _give(self, numbered: NumberedEvent) -> None:
        number, event = numbered
        if number >= len(self._members):
            raise ProtocolError(f"the answer speaks of command {number}, which was not sent")
        member = self._members[number]
        if isinstance(event, Failure):
            self._left -= 1
            member.fail(error_of(Rpc.START, event))
            return
        if not member.done.done():
            member.take(event)
        if isinstance(event, Ended):
            self._left -= 1
            if not member.done.done():
                member.done.set_result(True)


def _broken_off(error: Exception) -> APIError:
    """An error of one command's own: what is added to it must not show in the others'."""
    made = APIConnectionError(
        str(error), method="POST", ambiguous=True, hint="it may have been carried out"
    )
    made.__cause__ = error
    return made
