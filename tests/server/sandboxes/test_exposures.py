"""Exposed ports over real sandboxes: HTTP, WebSockets and TCP, and what they must never give."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from tests.platform import KEY, RunningPlatform, running_platform
from tests.server.clocks import FakeClock
from tests.server.sandboxes.boxes import Boxes
from tests.server.sandboxes.test_life import advance
from tests.server.sandboxes.usable import needs_bubblewrap
from tests.server.wire import Wire

pytestmark = [needs_bubblewrap, pytest.mark.asyncio(loop_scope="module")]

OTHER_KEY = "pit_test_other_0123456789abcdef0123456789"

_SERVER = """
import hashlib, base64, json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/slow":
            self.send_response(200); self.send_header("Connection", "close"); self.end_headers()
            for piece in range(3):
                self.wfile.write(b"piece %d\\n" % piece); self.wfile.flush()
                if piece == 0: open("/tmp/first", "w").close()
                while piece == 0 and not __import__("os").path.exists("/tmp/go"): time.sleep(0.01)
            return
        if self.headers.get("Upgrade") == "websocket":
            return self.websocket()
        self.answer(b"")
    def do_POST(self):
        if "Content-Length" in self.headers:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        else:
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size); self.rfile.readline()
            self.rfile.readline()
        self.answer(body)
    def answer(self, body):
        told = json.dumps({"method": self.command, "path": self.path, "body": len(body),
            "digest": hashlib.sha256(body).hexdigest(), "headers": dict(self.headers)}).encode()
        self.send_response(201, "Made"); self.send_header("Content-Length", str(len(told)))
        self.send_header("Set-Cookie", "a=1"); self.send_header("Set-Cookie", "b=2")
        self.send_header("Location", "/elsewhere"); self.end_headers(); self.wfile.write(told)
    def websocket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101); self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Protocol", "chat")
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_header("Sec-WebSocket-Accept", accept); self.end_headers()
        while True:
            head = self.rfile.read(2); size = head[1] & 127; mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
            if head[0] & 15 == 8:
                self.wfile.write(bytes([0x88, size]) + data); self.close_connection = True; return
            self.wfile.write(bytes([head[0], size]) + data[::-1]); self.wfile.flush()
    def log_message(self, *args): pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


async def serving(boxes: Boxes, port: int = 8000, **fields: Any) -> str:
    """A sandbox in which a web server listens."""
    box = await boxes.running(**fields)
    await serve_in(boxes, box, port)
    return box


async def serve_in(boxes: Boxes, box: str, port: int) -> None:
    await boxes.sh(box, f"cat > /app/s.py <<'END'\n{_SERVER}END")
    waits = f"until (echo > /dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.02; done"
    await boxes.sh(box, f"(setsid python /app/s.py {port} >/tmp/log 2>&1 &); {waits}")


async def expose(boxes: Wire, box: str, port: int = 8000, **fields: Any) -> dict[str, Any]:
    """Expose a port."""
    reply = await boxes.post(f"/sandbox/{box}/expose", {"port": port, **fields})
    assert reply.status == 200, reply
    made: dict[str, Any] = reply.json
    return made


@asynccontextmanager
async def outsider() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that has no key."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield session


@pytest.mark.parametrize("vm", [True, False])
async def test_a_port_is_reached_from_outside(isolated: Boxes, vm: bool) -> None:
    """Method, path, query, headers and body arrive as sent, the answer as given."""
    box = await serving(isolated, vm=vm)
    made = await expose(isolated, box, name="web")
    assert (made["port"], made["name"], made["protocol"]) == (8000, "web", "HTTP")
    body = bytes(range(256)) * 4096
    async with outsider() as session:
        url = f"{made['url']}a%2Fb/?q=%20x&y"
        async with session.post(url, data=body, headers={"X-One": "1"}, allow_redirects=False) as r:
            told = await r.json(content_type=None)
            assert (r.status, r.reason) == (201, "Made")
            assert r.headers.getall("Set-Cookie") == ["a=1", "b=2"]
            assert r.headers["Location"] == "/elsewhere"
            assert "X-Prime-Features" not in r.headers
            assert "sandbox" in r.headers["Content-Security-Policy"]
    assert (told["method"], told["path"]) == ("POST", "/a%2Fb/?q=%20x&y")
    assert told["body"] == len(body)
    assert (told["headers"]["X-One"], told["headers"]["Host"]) == ("1", "localhost:8000")


async def test_bodies_and_answers_are_streamed(isolated: Boxes) -> None:
    """A piece of an answer is here before the next is made; a body without a length arrives."""
    box = await serving(isolated)
    made = await expose(isolated, box)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield bytes(100_000)

    async with outsider() as session:
        async with session.get(f"{made['url']}slow") as response:
            assert await response.content.readline() == b"piece 0\n"
            await isolated.sh(box, "touch /tmp/go")
            assert await response.content.read() == b"piece 1\npiece 2\n"
        async with session.post(made["url"], data=pieces(), allow_redirects=False) as response:
            assert (await response.json(content_type=None))["body"] == 2_000_000


async def test_websockets(isolated: Boxes) -> None:
    """Text and bytes both ways, the protocol that was agreed on, and the close."""
    box = await serving(isolated)
    made = await expose(isolated, box)
    async with outsider() as session:
        async with session.ws_connect(made["url"], protocols=["chat"]) as ws:
            assert ws.protocol == "chat"
            await ws.send_str("hello")
            assert await ws.receive_str() == "olleh"
            await ws.send_bytes(b"\x00\x01")
            assert await ws.receive_bytes() == b"\x01\x00"
            assert await ws.close(code=1000)
        assert ws.close_code == 1000


async def test_a_name_of_its_own(isolated: Boxes) -> None:
    """Below localhost; there a page has its own origin, and the platform is not there."""
    box = await serving(isolated)
    made = await expose(isolated, box)
    host = made["browser_url"].removeprefix("http://").rstrip("/")
    assert host.partition(".")[2] == f"localhost:{isolated.platform.port}"
    async with outsider() as session:
        url = f"{isolated.platform.url}/api/v1/sandbox"
        headers = {"Host": host, "Origin": f"http://{host}", "Authorization": f"Bearer {KEY}"}
        async with session.get(url, headers=headers) as response:
            told = await response.json(content_type=None)
            assert response.status == 201
            assert "Content-Security-Policy" not in response.headers
    assert told["path"] == "/api/v1/sandbox"
    assert told["headers"]["Origin"] == "http://localhost:8000"


async def test_no_key_of_the_platform_goes_along(isolated: Boxes) -> None:
    """A client that sends it everywhere does not hand it to the sandbox; other words go on."""
    box = await serving(isolated)
    made = await expose(isolated, box)
    async with outsider() as session:
        for word, seen in ((KEY, None), ("of the app", "Bearer of the app")):
            headers = {"Authorization": f"Bearer {word}"}
            async with session.get(made["url"], headers=headers) as response:
                told = await response.json(content_type=None)
                assert told["headers"].get("Authorization") == seen


async def test_addresses_cannot_be_guessed_and_are_not_in_the_log(
    isolated: Boxes, caplog: pytest.LogCaptureFixture
) -> None:
    """The id is not enough; other hosts are refused; only the template is logged."""
    caplog.set_level("INFO")
    box = await serving(isolated)
    made = await expose(isolated, box)
    word = made["url"].rstrip("/").rpartition("/")[2]
    base = isolated.platform.url
    async with outsider() as session:
        for wrong in (made["exposure_id"], f"{made['exposure_id']}-{'0' * 32}", word[:-1], "x-é"):
            async with session.get(f"{base}/exposed/{wrong}/") as response:
                assert (response.status, (await response.json())["error"]["code"]) == (
                    404,
                    "not_exposed",
                )
        async with session.get(made["url"], headers={"Host": "evil.example"}) as response:
            assert response.status == 403
        async with session.get(made["url"]) as response:
            assert response.status == 201
    assert word not in caplog.text


async def test_lists_and_the_end_of_an_exposure(isolated: Boxes) -> None:
    """The same port is exposed once; taken back, its address is gone; so it is with the sandbox."""
    platform: RunningPlatform = isolated.platform
    box, other = await serving(isolated), await isolated.running()
    first = await expose(isolated, box)
    assert await expose(isolated, box) == first
    second = await expose(isolated, other, 9000)
    assert (await isolated.get(f"/sandbox/{box}/expose")).json == {"exposures": [first]}
    assert (await isolated.get("/sandbox/expose/all")).json == {"exposures": [first, second]}
    await platform.parts.keys.add_account("other", "Other", OTHER_KEY)
    async with Wire(platform.url, OTHER_KEY) as stranger:
        assert (await stranger.get("/sandbox/expose/all")).json == {"exposures": []}
        assert (await stranger.post(f"/sandbox/{box}/expose", {"port": 80})).status == 404
        path = f"/sandbox/{box}/expose/{first['exposure_id']}"
        assert (await stranger.delete(path)).status == 404
    async with outsider() as session:
        async with session.get(second["url"]) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (
                502,
                "port_not_answering",
            )
        path = f"/sandbox/{box}/expose/{first['exposure_id']}"
        assert (await isolated.delete(path)).status == 204
        assert (await isolated.delete(path)).status == 404
        async with session.get(first["url"]) as response:
            assert response.status == 404
        await isolated.delete(f"/sandbox/{other}")
        async with session.get(second["url"]) as response:
            assert response.status == 404
    assert (await isolated.get("/sandbox/expose/all")).json == {"exposures": []}
    assert (await isolated.post(f"/sandbox/{other}/expose", {"port": 1})).status == 409
    for port in (0, 65536, "x"):
        assert (await isolated.post(f"/sandbox/{box}/expose", {"port": port})).status == 422


async def test_a_sandbox_that_ends_cuts_what_is_open(isolated: Boxes) -> None:
    """An answer that is being streamed breaks off, and does not pass for a whole one."""
    box = await serving(isolated)
    made = await expose(isolated, box)
    async with outsider() as session, session.get(f"{made['url']}slow") as response:
        assert await response.content.readline() == b"piece 0\n"
        await isolated.delete(f"/sandbox/{box}")
        with pytest.raises(aiohttp.ClientError), anyio.fail_after(20):
            await response.content.read()


@pytest.mark.slow
async def test_an_open_connection_keeps_an_idle_sandbox(tmp_path: Path) -> None:
    """HTTP and TCP alike; a port that is exposed and not used does not."""
    clock = FakeClock()
    async with running_platform(tmp_path, clock=clock) as running, Boxes(running) as boxes:
        web, tcp, unused = [await serving(boxes, idle_timeout_minutes=1) for _ in range(3)]
        made = await expose(boxes, web)
        plain = await expose(boxes, tcp, protocol="TCP")
        await expose(boxes, unused)
        async with (
            outsider() as session,
            session.get(f"{made['url']}slow"),
            await anyio.connect_tcp("127.0.0.1", plain["external_port"]) as stream,
        ):
            await stream.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await stream.receive()).startswith(b"HTTP/1.1 200")
            for _ in range(12):
                await advance(clock, 15, 15)
            await boxes.until(unused, "TIMEOUT")
            for box in (web, tcp):
                assert (await boxes.get(f"/sandbox/{box}")).json["status"] == "RUNNING"
        await boxes.end_all()


@pytest.mark.slow
async def test_a_platform_that_ends_does_not_wait_for_streams(tmp_path: Path) -> None:
    """It cuts them, however long it would let requests go on."""
    limits = {"shutdown_seconds": 3600.0}
    first = running_platform(tmp_path, leaves_sandboxes=True, limits=limits)
    async with first as running, Boxes(running) as boxes:
        box = await serving(boxes)
        made = await expose(boxes, box)
        async with outsider() as session, session.get(f"{made['url']}slow") as response:
            assert await response.content.readline() == b"piece 0\n"
            with anyio.fail_after(60):
                await running.server.stop()
            with pytest.raises(aiohttp.ClientError):
                await response.content.read()
    async with running_platform(tmp_path):
        pass  # It ends what the first one left.


async def test_tcp_is_a_port_of_this_machine(isolated: Boxes) -> None:
    """Bytes both ways, an end of input in between; gone with the exposure and the sandbox."""
    box = await isolated.running()
    script = "import socket; s=socket.create_server(('127.0.0.1', 7000))\nwhile 1:\n c,_=s.accept()"
    script += "\n d=b''\n while p:=c.recv(65536): d+=p\n c.sendall(b'%d' % len(d)); c.close()\n"
    await isolated.sh(box, f"cat > /app/t.py <<'END'\n{script}END\n(setsid python /app/t.py &)")
    made = await expose(isolated, box, 7000, protocol="TCP")
    host, port = made["external_endpoint"].split(":")
    assert (host, made["external_port"], made["protocol"]) == ("127.0.0.1", int(port), "TCP")
    with anyio.fail_after(20):
        while (answer := await _exchange(int(port), b"x" * 300_000)) == b"":
            await anyio.sleep(0.05)  # The server in the sandbox is not up yet.
    assert answer == b"300000"
    path = f"/sandbox/{box}/expose/{made['exposure_id']}"
    assert (await isolated.delete(path)).status == 204
    await _refused(int(port))
    again = await expose(isolated, box, 7000, protocol="TCP")
    await isolated.delete(f"/sandbox/{box}")
    await _refused(again["external_port"])


async def _exchange(port: int, data: bytes) -> bytes:
    answer = b""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        try:
            await stream.send(data)
            await stream.send_eof()
            async for piece in stream:
                answer += piece
        except (anyio.BrokenResourceError, OSError):
            return b""
    return answer


async def _refused(port: int) -> None:
    with anyio.fail_after(20):
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) != 0:
                    return
            await anyio.sleep(0.02)


async def test_exposures_outlive_the_server(tmp_path: Path) -> None:
    """Addresses and TCP ports are the same after a restart."""
    first = running_platform(tmp_path, leaves_sandboxes=True)
    async with first as running, Boxes(running) as boxes:
        box = await serving(boxes)
        web, tcp = await expose(boxes, box), await expose(boxes, box, protocol="TCP")
    async with running_platform(tmp_path, port=0) as running, Boxes(running) as boxes:
        path = web["url"].partition("/exposed/")[2]
        async with outsider() as session:
            async with session.get(f"{running.url}/exposed/{path}") as response:
                assert response.status == 201
            async with session.get(f"http://{tcp['external_endpoint']}/") as response:
                assert response.status == 201
        await boxes.end_all()
