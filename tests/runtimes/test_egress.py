"""The way out of a sandbox: grammar of the rules, judgement of addresses, and the proxy itself."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio
import pytest

from prime_async.errors import UsageError
from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime
from prime_async.server.runtimes.dialing import GuardedDialer, judge, own_addresses
from prime_async.server.runtimes.egress_policy import EgressPolicy, parse_rule
from prime_async.server.runtimes.protocol import ExecSpec
from tests.runtimes.boxes import finish, run, sh, spec

NAMES = {"allowed.test": "203.0.113.5", "other.test": "203.0.113.6", "inner.test": "10.1.2.3"}
OPEN = EgressPolicy()
NOBODY: frozenset[ipaddress.IPv4Address | ipaddress.IPv6Address] = frozenset()


@pytest.mark.parametrize(
    "entry",
    [
        "", " ", "*", "*.", "*.*.com", "a.*.com", "::1", "[::1]:80", "http://a.com", "a.com/x",
        "a@b", "a?b", "a..b", ".a", "a.", "-a.com", "a.com:8080", "a.com:80-90", "a.com:",
        "1.2.3.4:0", "1.2.3.4:70000", "1.2.3.4:9-8", "1.2.3", "1.2.3.4/33", "1.2.3.4:x",
        "1.2.3.4:-5", "é.com", "256.1.1.1", "x" * 64 + ".com",
    ],
)  # fmt: skip
def test_bad_entries_are_refused_by_their_place(entry: str) -> None:
    """Naming the list and the position."""
    with pytest.raises(UsageError) as refused:
        EgressPolicy(allow=("good.com", entry))
    assert refused.value.field == "allow[1]"


@pytest.mark.parametrize(
    ("entry", "ports"),
    [
        ("Example.COM", (1, 65535)),
        ("*.example.com:443", (443, 443)),
        ("a_b.example", (1, 65535)),
        ("10.0.0.7/8", (1, 65535)),
        ("192.0.2.7:1000-2000", (1000, 2000)),
        ("  a.com:80 ", (80, 80)),
    ],
)
def test_good_entries(entry: str, ports: tuple[int, int]) -> None:
    """Trimmed, in lower case, host bits allowed."""
    assert parse_rule(entry).ports == ports


def test_lists_exclude_each_other_and_have_an_end() -> None:
    """Typed, naming the list."""
    with pytest.raises(UsageError):
        EgressPolicy(allow=(), deny=())
    with pytest.raises(UsageError):
        EgressPolicy(deny=("a.com",) * 1025)


@pytest.mark.parametrize(
    ("policy", "name", "address", "port", "expected"),
    [
        (OPEN, "a.com", "203.0.114.5", 443, True),
        (OPEN, None, "203.0.114.5", 22, True),
        (OPEN, "a.com", "10.0.0.1", 443, False),
        (OPEN, "a.com", "192.168.1.1", 443, False),
        (OPEN, "a.com", "127.0.0.1", 443, False),
        (OPEN, "a.com", "169.254.169.254", 80, False),
        (OPEN, "a.com", "0.0.0.0", 80, False),
        (OPEN, "a.com", "::1", 80, False),
        (OPEN, "a.com", "::ffff:127.0.0.1", 80, False),
        (OPEN, "a.com", "::ffff:10.0.0.1", 80, False),
        (OPEN, "a.com", "64:ff9b::7f00:1", 80, False),
        (OPEN, "a.com", "2002:7f00:1::", 80, False),
        (OPEN, "a.com", "fe80::1", 80, False),
        (OPEN, "a.com", "2606:4700::1", 443, True),
        (EgressPolicy.closed(), "a.com", "203.0.114.5", 443, False),
        (EgressPolicy(allow=("a.com",)), "a.com", "203.0.114.5", 443, True),
        (EgressPolicy(allow=("a.com",)), "b.a.com", "203.0.114.5", 443, False),
        (EgressPolicy(allow=("a.com",)), None, "203.0.114.5", 443, False),
        (EgressPolicy(allow=("a.com",)), "a.com", "10.0.0.1", 443, False),
        (EgressPolicy(allow=("*.a.com",)), "b.a.com", "203.0.114.5", 443, True),
        (EgressPolicy(allow=("*.a.com",)), "a.com", "203.0.114.5", 443, False),
        (EgressPolicy(allow=("a.com:80",)), "a.com", "203.0.114.5", 443, False),
        (EgressPolicy(allow=("10.0.0.0/8",)), None, "10.2.3.4", 443, True),
        (EgressPolicy(allow=("10.0.0.0/8:22",)), None, "10.2.3.4", 443, False),
        (EgressPolicy(allow=("127.0.0.0/8",)), None, "127.0.0.1", 443, False),
        (EgressPolicy(allow=("0.0.0.0/0",)), "x.com", "203.0.114.5", 443, True),
        (EgressPolicy(deny=("a.com",)), "a.com", "203.0.114.5", 443, False),
        (EgressPolicy(deny=("a.com",)), "b.com", "203.0.114.5", 443, True),
        (EgressPolicy(deny=("203.0.114.0/24",)), "b.com", "203.0.114.5", 443, False),
        (EgressPolicy(deny=("203.0.114.0/24:25",)), "b.com", "203.0.114.5", 443, True),
        (EgressPolicy(deny=()), "b.com", "203.0.114.5", 443, True),
    ],
)  # fmt: skip
def test_judgement(
    policy: EgressPolicy, name: str | None, address: str, port: int, expected: bool
) -> None:
    """By name, by address, by port; the host's own and private addresses are nobody's."""
    assert judge(policy, name, ipaddress.ip_address(address), port, NOBODY) == expected


def test_this_hosts_addresses_are_known() -> None:
    """All of them, so that a public one of this machine leads to nothing either."""
    own = own_addresses()
    assert ipaddress.ip_address("127.0.0.1") in own
    public = ipaddress.ip_address("203.0.114.5")
    assert not judge(OPEN, None, public, 80, frozenset({public}))


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
        return GuardedDialer(resolve=self.resolve, connect=self.connect, own=NOBODY)


@pytest.fixture
async def outside() -> AsyncIterator[Outside]:
    """A world of one server."""
    world = Outside()
    server = await asyncio.start_server(world.serve, "127.0.0.1", 0)
    world.port = server.sockets[0].getsockname()[1]
    yield world
    server.close()


@pytest.fixture
async def networked(
    store: Path, refusal: str, outside: Outside
) -> AsyncIterator[BubblewrapRuntime]:
    """A runtime whose sandboxes reach that world."""
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    async with BubblewrapRuntime(store, dialer=outside.dialer()) as entered:
        yield entered
        for box in list(entered._sandboxes.values()):
            await box.stop()


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
