"""Commands in a sandbox: the CommandSession service (Connect), and REST exec for containers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import anyio
import msgspec
from aiohttp import web
from anyio import to_thread
from msgspec import Meta, Struct

from prime_async.connect import (
    STREAM_TYPE,
    TIMEOUT_HEADER,
    UNARY_TYPE,
    Code,
    Decoder,
    parse_timeout,
)
from prime_async.errors import ProtocolError
from prime_async.sandboxes.models import CommandResponse
from prime_async.sandboxes.wire import (
    SERVICE,
    CloseStdinRequest,
    ConnectRequest,
    ListResponse,
    Rpc,
    SendInputRequest,
    SendSignalRequest,
    StartManyRequest,
    StartRequest,
    UpdateRequest,
)
from prime_async.server.answers import Answer
from prime_async.server.decoding import decode_body
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.runtimes.protocol import ExecSpec, TerminalSize
from prime_async.server.sandboxes.collecting import run_to_end
from prime_async.server.sandboxes.fleet import Live
from prime_async.server.sandboxes.gateway import guarded
from prime_async.server.sandboxes.groups import follow_many
from prime_async.server.sandboxes.refusals import GatewayError, refusal
from prime_async.server.sandboxes.streams import follow

__all__ = ["ENDPOINTS"]

_LONGEST_ID = 128
_LAST_SIGNAL = 64
_MOST_COMMANDS = 256

Message = TypeVar("Message")


class ExecBody(Struct, kw_only=True):
    """Body of a REST exec; ``timeout`` in seconds, none for no limit."""

    command: str
    working_dir: str | None = None
    env: dict[str, str] = {}
    sandbox_id: str | None = None
    timeout: Annotated[float, Meta(ge=0)] | None = None
    user: str | None = None


async def start(call: Call, live: Live) -> Reply:
    """Start a command and stream its events; one without a session id ends with this request."""
    _only_in_machines(live)
    request = await _streamed(call, StartRequest.decode)
    _check_id("session_uuid", request.session_uuid)
    session = await live.sessions.start(request, _deadline(call))
    call.platform.metrics.commands.labels("start").inc()
    try:
        return await follow(
            call.request,
            live.running,
            session,
            answer_to="Start",
            keep_alive=call.platform.config.limits.keep_alive_seconds,
        )
    finally:
        if session.uuid is None:
            with anyio.CancelScope(shield=True):
                await live.sessions.discard(session)


async def start_many(call: Call, live: Live) -> Reply:
    """Start several commands, each with a session id, and stream the events of all."""
    _only_in_machines(live)
    request = await _streamed(call, StartManyRequest.decode)
    if not 1 <= len(request.commands) <= _MOST_COMMANDS:
        raise refusal(Code.INVALID_ARGUMENT, f"1 to {_MOST_COMMANDS} commands can be started")
    for command in request.commands:
        _check_id("session_uuid", command.start.session_uuid or "")
    call.platform.metrics.commands.labels("start").inc(len(request.commands))
    keep_alive = call.platform.config.limits.keep_alive_seconds
    return await follow_many(call.request, live, request.commands, keep_alive=keep_alive)


async def connect(call: Call, live: Live) -> Reply:
    """Follow a command that runs, or ended a while ago."""
    _only_in_machines(live)
    request = await _streamed(call, ConnectRequest.decode)
    session = live.sessions.find(request.session)
    if session.uuid is None:
        raise refusal(Code.FAILED_PRECONDITION, "only who started this command can follow it")
    return await follow(
        call.request,
        live.running,
        session,
        answer_to="Connect",
        keep_alive=call.platform.config.limits.keep_alive_seconds,
        seconds=_deadline(call),
        received=request.received,
    )


async def send_input(call: Call, live: Live) -> Reply:
    """Write to a command's input; the same ``input_uuid`` twice writes once."""
    request = await _unary(call, SendInputRequest.decode)
    _check_id("input_uuid", request.input_uuid)
    await live.sessions.find(request.session).write(request.data, request.input_uuid)
    return _empty()


async def close_stdin(call: Call, live: Live) -> Reply:
    """Say that no more input comes."""
    request = await _unary(call, CloseStdinRequest.decode)
    await live.sessions.find(request.session).command.close_stdin()
    return _empty()


async def send_signal(call: Call, live: Live) -> Reply:
    """Send a signal to a command's group; the same ``signal_uuid`` twice sends once."""
    request = await _unary(call, SendSignalRequest.decode)
    _check_id("signal_uuid", request.signal_uuid)
    if not 1 <= request.signal <= _LAST_SIGNAL:
        raise refusal(Code.INVALID_ARGUMENT, f"{request.signal} is no signal")
    await live.sessions.find(request.session).signal(request.signal, request.signal_uuid)
    return _empty()


async def update(call: Call, live: Live) -> Reply:
    """Give a command's terminal another size."""
    request = await _unary(call, UpdateRequest.decode)
    session = live.sessions.find(request.session)
    if request.pty is not None:
        await session.command.resize(TerminalSize(request.pty.cols, request.pty.rows))
    return _empty()


async def list_sessions(call: Call, live: Live) -> Reply:
    """List the commands that run."""
    await _body(call)
    return web.Response(body=ListResponse(live.sessions.list()).encode(), headers=_UNARY)


async def unknown(call: Call) -> Reply:
    """Refuse a call that the service does not have here."""
    raise refusal(Code.UNIMPLEMENTED, f"{SERVICE} has no {call.path['rpc']} here")


async def execute(call: Call, live: Live) -> Reply:
    """Run a shell command to its end and answer its outputs."""
    body = decode_body(await _body(call), ExecBody)
    limits = call.platform.config.limits
    spec = ExecSpec(
        argv=("/bin/bash", "-c", body.command),
        environment=body.env,
        working_dir=body.working_dir,
        user=body.user,
    )
    call.platform.metrics.commands.labels("exec").inc()
    done = await run_to_end(live.running, spec, body.timeout or None, limits.exec_output_bytes)
    if done.exit_code is None:
        raise GatewayError(
            408,
            "command_timeout",
            f"the command did not end within {body.timeout:g} s; it was ended",
            more={"stdout": done.stdout.text(), "stderr": done.stderr.text()},
        )
    wire = {
        "stdout": done.stdout.text(),
        "stderr": done.stderr.text(),
        "exit_code": done.exit_code,
        "stdout_truncated": done.stdout.truncated,
        "stderr_truncated": done.stderr.truncated,
        "stdout_size": done.stdout.size,
        "stderr_size": done.stderr.size,
    }
    return Answer(200, await to_thread.run_sync(msgspec.json.encode, wire))


_UNARY = {"Content-Type": UNARY_TYPE}


def _empty() -> web.Response:
    return web.Response(body=b"", headers=_UNARY)


def _only_in_machines(live: Live) -> None:
    if not live.vm:
        raise refusal(Code.UNIMPLEMENTED, "this sandbox is a container: it takes POST …/exec")


def _check_id(name: str, value: str | None) -> None:
    if value is not None and not 0 < len(value) <= _LONGEST_ID:
        raise refusal(Code.INVALID_ARGUMENT, f"{name} must have 1 to {_LONGEST_ID} characters")


def _deadline(call: Call) -> float | None:
    try:
        return parse_timeout(call.request.headers.get(TIMEOUT_HEADER))
    except ValueError as error:
        raise refusal(Code.INVALID_ARGUMENT, str(error)) from error


async def _body(call: Call) -> bytes:
    async with call.read(call.platform.config.limits.json_body_bytes) as data:
        return data


async def _unary(call: Call, decode: Callable[[bytes], Message]) -> Message:
    if call.request.content_type != UNARY_TYPE:
        raise RequestError(415, "unsupported_media_type", f"the body must be {UNARY_TYPE}")
    try:
        return decode(await _body(call))
    except ProtocolError as error:
        raise refusal(Code.INVALID_ARGUMENT, error.message) from error


async def _streamed(call: Call, decode: Callable[[bytes], Message]) -> Message:
    """The one message of a call whose answer is a stream."""
    if call.request.content_type != STREAM_TYPE:
        raise RequestError(415, "unsupported_media_type", f"the body must be {STREAM_TYPE}")
    headers = call.request.headers
    data = await _body(call)
    try:
        decoder = Decoder(
            limit=call.platform.config.limits.json_body_bytes,
            encoding=headers.get("connect-content-encoding", "identity"),
        )
        frames = decoder.feed(data)
        decoder.finish()
        messages = [frame.data for frame in frames if not frame.end]
        if len(messages) != 1:
            raise ProtocolError(f"one message is needed, not {len(messages)}")
        return decode(messages[0])
    except ProtocolError as error:
        raise refusal(Code.INVALID_ARGUMENT, error.message) from error


_REFUSALS = {
    400: ErrorAnswer,
    401: ErrorAnswer,
    404: ErrorAnswer,
    415: ErrorAnswer,
    429: ErrorAnswer,
    501: ErrorAnswer,
}


def _rpc(rpc: Rpc, inside: Callable[[Call, Live], Awaitable[Reply]], summary: str) -> Endpoint:
    handler = guarded(rpc=True)(inside)
    path = f"/{SERVICE}/{rpc.value}"
    return Endpoint(
        "POST", path, handler, summary, {200: None, **_REFUSALS}, auth=False, token=True
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    _rpc(Rpc.START, start, "Connect: start a command and follow it"),
    _rpc(Rpc.START_MANY, start_many, "Connect: start several commands and follow them (ours)"),
    _rpc(Rpc.CONNECT, connect, "Connect: follow a command again"),
    _rpc(Rpc.SEND_INPUT, send_input, "Connect: write to a command's input"),
    _rpc(Rpc.CLOSE_STDIN, close_stdin, "Connect: end a command's input (ours)"),
    _rpc(Rpc.SEND_SIGNAL, send_signal, "Connect: send a signal to a command"),
    _rpc(Rpc.UPDATE, update, "Connect: resize a command's terminal"),
    _rpc(Rpc.LIST, list_sessions, "Connect: list the commands that run"),
    Endpoint(
        "POST",
        f"/{SERVICE}/{{rpc}}",
        unknown,
        "Connect: not here",
        {501: ErrorAnswer},
        auth=False,
        token=True,
    ),
    Endpoint(
        "POST",
        "/exec",
        guarded(rpc=False)(execute),
        "Run a shell command to its end (containers)",
        {200: CommandResponse, 401: ErrorAnswer, 408: ErrorAnswer, 410: ErrorAnswer},
        body=ExecBody,
        streams_body=True,
        auth=False,
        token=True,
    ),
)
