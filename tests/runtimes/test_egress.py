"""The way out of a sandbox: the proxy itself, from inside a sandbox to a world made up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import anyio
import pytest
import pytest_asyncio

from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime
from prime_async.server.runtimes.dialing import GuardedDialer
from prime_async.server.runtimes.egress_policy import EgressPolicy
from prime_async.server.runtimes.protocol import ExecSpec
from tests.runtimes.boxes import ending, finish, new_store, run, sh, spec

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = {"allowed.test": "203.0.113.5", "other.test": "203.0.113.6", "inner.test": "10.1.2.3"}


class Outside:
    """The rest of the world: a server that says whom it was asked as, behind every address."""

    def __init__(self) -> None:
        self.reached: list[tuple[str, int]] = []
        self.resolved: list[str] = []
        self.port = 0

    async def resolve(self, name: str, port: int) -> Sequence[str]:
        self.resolved.append(name)
        if name not in NAMES:
            raise OSError(-2, "no such name")
        return [NAMES[name].replace("203.0.113", "203.0.114")]

    async def connect(
        self, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.reached.append((address, port))
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        host = next((line for line in lines if line.lower().startswith("host:")), "no host")
        body = f"{lines[0]}|{host}|{'large' * 100_000 if '/large' in lines[0] else 'small'}"
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    def dialer(self) -> GuardedDialer:
        return GuardedDialer(resolve=self.resolve, connect=self.connect, own=frozenset())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world() -> AsyncIterator[Outside]:
    """A world of one server."""
    made = Outside()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


@pytest.fixture
def outside(world: Outside) -> Outside:
    """The same, which nobody has asked yet."""
    world.reached.clear()
    world.resolved.clear()
    return world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_networked(refusal: str, world: Outside) -> AsyncIterator[BubblewrapRuntime]:
    """A runtime whose sandboxes reach that world."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    with new_store() as folder:
        async with BubblewrapRuntime(folder, dialer=world.dialer()) as entered:
            yield entered


@pytest_asyncio.fixture(loop_scope="module")
async def networked(shared_networked: BubblewrapRuntime) -> AsyncIterator[BubblewrapRuntime]:
    """The same, with no sandbox of another test."""
    async with ending(shared_networked):
        yield shared_networked


FETCH = """
import sys, urllib.request, urllib.error
for url in sys.argv[1:]:
    try:
        body = urllib.request.urlopen(url, timeout=10).read().decode()
        print(body if len(body) < 200 else len(body))
    except urllib.error.HTTPError as error: print(error.code, error.read().decode().strip())
    except Exception as error: print(type(error).__name__, error)
"""


async def test_open_by_default_through_the_proxy(
    networked: BubblewrapRuntime, outside: Outside
) -> None:
    """Programs find it in their environment; names are resolved outside; bodies of any size."""
    box = await networked.start(spec())
    urls = ["http://allowed.test/a?b=c", "http://other.test/large", "http://nowhere.test/"]
    done = await run(box, "python3", "-c", FETCH, *urls)
    lines = done.stdout.splitlines()
    assert lines[0] == "GET /a?b=c HTTP/1.1|Host: allowed.test|small"
    assert int(lines[1]) > 500_000
    assert lines[2].startswith("502 cannot reach nowhere.test:80")
    assert outside.reached == [("203.0.114.5", 80), ("203.0.114.6", 80)]


async def test_connect_is_a_tunnel(networked: BubblewrapRuntime, outside: Outside) -> None:
    """To any port, for TLS and everything else."""
    box = await networked.start(spec())
    script = (
        "exec 3<>/dev/tcp/127.0.0.1/41080;"
        "printf 'CONNECT allowed.test:8443 HTTP/1.1\\r\\n\\r\\n' >&3; head -c 39 <&3;"
        "printf 'GET /t HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; cat <&3"
    )
    done = await sh(box, script)
    assert done.stdout.startswith("HTTP/1.1 200 Connection established\r\n\r\n")
    assert done.stdout.endswith("GET /t HTTP/1.1|Host: x|small")
    assert outside.reached == [("203.0.114.5", 8443)]


async def test_lists_are_enforced_and_changed_while_it_runs(
    networked: BubblewrapRuntime, outside: Outside
) -> None:
    """Refused with the reason, before the name is even asked for; another policy holds at once."""
    box = await networked.start(spec(egress=EgressPolicy(allow=("allowed.test",))))
    fetch = ("python3", "-c", FETCH, "http://allowed.test/", "http://other.test/")
    lines = (await run(box, *fetch)).stdout.splitlines()
    assert lines[0].endswith("small")
    assert lines[1] == "403 the rules of this sandbox forbid other.test:80"
    assert outside.resolved == ["allowed.test"]
    box.set_egress(EgressPolicy(deny=("allowed.test",)))
    lines = (await run(box, *fetch)).stdout.splitlines()
    assert (lines[0][:3], lines[1][-5:]) == ("403", "small")
    box.set_egress(EgressPolicy.closed())
    assert [line[:3] for line in (await run(box, *fetch)).stdout.splitlines()] == ["403", "403"]


async def test_a_name_that_leads_inwards_is_refused(
    networked: BubblewrapRuntime, outside: Outside
) -> None:
    """Whatever the name server says: the address is what is judged."""
    box = await networked.start(spec(egress=EgressPolicy(allow=("inner.test",))))
    done = await run(box, "python3", "-c", FETCH, "http://inner.test/")
    assert done.stdout.startswith("403")
    assert outside.reached == []


async def test_the_host_header_is_the_judged_one(networked: BubblewrapRuntime) -> None:
    """Asking an allowed server for a forbidden one by another header does not work."""
    box = await networked.start(spec(egress=EgressPolicy(allow=("allowed.test",))))
    script = (
        "exec 3<>/dev/tcp/127.0.0.1/41080;"
        "printf 'GET http://allowed.test/ HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n' >&3; cat <&3"
    )
    assert "Host: allowed.test|" in (await sh(box, script)).stdout


async def test_nonsense_is_answered_not_obeyed(networked: BubblewrapRuntime) -> None:
    """Bad requests, endless heads, and silence."""
    box = await networked.start(spec())
    for head in ("GARBAGE", "GET / HTTP/1.1", "GET ftp://a/ HTTP/1.1", "CONNECT a HTTP/1.1"):
        script = f"exec 3<>/dev/tcp/127.0.0.1/41080; printf '{head}\\r\\n\\r\\n' >&3; head -1 <&3"
        assert "400" in (await sh(box, script)).stdout
    script = "exec 3<>/dev/tcp/127.0.0.1/41080; head -c 200000 /dev/zero >&3; head -1 <&3"
    with anyio.fail_after(20):
        assert "431" in (await sh(box, script)).stdout


async def test_connections_are_cut_by_a_new_policy(networked: BubblewrapRuntime) -> None:
    """What was allowed before does not go on."""
    box = await networked.start(spec())
    script = (
        "import socket; s = socket.create_connection(('127.0.0.1', 41080), 5);"
        "s.sendall(b'CONNECT allowed.test:443 HTTP/1.1\\r\\n\\r\\n'); s.recv(39);"
        "print('up', flush=True); s.settimeout(20); print(s.recv(10))"
    )
    command = await box.exec(ExecSpec(("python3", "-c", script)))
    assert await command.stdout.read() == b"up\n"
    box.set_egress(EgressPolicy.closed())
    assert (await finish(command)).stdout == "b''\n"
