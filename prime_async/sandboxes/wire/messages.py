"""Typed messages of the service; each can be encoded and decoded by either end.

``decode`` and ``encode`` raise :class:`~prime_async.errors.ProtocolError` for bytes that are not
the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from prime_async.sandboxes.wire.events import (
    Received,
    fill_received,
    parsed,
    presence,
    read_received,
)
from prime_async.sandboxes.wire.schema import message_class

__all__ = [
    "CloseStdinRequest",
    "CommandSpec",
    "ConnectRequest",
    "ListResponse",
    "SendInputRequest",
    "SendSignalRequest",
    "Session",
    "SessionInfo",
    "StartManyRequest",
    "StartRequest",
    "TerminalSize",
    "TimedStart",
    "UpdateRequest",
]


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """Size of a terminal in characters."""

    cols: int
    rows: int


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """What to run: a program with its arguments; None for ``cwd`` and ``user`` means the sandbox's
    own.
    """

    cmd: str
    args: tuple[str, ...] = ()
    envs: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """Names a running command: by the id its starter chose, or by its process id in the sandbox."""

    session_uuid: str | None = None
    pid: int | None = None


class _Encodable:
    """A request of the service."""

    __slots__ = ()

    def encode(self) -> bytes:
        """Return the bytes of the wire."""
        message: Any = message_class(type(self).__name__)()
        self._fill(message)
        encoded: bytes = message.SerializeToString()
        return encoded

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the bytes of the wire.

        Raises:
            ProtocolError: they are not this message.
        """
        return cls._read(parsed(cls.__name__, data))

    def _fill(self, message: Any) -> None:
        raise NotImplementedError

    @classmethod
    def _read(cls, message: Any) -> Self:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StartRequest(_Encodable):
    """Start a command.

    Attributes:
        pty: run it on a terminal of this size.
        stdin: whether it gets input; None leaves it to the service.
        session_uuid: chosen by the caller; a second start with the same id attaches to the first.
    """

    command: CommandSpec
    pty: TerminalSize | None = None
    stdin: bool | None = None
    session_uuid: str | None = None

    def _fill(self, message: Any) -> None:
        _fill_command(message.command, self.command)
        if self.pty is not None:
            _fill_size(message.pty, self.pty)
        if self.stdin is not None:
            message.stdin = self.stdin
        if self.session_uuid is not None:
            message.session_uuid = self.session_uuid

    @classmethod
    def _read(cls, message: Any) -> Self:
        return cls(
            _read_command(message.command),
            _read_size(message),
            message.stdin if message.HasField("stdin") else None,
            presence(message, "session_uuid"),
        )


@dataclass(frozen=True, slots=True)
class TimedStart:
    """One of several commands, and the milliseconds it may take; None for no limit."""

    start: StartRequest
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StartManyRequest(_Encodable):
    """Start several commands, each with a session id of its own; they are numbered from 0."""

    commands: tuple[TimedStart, ...]

    def _fill(self, message: Any) -> None:
        for command in self.commands:
            made = message.commands.add()
            command.start._fill(made.start)
            if command.timeout_ms is not None:
                made.timeout_ms = command.timeout_ms

    @classmethod
    def _read(cls, message: Any) -> Self:
        return cls(
            tuple(
                TimedStart(
                    StartRequest._read(made.start),
                    made.timeout_ms if made.HasField("timeout_ms") else None,
                )
                for made in message.commands
            )
        )


@dataclass(frozen=True, slots=True)
class ConnectRequest(_Encodable):
    """Attach to a running command.

    Attributes:
        received: what of its outputs is not to be sent again; None leaves that to the service.
    """

    session: Session
    received: Received | None = None

    def _fill(self, message: Any) -> None:
        _fill_session(message, self.session)
        if self.received is not None:
            fill_received(message.received, self.received)

    @classmethod
    def _read(cls, message: Any) -> Self:
        return cls(_read_session(message), read_received(message, "received"))


@dataclass(frozen=True, slots=True)
class SendInputRequest(_Encodable):
    """Write to a command's input.

    Attributes:
        pty: the bytes are typed on its terminal, not written to a pipe.
        input_uuid: the service takes an input with the same id once.
    """

    session: Session
    data: bytes
    pty: bool = False
    input_uuid: str | None = None

    def _fill(self, message: Any) -> None:
        _fill_session(message, self.session)
        setattr(message.input, "pty" if self.pty else "stdin", self.data)
        if self.input_uuid is not None:
            message.input_uuid = self.input_uuid

    @classmethod
    def _read(cls, message: Any) -> Self:
        kind = message.input.WhichOneof("input")
        data = getattr(message.input, kind) if kind else b""
        return cls(_read_session(message), data, kind == "pty", presence(message, "input_uuid"))


@dataclass(frozen=True, slots=True)
class SendSignalRequest(_Encodable):
    """Send a signal to a command and what it started.

    Attributes:
        signal: its number; the official service knows 9 and 15.
        signal_uuid: the service sends a signal with the same id once.
    """

    session: Session
    signal: int
    signal_uuid: str | None = None

    def _fill(self, message: Any) -> None:
        _fill_session(message, self.session)
        message.signal = self.signal
        if self.signal_uuid is not None:
            message.signal_uuid = self.signal_uuid

    @classmethod
    def _read(cls, message: Any) -> Self:
        return cls(_read_session(message), message.signal, presence(message, "signal_uuid"))


@dataclass(frozen=True, slots=True)
class UpdateRequest(_Encodable):
    """Give a command's terminal another size."""

    session: Session
    pty: TerminalSize | None = None

    def _fill(self, message: Any) -> None:
        _fill_session(message, self.session)
        if self.pty is not None:
            _fill_size(message.pty, self.pty)

    @classmethod
    def _read(cls, message: Any) -> Self:
        return cls(_read_session(message), _read_size(message))


@dataclass(frozen=True, slots=True)
class CloseStdinRequest(_Encodable):
    """Say that no more input comes."""

    session: Session

    def _fill(self, message: Any) -> None:
        _fill_session(message, self.session)

    @classmethod
    def _read(cls, message: Any) -> Self:
        return cls(_read_session(message))


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A command that runs."""

    command: CommandSpec
    pid: int
    session_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class ListResponse(_Encodable):
    """The commands that run in a sandbox."""

    sessions: tuple[SessionInfo, ...] = ()

    def _fill(self, message: Any) -> None:
        for session in self.sessions:
            made = message.sessions.add(pid=session.pid)
            _fill_command(made.command, session.command)
            if session.session_uuid is not None:
                made.session_uuid = session.session_uuid

    @classmethod
    def _read(cls, message: Any) -> Self:
        return cls(
            tuple(
                SessionInfo(_read_command(made.command), made.pid, presence(made, "session_uuid"))
                for made in message.sessions
            )
        )


def _fill_command(message: Any, command: CommandSpec) -> None:
    message.cmd = command.cmd
    message.args.extend(command.args)
    message.envs.update(command.envs)
    if command.cwd is not None:
        message.cwd = command.cwd
    if command.user is not None:
        message.user = command.user


def _read_command(message: Any) -> CommandSpec:
    return CommandSpec(
        message.cmd,
        tuple(message.args),
        dict(message.envs),
        presence(message, "cwd"),
        presence(message, "user"),
    )


def _fill_size(message: Any, size: TerminalSize) -> None:
    message.size.cols, message.size.rows = size.cols, size.rows


def _read_size(message: Any) -> TerminalSize | None:
    if not message.HasField("pty"):
        return None
    return TerminalSize(message.pty.size.cols, message.pty.size.rows)


def _fill_session(message: Any, session: Session) -> None:
    if session.session_uuid is not None:
        message.session.session_uuid = session.session_uuid
    elif session.pid is not None:
        message.session.pid = session.pid


def _read_session(message: Any) -> Session:
    match message.session.WhichOneof("selector"):
        case "session_uuid":
            return Session(session_uuid=message.session.session_uuid)
        case "pid":
            return Session(pid=message.session.pid)
        case _:
            return Session()
