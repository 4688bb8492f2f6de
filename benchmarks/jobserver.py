"""The platform of the job benchmarks: its jobs are what their ids say, their output is made up.

Started in a process of its own, as a bare asyncio protocol, so that neither its work nor a web
framework is charged to a client. A job whose id begins with ``0`` runs, any other has ended; one
that begins with ``2`` has written 10 MiB to each stream, the others a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import parse_qs

from benchmarks.server import TOKEN

__all__ = ["JobServer"]

LONG = 10 * 2**20
_LINE = b"epoch 17: loss 0.1234 accuracy 0.9876, a line as training writes it; "


class _Jobs(asyncio.Protocol):
    """One connection; its requests fit into one piece or two."""

    def __init__(self, url: str) -> None:
        self._token = json.dumps(TOKEN | {"gateway_url": url}).encode()
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        while True:
            head, found, rest = self._held.partition(b"\r\n\r\n")
            if not found:
                return
            lower = head.lower()
            at = lower.find(b"\r\ncontent-length:")
            size = int(lower[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(rest) < size:
                return
            self._held = rest[size:]
            target = head.split(b" ", 2)[1]
            body = self._answer(target, rest[:size])
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % len(body)
                + body
            )

    def _answer(self, target: bytes, body: bytes) -> bytes:
        path, _, query = target.partition(b"?")
        if path.endswith(b"/auth"):
            return self._token
        if path.endswith(b"/read-file"):
            return _window(parse_qs(query.decode()))
        jobs = json.loads(body)["jobs"]
        ended = [job["job_id"][0] != "0" for job in jobs]
        codes = [0 if one else None for one in ended]
        pairs = zip(jobs, ended, codes, strict=True)
        statuses = [{**job, "completed": one, "exit_code": code} for job, one, code in pairs]
        return json.dumps({"statuses": statuses, "errors": []}).encode()


def _window(query: dict[str, list[str]]) -> bytes:
    job_id = query["path"][0].removeprefix("/tmp/job_")
    total = LONG if job_id.startswith("2") else len(_LINE)
    offset = int(query.get("offset", ["0"])[0])
    start = max(0, total + offset) if offset < 0 else offset
    size = min(int(query.get("length", [str(total)])[0]), total - start)
    content = (_LINE * (size // len(_LINE) + 1))[:size]
    return b'{"content":"%s","size":%d,"total_size":%d,"offset":%d,"truncated":false}' % (
        content,
        size,
        total,
        start,
    )


async def serve() -> None:
    """Serve until standard input ends, having printed the address."""
    loop = asyncio.get_running_loop()
    url = ""
    server = await loop.create_server(lambda: _Jobs(url), "127.0.0.1", 0, backlog=1024)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    print(url, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


class JobServer:
    """A running server process."""

    @staticmethod
    @contextlib.contextmanager
    def start() -> Iterator[str]:
        """Run one for the length of a block; yields its address."""
        command = [sys.executable, "-m", "benchmarks.jobserver"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().strip()
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(10)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
