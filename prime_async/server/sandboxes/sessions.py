"""The commands of one sandbox: started once per session id, followed by one client at a time, kept
for a while after their end.
"""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import anyio

from prime_async.connect import Code
from prime_async.sandboxes.wire import Ended, SessionInfo, StartRequest
from prime_async.sandboxes.wire import Session as Selector
from prime_async.server.failures import RequestError
from prime_async.server.runtimes.errors import StdinClosedError
from prime_async.server.runtimes.protocol import (
    CommandExit,
    ExecSpec,
    RunningCommand,
    RunningSandbox,
    TerminalSize,
)
from prime_async.server.sandboxes.refusals import refusal
from prime_async.server.tasks import Tasks

__all__ = ["Session", "Sessions"]

T = TypeVar("T")

RETAINED_SECONDS = 600.0
"""How long the end of a command is told to who asks for its session."""

KILLED_SECONDS = 5.0
"""How long a killed command may take to be gone."""

DOOM_SECONDS = 0.5
"""How long the end of the sandbox is waited for when a command was killed, to tell why."""

_RETAINED = 32
_TOGETHER = 16
"""How many ends too many there are before some are forgotten, in one go."""

_REMEMBERED = 1024


@dataclass(slots=True)
class _Attachment:
    """The stream that reads a session's output now."""

    scope: anyio.CancelScope
    gone: asyncio.Event
    replaced: bool = False


class Session:
    """One command.

    Attributes:
        request: what was asked for; a second start with the same id must ask for the same.
        command: the running command.
        end: how it ended, None while it runs.
        late: it was killed because its time was over; killed: because somebody asked for it.
        finished: set once ``end`` is known.
        limit: ends it when its time is over.
    """

    def __init__(self, request: StartRequest, command: RunningCommand) -> None:
        self.request = request
        self.command = command
        self.end: Ended | None = None
        self.late = False
        self.killed = False
        self.finished = asyncio.Event()
        self.limit: asyncio.TimerHandle | None = None
        self._attached: _Attachment | None = None
        self._done: OrderedDict[str, asyncio.Future[None]] = OrderedDict()

    @property
    def uuid(self) -> str | None:
        """The id its starter chose, or None."""
        return self.request.session_uuid

    @property
    def followed(self) -> bool:
        """Whether a client reads its output now."""
        return self._attached is not None

    @contextmanager
    def attach(self, attachment: _Attachment) -> Iterator[_Attachment]:
        """Read the output for a block; afterwards its newest part is kept for the next one."""
        self._attached = attachment
        try:
            yield attachment
        finally:
            attachment.gone.set()
            if self._attached is attachment:
                self._attached = None
                self.command.stdout.detach()
                self.command.stderr.detach()

    async def take(self) -> _Attachment:
        """Become the one that reads the output; who read it until now is cut off."""
        while (other := self._attached) is not None:
            other.replaced = True
            other.scope.cancel()
            await other.gone.wait()
        return _Attachment(anyio.CancelScope(), asyncio.Event())

    def let_go(self) -> None:
        """End the stream that is read now."""
        if self._attached is not None:
            self._attached.scope.cancel()

    async def once(self, key: str | None, action: Callable[[], Awaitable[object]]) -> None:
        """Do something, at most once for a key; a repetition shares the outcome of the first."""
        if key is None:
            await action()
            return
        known = self._done.get(key)
        if known is not None:
            await asyncio.shield(known)
            return
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._done[key] = outcome
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
        try:
            await action()
        except BaseException as error:
            # What was not done may be tried again under the same key.
            self._done.pop(key, None)
            if isinstance(error, Exception):
                outcome.set_exception(error)
                outcome.exception()
            else:
                outcome.cancel()
            raise
        outcome.set_result(None)

    async def write(self, data: bytes, key: str | None) -> None:
        """Write to its input.

        Raises:
            RequestError: ``failed_precondition``, it reads none.
        """
        try:
            await self.once(key, lambda: self.command.write_stdin(data))
        except StdinClosedError as error:
            raise refusal(Code.FAILED_PRECONDITION, error.message) from error

    async def signal(self, number: int, key: str | None) -> None:
        """Send a signal to its group; one that has ended gets none."""
        if self.end is None:
            self.killed = self.killed or number == signal.SIGKILL
            await self.once(key, lambda: self.command.signal(number))

    async def kill(self) -> None:
        """End it and all it started in its session, and let go of it."""
        if self.end is not None:
            await self.command.aclose()
            return
        with anyio.move_on_after(KILLED_SECONDS, shield=True):
            self.killed = True
            await self.command.signal(signal.SIGKILL)
            await self.command.aclose()

    def info(self) -> SessionInfo:
        """Its line in a list."""
        return SessionInfo(self.request.command, self.command.pid, self.uuid)


class Sessions:
    """All commands of a sandbox.

    Args:
        running: the sandbox.
        tasks: where their ends are waited for.
        limit: how many may run at a time.
    """

    def __init__(self, running: RunningSandbox, tasks: Tasks, limit: int) -> None:
        self._running = running
        self._tasks = tasks
        self._limit = limit
        self._open: set[Session] = set()
        self._named: OrderedDict[str, Session] = OrderedDict()
        self._starting: dict[str, asyncio.Event] = {}
        self._kept: deque[tuple[float, Session]] = deque()

    @property
    def count(self) -> int:
        """How many run."""
        return sum(session.end is None for session in self._open)

    async def start(self, request: StartRequest, seconds: float | None) -> Session:
        """Start a command, or find the one that was started under the same id.

        Raises:
            RequestError: ``failed_precondition``, the id stands for another command;
                ``resource_exhausted``, too many run.
            CommandRefusedError, SandboxEndedError: as the runtime says.
        """
        uuid = request.session_uuid
        if uuid is None:
            return await self._start(request, seconds)
        while (busy := self._starting.get(uuid)) is not None:
            await busy.wait()
        known = self._named.get(uuid)
        if known is not None:
            if known.request != request:
                raise refusal(
                    Code.FAILED_PRECONDITION, f"session {uuid} was started with another command"
                )
            return known
        busy = self._starting[uuid] = asyncio.Event()
        try:
            session = await self._start(request, seconds)
            self._named[uuid] = session
            return session
        finally:
            del self._starting[uuid]
            busy.set()

    async def _start(self, request: StartRequest, seconds: float | None) -> Session:
        if self.count >= self._limit:
            raise refusal(
                Code.RESOURCE_EXHAUSTED, f"{self._limit} commands run in this sandbox already"
            )
        command = await self._running.exec(exec_spec(request))
        session = Session(request, command)
        self._open.add(session)
        command.on_end(lambda: self._ended(session))
        if seconds is not None:
            loop = asyncio.get_running_loop()
            session.limit = loop.call_later(seconds, self._in_background, self._expire, session)
        return session

    def find(self, selector: Selector) -> Session:
        """The session a request names.

        Raises:
            RequestError: ``not_found``.
        """
        if selector.session_uuid is not None:
            found = self._named.get(selector.session_uuid)
        else:
            pid = selector.pid
            found = next((one for one in self._running_now() if one.command.pid == pid), None)
        if found is None:
            name = selector.session_uuid or selector.pid
            raise refusal(Code.NOT_FOUND, f"no session {name} in this sandbox")
        return found

    def list(self) -> tuple[SessionInfo, ...]:
        """The commands that run."""
        return tuple(session.info() for session in self._running_now())

    async def discard(self, session: Session) -> None:
        """Forget a command that nobody can ask for any more; it is killed if it runs."""
        self._open.discard(session)
        if session.limit is not None:
            session.limit.cancel()
        await session.kill()

    def cut(self) -> None:
        """End the streams that are read now; commands with an id go on without them."""
        for session in self._open:
            session.let_go()

    async def close(self) -> None:
        """Let go of everything; what still runs is killed."""
        for session in list(self._open):
            await self.discard(session)
        self._named.clear()
        self._kept.clear()

    def _running_now(self) -> Iterator[Session]:
        return (session for session in self._open if session.end is None)

    def _in_background(self, work: Callable[[T], Awaitable[None]], what: T) -> None:
        """Do something for which nobody waits; a platform that ends does it by itself."""
        with suppress(RequestError):
            self._tasks.start(work, what)

    async def _expire(self, session: Session) -> None:
        """Its time is over."""
        session.late = True
        await session.command.signal(signal.SIGKILL)
        with anyio.move_on_after(KILLED_SECONDS) as patience:
            await session.finished.wait()
        if patience.cancelled_caught:
            self._settle(session)

    def _ended(self, session: Session) -> None:
        exit_ = session.command.exit
        unasked = not (session.late or session.killed)
        if exit_ is None or (exit_.signal == signal.SIGKILL and unasked):
            self._in_background(self._explain, session)
        else:
            self._settle(session)

    async def _explain(self, session: Session) -> None:
        """A sandbox that ends kills its commands first: its end is the better answer."""
        with anyio.move_on_after(DOOM_SECONDS):
            await self._running.ended()
        self._settle(session)

    def _settle(self, session: Session) -> None:
        """Say how it ended; keep that for a while if its starter may ask again."""
        if session.limit is not None:
            session.limit.cancel()
        if session.end is not None:
            return
        session.end = ended_event(session.command.exit)
        session.finished.set()
        if session.uuid is not None:
            self._kept.append((time.monotonic() + RETAINED_SECONDS, session))
            self._let_go()

    def _let_go(self) -> None:
        """Forget ends that were kept long enough; the oldest go first when there are many."""
        now = time.monotonic()
        keep = _RETAINED if len(self._kept) >= _RETAINED + _TOGETHER else math.inf
        gone: deque[Session] = deque()
        while self._kept and (len(self._kept) > keep or self._kept[0][0] <= now):
            gone.append(self._kept.popleft()[1])
        if gone:
            self._in_background(self._drop, gone)

    async def _drop(self, sessions: Sequence[Session]) -> None:
        for session in sessions:
            if session.uuid is not None and self._named.get(session.uuid) is session:
                del self._named[session.uuid]
            await self.discard(session)


def exec_spec(request: StartRequest) -> ExecSpec:
    """A command of the wire in the runtime's words."""
    command = request.command
    pty = request.pty
    return ExecSpec(
        argv=(command.cmd, *command.args),
        environment=command.envs,
        working_dir=command.cwd,
        user=command.user,
        stdin=bool(request.stdin),
        pty=None if pty is None else TerminalSize(pty.cols or 80, pty.rows or 24),
    )


def ended_event(exit_: CommandExit | None) -> Ended:
    """The last event of a command; None is one of which nobody can tell."""
    if exit_ is None:
        return Ended(-1, exited=False, status="lost", error="nobody can tell how it ended")
    if exit_.signal is None:
        return Ended(exit_.code, status=f"exit status {exit_.code}")
    return Ended(exit_.code, exited=False, status=f"signal: {_signal_name(exit_.signal)}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
