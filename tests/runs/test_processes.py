"""Runs over several processes: forks, workers, kills, and what is delivered afterwards."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_sync import APIClient
from prime_sync.runs import sync_runs
from tests.platform import KEY, ThreadedPlatform
from tests.runs.scripts import expected, run_script, start, sync, traces_of


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedPlatform]:
    """The embedded platform, shared: each test has runs of its own."""
    with ThreadedPlatform(tmp_path_factory.mktemp("platform")) as running:
        yield running


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Where the scripts keep things."""
    return tmp_path / "spool"


def test_FR05_four_children_and_their_parent_log_each_record_once(
    platform: ThreadedPlatform, spool: Path
) -> None:
    """Forked while records are queued: children send their own, the parent's life is its own."""
    code, run_id, err = run_script(
        platform,
        spool,
        """
run = init(**options())
print(run.id, flush=True)
run.log_traces(trace(f"{run.id}-before{n}") for n in range(50))
children = []
for number in range(4):
    pid = os.fork()
    if pid == 0:
        run.log_traces(trace(f"{run.id}-child{number}-{n}") for n in range(50))
        ok = run.flush(20)
        os._exit(0 if ok else 9)
    children.append(pid)
run.log_traces(trace(f"{run.id}-after{n}") for n in range(50))
codes = [os.waitpid(pid, 0)[1] for pid in children]
assert codes == [0] * 4, codes
receipt = run.finish()
assert receipt.counts.delivered == receipt.counts.logged == 100, receipt
assert receipt.reported
""",
    )
    assert code == 0, err
    parts = {"before": 50, "after": 50, **{f"child{number}-": 50 for number in range(4)}}
    assert traces_of(platform, run_id) == expected(run_id, parts)


@pytest.mark.slow
def test_workers_of_multiprocessing_deliver_when_they_end(
    platform: ThreadedPlatform, spool: Path
) -> None:
    """They skip the interpreter's exit hooks; a forked run has one of theirs. A run cannot be sent
    to a spawned one, which opens it by its id.
    """
    code, run_id, err = run_script(
        platform,
        spool,
        """
run = init(**options())

def work(number):
    run.log_trace(trace(f"{run.id}-worker{number}"))

print(run.id, flush=True)
workers = [multiprocessing.get_context("fork").Process(target=work, args=(n,)) for n in range(3)]
for worker in workers: worker.start()
for worker in workers: worker.join()
assert [worker.exitcode for worker in workers] == [0, 0, 0]
other = init(**options(id=run.id))
other.log_trace(trace(f"{run.id}-attached0"))
assert other.attached and other.flush()
import pickle
try:
    pickle.dumps(run)
except ValueError as error:
    assert run.id in str(error)
run.finish()
""",
    )
    assert code == 0, err
    assert traces_of(platform, run_id) == expected(run_id, {"worker": 3, "attached": 1})


def test_FR40_threads_and_the_end_of_main(platform: ThreadedPlatform, spool: Path) -> None:
    """Records of eight threads, and of a daemon thread that logs on, all arrive or are counted."""
    code, run_id, err = run_script(
        platform,
        spool,
        """
run = init(**options())
print(run.id, flush=True)
def log(part):
    run.log_traces(trace(f"{run.id}-{part}{n}") for n in range(100))
def log_for_ever():
    while True:
        run.log_metrics({"n": 1}, step=1)
        time.sleep(0.001)
threading.Thread(target=log_for_ever, daemon=True).start()
for part in range(8):
    threading.Thread(target=log, args=(f"t{part}-",)).start()
""",
    )
    assert code == 0, err
    assert traces_of(platform, run_id) == expected(run_id, {f"t{n}-": 100 for n in range(8)})


@pytest.mark.parametrize(
    "moment", [pytest.param("at once", marks=pytest.mark.slow), "while sending"]
)
def test_kill_9_of_a_durable_run_loses_nothing(
    platform: ThreadedPlatform, spool: Path, moment: str
) -> None:
    """Another process delivers what the log calls had returned for, once."""
    pause = "0" if moment == "at once" else "0.002"
    process = start(
        platform,
        spool,
        f"""
run = init(**options(durable=True))
print(run.id, flush=True)
n = 0
while True:
    run.log_trace(trace(f"{{run.id}}-t{{n}}", text="x" * 2000))
    os.write(1, b".")
    n += 1
    time.sleep({pause})
""",
    )
    assert process.stdout is not None
    run_id = process.stdout.readline().strip()
    seen = len(process.stdout.read(300))
    process.send_signal(signal.SIGKILL)
    seen += len(process.stdout.read())
    process.wait()
    assert sync(platform, spool) == [None]
    found = traces_of(platform, run_id)
    # The last call may have written its record and not its dot.
    assert found in (
        expected(run_id, {"t": seen}),
        expected(run_id, {"t": seen + 1}),
    )
    assert sync(platform, spool) == []
    if process.stderr is not None:
        process.stderr.close()
    process.stdout.close()


def test_FR44_a_platform_that_is_away_at_the_end(
    platform: ThreadedPlatform, spool: Path, tmp_path: Path
) -> None:
    """The process ends in its time, one line says what is kept where, the exit code stays; the
    folder is delivered from elsewhere, once, however often.
    """
    code, run_id, err = run_script(
        platform,
        spool,
        """
import socket
run = init(**options(exit_timeout=1.5))
print(run.id, flush=True)
silent = socket.socket(); silent.bind(("127.0.0.1", 0)); silent.listen()
port = silent.getsockname()[1]
gone = init(**{**options(exit_timeout=1.5, id=run.id), "base_url": f"http://127.0.0.1:{port}"})
gone.log_traces(trace(f"{run.id}-t{n}") for n in range(10))
run.finish()
sys.exit(4)
""",
    )
    assert code == 4, err
    lines = [line for line in err.splitlines() if "10 spooled" in line]
    assert len(lines) >= 1
    assert str(spool) in lines[0]
    kept = next(spool.glob("run.traces/*"))
    _redirect(kept, platform.url)
    with APIClient(KEY, base_url=platform.url) as api:
        for _ in range(2):
            elsewhere = sync_runs(api, kept, spool_dir=tmp_path / "elsewhere")
            assert [one.problem for one in elsewhere] == [None]
    assert traces_of(platform, run_id) == expected(run_id, {"t": 10})


def test_FR41_an_exit_ends_in_its_time(platform: ThreadedPlatform, spool: Path) -> None:
    """A platform that takes connections and never answers holds nobody back."""
    code, took, err = run_script(
        platform,
        spool,
        """
import atexit, socket
silent = socket.socket(); silent.bind(("127.0.0.1", 0)); silent.listen()
url = f"http://127.0.0.1:{silent.getsockname()[1]}"
run = init(**{**options(exit_timeout=1.0, id="ev-1"), "base_url": url})
run.log_trace(trace("t"))
began = time.monotonic()
atexit.register(lambda: print(time.monotonic() - began, flush=True))
run.log_trace(trace("u"))
import prime_async.signals
prime_async.signals.at_exit(lambda seconds: None, name="the last one, which ends first")
""",
    )
    assert code == 0, err
    assert float(took or "0") < 8
    assert "2 spooled" in err


def _redirect(entry: Path, url: str) -> None:
    """Write an entry's head anew, as if it had been going to this platform."""
    from prime_async.spool import Spool

    old = Spool(entry.parents[1]).open("run.traces", entry.name)
    state = old.state()
    assert state.meta is not None
    records = list(old.records())
    cuts = state.cuts
    old.remove(discard=True)
    state.meta.base_url = url
    with Spool(entry.parents[1]).create("run.traces", entry.name, state.meta) as writer:
        for record in records:
            writer.data(record.index, record.payload)
        for cut in cuts:
            writer.cut(cut.ranges, cut.digest)
        writer.end(len(records))


def test_FR43_a_handler_of_the_users_own(platform: ThreadedPlatform, spool: Path) -> None:
    """It runs, its exit code counts, records arrive, the run has ended with a reason."""
    code, run_id, err = run_script(
        platform,
        spool,
        """
def leave(number, frame):
    print("mine", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, leave)
run = init(**options())
print(run.id, flush=True)
run.log_trace(trace(f"{run.id}-t0"))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(30)
""",
    )
    assert code == 7, err
    run_id, mine = run_id.splitlines()
    assert mine == "mine"
    assert traces_of(platform, run_id) == [f"{run_id}-t0"]
    with APIClient(KEY, base_url=platform.url) as api:
        assert api.get(f"/evaluations/{run_id}")["status"] == "FAILED"
