"""What keeps the platform safe on a shared machine: hosts, origins, limits, ids, logs, files."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import stat
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from prime_async.errors import ConfigError
from prime_async.server.config import ServerConfig
from prime_async.server.observing import FEATURES
from tests.meters import PeakRss
from tests.platform import KEY, RunningPlatform, running_platform
from tests.server.raw import AUTH, connection, exchange, get, read_reply
from tests.server.wire import Wire

MIB = 1024 * 1024


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:PORT", "localhost:PORT", "LOCALHOST", "[::1]:PORT", "127.3.2.1"],
)
async def test_loopback_names_are_answered(platform: RunningPlatform, host: str) -> None:
    """Every way to name this machine works."""
    headers = f"Host: {host.replace('PORT', str(platform.port))}\r\n"
    assert (await get(platform.port, "/api/v1/user/whoami", headers)).status == 200


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ("Host: evil.example\r\n", 403, "host_refused"),
        ("Host: evil.example:PORT\r\n", 403, "host_refused"),
        ("Host: 127.0.0.1.evil.example\r\n", 403, "host_refused"),
        ("Host: localhost.evil.example\r\n", 403, "host_refused"),
        ("Host: 192.168.1.5\r\n", 403, "host_refused"),
        ("Host: 0.0.0.0:PORT\r\n", 403, "host_refused"),
        ("Host: \r\n", 403, "host_refused"),
        ("", 400, "bad_request"),
        ("Host: 127.0.0.1\r\nHost: evil.example\r\n", 400, "bad_request"),
    ],
)
async def test_other_host_names_are_refused(
    platform: RunningPlatform, headers: str, status: int, code: str
) -> None:
    """A page whose name was made to resolve to loopback (DNS rebinding) gets nothing at all."""
    for path in ("/api/v1/user/whoami", "/healthz", "/nowhere"):
        reply = await get(platform.port, path, headers.replace("PORT", str(platform.port)))
        assert (reply.status, reply.json["error"]["code"]) == (status, code)


async def test_old_http_needs_a_host_too(platform: RunningPlatform) -> None:
    """HTTP/1.0 may leave the Host header out; here it may not."""
    reply = await exchange(platform.port, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert (reply.status, reply.json["error"]["code"]) == (400, "bad_host")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:PORT", 200),
        ("https://evil.example", 403),
        ("http://localhost:9", 403),
        ("http://127.0.0.1:PORT.evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
async def test_pages_of_other_origins_are_refused(
    platform: RunningPlatform, origin: str, status: int
) -> None:
    """A browser tells where a request comes from: only the platform itself may ask."""
    origin = origin.replace("PORT", str(platform.port))
    headers = f"Host: 127.0.0.1:{platform.port}\r\nOrigin: {origin}\r\n"
    reply = await get(platform.port, "/api/v1/user/whoami", headers)
    assert reply.status == status
    assert not any(name.startswith("access-control") for name in reply.headers)


async def test_a_preflight_is_refused(platform: RunningPlatform) -> None:
    """There is no CORS: a browser's OPTIONS request gets no permission."""
    request = (
        f"OPTIONS /api/v1/evaluations/ HTTP/1.1\r\nHost: 127.0.0.1:{platform.port}\r\n"
        "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n"
    )
    assert (await exchange(platform.port, request)).status == 403


async def test_configured_host_names_are_answered(tmp_path: Path) -> None:
    """Names that the user allowed count as this machine."""
    async with running_platform(tmp_path, allowed_hosts=("box.lan",)) as platform:
        assert (await get(platform.port, "/healthz", "Host: BOX.lan:80\r\n")).status == 200
        assert (await get(platform.port, "/healthz", "Host: other.lan\r\n")).status == 403


async def test_the_unix_socket_takes_any_host(platform: RunningPlatform) -> None:
    """No browser reaches it, and clients put all kinds of names there."""
    async with Wire("http://anything", unix_socket=platform.unix_socket) as wire:
        assert (await wire.get("/user/whoami")).status == 200
        assert (await wire.get("/user/whoami", headers={"Origin": "null"})).status == 200
    async with Wire("http://anything", None, platform.unix_socket) as wire:
        assert (await wire.get("/user/whoami")).status == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
async def test_addresses_that_others_can_reach_need_consent_and_a_key(
    tmp_path: Path, host: str
) -> None:
    """Neither consent nor an explicit key alone is enough."""
    for options in ({"api_key": KEY}, {"allow_remote": True}, {}):
        with pytest.raises(ConfigError, match="refusing to listen"):
            ServerConfig(tmp_path, host=host, **options).check()  # type: ignore[arg-type]  # mixed
    ServerConfig(tmp_path, host=host, api_key=KEY, allow_remote=True).check()


@pytest.mark.parametrize("key", ["short", "x" * 600, "has a space in it", "nön-ascii-key-123456"])
async def test_weak_or_unusable_keys_are_refused(tmp_path: Path, key: str) -> None:
    """A configured key has to be long and fit a header."""
    with pytest.raises(ConfigError) as caught:
        ServerConfig(tmp_path, api_key=key).check()
    assert key not in str(caught.value)


async def test_state_is_private(platform: RunningPlatform, wire: Wire) -> None:
    """Folders 0700, every file in them and the socket 0600, whatever the umask."""
    await wire.evaluation()
    run = (await wire.post("/rft/external-runs", {"base_model": "m"})).json["run"]["id"]
    await wire.post("/rft/samples", {"run_id": run, "step": 0, "samples": [{"a": 1}]})
    folder = platform.config.data_dir
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    inside = list(folder.rglob("*"))
    files = [*(one for one in inside if one.is_file()), Path(platform.unix_socket)]
    assert len(files) >= 4
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    folders = [one for one in inside if one.is_dir()]
    assert {stat.S_IMODE(one.stat().st_mode) for one in folders} == {0o700}


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/evaluations/..",
        "/api/v1/evaluations/../evaluations/x%2F..%2Fy",
        "/api/v1/evaluations/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/api/v1/evaluations/a%00b",
        "/api/v1/evaluations/%ff%fe",
        "/api/v1/evaluations/" + "a" * 65,
        "/api/v1/evaluations/a b".replace(" ", "%20"),
        "/api/v1/evaluations/x/pushes/..%2f..",
        "/api/v1/nowhere",
        "/",
        "/api/v1//evaluations/x",
        "//evil.example/api/v1/user/whoami",
    ],
)
async def test_odd_paths_are_a_404(platform: RunningPlatform, path: str) -> None:
    """Ids are 1 to 64 of a small alphabet; nothing else reaches a handler."""
    reply = await get(platform.port, path)
    assert reply.status == 404
    assert reply.json["error"]["code"] == "not_found"


async def test_a_wrong_method_is_told_the_right_ones(wire: Wire) -> None:
    """405 with the Allow header."""
    reply = await wire.send("PATCH", "/evaluations/x")
    assert (reply.status, reply.code) == (405, "method_not_allowed")
    assert {"GET", "PUT", "DELETE"} <= set(reply.headers["Allow"].split(", "))


BAD_HEADS = {
    "garbage": b"\x16\x03\x01\x02\x00garbage\r\n\r\n",
    "long line": b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "long header": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n",
    "many headers": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    + b"".join(b"X-%d: 1\r\n" % n for n in range(200))
    + b"\r\n",
    "two lengths": b"POST /api/v1/evaluations/ HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "negative length": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
}


@pytest.mark.parametrize("head", BAD_HEADS.values(), ids=BAD_HEADS.keys())
async def test_heads_that_are_not_http_are_a_400(platform: RunningPlatform, head: bytes) -> None:
    """Same error format as everywhere, and the connection is closed."""
    async with connection(platform.port) as (reader, writer):
        writer.write(head)
        reply = await read_reply(reader)
        assert (reply.status, reply.json["error"]["code"]) == (400, "bad_request")
        assert reply.headers["x-request-id"].startswith("req_")
        assert await reader.read() == b""


async def test_every_answer_names_its_request_and_the_features(wire: Wire) -> None:
    """A sent id is taken over when it is harmless, else replaced."""
    evaluation = await wire.evaluation()
    await wire.push(evaluation, [{}])
    for method, path in (
        ("GET", "/evaluations/"),
        ("GET", f"/evaluations/{evaluation}/samples"),
        ("GET", "/nowhere"),
        ("DELETE", "/evaluations/x"),
        ("PATCH", "/evaluations/"),
        ("GET", "//healthz"),
        ("GET", "//metrics"),
        ("DELETE", f"/evaluations/{evaluation}"),
    ):
        reply = await wire.send(method, path, headers={"X-Request-Id": "mine-1"})
        assert reply.headers["X-Request-Id"] == "mine-1"
        assert reply.headers["X-Prime-Features"] == FEATURES
        reply = await wire.send(method, path, headers={"X-Request-Id": "no spaces <please>"})
        assert reply.headers["X-Request-Id"].startswith("req_")


async def test_bodies_over_the_limit_are_refused_with_the_limit(tmp_path: Path) -> None:
    """Announced or not, samples or not: 413 names the limit of the call."""
    limits = {"samples_body_bytes": 200_000, "json_body_bytes": 100_000}
    async with running_platform(tmp_path, limits=limits) as platform, Wire(platform.url) as wire:
        evaluation = await wire.evaluation()

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b" " * 10_000

        for path, limit in (
            (f"/evaluations/{evaluation}/samples", 200_000),
            ("/evaluations/", 100_000),
        ):
            for data in (b" " * (limit + 1), chunks()):
                headers = {"Content-Type": "application/json"}
                reply = await wire.send("POST", path, data=data, headers=headers)
                assert (reply.status, reply.code) == (413, "body_too_large")
                assert str(limit) in reply.json["detail"]
        text = "x" * (200_000 - len('{"samples": [{"a": ""}]}'))
        assert (await wire.push(evaluation, [{"a": text}])).status == 200


async def test_the_default_limit_takes_what_official_clients_send(wire: Wire) -> None:
    """A batch of exactly 25 MiB fits."""
    evaluation = await wire.evaluation()
    body = b'{"samples": [{"a": "%s"}]}'
    raw = body % (b"x" * (25 * MIB - len(body) + 2))
    assert len(raw) == 25 * MIB
    reply = await wire.post(f"/evaluations/{evaluation}/samples", raw=raw)
    assert reply.json["stored"] == 1


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "identity": lambda data: data,
}


@pytest.mark.parametrize("encoding", ENCODERS)
async def test_compressed_bodies_are_inflated(wire: Wire, encoding: str) -> None:
    """gzip and deflate arrive like plain bodies."""
    evaluation = await wire.evaluation()
    samples = [{"i": index, "text": "abc" * 1000} for index in range(100)]
    raw = ENCODERS[encoding](json.dumps({"samples": samples}).encode())
    reply = await wire.post(
        f"/evaluations/{evaluation}/samples", raw=raw, headers={"Content-Encoding": encoding}
    )
    assert reply.status == 200
    assert await wire.samples(evaluation) == samples


async def test_a_gzip_bomb_is_refused_without_inflating_it(wire: Wire) -> None:
    """256 MiB of zeros in 256 KiB: 413, and memory grows by no more than the limit allows."""
    evaluation = await wire.evaluation()
    deflater = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    first, again = (
        deflater.compress(bytes(16 * MIB)) + deflater.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    bomb = first + again * 15  # no end: nobody may get there
    with PeakRss() as peak:
        for path in (f"/evaluations/{evaluation}/samples", "/evaluations/"):
            reply = await wire.post(path, raw=bomb, headers={"Content-Encoding": "gzip"})
            assert (reply.status, reply.code) == (413, "body_too_large")
    assert peak.growth < 100 * MIB


@pytest.mark.parametrize(
    ("encoding", "raw", "status", "code"),
    [
        ("gzip", b"not gzip", 400, "broken_body"),
        ("gzip", gzip.compress(b'{"samples": []}')[:-6], 400, "broken_body"),
        ("gzip", gzip.compress(b'{"samples": []}') + b"more", 400, "broken_body"),
        ("zstd", b"x", 415, "unsupported_encoding"),
        ("br", b"x", 415, "unsupported_encoding"),
        ("gzip, gzip", b"x", 415, "unsupported_encoding"),
    ],
    ids=["garbage", "cut", "more", "zstd", "br", "twice"],
)
async def test_broken_or_unknown_encodings_are_told_apart(
    wire: Wire, encoding: str, raw: bytes, status: int, code: str
) -> None:
    """400 for a body that is broken, 415 for an encoding we do not have."""
    evaluation = await wire.evaluation()
    reply = await wire.post(
        f"/evaluations/{evaluation}/samples", raw=raw, headers={"Content-Encoding": encoding}
    )
    assert (reply.status, reply.code) == (status, code)


async def test_bodies_that_are_not_json_are_refused_by_type(wire: Wire) -> None:
    """A form or plain text, which a web page could send without asking, is a 415."""
    evaluation = await wire.evaluation()
    for path in ("/evaluations/", f"/evaluations/{evaluation}/samples"):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            reply = await wire.send("POST", path, data=b"{}", headers={"Content-Type": kind})
            assert (reply.status, reply.code) == (415, "unsupported_media_type")


async def test_a_slow_head_is_cut(tmp_path: Path) -> None:
    """A connection that trickles its head, or sends nothing, is closed after the limit."""
    async with running_platform(tmp_path, limits={"head_seconds": 0.3}) as platform:
        for start in (b"", b"GET /healthz HTTP/1.1\r\nHost: 127"):
            async with connection(platform.port) as (reader, writer):
                writer.write(start)
                with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                    await asyncio.wait_for(reader.readexactly(1), 10)


async def test_a_slow_second_head_is_cut_too(tmp_path: Path) -> None:
    """Keep-alive gives no way around the limit, and idle time between requests does not count."""
    async with (
        running_platform(tmp_path, limits={"head_seconds": 0.3}) as platform,
        connection(platform.port) as (reader, writer),
    ):
        for _ in range(2):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert (await read_reply(reader)).status == 200
            await asyncio.sleep(0.5)  # longer than the limit: what is tested is idle time
        writer.write(b"GET /healthz HT")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asyncio.wait_for(reader.readexactly(1), 10)


async def test_a_slow_body_is_answered_and_cut(tmp_path: Path) -> None:
    """Silence within a body is a 408; the connection is closed and nothing is stored."""
    limits = {"body_idle_seconds": 0.3}
    async with running_platform(tmp_path, limits=limits) as platform, Wire(platform.url) as wire:
        head = f"POST /api/v1/evaluations/ HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTH}"
        reply = await exchange(platform.port, f'{head}Content-Length: 1000\r\n\r\n{{"name": ')
        assert (reply.status, reply.json["error"]["code"]) == (408, "body_timeout")
        assert reply.headers["connection"] == "close"
        assert (await wire.get("/evaluations/")).json["total"] == 0


async def test_a_body_has_a_total_time(tmp_path: Path) -> None:
    """A trickle that is never silent for long ends all the same."""
    async with (
        running_platform(tmp_path, limits={"body_seconds": 0.5}) as platform,
        connection(platform.port) as (reader, writer),
    ):
        head = f"POST /api/v1/evaluations/ HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTH}"
        writer.write(f"{head}Content-Length: 1000\r\n\r\n".encode())

        async def trickle() -> None:
            while True:
                writer.write(b" ")
                await asyncio.sleep(0.05)

        task = asyncio.create_task(trickle())
        reply = await asyncio.wait_for(read_reply(reader), 10)
        task.cancel()
        assert reply.status == 408


async def test_a_client_that_does_not_read_is_cut(tmp_path: Path) -> None:
    """An answer that nobody takes does not hold its connection for ever."""
    limits = {"write_stall_seconds": 0.3}
    async with running_platform(tmp_path, limits=limits) as platform, Wire(platform.url) as wire:
        evaluation = await wire.evaluation()
        await wire.push(evaluation, [{"a": "x" * (20 * MIB)}])
        path = f"/api/v1/evaluations/{evaluation}/samples"
        async with connection(platform.port) as (reader, writer):
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTH}\r\n".encode())
            metric = 'prime_async_slow_clients_total{limit="write_stall"} 1.0'
            async with asyncio.timeout(20):
                while metric not in (await wire.get("//metrics")).body.decode():
                    await asyncio.sleep(0.05)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(20 * MIB)


async def test_connections_beyond_the_limit_are_closed(tmp_path: Path) -> None:
    """Open connections go on working, and a place that gets free can be used."""
    async with (
        running_platform(tmp_path, limits={"connections": 2}) as platform,
        connection(platform.port) as first,
        connection(platform.port),
    ):
        request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        first[1].write(request)
        assert (await read_reply(first[0])).status == 200
        async with connection(platform.port) as (reader, _):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        first[1].write(request)
        assert (await read_reply(first[0])).status == 200


async def test_logs_hold_events_and_no_secrets(
    platform: RunningPlatform, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    """One line per request with id, status and time; no key, no query, no body."""
    caplog.set_level(logging.DEBUG)
    evaluation = await wire.evaluation(name="CANARY-name")
    await wire.push(evaluation, [{"a": "CANARY-sample"}])
    await wire.get("/evaluations/", params={"suite_id": "CANARY-query"})
    await wire.get("/evaluations/%0Aforged%20line", headers={"Authorization": "Bearer CANARY-key"})
    await exchange(platform.port, b"GET CANARY \r\n\r\n")
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("prime")]
    assert any(
        line.startswith(
            f"request method=POST path=/api/v1/evaluations/{evaluation}/samples status=200"
        )
        for line in lines
    )
    text = "\n".join(lines)
    assert KEY not in text
    assert "CANARY" not in text
    assert not any("\n" in line for line in lines)


async def test_an_unexpected_error_is_a_500_without_its_traceback(
    platform: RunningPlatform,
    wire: Wire,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The client gets the request's id, the log the traceback under that id."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("CANARY-detail")

    monkeypatch.setattr(platform.parts.database, "point", broken)
    reply = await wire.get("/user/whoami")
    assert (reply.status, reply.code) == (500, "internal_error")
    assert b"CANARY" not in reply.body
    assert b"Traceback" not in reply.body
    (record,) = [one for one in caplog.records if one.exc_info]
    assert reply.headers["X-Request-Id"] in record.getMessage()


async def test_a_long_upload_outlives_the_time_for_heads(tmp_path: Path) -> None:
    """The limit for heads does not run while a body is on its way, however the packets fall."""
    limits = {"head_seconds": 0.2}
    async with running_platform(tmp_path, limits=limits) as platform, Wire(platform.url) as wire:
        evaluation = await wire.evaluation()
        body = b'{"samples": [' + b", ".join([b'{"a": 1}'] * 20) + b"]}"
        head = (
            f"POST /api/v1/evaluations/{evaluation}/samples HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"{AUTH}Content-Length: {len(body)}\r\n\r\n"
        )
        async with connection(platform.port) as (reader, writer):
            for _ in range(2):
                writer.write(head.encode())
                for byte in range(0, len(body), 20):
                    writer.write(body[byte : byte + 20])
                    await asyncio.sleep(0.05)  # slower in all than the limit for heads
                reply = await asyncio.wait_for(read_reply(reader), 10)
                assert (reply.status, reply.json["stored"]) == (200, 20)
