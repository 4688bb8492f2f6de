"""The server of the benchmarks: swallows uploads as fast as one process can, and counts them.

Started in a process of its own, so that its work is never charged to a client. It is a bare asyncio
protocol: a web framework here would be the bottleneck that every contender shares.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from benchmarks.uploads import records_in

__all__ = ["Counters", "Server", "serve"]

FEATURES = "idempotency, sample-ranges, auth-batch, run-metrics-batch, traces-zstd"
MARK = b'"example_id":'
"""Every sample of the benchmarks has this key once and nowhere in its text."""

_OK = "200 OK"
_LOOKUP = b"/auth:batchGet"

TOKEN: dict[str, object] = {
    "gateway_url": "http://127.0.0.1:9",
    "user_ns": "bench",
    "job_id": "bench",
    "token": "t" * 400,
    "expires_at": "2099-01-01T00:00:00+00:00",
    "is_vm": True,
}
"""What a sandbox is reached by, as long as a real token."""


@dataclass(frozen=True)
class Behaviour:
    """How the server answers.

    Attributes:
        features: it announces those of the embedded platform.
        delay: seconds before each answer to a client: the round trip of a network.
        down: uploads of traces are answered with 503.
    """

    features: bool = False
    delay: float = 0.0
    down: bool = False


@dataclass
class Counters:
    """What arrived since the last reset."""

    requests: int = 0
    uploads: int = 0
    bytes: int = 0
    samples: int = 0
    connections: int = 0
    tokens: int = 0


class _Upload(asyncio.Protocol):
    """One connection. Bodies are counted and forgotten, piece by piece; compressed ones are kept,
    to be counted when somebody asks; those of look-ups are read.
    """

    def __init__(self, counters: Counters, kept: list[bytes], behaviour: Behaviour) -> None:
        self._counters = counters
        self._kept = kept
        self._behaviour = behaviour
        self._features = f"X-Prime-Features: {FEATURES}\r\n" if behaviour.features else ""
        self._body: list[bytes] | None = None
        self._head = b""
        self._first = b""
        self._left = 0
        self._chunked = False
        self._chunk_line = b""
        self._tail = b""
        self._samples = 0
        self._digest = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._counters.connections += 1

    def data_received(self, data: bytes) -> None:
        while data:
            if not self._first:
                data = self._take_head(data)
            elif self._chunked:
                data = self._take_chunk(data)
            else:
                data = self._take_body(data)
                if self._left == 0:
                    self._answer()

    def _take_head(self, data: bytes) -> bytes:
        head, found, rest = (self._head + data).partition(b"\r\n\r\n")
        if not found:
            self._head = head
            return b""
        self._head = b""
        self._first = head.split(b"\r\n", 1)[0]
        uploads = self._first.startswith(b"POST /api/v1/traces ") and not self._behaviour.down
        self._body = [] if uploads or _LOOKUP in self._first else None
        self._tail, self._samples = b"", 0
        lower = head.lower()
        self._chunked = b"transfer-encoding: chunked" in lower
        self._digest = lower.partition(b"idempotency-key: sha256:")[2][:64].decode()
        self._left = 0
        if (at := lower.find(b"\r\ncontent-length:")) >= 0:
            self._left = int(lower[at + 17 :].split(b"\r\n", 1)[0])
        if self._left == 0 and not self._chunked:
            self._answer()
        return rest

    def _take_body(self, data: bytes) -> bytes:
        piece, rest = data[: self._left], data[self._left :]
        self._left -= len(piece)
        self._count(piece)
        return rest

    def _take_chunk(self, data: bytes) -> bytes:
        if self._left:
            return self._take_body(data)
        line, found, rest = (self._chunk_line + data).partition(b"\r\n")
        if not found:
            self._chunk_line = line
            return b""
        self._chunk_line = b""
        if line == b"":  # the line end behind a chunk, or the one behind the last
            if self._last:
                self._answer()
            return rest
        self._left = int(line.split(b";")[0], 16)
        self._last = self._left == 0
        return rest

    _last = False

    def _count(self, piece: bytes) -> None:
        self._counters.bytes += len(piece)
        if self._body is not None:
            self._body.append(piece)
            return
        joined = self._tail + piece if self._tail else piece
        self._samples += joined.count(MARK)
        self._tail = joined[-(len(MARK) - 1) :]

    def _answer(self) -> None:
        method, target, _ = self._first.split(b" ", 2)
        self._first, self._last = b"", False
        status, answer = self._route(method, target.split(b"?")[0])
        body = json.dumps(answer).encode()
        data = (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{self._features}"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        if self._behaviour.delay and target.startswith(b"/api/"):
            asyncio.get_running_loop().call_later(
                self._behaviour.delay, self._transport.write, data
            )
        else:
            self._transport.write(data)

    def _route(self, method: bytes, path: bytes) -> tuple[str, dict[str, object]]:
        counters = self._counters
        if path == b"/counters":
            counters.samples += sum(records_in(body, MARK) for body in self._kept)
            self._kept.clear()
            return _OK, asdict(counters)
        if path == b"/reset":
            counters.__init__()  # type: ignore[misc]  # the object is shared by all connections
            self._kept.clear()
            return _OK, {}
        counters.requests += 1
        if method == b"POST" and path in (b"/api/v1/traces", b"/api/v1/rft/metrics"):
            return self._uploaded()
        if method == b"POST" and path.endswith(b"/samples"):
            counters.uploads += 1
            counters.samples += self._samples
            return _OK, {
                "stored": self._samples,
                "duplicates": 0,
                "refused": [],
                "total_samples": counters.samples,
            }
        if path.endswith(_LOOKUP):
            asked = json.loads(b"".join(self._body or []))["sandbox_ids"]
            counters.tokens += len(asked)
            accesses = [{"sandbox_id": one, **TOKEN} for one in asked]
            return _OK, {"accesses": accesses, "errors": []}
        if path.endswith(b"/auth"):
            counters.tokens += 1
            return _OK, TOKEN
        return _OK, {
            "evaluation_id": "bench",
            "id": "bench",
            "data": {"id": "bench"},
            "run": {"id": "bench", "status": "RUNNING"},
        }

    def _uploaded(self) -> tuple[str, dict[str, object]]:
        """Traces, or rows of metrics."""
        self._counters.uploads += 1
        if self._behaviour.down:
            error = {"code": "ingest_unavailable", "message": "down"}
            return "503 Service Unavailable", {"error": error}
        self._counters.samples += self._samples
        if self._body is not None:
            self._kept.append(b"".join(self._body))
            self._body = None
        return "201 Created", {"upload_id": self._digest, "status": "committed"}


async def serve(behaviour: Behaviour) -> None:
    """Serve until standard input ends, having printed the port."""
    counters, kept = Counters(), list[bytes]()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Upload(counters, kept, behaviour), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


@dataclass(frozen=True)
class Server:
    """A running server process."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def counters(self) -> Counters:
        """Read what arrived since :meth:`reset`."""
        return Counters(**self._get("/counters"))

    def reset(self) -> None:
        """Start counting from zero."""
        self._get("/reset")

    def _get(self, path: str) -> dict[str, int]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer: dict[str, int] = json.loads(connection.getresponse().read())
            return answer

    @classmethod
    @contextlib.contextmanager
    def start(
        cls, *, features: bool = False, delay: float = 0.0, down: bool = False
    ) -> Iterator[Server]:
        """Run one for the length of a block; it ends with us, however we end. See `Behaviour`."""
        command = [sys.executable, "-m", "benchmarks.server", "--delay", str(delay)]
        command += ["--features"] * features + ["--down"] * down
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            try:
                yield cls(int(process.stdout.readline()))
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(10)


def main() -> None:
    """Run the server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--features", action="store_true", help="advertise the embedded platform's")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--down", action="store_true", help="answer uploads of traces with 503")
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(Behaviour(**vars(arguments))))


if __name__ == "__main__":
    main()
