"""One session per loop and process: opened late, closed with the loop, never shared by a fork."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest

from prime_async.errors import APIConnectionError, PrimeError, WrongLoopError
from prime_async.transport import Replay, Transport
from tests.meters import open_sockets
from tests.stub import Answer, Stub, stub_in_thread


@pytest.fixture
def server() -> Iterator[Stub]:
    """A stub whose loop is not the one under test."""
    with stub_in_thread() as stub:
        yield stub


async def _get(transport: Transport) -> None:
    await transport.request("GET", "/a", timeout=10)


def test_made_without_a_loop_and_opens_nothing() -> None:
    """A transport is a plain object until its first request."""
    before = open_sockets()
    made = Transport(base_url="http://127.0.0.1:1", api_key="k")
    assert open_sockets() == before
    del made


async def test_the_connection_is_kept(stub: Stub, transport: Transport) -> None:
    """Calls one after the other use one connection; a close ends it, the next call opens one."""
    for _ in range(3):
        await _get(transport)
    assert stub.connections == 1
    await transport.aclose()
    await transport.aclose()
    await _get(transport)
    assert stub.connections == 2


async def test_many_first_calls_share_one_session(stub: Stub, transport: Transport) -> None:
    """Calls that begin together do not open a session each."""
    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(_get(transport))
    assert len(stub.requests) == 50
    await transport.aclose()
    async with asyncio.timeout(10):
        while stub.open_connections:  # what belongs to a second session would stay
            await asyncio.sleep(0.001)


def test_a_loop_that_ends_takes_the_session_along(server: Stub) -> None:
    """After asyncio.run nothing is left open, and the transport works in the next loop."""
    made = Transport(base_url=server.url)
    before = open_sockets()
    for round_number in range(1, 4):
        asyncio.run(_get(made))
        gc.collect()
        assert open_sockets() <= before
        assert len(server.requests) == round_number


def test_a_loop_that_was_closed_by_hand(server: Stub) -> None:
    """Without asyncio.run nobody shuts the loop down properly: the next one starts afresh."""
    made = Transport(base_url=server.url)
    before = open_sockets()
    for _ in range(3):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(_get(made))
        loop.close()
    asyncio.run(made.aclose())
    gc.collect()
    assert len(server.requests) == 3
    assert open_sockets() <= before


def test_another_living_loop_is_refused(server: Stub) -> None:
    """Used or closed from a second loop: a clear error, and the first loop goes on undisturbed."""
    made = Transport(base_url=server.url)
    used, done = threading.Event(), threading.Event()
    faults: list[BaseException] = []

    async def first() -> None:
        await _get(made)
        used.set()
        await asyncio.to_thread(done.wait, 10)
        await _get(made)
        await made.aclose()

    def run() -> None:
        try:
            asyncio.run(first())
        except BaseException as error:
            faults.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert used.wait(10)
        for call in (_get(made), made.aclose()):
            with pytest.raises(WrongLoopError, match="another running event loop") as caught:
                asyncio.run(call)
            assert isinstance(caught.value, RuntimeError)
    finally:
        done.set()
        thread.join(10)
    assert faults == []
    assert server.connections == 1


async def test_closed_while_a_call_is_under_way(stub: Stub, transport: Transport) -> None:
    """The call ends with the connections; it opens none again, and the next call does."""
    stub.script(Answer(status=0, end="silent"))
    waiting = asyncio.create_task(transport.request("GET", "/slow", timeout=30))
    await stub.wait_for(1)
    await transport.aclose()
    with pytest.raises(APIConnectionError, match="closed while this call was under way") as caught:
        await asyncio.wait_for(waiting, 5)
    assert caught.value.__cause__ is not None
    assert not caught.value.ambiguous
    assert (await transport.request("GET", "/next")).status == 200
    assert [request.path for request in stub.requests] == ["/api/v1/slow", "/api/v1/next"]


async def test_closed_before_the_next_try(stub: Stub) -> None:
    """A call that pauses between two tries is over when its pause ends."""
    stub.script(Answer(503, headers={"Retry-After": "0.2"}))
    made = Transport(base_url=stub.url)
    waiting = asyncio.create_task(made.request("POST", "/job", replay=Replay.SAFE))
    await stub.wait_for(1)
    while not made._gate._until:
        await asyncio.sleep(0)
    await made.aclose()
    with pytest.raises(APIConnectionError, match="closed while"):
        await asyncio.wait_for(waiting, 5)
    assert len(stub.requests) == 1


def test_dropped_without_closing(server: Stub) -> None:
    """A transport that is forgotten leaves neither a warning nor a socket, in a cycle neither."""
    before = open_sockets()

    async def main() -> None:
        made = Transport(base_url=server.url)
        await _get(made)
        made.me = made  # type: ignore[attr-defined]  # a cycle, so that only the collector ends it
        del made
        gc.collect()
        await asyncio.sleep(0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()
    assert open_sockets() <= before


def test_without_a_loop_of_asyncio() -> None:
    """Outside asyncio the error says where to go, not that some library failed."""
    call = _get(Transport(base_url="http://127.0.0.1:1"))
    with pytest.raises((PrimeError, RuntimeError)):
        call.send(None)
    call.close()


_FORK = """
import asyncio, gc, os, sys, time
from prime_async.transport import Replay, Transport

made = Transport(base_url=sys.argv[1])

async def get():
    await made.request("GET", "/" + sys.argv[2], timeout=10)

async def parent():
    sys.argv.append("parent")
    await get()
    pid = os.fork()
    if pid == 0:
        os._exit(child())
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    await get()                       # its own connection still works
    await made.aclose()

def child():
    began = time.monotonic()
    sys.argv[2] = "child"
    asyncio._set_running_loop(None)   # the loop it was forked in is the parent's
    if os.environ.get("USE"):
        asyncio.run(get())
    globals().pop("made", None)
    gc.collect()
    return int(time.monotonic() - began > 5)

asyncio.run(parent())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("child_calls", [True, False])
def test_FR04_a_fork_leaves_the_parents_connection_alone(server: Stub, child_calls: bool) -> None:
    """A child gets a connection of its own, or ends at once; the parent goes on with its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _FORK, server.url],
        env={**os.environ, **({"USE": "1"} if child_calls else {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    paths = [request.path.rsplit("/", 1)[1] for request in server.requests]
    assert paths == ["parent", *(["child"] if child_calls else []), "parent"]
    assert server.requests[0].connection == server.requests[-1].connection
    assert server.connections == 1 + child_calls
