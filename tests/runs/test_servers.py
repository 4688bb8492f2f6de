"""Runs in servers: workers that are forked, forked before they serve, or spawned; full disks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_async.spool import Spool
from tests.platform import ThreadedPlatform
from tests.runs.scripts import expected, run_script, sync, traces_of


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedPlatform]:
    """The embedded platform, shared: each test has runs of its own."""
    with ThreadedPlatform(tmp_path_factory.mktemp("platform")) as running:
        yield running


def test_FR05_workers_of_a_pre_fork_server(platform: ThreadedPlatform, tmp_path: Path) -> None:
    """The master opens the run, its workers serve in loops of their own until SIGTERM, and are
    replaced meanwhile: what any of them logged is there once, and the master finishes the run.
    """
    code, run_id, err = run_script(
        platform,
        tmp_path / "spool",
        """
async def serve(name, requests, ready):
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    for number in range(requests):
        run.log_trace(trace(f"{run.id}-{name}{number}"))
        await asyncio.sleep(0)
    os.write(ready, b".")
    await stop.wait()

def worker(name, requests):
    mine, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        asyncio.run(serve(name, requests, ready))
        sys.exit(0)
    os.read(mine, 1)
    return pid

run = init(**options())
print(run.id, flush=True)
run.log_trace(trace(f"{run.id}-master0"))
workers = [worker(f"w{n}-", 40) for n in range(3)]
os.kill(workers.pop(0), signal.SIGTERM)
workers.append(worker("w3-", 40))
for pid in workers:
    os.kill(pid, signal.SIGTERM)
codes = [os.wait()[1] for _ in range(4)]
assert codes == [0] * 4, codes
run.log_trace(trace(f"{run.id}-master1"))
receipt = run.finish()
assert receipt.counts.delivered == 2 and receipt.reported, receipt
""",
    )
    assert code == 0, err
    parts = {"master": 2, **{f"w{number}-": 40 for number in range(4)}}
    assert traces_of(platform, run_id) == expected(run_id, parts)
    assert sync(platform, tmp_path / "spool") == []


@pytest.mark.slow
def test_spawned_workers_open_the_run_by_its_id(platform: ThreadedPlatform, tmp_path: Path) -> None:
    """As servers and data loaders start them where there is no fork."""
    module = tmp_path / "spawned.py"
    module.write_text(
        """
import os, time
from prime_sync.runs import init

def work(run_id, number):
    told = {name: os.environ[name.upper()] for name in ("url", "key", "spool")}
    where = dict(base_url=told["url"], api_key=told["key"], spool_dir=told["spool"])
    with init(id=run_id, **where) as run:
        for n in range(20):
            run.log_trace({"id": f"{run_id}-s{number}-{n}", "timing": {"start": time.time()}})
"""
    )
    code, run_id, err = run_script(
        platform,
        tmp_path / "spool",
        f"""
sys.path.insert(0, {str(tmp_path)!r})
import spawned
run = init(**options())
print(run.id, flush=True)
context = multiprocessing.get_context("spawn")
workers = [context.Process(target=spawned.work, args=(run.id, n)) for n in range(2)]
for worker in workers: worker.start()
run.log_trace(trace(f"{{run.id}}-master0"))
for worker in workers: worker.join()
assert [worker.exitcode for worker in workers] == [0, 0]
assert run.finish().reported
""",
    )
    assert code == 0, err
    parts = {"master": 1, "s0-": 20, "s1-": 20}
    assert traces_of(platform, run_id) == expected(run_id, parts)


_FILL = """
from prime_async.transport import RetryPolicy
away = {"base_url": "http://127.0.0.1:9", "retry": RetryPolicy(tries=1)}
gone = init(**{**options(id="ev-1", queue_policy="spool"), **away})
for n in range(200):
    gone.log_trace(trace(f"full-{n}", text="x" * 5000))
receipt = gone.finish(timeout=1)
counts = receipt.counts
import json
print(json.dumps([counts.logged, counts.spooled, counts.lost, gone.failed_records]))
"""


@pytest.mark.parametrize("full", ["quota", pytest.param("disk", marks=pytest.mark.slow)])
def test_a_disk_that_runs_full_is_said_and_counted(
    platform: ThreadedPlatform, tmp_path: Path, full: str
) -> None:
    """What still fitted is kept; the rest is lost, by number and with one word in the log. No call
    fails.
    """
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o700)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
    if full == "disk":
        limit = ""
        _mount(spool)
    try:
        code, told, err = run_script(platform, spool, limit + _FILL)
        assert code == 0, err
        logged, spooled, lost, failed = json.loads(told)
        assert logged == 200 == spooled + lost
        assert 30 < spooled < 70
        assert failed == {"traces": 200}
        assert err.count("records cannot be kept") == 1
        (kept,) = spool.glob("run.traces/*")
        records = Spool(spool).open("run.traces", kept.name).records()
        assert sum(1 for _ in records) == spooled
    finally:
        if full == "disk":
            subprocess.run(["umount", str(spool)], check=True)


def _mount(folder: Path) -> None:
    command = ["mount", "-t", "tmpfs", "-o", "size=300k,mode=700", "spool-test", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
