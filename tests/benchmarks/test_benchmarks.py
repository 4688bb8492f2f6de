"""The benchmarks keep working: equipment, contract of their output, and each contender in small."""

from __future__ import annotations

import io
import sys
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import evals, sink, traces
from benchmarks.harness import Contender, case, race
from benchmarks.jobserver import JobServer
from benchmarks.report import print_report
from benchmarks.rollouts import LARGE, SMALL, make_rollouts
from benchmarks.samples import make_samples
from benchmarks.server import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The server process of the benchmarks."""
    with Server.start() as running:
        yield running


def test_benchmarks_are_found_and_equipment_is_not() -> None:
    """Every module with a run() is a benchmark."""
    names = command.names()
    assert {"evals", "sink", "startup", "traces"} <= set(names)
    assert set(command.cases("sink")) >= {"stream_65k", "server_down"} > set(command.cases("evals"))
    assert not {"harness", "rollouts", "server", "samples", "report", "uploads"} & set(names)


async def test_the_server_counts_sized_and_chunked_bodies(server: Server) -> None:
    """Samples are counted however the body is cut, also in the middle of a key."""
    server.reset()
    body = b'{"samples":[{"example_id":1},{"example_id":2}]}'

    async def bytewise() -> AsyncIterator[bytes]:
        for byte in body:
            yield bytes([byte])

    async with aiohttp.ClientSession() as session:
        url = f"{server.url}/api/v1/evaluations/e/samples"
        for data in (body, bytewise()):
            async with session.post(url, data=data) as response:
                assert (await response.json())["stored"] == 2
    counted = server.counters()
    assert (counted.samples, counted.uploads, counted.bytes) == (4, 2, 2 * len(body))


def test_samples_are_as_large_as_they_say() -> None:
    """About 8 KB each, every one different."""
    import msgspec

    encoded = [msgspec.json.encode(sample) for sample in make_samples(100)]
    assert 7_500 < sum(map(len, encoded)) / 100 < 9_000
    assert len(set(encoded)) == 100


@pytest.mark.parametrize("mark", ["", "é"])
def test_all_contenders_push_everything(server: Server, mark: str) -> None:
    """Ours, the official client and the floor deliver the same; ratios are peer over ours."""
    contenders = evals._contenders("list", count=60, mark=mark)
    raced = race(contenders, rounds=1, server=server)
    result = evals._checked(raced, 60)
    assert set(result) == {"ours", "peer", "floor", "ratios", "counters"}
    for role in ("ours", "peer", "floor"):
        assert set(result[role]) == {"wall_s", "cpu_s", "stall_ms", "extra_rss_mb"}
    expected = result["peer"]["wall_s"] / result["ours"]["wall_s"]
    assert result["ratios"]["wall_s"] == pytest.approx(expected)


def test_a_lost_sample_is_no_result() -> None:
    """Figures of a run that lost something are refused."""
    with pytest.raises(RuntimeError, match="59 of 60"):
        evals._checked({"ours": {"wall_s": 1.0, "server_samples": 59}}, 60)


def test_a_contender_that_fails_is_no_result() -> None:
    """Its error is passed on."""
    argv = [sys.executable, "-c", "raise SystemExit(3)"]
    with pytest.raises(RuntimeError, match="exit status 3"):
        race([Contender("ours", "benchmarks.startup:command", {"argv": argv})], rounds=1)


def test_the_table_shows_every_figure() -> None:
    """The readable form holds figures, ratios and counters."""
    made = case(
        {"ours": {"wall_s": 2.0}, "peer": {"wall_s": 8.0}, "floor": {"wall_s": 1.0}}, {"n": 3}
    )
    out = io.StringIO()
    print_report({"name": "x", "cases": {"y": made}}, Console(file=out, width=100))
    text = out.getvalue()
    assert all(part in text for part in ("x · y", "wall s", "4.00x", "2.00x", "n 3"))


@pytest.mark.parametrize("name", ["poll_floor", "hydrate_sync_ours"])
def test_contenders_of_the_jobs_get_what_they_ask_for(name: str) -> None:
    """Statuses and outputs, from the server of made-up jobs."""
    with JobServer.start() as url:
        figures = race([Contender("ours", f"benchmarks.jobs:{name}", {"url": url})], rounds=1)
    assert figures["ours"]["cpu_us_per_call" if "poll" in name else "wall_s"] > 0


def test_rollouts_are_as_large_as_they_say() -> None:
    """About 0.56 MiB and 65 KB, every one different."""
    import msgspec

    for turns, size in ((LARGE, 587_000), (SMALL, 65_000)):
        encoded = [msgspec.json.encode(rollout) for rollout in make_rollouts(4, turns)]
        assert sum(map(len, encoded)) / 4 == pytest.approx(size, rel=0.05)
        assert len(set(encoded)) == 4


@pytest.mark.parametrize(
    "features", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["zstd", "gzip"]
)
def test_all_contenders_upload_every_rollout(features: bool) -> None:
    """However it is compressed, the server counts what arrived."""
    with Server.start(features=features) as running:
        result = traces.bulk(running, 3, rounds=1, zstd=features)
    assert set(result) == {"ours", "peer", "floor", "ratios", "counters"}
    for role in ("ours", "peer", "peer_sync", "floor"):
        assert result["counters"][f"{role}_mib_per_s"] > 0


@pytest.mark.slow
def test_streams_of_all_contenders_arrive() -> None:
    """The durable one too; latencies, memory and loss are there."""
    with Server.start(features=True) as running:
        cases = sink.stream(running, 30, rounds=1)
    assert set(cases) == {"stream_65k", "stream_65k_durable"}
    for result in cases.values():
        for role in ("ours", "peer"):
            assert {"log_p50_ms", "log_p99_ms", "log_max_ms", "stall_ms"} <= set(result[role])
            assert result["counters"][f"{role}_lost"] == 0


def test_rows_arrive_over_a_long_way() -> None:
    """Ours in few requests, the official one's in one each, 20 ms or more."""
    with Server.start(features=True, delay=0.02) as running:
        result = sink.metrics(running, 500, 3, rounds=1)
    assert result["counters"]["ours_requests"] < 20
    assert result["peer"]["record_ms"] >= 20
    assert result["counters"]["ours_samples"] == 500


def test_what_a_server_that_is_down_does_not_take_is_kept() -> None:
    """Ours has it on disk."""
    with Server.start(features=True, down=True) as running:
        contender = Contender("ours", "benchmarks.sink:down_ours", {"count": 20})
        result = sink._counted(race([contender], rounds=1, server=running), 20, 0)
    assert (result["counters"]["ours_kept"], result["counters"]["ours_lost"]) == (20, 0)
