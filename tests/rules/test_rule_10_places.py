"""Rule 10: many loops, threads, processes. It works, or it says what to do; nothing goes twice."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from prime_async import AsyncEvalsClient, PrimeTracesError, WrongLoopError
from prime_sync import EvalsClient
from tests.cli.harness import COMMAND
from tests.faces import Face
from tests.official_stub import EVALUATION, OfficialStub
from tests.prime_sync.scripts import FORK_WARNING
from tests.rules.calls import ALL_CALLS, TOLD_INSIDE, clients
from tests.rules.conftest import point_at
from tests.rules.surfaces import Surface, leave_on_disk
from tests.rules.table import scenario
from tests.stub import stub_in_thread

MANY = 3

ONE_LOOP = "a command is a process of its own, with one loop"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[OfficialStub]:
    """A platform in a thread: these scenarios have loops of their own."""
    server = OfficialStub(features=True)
    with stub_in_thread(server):
        point_at(monkeypatch, server.url)
        yield server


@scenario(10, not_sync="it has one loop for everybody: see the threads below", not_command=ONE_LOOP)
async def test_a_client_belongs_to_one_loop(surface: Surface, elsewhere: OfficialStub) -> None:
    """On a second loop while the first lives: a clear error; after its end: a new session."""
    client = AsyncEvalsClient()
    await client.get_evaluation(EVALUATION)

    def on_another_loop() -> None:
        for call in (
            client.get_evaluation(EVALUATION),
            client.push_samples(EVALUATION, [{"example_id": 0}]),
        ):
            with pytest.raises(WrongLoopError, match="one client per loop") as caught:
                asyncio.run(call)  # type: ignore[arg-type]  # either of the two
            assert isinstance(caught.value, RuntimeError)

    await asyncio.to_thread(on_another_loop)
    await client.get_evaluation(EVALUATION)
    await client.aclose()

    def on_loops_one_after_another() -> None:
        for _ in range(2):
            asyncio.run(client.get_evaluation(EVALUATION))

    await asyncio.to_thread(on_loops_one_after_another)
    assert len(elsewhere.requests) == 4


@scenario(
    10,
    shows=ALL_CALLS,
    not_sync="it has one loop for everybody: see the threads below",
    not_command=ONE_LOOP,
)
async def test_every_client_belongs_to_one_loop(surface: Surface, elsewhere: OfficialStub) -> None:
    """Each call of a client that is at home on this loop says so on another, and sends nothing."""
    async with clients(Face("async")) as on:
        for client in on.values():
            await getattr(client, "api_client", client).get("/whoami")
        await leave_on_disk(elsewhere)
        await asyncio.to_thread(_from_another_loop, on)
        assert len(elsewhere.requests) == 0


def _from_another_loop(on: Mapping[type, Any]) -> None:
    for call in ALL_CALLS:
        if call.name in TOLD_INSIDE or call.name == "bulk_wait_for_creation":
            continue  # of many sandboxes or jobs, each has its own error
        with pytest.raises(WrongLoopError, match="one client per loop") as caught:
            asyncio.run(call.on(on))
        assert isinstance(caught.value, PrimeTracesError) == call.of_traces, call


@scenario(10, not_async="a client belongs to one loop, see above", not_command=ONE_LOOP)
async def test_a_client_serves_threads_and_running_loops(
    surface: Surface, elsewhere: OfficialStub
) -> None:
    """Eight threads through one client; inside a running loop it works, with one warning."""
    client = EvalsClient()

    def work(number: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        client.push_samples(EVALUATION, [{"example_id": number}])
        return number

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(work, number) for number in range(40)]
        done = await asyncio.gather(*map(asyncio.wrap_future, futures))
    assert sorted(done) == sorted(elsewhere.ids) == list(range(40))
    with pytest.warns(RuntimeWarning, match="AsyncEvalsClient.get_evaluation"):
        assert client.get_evaluation(EVALUATION).evaluation_id == EVALUATION
    await asyncio.to_thread(client.close)


CHILDREN = {
    "async": """
        import asyncio
        from prime_async import AsyncEvalsClient

        client = AsyncEvalsClient()
        loops = asyncio.Runner()

        def call():
            global loops
            if os.getpid() != parent:
                asyncio._set_running_loop(None)
                loops = asyncio.Runner()
            loops.run(client.get_evaluation("e"))
    """,
    "sync": """
        from prime_sync import EvalsClient

        client = EvalsClient()

        def call():
            client.get_evaluation("e")
    """,
}

FORK = """
    call()
    pid = os.fork()
    if pid == 0:
        call()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    call()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@scenario(10, not_command="it does not fork")
async def test_after_a_fork(surface: Surface, elsewhere: OfficialStub) -> None:
    """The child gets connections of its own; those of the parent go on, untouched."""
    program = "import os\nparent = os.getpid()\n" + textwrap.dedent(CHILDREN[surface.name])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", FORK_WARNING, "-c", program + textwrap.dedent(FORK)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, out, err) == (0, b"", b"")
    parent, child, parent_again = (request.connection for request in elsewhere.requests)
    assert parent == parent_again != child


@scenario(10)
async def test_what_is_kept_goes_once_however_many_deliver_it(
    surface: Surface, elsewhere: OfficialStub
) -> None:
    """Tasks, threads or processes at the same time: each sample arrives, and is sent once."""
    for _ in range(3):
        await leave_on_disk(elsewhere, 10)
    await DELIVER[surface.name]()
    pushed = elsewhere.seen("POST", ".*/samples")
    assert sum(len(request.json()["samples"]) for request in pushed) == 30
    assert len(elsewhere.stored) == 30


async def _tasks() -> None:
    async with AsyncEvalsClient() as client:
        await asyncio.gather(*(client.sync_pushes() for _ in range(MANY)))


async def _threads() -> None:
    client = EvalsClient()
    await asyncio.gather(*(asyncio.to_thread(client.sync_pushes) for _ in range(MANY)))
    await asyncio.to_thread(client.close)


async def _processes() -> None:
    async def sync() -> str:
        process = await asyncio.create_subprocess_exec(
            *(COMMAND, "eval", "sync"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        return out.decode()

    for said in await asyncio.gather(*(sync() for _ in range(MANY))):
        assert "Traceback" not in said


DELIVER = {"async": _tasks, "sync": _threads, "command": _processes}
