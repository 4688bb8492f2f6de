"""What cannot be delivered is kept on disk, and delivered later: exactly once, and only there."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from prime_async.api import AsyncAPIClient
from prime_async.errors import APIConnectionError, PartialPushError, SpoolError
from prime_async.evals import AsyncEvalsClient, PushReceipt, interrupted_pushes
from prime_async.transport import RetryPolicy
from tests.evals.pushing import Target, numbered, write_jsonl
from tests.official_stub import EVALUATION, OfficialStub
from tests.platform import KEY, running_platform
from tests.stub import Answer

ONCE = RetryPolicy(tries=1)


class Platform:
    """An embedded platform that can be away and comes back on the same port, with its data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.url = ""

    @asynccontextmanager
    async def up(self) -> AsyncIterator[AsyncEvalsClient]:
        """Run it for a while."""
        async with running_platform(self.folder, port=self.port) as running:
            self.port, self.url = running.port, running.url
            async with AsyncEvalsClient(api_key=KEY, base_url=self.url) as client:
                yield client

    async def create(self) -> str:
        """Make an evaluation."""
        async with self.up() as client:
            made = await client.create_evaluation("e", run_id="r")
            assert made.evaluation_id is not None
            return made.evaluation_id

    async def push_while_away(self, evaluation_id: str, samples: Any, **options: Any) -> Any:
        """Push when nobody answers; return the receipt of the error."""
        async with (
            AsyncAPIClient(KEY, base_url=self.url, retry=ONCE) as api,
            AsyncEvalsClient(api) as client,
        ):
            with pytest.raises(PartialPushError) as caught:
                await client.push_samples(evaluation_id, samples, **options)
        return caught.value.receipt


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    """Not up yet."""
    return Platform(tmp_path)


async def _ids(client: AsyncEvalsClient, evaluation_id: str) -> list[Any]:
    found = client.iter_samples(evaluation_id, page_size=1000)
    return [sample["example_id"] async for sample in found]


async def _async(samples: list[Any]) -> AsyncIterator[Any]:
    for sample in samples:
        yield sample


@pytest.mark.parametrize("kind", ["generator", "async generator"])
async def test_a_source_of_one_reading_is_kept_and_delivered_once(
    platform: Platform, home: Path, kind: str
) -> None:
    """Nobody answers: every sample goes to disk, privately; a sync brings them, a second none."""
    evaluation_id = await platform.create()
    samples = numbered(300, size=1000)
    source = iter(samples) if kind == "generator" else _async(samples)
    receipt: PushReceipt = await platform.push_while_away(
        evaluation_id, source, max_payload_bytes=20_000
    )
    assert (receipt.samples_pushed, receipt.spooled, receipt.undelivered) == (0, 300, ())
    assert receipt.samples_total == 300
    assert receipt.spool_path is not None
    assert receipt.spool_path.is_relative_to(home / ".prime" / "spool")
    assert receipt.spool_path.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in receipt.spool_path.iterdir())
    assert not any(KEY.encode() in path.read_bytes() for path in receipt.spool_path.iterdir())
    async with platform.up() as client:
        (result,) = await client.sync_pushes()
        assert result.problem is None
        assert result.receipt is not None
        assert result.receipt.samples_pushed == 300
        assert await client.sync_pushes() == []
        assert await _ids(client, evaluation_id) == list(range(300))
    assert not receipt.spool_path.exists()


async def test_what_was_delivered_is_not_kept(official: OfficialStub) -> None:
    """An outage in the middle: the first part is stored, only the rest is on disk."""
    posts = 0

    def three_then_none(request: Any) -> Answer:
        nonlocal posts
        posts += 1
        return official.push(request) if posts <= 3 else Answer(503)

    official.route("POST", ".*/samples", three_then_none)
    async with (
        AsyncAPIClient("k", base_url=official.url, retry=ONCE) as api,
        AsyncEvalsClient(api) as client,
    ):
        with pytest.raises(PartialPushError, match="kept in") as caught:
            await client.push_samples(
                EVALUATION, iter(numbered(60)), max_payload_bytes=300, max_concurrent=1
            )
        receipt = caught.value.receipt
        stored = len(official.ids)
        assert receipt.samples_pushed == stored > 0
        assert "eval sync" in str(caught.value)
        official.route("POST", ".*/samples", official.push)
        (result,) = await client.sync_pushes()
    assert official.ids == sorted({*official.ids})
    unknown = sum(stop - start for start, stop in receipt.unknown)
    assert len(official.ids) == 60 - unknown
    assert (result.problem is None) == (unknown == 0)


async def test_two_syncs_at_once(platform: Platform, tmp_path: Path) -> None:
    """Several tasks and processes sync together: one owns each push, every sample arrives once."""
    evaluation_id = await platform.create()
    await platform.push_while_away(evaluation_id, iter(numbered(200, size=500)))
    path = write_jsonl(tmp_path / "rows.jsonl", [{"example_id": f"f{n}"} for n in range(200)])
    await platform.push_while_away(evaluation_id, path)
    program = (
        "import asyncio, prime_async\n"
        "async def main():\n"
        f"    async with prime_async.AsyncEvalsClient({KEY!r}, base_url={platform.url!r}) as c:\n"
        "        await c.sync_pushes()\n"
        "asyncio.run(main())\n"
    )
    async with platform.up() as client:
        others = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", program) for _ in range(2)
        ]
        results = await asyncio.gather(*(client.sync_pushes() for _ in range(3)))
        assert [await other.wait() for other in others] == [0, 0]
        assert await client.sync_pushes() == []
        ids = await _ids(client, evaluation_id)
    assert sorted(map(str, ids)) == sorted([*map(str, range(200)), *(f"f{n}" for n in range(200))])
    problems = {result.problem for found in results for result in found}
    assert all(
        problem is None or "another process" in problem or "no spool entry" in problem
        for problem in problems
    ), problems


async def test_two_syncs_at_once_on_the_official_wire(
    official: OfficialStub, official_target: Target, tmp_path: Path
) -> None:
    """Where posts append, one owner is all that keeps a file from being sent twice."""
    path = write_jsonl(tmp_path / "rows.jsonl", numbered(100))
    official.route("POST", ".*/samples", Answer(429))
    with pytest.raises(PartialPushError):
        await official_target.push(path, max_payload_bytes=300, max_concurrent=1)
    official.route("POST", ".*/samples", official.push)

    async def sync() -> list[Any]:
        async with AsyncEvalsClient("key", base_url=official.url) as client:
            return await client.sync_pushes()

    await asyncio.gather(*(sync() for _ in range(5)))
    assert sorted(official.ids) == list(range(100))


async def test_what_was_going_elsewhere_is_left_alone(
    platform: Platform, official: OfficialStub
) -> None:
    """Another platform's samples are reported, and not a byte of them is sent here."""
    evaluation_id = await platform.create()
    receipt = await platform.push_while_away(evaluation_id, iter(numbered(5)))
    async with AsyncEvalsClient("other", base_url=official.url) as client:
        (result,) = await client.sync_pushes()
    assert result.receipt is None
    assert result.problem == f"it was going to {platform.url}, not to {official.url}"
    assert result.push.evaluation_id == evaluation_id
    assert official.requests == []
    assert receipt.spool_path.exists()
    (push,) = await asyncio.to_thread(interrupted_pushes)
    assert (push.undelivered, push.file, push.running) == (5, None, False)


async def test_a_wrong_key_at_the_sync_costs_nothing(platform: Platform, tmp_path: Path) -> None:
    """Refused by the platform: samples and journals stay on disk for the next try."""
    evaluation_id = await platform.create()
    await platform.push_while_away(evaluation_id, iter(numbered(5)))
    path = write_jsonl(tmp_path / "rows.jsonl", numbered(5))
    await platform.push_while_away(evaluation_id, path)
    async with platform.up() as client:
        async with AsyncEvalsClient("wrong", base_url=platform.url) as stranger:
            results = await stranger.sync_pushes()
        assert all("401" in (result.problem or "") for result in results)
        assert len(results) == 2
        results = await client.sync_pushes()
        assert [result.problem for result in results] == [None, None]
        assert sorted(await _ids(client, evaluation_id)) == sorted([*range(5)] * 2)


async def test_an_evaluation_that_is_gone(platform: Platform) -> None:
    """Deleted meanwhile: reported, and the samples stay where they are."""
    evaluation_id = await platform.create()
    receipt = await platform.push_while_away(evaluation_id, iter(numbered(5)))
    async with platform.up() as client:
        await client.delete_evaluation(evaluation_id)
        (result,) = await client.sync_pushes()
        assert result.problem is not None
        assert evaluation_id in result.problem
    assert receipt.spool_path.exists()


@pytest.mark.parametrize("change", ["changed", "gone"])
async def test_a_file_that_is_not_the_same_any_more(
    platform: Platform, tmp_path: Path, change: str
) -> None:
    """A changed or missing file is not pushed under the old name; the message says the way out."""
    evaluation_id = await platform.create()
    path = write_jsonl(tmp_path / "rows.jsonl", numbered(5))
    await platform.push_while_away(evaluation_id, path)
    if change == "gone":
        path.unlink()
    else:
        write_jsonl(path, numbered(6))
    async with platform.up() as client:
        (result,) = await client.sync_pushes()
        assert result.problem is not None
        assert "gone or changed" in result.problem
        assert "rm -r" in result.problem
        assert await _ids(client, evaluation_id) == []


async def test_a_sync_goes_on_as_the_push_began(platform: Platform, tmp_path: Path) -> None:
    """Limit, trimming and strictness of the interrupted push hold for the rest of it."""
    evaluation_id = await platform.create()
    rows: list[Any] = numbered(6)
    rows[1]["logs"] = "x" * 2000
    rows[2]["answer"] = "x" * 2000
    rows[3]["reward"] = float("nan")
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    await platform.push_while_away(
        evaluation_id, path, max_payload_bytes=500, trim=["logs"], strict=True
    )
    async with platform.up() as client:
        (result,) = await client.sync_pushes()
        receipt = result.receipt
        assert receipt is not None
        assert receipt.trimmed == {1: ("logs",)}
        assert [refusal.index for refusal in receipt.refused] == [2, 3]
        assert await _ids(client, evaluation_id) == [0, 1, 4, 5]


async def test_a_push_that_runs_is_not_disturbed(official: OfficialStub, tmp_path: Path) -> None:
    """A sync beside a running push leaves it alone and says so."""
    path = write_jsonl(tmp_path / "rows.jsonl", numbered(20))
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def wait(request: Any) -> Answer:
        arrived.set()
        await go_on.wait()
        return official.push(request)

    official.route("POST", ".*/samples", wait)
    async with (
        AsyncEvalsClient("k", base_url=official.url) as client,
        asyncio.TaskGroup() as group,
    ):
        push = group.create_task(client.push_samples(EVALUATION, path))
        await arrived.wait()
        (result,) = await client.sync_pushes()
        assert result.push.running
        assert result.problem == "it is still running in another process"
        with pytest.raises(SpoolError, match="running elsewhere"):
            await client.push_samples(EVALUATION, path, push_id=result.push.push_id)
        go_on.set()
    assert push.result().complete
    assert official.ids == list(range(20))
    assert await asyncio.to_thread(interrupted_pushes) == []


async def test_the_same_named_source_again_after_an_outage() -> None:
    """Part of it is on disk from yesterday; today's push of the same name and the sync agree."""
    samples = numbered(50)
    async with OfficialStub(features=True) as stub:
        async with (
            AsyncAPIClient("k", base_url=stub.url, retry=ONCE) as api,
            AsyncEvalsClient(api) as client,
        ):
            stub.route("POST", ".*/samples", Answer(429))
            for part in (samples, samples[:20]):
                with pytest.raises(PartialPushError):
                    await client.push_samples(EVALUATION, iter(part), push_id="nightly")
            (push,) = await asyncio.to_thread(interrupted_pushes)
            assert push.undelivered == 50
            stub.route("POST", ".*/samples", stub.push)
            receipt = await client.push_samples(EVALUATION, iter(samples), push_id="nightly")
            assert receipt.complete
            (result,) = await client.sync_pushes()
            assert result.problem is None
        assert stub.ids == list(range(50))


async def test_a_named_source_is_not_read_while_nobody_answers(platform: Platform) -> None:
    """Before the platform said what it holds nothing is taken from the source."""
    evaluation_id = await platform.create()
    source = iter(numbered(5))
    async with (
        AsyncAPIClient(KEY, base_url=platform.url, retry=ONCE) as api,
        AsyncEvalsClient(api) as client,
    ):
        with pytest.raises(APIConnectionError):
            await client.push_samples(evaluation_id, source, push_id="nightly")
    assert len(list(source)) == 5


async def test_a_damaged_entry_does_not_hide_or_stop_the_others(platform: Platform) -> None:
    """One entry is noise, one has a hole: both are reported, what can be read is delivered."""
    evaluation_id = await platform.create()
    kept = [
        await platform.push_while_away(evaluation_id, iter(numbered(40, size=200)))
        for _ in range(3)
    ]
    noise = next(kept[0].spool_path.glob("*.seg"))
    noise.write_bytes(os.urandom(5000))
    holed = next(kept[1].spool_path.glob("*.seg"))
    content = bytearray(holed.read_bytes())
    content[len(content) // 2] ^= 0xFF
    holed.write_bytes(content)
    async with platform.up() as client:
        results = {result.push.path: result for result in await client.sync_pushes()}
        assert results[kept[0].spool_path].problem is not None
        assert "cannot be read" in (results[kept[1].spool_path].problem or "")
        assert results[kept[2].spool_path].problem is None
        assert len(await _ids(client, evaluation_id)) == 40 + 39
    assert kept[0].spool_path.exists()
    assert kept[1].spool_path.exists(), "what cannot be read may still be wanted"


def _block_spool(home: Path) -> None:
    """Make the spool impossible to write, for root too."""
    (home / ".prime").mkdir()
    (home / ".prime" / "spool").write_text("a file in the way")


async def test_home_that_cannot_be_written(target: Target, home: Path, tmp_path: Path) -> None:
    """A push never needs the spool: it goes on without, a warning says what is not possible."""
    _block_spool(home)
    path = write_jsonl(tmp_path / "rows.jsonl", numbered(10))
    for source in (numbered(10), path, iter(numbered(10)), _async(numbered(10))):
        assert (await target.push(source)).complete
    assert await target.ids() == list(range(10)) * 4


async def test_no_home_at_all(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without HOME there is no spool, and nothing else changes."""
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("USERPROFILE")
    monkeypatch.setattr("prime_async.evals.keeping.home_directory", lambda: None)
    path = write_jsonl(tmp_path / "rows.jsonl", numbered(10))
    for source in (path, iter(numbered(10))):
        assert (await target.push(source)).complete
    assert await target.client.sync_pushes() == []


async def test_nowhere_to_keep_what_is_left(platform: Platform, home: Path) -> None:
    """Outage and no spool: every sample is named as not delivered; none is called kept."""
    evaluation_id = await platform.create()
    _block_spool(home)
    receipt = await platform.push_while_away(evaluation_id, iter(numbered(30)))
    assert receipt.spooled == 0
    assert receipt.spool_path is None
    assert receipt.undelivered == ((0, 30),)


_FULL = """
import asyncio, json, resource, sys
import prime_async
from prime_async.transport import RetryPolicy

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

async def main():
    api = prime_async.AsyncAPIClient("k", base_url=sys.argv[1], retry=RetryPolicy(tries=1))
    async with api, prime_async.AsyncEvalsClient(api) as client:
        samples = ({"example_id": n, "answer": "x" * 1000} for n in range(300))
        try:
            await client.push_samples("eval-1", samples, max_payload_bytes=5000)
        except prime_async.PartialPushError as error:
            print(json.dumps(error.receipt.to_dict()))

asyncio.run(main())
"""


async def test_a_full_disk_under_the_spool(platform: Platform, home: Path) -> None:
    """What still fitted is kept and can be delivered; what did not is named as not delivered."""
    await platform.create()
    done = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _FULL,
        platform.url,
        stdout=subprocess.PIPE,
        env={**os.environ, "HOME": str(home)},
    )
    out, _ = await asyncio.wait_for(done.communicate(), 60)
    assert done.returncode == 0
    receipt = json.loads(out)
    lost = sum(stop - start for start, stop in receipt["undelivered"])
    assert 50 < receipt["spooled"] < 100
    assert receipt["spooled"] + lost == 300
    (push,) = await asyncio.to_thread(interrupted_pushes)
    assert push.fault is None
    assert push.undelivered >= receipt["spooled"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100_000
    shutil.rmtree(receipt["spool_path"])


async def test_a_journal_on_a_full_disk_does_not_stop_the_push(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is pushed to its end although its progress can no longer be noted."""
    from prime_async.spool import EntryWriter

    def full(self: EntryWriter, ranges: Any, receipt: str | None = None) -> None:
        raise SpoolError("no space left", path=self.entry.path)

    monkeypatch.setattr(EntryWriter, "ack", full)
    path = write_jsonl(tmp_path / "rows.jsonl", numbered(50))
    receipt = await target.push(path, max_payload_bytes=300)
    assert receipt.complete
    assert await target.ids() == list(range(50))


def _endless() -> Iterator[Any]:
    number = 0
    while True:
        yield {"example_id": number}
        number += 1


async def test_a_source_without_end_and_a_deadline(target: Target) -> None:
    """What was read is stored or kept: nothing falls between, whatever moment the end comes."""
    with pytest.raises(PartialPushError) as caught:
        await target.push(_endless(), timeout=0.5, max_payload_bytes=2000)
    receipt = caught.value.receipt
    assert not receipt.read_all
    (result,) = await target.client.sync_pushes() or (None,)
    ids = await target.ids()
    assert ids == list(range(len(ids)))
    assert len(ids) >= receipt.samples_pushed + receipt.spooled > 0
    assert result is None or result.problem is None
