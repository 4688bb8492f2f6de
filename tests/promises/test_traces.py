"""Promises T1 to T8: the streaming sink, in both error modes and for both kinds of run."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from prime_async import AsyncAPIClient
from prime_async.runs import RunFinishedError, RunStatus, init
from prime_async.runs.uploader import uploader
from prime_async.traces import PrimeTracesError
from prime_async.transport import RetryBudget
from tests.platform import KEY, RunningPlatform, ThreadedPlatform, running_platform
from tests.runs.opening import OpenRun, trace
from tests.runs.platform_double import PlatformDouble
from tests.server.clocks import FakeClock
from tests.stub import Answer, Stub

BUSY = Answer(503, json={"error": {"code": "ingest_unavailable", "message": "busy"}})

both_modes = pytest.mark.parametrize("on_error", ["warn", "raise"])
both_kinds = pytest.mark.parametrize("kind", ["eval", "train"])


@pytest.fixture(autouse=True)
def _own_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test spends on repeats is not missing in the next."""
    monkeypatch.setattr("prime_async.transport.client.process_budget", RetryBudget())


@pytest.fixture
def double(stub: Stub) -> PlatformDouble:
    """A platform that misbehaves as told."""
    return PlatformDouble(stub)


@pytest.fixture
async def open_run(stub: Stub, tmp_path: Path) -> AsyncIterator[OpenRun]:
    """Opens runs on it."""
    opener = OpenRun(stub.url, tmp_path / "spool")
    yield opener
    await opener.aclose()


class Clock:
    """A clock that goes on when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


# T1


@both_kinds
@both_modes
async def test_T1_logging_is_a_queue_put_from_any_thread_or_loop(
    open_run: OpenRun, double: PlatformDouble, kind: str, on_error: str
) -> None:
    """Plain functions: in this coroutine, in threads, in another loop; nothing is awaited."""
    run = await open_run(kind, on_error=on_error)

    def log(part: str) -> None:
        for number in range(50):
            run.log_trace(trace(f"{part}{number}"))
        run.log_metrics({"n": 1.0}, step=1)

    async def log_in_another_loop() -> None:
        log("loop")

    log("here")
    threads = [threading.Thread(target=log, args=(f"thread{number}-",)) for number in range(4)]
    threads.append(threading.Thread(target=lambda: asyncio.run(log_in_another_loop())))
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert await run.flush()
    assert len(double.ids) == len(set(double.ids)) == 300


async def test_T1_a_call_neither_waits_nor_sends(
    open_run: OpenRun, double: PlatformDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While this loop is held nothing can be answered, and yet calls return; what they put on the
    queue was not touched by the network in between.
    """
    run = await open_run()
    double.down = True
    before = len(double.stub.requests)
    for number in range(1000):
        run.log_trace(trace(f"t{number}"))
    assert len(double.stub.requests) == before
    assert run.stats().counts.queued == 1000


async def test_T1_a_call_does_no_io_and_waits_for_nobody(
    open_run: OpenRun, double: PlatformDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, pauses and the uploader are out of reach, and yet every call returns."""
    run = await open_run()
    release, held = threading.Event(), threading.Event()
    uploader().call(lambda: (held.set(), release.wait()))
    await asyncio.to_thread(held.wait)
    here = threading.current_thread()

    def forbid(place: Any, name: str) -> None:
        original = getattr(place, name)

        def guarded(*args: Any, **options: Any) -> Any:
            assert threading.current_thread() is not here, f"{name} in a call that logs"
            return original(*args, **options)

        patch.setattr(place, name, guarded)

    with monkeypatch.context() as patch:
        for place, name in ((os, "open"), (os, "write"), (builtins, "open"), (time, "sleep")):
            forbid(place, name)
        forbid(threading.Event, "wait")
        for log in _writes(run):
            log()
        run.log_traces(trace(f"t{number}") for number in range(100))
    assert run.stats().counts.queued == 104
    release.set()
    assert await run.flush()


async def test_T1_uploads_go_on_while_the_loop_is_blocked(tmp_path: Path) -> None:
    """They have a thread and a loop of their own."""
    with ThreadedPlatform(tmp_path) as platform:
        opener = OpenRun(platform.url, tmp_path / "spool", platform.key)
        run = await opener()
        run.log_trace(trace("t"))
        until = time.monotonic() + 20
        while run.undelivered_records and time.monotonic() < until:
            time.sleep(0.01)  # this loop is blocked
        assert run.stats().counts.delivered == 1
        await run.finish()


async def test_T1_durable_is_one_local_write(open_run: OpenRun, double: PlatformDouble) -> None:
    """The record is in a file when the call returns."""
    double.down = True
    run = await open_run(durable=True)
    run.log_trace(trace("kept"))
    files = list(open_run.spool.glob("run.traces/*/*.seg"))
    assert b'"id":"kept"' in files[0].read_bytes()


# T2


@both_kinds
async def test_T2_warn_lets_nothing_escape(
    open_run: OpenRun, double: PlatformDouble, kind: str
) -> None:
    """Refusals, outages and broken values come out in the receipt only."""
    run = await open_run(kind)
    double.poison = {"bad"}
    double.faults = [BUSY]
    run.log_traces([trace("a"), trace("b", x=object())])
    assert await run.flush() is False
    run.log_trace(trace("bad"))
    await run.flush()
    receipt = await run.finish()
    assert (receipt.counts.delivered, receipt.counts.refused) == (1, 2)
    assert receipt.status is RunStatus.COMPLETED


@both_kinds
async def test_T2_raise_surfaces_from_flush_once(
    open_run: OpenRun, double: PlatformDouble, kind: str
) -> None:
    """The platform's own refusal, typed; the run goes on."""
    run = await open_run(kind, on_error="raise")
    double.poison = {"bad"}
    run.log_traces([trace("good"), trace("bad")])
    with pytest.raises(PrimeTracesError, match="is no trace") as caught:
        await run.flush()
    assert getattr(caught.value, "status", None) == 400
    assert await run.flush()
    run.log_trace(trace("more"))
    await run.finish()
    assert double.ids == ["good", "more"]


@both_kinds
async def test_T2_raise_surfaces_from_finish(
    open_run: OpenRun, double: PlatformDouble, kind: str
) -> None:
    """The run has ended all the same, and the receipt is there."""
    run = await open_run(kind, on_error="raise")
    double.down = True
    run.log_trace(trace("a"))
    with pytest.raises(PrimeTracesError):
        await run.finish()
    assert run.finished
    assert run.receipt is not None
    assert run.receipt.counts.spooled == 1
    assert (await run.finish()).run_id == run.id


@both_kinds
@both_modes
async def test_T2_init_raises_in_both_modes(
    open_run: OpenRun, double: PlatformDouble, kind: str, on_error: str
) -> None:
    """No run, no silence."""
    double.stub.route("POST", "/api/v1/(evaluations/|rft/external-runs)", Answer(403, json={}))
    with pytest.raises(PrimeTracesError):
        await open_run(kind, on_error=on_error)


# T3


def test_T3_one_family_on_both_faces() -> None:
    """One class, importable from both places, base of every error of runs."""
    import prime_async.runs
    import prime_async.traces
    import prime_sync.traces

    assert prime_sync.traces.PrimeTracesError is prime_async.traces.PrimeTracesError
    names = [name for name in prime_async.runs.__all__ if name.endswith("Error")]
    assert len(names) >= 4
    for name in names:
        assert issubclass(getattr(prime_async.runs, name), PrimeTracesError), name


@both_modes
async def test_T3_everything_raised_is_of_the_family(
    open_run: OpenRun, double: PlatformDouble, on_error: str
) -> None:
    """Wrong arguments, a refused key, an unknown environment, a finished run."""
    wrong: list[dict[str, Any]] = [
        {"kind": "evaluation"},
        {"queue_policy": "block"},
        {"environments": []},
        {"finish_timeout": -1},
        {"config": 3},
        {"context": "nowhere", "api_key": None, "base_url": None},
    ]
    for options in wrong:
        with pytest.raises(PrimeTracesError):
            await open_run(**{"on_error": on_error, **options})
    double.stub.route("POST", "/api/v1/environmentshub/resolve", Answer(404, json={}))
    with pytest.raises(PrimeTracesError):
        await open_run(on_error=on_error)
    run = await open_run("train", on_error=on_error)
    await run.finish()
    for log in _writes(run):
        with pytest.raises(RunFinishedError):
            log()


def _writes(run: Any) -> list[Callable[[], Any]]:
    return [
        lambda: run.log_trace(trace("x")),
        lambda: run.log_metrics({"x": 1}),
        lambda: run.log_samples([{}]),
        lambda: run.log_distributions({"x": [1.0]}),
        lambda: run.update_summary({"x": 1}),
    ]


# T4


@both_kinds
@both_modes
async def test_T4_a_transient_failure_costs_one_batch(
    open_run: OpenRun, double: PlatformDouble, kind: str, on_error: str
) -> None:
    """The batch goes to the disk, the next one goes to the platform."""
    run = await open_run(kind, on_error=on_error)
    double.faults = [BUSY]
    run.log_trace(trace("first"))
    await _flushed(run)
    run.log_trace(trace("second"))
    await _flushed(run)
    assert "second" in double.ids
    assert run.stats().sinks["traces"] == "working"
    await run.finish()
    assert sorted(double.ids) == ["first", "second"]


@both_modes
async def test_T4_three_in_a_row_retire_the_sink_of_an_evaluation(
    open_run: OpenRun, double: PlatformDouble, on_error: str
) -> None:
    """Nothing more is sent until the finish, which tries once more; nothing is lost."""
    run = await open_run("eval", on_error=on_error)
    double.down = True
    for number in range(3):
        run.log_trace(trace(f"t{number}"))
        await _flushed(run)
    assert run.stats().sinks["traces"] == "retired"
    posts, double.down = double.posts, False
    run.log_trace(trace("t3"))
    await _flushed(run)
    assert double.posts == posts
    assert run.undelivered_records == 4
    receipt = await run.finish()
    assert sorted(double.ids) == ["t0", "t1", "t2", "t3"]
    assert receipt.complete


@both_modes
async def test_T4_a_training_run_pauses_it_for_five_minutes(
    open_run: OpenRun, double: PlatformDouble, monkeypatch: pytest.MonkeyPatch, on_error: str
) -> None:
    """After the pause one batch tries; when it arrives, what was kept follows."""
    clock = Clock()
    monkeypatch.setattr("prime_async.runs.circuit.monotonic", clock)
    run = await open_run("train", on_error=on_error)
    double.down = True
    for number in range(3):
        run.log_trace(trace(f"t{number}"))
        await _flushed(run)
    assert run.stats().sinks["traces"] == "paused"
    posts, double.down = double.posts, False
    clock.now += 299.0
    run.log_trace(trace("t3"))
    await _flushed(run)
    assert double.posts == posts
    clock.now += 2.0
    run.log_trace(trace("t4"))
    assert await run.flush()
    assert run.stats().sinks["traces"] == "working"
    assert sorted(double.ids) == ["t0", "t1", "t2", "t3", "t4"]


async def test_T4_a_success_in_between_starts_the_count_anew(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """Consecutive means consecutive."""
    run = await open_run()
    for number, fault in enumerate([BUSY, BUSY, None, BUSY, BUSY]):
        double.faults = [fault]
        run.log_trace(trace(f"t{number}"))
        await run.flush()
        double.faults = []
    assert run.stats().sinks["traces"] == "working"


async def _flushed(run: Any) -> None:
    """Flush; in the mode that raises, the failure is expected."""
    with contextlib.suppress(PrimeTracesError):
        await run.flush()


# T5


@both_kinds
@both_modes
async def test_T5_a_full_queue_drops_and_counts(
    open_run: OpenRun, double: PlatformDouble, kind: str, on_error: str
) -> None:
    """Bounded in bytes; the calls return; the numbers add up."""
    run = await open_run(kind, queue_bytes=100_000, on_error=on_error)
    double.down = True
    for number in range(1000):
        run.log_trace(trace(f"t{number}", text="x" * 1000))
    assert run.dropped_records > 0
    assert run.stats().queue_peak_bytes <= 100_000
    counts = run.stats().counts
    assert counts.logged == 1000
    with contextlib.suppress(PrimeTracesError):
        await run.finish()
    assert run.receipt is not None
    counts = run.receipt.counts
    assert counts.logged == 1000
    assert counts.dropped == run.dropped_records
    assert run.failed_records == {"traces": counts.spooled}
    assert run.undelivered_records == counts.spooled


@pytest.mark.parametrize("policy", ["drop_new", "drop_old", "spool"])
async def test_T5_what_a_full_queue_does_is_chosen(
    open_run: OpenRun, double: PlatformDouble, policy: Any
) -> None:
    """The newest go, the oldest go, or none does: the rest waits on disk."""
    release = asyncio.Event()

    async def slow(request: Any) -> Answer:
        await release.wait()
        return double._upload(request)

    double.stub.route("POST", "/api/v1/traces", slow)
    run = await open_run(queue_bytes=5_000, queue_policy=policy, concurrency=1)
    for number in range(20):
        run.log_trace(trace(f"t{number}", text="x" * 500))
    release.set()
    receipt = await run.finish()
    assert receipt.counts.dropped == (0 if policy == "spool" else run.dropped_records)
    assert receipt.counts.delivered + receipt.counts.dropped == 20
    assert (policy == "spool") == (len(double.ids) == 20)
    if policy != "spool":
        assert ("t19" in double.ids) == (policy == "drop_old")


# T6 and T7

ENDS: dict[str, tuple[Callable[[], BaseException] | None, RunStatus, str | None]] = {
    "clean": (None, RunStatus.COMPLETED, None),
    "exception": (lambda: ValueError("boom"), RunStatus.FAILED, "ValueError: boom"),
    "ctrl-c": (KeyboardInterrupt, RunStatus.CANCELLED, "cancelled: interrupted"),
    "exit-0": (lambda: SystemExit(0), RunStatus.COMPLETED, None),
    "exit-1": (lambda: SystemExit(1), RunStatus.FAILED, "SystemExit: 1"),
    "cancelled": (asyncio.CancelledError, RunStatus.CANCELLED, "cancelled: interrupted"),
}


@both_kinds
@both_modes
@pytest.mark.parametrize("end", ENDS)
async def test_T6_T7_a_block_always_closes_its_run(
    open_run: OpenRun, double: PlatformDouble, kind: str, on_error: str, end: str
) -> None:
    """With the status of the promise, in the two words the platform has."""
    make, status, message = ENDS[end]
    run = await open_run(kind, on_error=on_error)
    error = None if make is None else make()
    with contextlib.nullcontext() if error is None else pytest.raises(type(error)):
        async with run:
            run.log_trace(trace("t"))
            if error is not None:
                raise error
    assert run.status is status
    assert double.ids == ["t"]
    how, body = double.endings[-1]
    if status is RunStatus.COMPLETED:
        assert how == f"POST /api/v1/{'evaluations/ev-1' if kind == 'eval' else 'rft'}/finalize"
    else:
        assert body["status"].lower() == "failed"
        assert body["error_message"] == message


@both_kinds
async def test_T7_crashed_is_reported_as_failed(
    open_run: OpenRun, double: PlatformDouble, kind: str
) -> None:
    """With the reason behind the word."""
    run = await open_run(kind)
    await run.finish(status="crashed", error="the node went away")
    assert double.endings[-1][1]["error_message"] == "crashed: the node went away"


SCRIPT = """
import asyncio, os, signal, sys, time
from prime_async.runs import init as open_run
from prime_sync.runs import init

def options():
    return dict(base_url=os.environ["URL"], api_key=os.environ["KEY"], kind=os.environ["KIND"],
                model="m", environments=["math"], spool_dir=os.environ["SPOOL"])

def trace(name):
    return {"id": name, "timing": {"start": time.time()}}

"""


def run_script(
    platform: ThreadedPlatform | RunningPlatform,
    tmp_path: Path,
    body: str,
    kind: str = "eval",
    **env: str,
) -> subprocess.CompletedProcess[str]:
    """Run a script against a platform."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT + body],
        env={
            **os.environ,
            "URL": platform.url,
            "KEY": platform.key,
            "KIND": kind,
            "SPOOL": str(tmp_path / "spool"),
            **env,
        },
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def threaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The embedded platform, for programs of their own."""
    with ThreadedPlatform(tmp_path_factory.mktemp("platform")) as running:
        yield running


def _ended(platform: ThreadedPlatform, kind: str, run_id: str) -> dict[str, Any]:
    from prime_sync import APIClient

    path = f"/evaluations/{run_id}" if kind == "eval" else f"/rft/external-runs/{run_id}"
    with APIClient(KEY, base_url=platform.url) as api:
        answer = api.get(path)
    found: dict[str, Any] = answer.get("run", answer)
    return found


def _traces(platform: ThreadedPlatform, run_id: str) -> list[str]:
    from prime_sync import APIClient

    with APIClient(KEY, base_url=platform.url) as api:
        found = api.get("/traces", params={"run_id": run_id, "limit": 100})
    return sorted(item["trace_id"] for item in found["items"])


@both_kinds
def test_T6_an_unexpected_exit_is_a_crash(
    threaded: ThreadedPlatform, tmp_path: Path, kind: str
) -> None:
    """The exit hook delivers what is queued and closes the run; the exit code stays."""
    body = """
run = init(**options())
print(run.id, flush=True)
run.log_traces(trace(f"{run.id}-{n}") for n in range(20))
sys.exit(3)
"""
    done = run_script(threaded, tmp_path, body, kind)
    assert done.returncode == 3, done.stderr
    run_id = done.stdout.strip()
    assert len(_traces(threaded, run_id)) == 20
    ended = _ended(threaded, kind, run_id)
    assert ended["status"] == "FAILED"
    assert _message(ended).startswith("crashed: ")
    assert len(done.stderr.strip().splitlines()) == 1


def _message(ended: dict[str, Any]) -> str:
    message = ended.get("error_message") or ended.get("errorMessage")
    return str(message)


@pytest.mark.parametrize("face", ["sync", "async"])
def test_T6_sigterm_closes_the_run(threaded: ThreadedPlatform, tmp_path: Path, face: str) -> None:
    """What was logged arrives, the run has ended with the reason, the exit code is the usual."""
    body = {
        "sync": """
with init(**options()) as run:
    print(run.id, flush=True)
    run.log_trace(trace(run.id))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(30)
""",
        "async": """
async def main():
    async with await open_run(**options()) as run:
        print(run.id, flush=True)
        run.log_trace(trace(run.id))
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(30)
asyncio.run(main())
""",
    }[face]
    done = run_script(threaded, tmp_path, body)
    assert done.returncode in (143, -signal.SIGTERM), done.stderr
    run_id = done.stdout.strip()
    assert _traces(threaded, run_id) == [run_id]
    assert _message(_ended(threaded, "eval", run_id)) == "crashed: ended by SIGTERM"


async def test_T6_a_run_whose_process_is_killed_is_failed_by_the_platform(tmp_path: Path) -> None:
    """Nothing can be told on SIGKILL: the lease runs out, not before its time."""
    clock = FakeClock()
    async with running_platform(tmp_path, clock=clock) as platform:
        body = """
run = init(**options())
print(run.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
        done = await asyncio.to_thread(run_script, platform, tmp_path, body)
        assert done.returncode == -signal.SIGKILL, done.stderr
        states = []
        async with AsyncAPIClient(platform.key, base_url=platform.url) as api:
            for seconds in (110, 20):
                clock.advance(seconds)
                await platform.parts.sandboxes.leases.expire()
                states.append(await api.get(f"/evaluations/{done.stdout.strip()}"))
    assert [state["status"] for state in states][1] == "FAILED"
    assert states[0]["status"] != "FAILED"
    assert str(states[1]["error_message"]).startswith("crashed: ")


async def test_T7_the_platform_takes_cancelled_from_others(platform: RunningPlatform) -> None:
    """As the official client says it."""
    async with AsyncAPIClient(platform.key, base_url=platform.url) as api:
        made = await api.post("/evaluations/", {"name": "n", "run_id": "r"})
        path = f"/evaluations/{made['evaluation_id']}"
        await api.put(path, {"status": "CANCELLED", "error_message": "interrupted"})
        assert (await api.get(path))["status"] == "CANCELLED"


# T8


@both_kinds
@both_modes
async def test_T8_finish_delivers_for_so_long_and_keeps_the_rest(
    open_run: OpenRun, double: PlatformDouble, kind: str, on_error: str
) -> None:
    """``finish(timeout=)`` over ``finish_timeout``; the rest is on disk and delivered once."""
    run = await open_run(kind, on_error=on_error, finish_timeout=300.0)
    release = asyncio.Event()

    async def slow(request: Any) -> Answer:
        await release.wait()
        return double._upload(request)

    double.stub.route("POST", "/api/v1/traces", slow)
    run.log_traces(trace(f"t{number}") for number in range(10))
    with contextlib.suppress(PrimeTracesError):
        await run.finish(timeout=0.2)
    assert run.receipt is not None
    assert run.receipt.counts.spooled == 10
    assert run.receipt.spool_paths
    release.set()
    synced = await open_run.sync()
    assert [one.problem for one in synced] == [None]
    assert sorted(double.ids) == sorted(f"t{number}" for number in range(10))
    assert len(double.uploads) == 1
    assert open_run.left() == []


async def test_T8_without_a_timeout_it_delivers_for_the_finish_timeout(
    open_run: OpenRun, double: PlatformDouble
) -> None:
    """That of the run, not the default: it comes back, with everything on disk."""
    run = await open_run(finish_timeout=0.2)
    double.stub.route("POST", "/api/v1/traces", Answer(status=0, end="silent"))
    run.log_trace(trace("t"))
    receipt = await run.finish()
    assert receipt.counts.spooled == 1


async def test_T8_the_default_is_300_seconds(open_run: OpenRun, double: PlatformDouble) -> None:
    """And any other is taken as given."""
    run = await open_run()
    assert run._core.options.finish_timeout == 300.0
    assert (await open_run(finish_timeout=math.inf))._core.options.finish_timeout == math.inf


# The embedded platform, both faces


async def test_T_a_life_on_the_embedded_platform(tmp_path: Path, platform: RunningPlatform) -> None:
    """Opened, logged to, finished, read back."""
    run = await init(
        api_key=platform.key,
        base_url=platform.url,
        kind="train",
        model="m",
        environments=["math"],
        spool_dir=tmp_path / "spool",
    )
    async with run:
        run.log_traces([trace("a"), trace("b")])
        run.log_metrics({"loss": 0.5}, step=1)
        run.update_summary({"best": 0.5})
    assert run.receipt is not None
    assert run.receipt.complete, run.receipt
    assert run.receipt.reported
