"""Binding and ending: taken ports and sockets, stale sockets, requests in flight."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from prime_async.errors import LocalPlatformError
from prime_async.server.config import ServerConfig
from prime_async.server.serve import Listening, PlatformServer, serve
from tests.platform import KEY, running_platform
from tests.server.raw import AUTH, connection, read_reply
from tests.server.wire import Wire


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="pa-") as folder:
        yield Path(folder)


def config(tmp_path: Path, **changes: object) -> ServerConfig:
    return ServerConfig(tmp_path / "data", api_key=KEY, **changes)  # type: ignore[arg-type]  # mixed


async def test_serve_says_where_it_listens_and_ends_when_cancelled(
    tmp_path: Path, short: Path
) -> None:
    """``ready`` is called once both listeners answer; the socket is gone afterwards."""
    ready: asyncio.Queue[Listening] = asyncio.Queue()
    wanted = config(tmp_path, unix_socket=short / "s")
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: serve(wanted, ready=ready.put_nowait))
        listening = await asyncio.wait_for(ready.get(), 20)
        assert listening.url == f"http://127.0.0.1:{listening.port}"
        async with Wire(listening.url) as wire:
            assert (await wire.get("//healthz")).json["instance"] == listening.instance
        async with Wire("http://x", unix_socket=str(listening.unix_socket)) as wire:
            assert (await wire.get("/user/whoami")).status == 200
        group.cancel_scope.cancel()
    assert not (short / "s").exists()


async def test_a_port_in_use_is_a_clear_error(tmp_path: Path, short: Path) -> None:
    """The port is named; nothing of the failed start is left behind."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        server = PlatformServer(config(tmp_path, port=port, unix_socket=short / "s"))
        with pytest.raises(LocalPlatformError, match=f"port {port}") as caught:
            await server.start()
    assert caught.value.hint
    assert not (short / "s").exists()
    async with PlatformServer(config(tmp_path)):
        pass


async def test_a_stale_socket_is_replaced(tmp_path: Path, short: Path) -> None:
    """A socket that a killed platform left does not stop the next start."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(short / "s"))
    async with (
        PlatformServer(config(tmp_path, unix_socket=short / "s")),
        Wire("http://x", unix_socket=str(short / "s")) as wire,
    ):
        assert (await wire.get("//healthz")).status == 200


async def test_a_socket_that_somebody_listens_on_is_left_alone(tmp_path: Path, short: Path) -> None:
    """The second platform refuses; the first one goes on answering on its socket."""
    async with PlatformServer(config(tmp_path, unix_socket=short / "s")):
        second = PlatformServer(
            ServerConfig(tmp_path / "other", api_key=KEY, unix_socket=short / "s")
        )
        with pytest.raises(LocalPlatformError, match="another platform"):
            await second.start()
        async with Wire("http://x", unix_socket=str(short / "s")) as wire:
            assert (await wire.get("//healthz")).status == 200


async def test_a_file_in_the_place_of_the_socket_is_left_alone(tmp_path: Path, short: Path) -> None:
    """Whatever it is, it is not ours to delete."""
    (short / "s").write_text("precious")
    with pytest.raises(LocalPlatformError, match="not a socket"):
        await PlatformServer(config(tmp_path, unix_socket=short / "s")).start()
    assert (short / "s").read_text() == "precious"


async def test_a_socket_path_that_is_too_long_is_a_clear_error(tmp_path: Path) -> None:
    """The system's limit is named, not a traceback."""
    path = tmp_path / ("x" * 120)
    with pytest.raises(LocalPlatformError, match="cannot listen on the socket") as caught:
        await PlatformServer(config(tmp_path, unix_socket=path)).start()
    assert "short" in str(caught.value)


async def test_requests_in_flight_are_answered_at_the_end(tmp_path: Path) -> None:
    """A push whose body is arriving when the server stops is stored and answered."""
    async with running_platform(tmp_path) as platform:
        async with Wire(platform.url) as wire:
            evaluation = await wire.evaluation()
        body = b'{"samples": [{"a": 1}]}'
        head = (
            f"POST /api/v1/evaluations/{evaluation}/samples HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"{AUTH}Content-Length: {len(body)}\r\n\r\n"
        )
        async with connection(platform.port) as (reader, writer):
            writer.write(head.encode() + body[:5])
            async with Wire(platform.url) as wire:
                # Another answer shows that the first request is being handled by now.
                assert (await wire.get("//healthz")).status == 200
            stopping = asyncio.ensure_future(platform.server.stop())
            await asyncio.sleep(0)
            writer.write(body[5:])
            reply = await asyncio.wait_for(read_reply(reader), 20)
            assert (reply.status, reply.json["stored"]) == (200, 1)
            await asyncio.wait_for(stopping, 20)
    async with running_platform(tmp_path) as platform, Wire(platform.url) as wire:
        assert await wire.samples(evaluation) == [{"a": 1}]
