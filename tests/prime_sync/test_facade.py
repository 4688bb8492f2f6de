"""The generated clients as people use them: scripts, threads, notebooks, forks, careless exits."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from prime_sync import APIClient, EvalsClient, UnauthorizedError, UsageError
from prime_sync._bridge import BRIDGE
from tests.platform import ThreadedPlatform
from tests.prime_sync.scripts import Outcome, run
from tests.stub import Answer, Stub, stub_in_thread


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedPlatform]:
    """A platform that the environment points at, as ``prime-async local env`` does."""
    with ThreadedPlatform(tmp_path) as running:
        monkeypatch.setenv("PRIME_API_BASE_URL", running.url)
        monkeypatch.setenv("PRIME_API_KEY", running.key)
        yield running


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """A stub in a thread that the environment points at."""
    with stub_in_thread() as running:
        running.default = Answer(json={"evaluations": [], "total": 0})
        monkeypatch.setenv("PRIME_API_BASE_URL", running.url)
        monkeypatch.setenv("PRIME_API_KEY", "key")
        yield running


def test_written_as_users_of_the_official_package_write_it(platform: ThreadedPlatform) -> None:
    """The four steps of the official read-me, word for word."""
    api_client = APIClient(api_key=platform.key)
    client = EvalsClient(api_client)
    created = client.create_evaluation(
        name="gsm8k-baseline",
        model_name="gpt-4o-mini",
        dataset="gsm8k",
        framework="verifiers",
        metadata={"version": "1.0"},
    )
    eval_id = created["evaluation_id"]
    client.push_samples(eval_id, [{"example_id": 0, "reward": 1.0}])
    client.finalize_evaluation(eval_id, metrics={"accuracy": 1.0})
    assert client.get_samples(eval_id)["samples"] == [{"example_id": 0, "reward": 1.0}]


@pytest.mark.parametrize(
    "make",
    [
        lambda key: EvalsClient(APIClient(api_key=key)),
        lambda key: EvalsClient(APIClient(key)),
        lambda key: EvalsClient(key),
        lambda key: EvalsClient(api_key=key),
        lambda key: EvalsClient(api_client=APIClient()),
        lambda key: EvalsClient(),
    ],
)
def test_every_way_to_make_a_client(make: Any, platform: ThreadedPlatform) -> None:
    """A connection, a key in first place, a keyword, or nothing; also in a ``with`` statement."""
    with make(platform.key) as client:
        assert client.list_evaluations().total == 0
        assert client.api_client.api_key == platform.key


def test_wrong_arguments_are_refused_before_any_request(stub: Stub) -> None:
    """With the same errors as on the async side, raised where the client is made."""
    with pytest.raises(UsageError, match="api_key"):
        EvalsClient(APIClient(), api_key="second")
    with pytest.raises(UsageError):
        EvalsClient(object())  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        EvalsClient().get_samples("e", page=0)
    assert stub.requests == []


def test_without_a_key_the_error_names_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the async side."""
    monkeypatch.delenv("PRIME_API_KEY", raising=False)
    with pytest.raises(UnauthorizedError, match="PRIME_API_KEY"):
        EvalsClient().list_evaluations()


def test_a_client_made_in_one_thread_serves_others(platform: ThreadedPlatform) -> None:
    """Eight threads push and read through one client, over few connections."""
    client = EvalsClient()

    def work(number: int) -> int:
        made = client.create_evaluation(f"thread {number}", dataset="d")
        client.push_samples(made["evaluation_id"], [{"n": number}] * 10)
        return sum(sample["n"] for sample in client.iter_samples(made["evaluation_id"]))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(24))) == [10 * number for number in range(24)]


def test_one_evaluation_is_copied_into_another_as_it_is_read(platform: ThreadedPlatform) -> None:
    """An iterator of a sync client is a source for a push of the same client."""
    client = EvalsClient()
    one, two = (client.create_evaluation(name, dataset="d")["evaluation_id"] for name in "ab")
    client.push_samples(one, [{"n": number} for number in range(300)])
    client.push_samples(two, ({**sample, "copied": True} for sample in client.iter_samples(one)))
    copies = list(client.iter_samples(two))
    assert copies == [{"n": number, "copied": True} for number in range(300)]


def test_an_iterator_reads_page_by_page(stub: Stub) -> None:
    """Two pages are fetched for the items of the first, not the whole listing."""

    def page(request: Any) -> Answer:
        number = int(request.query["page"])
        samples = [{"n": number}] * 100
        return Answer(json={"samples": samples, "total": 10_000, "page": number, "limit": 100})

    stub.default = page
    with EvalsClient() as client, client.iter_samples("e") as samples:
        first = [next(samples) for _ in range(50)]
    assert first == [{"n": 1}] * 50
    assert len(stub.requests) <= 3


def test_FR01_inside_a_running_loop(platform: ThreadedPlatform) -> None:
    """The right result, one warning, nothing left unawaited."""

    async def main() -> int:
        with pytest.warns(RuntimeWarning, match="AsyncEvalsClient.list_evaluations"):
            return EvalsClient().list_evaluations().total

    assert asyncio.run(main()) == 0
    gc.collect()


def test_FR02_two_hundred_calls_with_clients_that_are_dropped(stub: Stub) -> None:
    """A client nobody closes closes its connections when it is dropped."""
    before = open_files()
    for _ in range(200):
        assert EvalsClient().list_evaluations().total == 0
    gc.collect()
    for _ in range(200):  # the loop closes what was dropped between two of its turns
        BRIDGE.call(asyncio.sleep(0))
    assert len(stub.requests) == 200
    assert open_files() <= before + 2


def test_FR07_two_hundred_clients_opened_and_closed(stub: Stub) -> None:
    """Nothing is left of them: no socket, no task."""

    async def tasks() -> int:
        return len(asyncio.all_tasks())

    with EvalsClient() as client:
        client.list_evaluations()
    files, running = open_files(), BRIDGE.call(tasks())
    for _ in range(200):
        with EvalsClient() as client:
            client.list_evaluations()
    assert open_files() <= files + 2
    assert BRIDGE.call(tasks()) <= running


def open_files() -> int:
    """How many files and sockets this process has open."""
    return len(os.listdir("/proc/self/fd"))


def script(program: str, stub: Stub) -> Outcome:
    """Run a program that has a client of the stub."""
    return run("from prime_sync import EvalsClient\n" + program)


def test_a_script_that_closes_nothing_ends_in_silence(stub: Stub) -> None:
    """No complaint about sessions, sockets or tasks, even for people who turn warnings on."""
    outcome = script(
        """
import warnings
warnings.simplefilter("always")
client = EvalsClient()
print(client.list_evaluations().total)
sys.exit(3)
""",
        stub,
    )
    assert (outcome.lines, outcome.errors, outcome.code) == (["0"], "", 3)


def test_FR04_a_fork_with_an_open_client(stub: Stub) -> None:
    """The child drops the client and exits at once, sending nothing; the parent's still works."""
    outcome = script(
        """
client = EvalsClient()
client.list_evaluations()
pid = os.fork()
if pid == 0:
    del client
    gc.collect()
    sys.exit(0)
began = time.monotonic()
_, status, used = os.wait4(pid, 0)
# A second of processor time; the wall clock only tells a hang from a busy machine.
print(status, used.ru_utime + used.ru_stime < 1 and time.monotonic() - began < 10)
print(client.list_evaluations().total)
""",
        stub,
    )
    assert (outcome.lines, outcome.errors, outcome.code) == (["0 True", "0"], "", 0)
    assert len(stub.requests) == 2
    assert stub.connections == 1


def test_FR04_forked_workers_use_the_client_of_their_parent(stub: Stub) -> None:
    """Each worker opens connections of its own, and the parent keeps its one."""
    outcome = script(
        """
client = EvalsClient()
client.list_evaluations()
def work():
    code = 1
    try:
        for _ in range(3):
            client.list_evaluations()
        code = 0
    finally:
        os._exit(code)
pids = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        work()
    pids.append(pid)
print([os.waitpid(pid, 0)[1] for pid in pids])
print(client.list_evaluations().total)
""",
        stub,
    )
    assert (outcome.lines, outcome.errors, outcome.code) == (["[0, 0, 0]", "0"], "", 0)
    assert len(stub.requests) == 11
    assert stub.connections == 4


def test_ctrl_c_during_a_request(stub: Stub) -> None:
    """The request is cancelled, its connection closed, and the client goes on."""
    arrived = threading.Event()

    def slow(request: Any) -> Answer:
        arrived.set()
        return Answer(delay=60)

    stub.route("GET", "/api/v1/evaluations/slow", slow)
    outcome = run(
        """
from prime_sync import EvalsClient
client = EvalsClient()
print(client.list_evaluations().total)
print("started")
try:
    client.get_evaluation("slow")
except KeyboardInterrupt:
    print("interrupted")
print(client.list_evaluations().total)
""",
        interrupt_at="started",
        when=arrived,
    )
    assert outcome.lines == ["0", "started", "interrupted", "0"]
    assert (outcome.errors, outcome.code) == ("", 0)


def test_FR06_importing_the_package_loads_and_starts_nothing() -> None:
    """Not even aiohttp: that comes with the first client."""
    outcome = run(
        """
for name in [name for name in sys.modules if name.startswith("prime_")]:
    del sys.modules[name]
import prime_sync
print(threading.active_count(), "aiohttp" in sys.modules, "prime_async.evals" in sys.modules)
"""
    )
    assert (outcome.lines, outcome.errors) == (["1 False False"], "")
