"""What a push refuses, trims, counts, orders, repeats and reports."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prime_async.errors import (
    APITimeoutError,
    PartialPushError,
    ValueEncodingError,
)
from prime_async.evals import AsyncEvalsClient, ResumeToken, interrupted_pushes
from prime_async.spool import Ranges
from tests.evals.pushing import Target, indexes, numbered, write_jsonl
from tests.official_stub import EVALUATION, OfficialStub
from tests.stub import Answer, Request

Source = Any


@pytest.fixture(params=["list", "generator", "async generator", "file"])
def source_of(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Makes a source of the given samples, of each kind."""

    def make(samples: list[Any]) -> Source:
        if request.param == "list":
            return samples
        if request.param == "generator":
            return iter(samples)
        if request.param == "file":
            return write_jsonl(tmp_path / "rows.jsonl", samples)
        return _async(samples)

    return make


async def _async(samples: list[Any]) -> AsyncIterator[Any]:
    for sample in samples:
        yield sample


async def test_FR37_an_oversized_sample_is_refused_and_counted(
    target: Target, source_of: Any
) -> None:
    """Named with index, size and limit; the others are pushed; the receipt is not complete."""
    samples = numbered(10)
    samples[7]["answer"] = "x" * 5000
    receipt = await target.push(source_of(samples), max_payload_bytes=1000)
    (refused,) = receipt.refused
    assert (refused.index, refused.path, refused.status) == (7, "samples[7]", None)
    assert refused.size == len(json.dumps(samples[7], separators=(",", ":"))) or refused.size == (
        len(json.dumps(samples[7]))
    )
    assert "1,000" in refused.reason or "986" in refused.reason
    assert (receipt.samples_pushed, receipt.samples_skipped) == (9, 1)
    assert not receipt.complete
    assert receipt.stored == ((0, 7), (8, 10))
    assert await target.ids() == [0, 1, 2, 3, 4, 5, 6, 8, 9]


async def test_the_largest_that_fits(official: OfficialStub, official_target: Target) -> None:
    """A sample that fills a request to the byte goes out; one byte more is refused."""
    sample = {"a": "x" * 100}
    size = len(json.dumps(sample, separators=(",", ":"))) + len('{"samples":[]}')
    assert (await official_target.push([sample], max_payload_bytes=size)).complete
    assert len(official.requests[-1].body) == size
    assert not (await official_target.push([sample], max_payload_bytes=size - 1)).complete


async def test_cjk_counts_by_its_true_bytes(
    official: OfficialStub, official_target: Target, source_of: Any
) -> None:
    """A sample of 308 bytes passes a limit of 400, though its escaped form would not."""
    sample = {"text": "文" * 99}
    wire = json.dumps(sample, separators=(",", ":"), ensure_ascii=False).encode()
    assert len(wire) == 308
    assert len(json.dumps(sample)) > 400
    receipt = await official_target.push([sample], max_payload_bytes=400)
    assert receipt.complete
    assert official.requests[-1].body == b'{"samples":[' + wire + b"]}"


async def test_trim_leaves_fields_out_until_it_fits(target: Target, source_of: Any) -> None:
    """Fields go in the given order, only from what is too large, and are named in the receipt."""
    samples = numbered(4)
    samples[1] |= {"trajectory": "t" * 900, "logs": "l" * 100}
    samples[2] |= {"trajectory": "t" * 900, "logs": "l" * 900}
    samples[3] |= {"answer": "a" * 900, "logs": "l" * 900}
    receipt = await target.push(
        source_of(samples), max_payload_bytes=500, trim=["trajectory", "nothing", "logs"]
    )
    assert receipt.trimmed == {1: ("trajectory",), 2: ("trajectory", "logs")}
    assert [refusal.index for refusal in receipt.refused] == [3]
    assert await target.stored() == [
        samples[0],
        {"example_id": 1, "answer": samples[1]["answer"], "logs": "l" * 100},
        {"example_id": 2, "answer": samples[2]["answer"]},
    ]


async def test_a_value_without_a_rule_is_refused_by_path(target: Target) -> None:
    """One bad sample costs itself: by index and path, the others are stored."""
    samples: list[Any] = numbered(40)
    samples[7]["info"] = {"logits": object()}
    samples[9] = ["no object"]
    samples[11] = {"a": {1: "x", "1": "y"}}
    for source in (samples, iter(samples), _async(samples)):
        receipt = await target.push(source)
        assert [(one.index, one.path) for one in receipt.refused] == [
            (7, "samples[7].info.logits"),
            (9, "samples[9]"),
            (11, "samples[11].a.1"),
        ]
        assert receipt.samples_pushed == 37
        assert receipt.samples_total == 40
    kept = [index for index in range(40) if index not in (7, 9, 11)]
    assert await target.ids() == kept * 3


async def test_everything_is_refused(official: OfficialStub, official_target: Target) -> None:
    """Nothing is left to send: no request, and the receipt says so."""
    for source in ([object()] * 100, iter([object()] * 100)):
        receipt = await official_target.push(source)
        assert (receipt.samples_pushed, receipt.samples_skipped) == (0, 100)
        assert not receipt.complete
    assert official.requests == []


async def test_many_refusals_do_not_fill_the_receipt(official_target: Target) -> None:
    """The first thousand are listed, all are counted."""
    receipt = await official_target.push([5] * 2500)
    assert receipt.samples_skipped == 2500
    assert [refusal.index for refusal in receipt.refused] == list(range(1000))


async def test_FR32_non_finite_scores_are_counted(target: Target, source_of: Any) -> None:
    """Where NaN or an infinity was a score, the receipt says how often it became null."""
    nan, inf = float("nan"), float("inf")
    samples = numbered(50)
    samples[3] |= {"reward": nan}
    samples[4] |= {"reward": inf, "metrics": {"a": nan, "b": 1.0}}
    samples[5] |= {"metrics": {"a": -inf}, "info": {"deep": nan}}
    receipt = await target.push(source_of(samples))
    assert receipt.nonfinite == {"reward": 2, "metrics.a": 2}
    assert receipt.complete
    stored = await target.stored()
    assert stored[4]["metrics"] == {"a": None, "b": 1.0}
    assert stored[5]["info"] == {"deep": None}


async def test_scores_of_numpy(target: Target) -> None:
    """numpy scalars and arrays among the scores neither break nor escape the count."""
    samples = [
        {"reward": np.float32("nan"), "metrics": {"v": np.array([1.0, 2.0])}},
        {"reward": np.float64(1.0), "metrics": {"v": np.float16("inf")}},
    ]
    receipt = await target.push(samples)
    assert receipt.nonfinite == {"reward": 1, "metrics.v": 1}
    assert await target.stored() == [
        {"reward": None, "metrics": {"v": [1.0, 2.0]}},
        {"reward": 1.0, "metrics": {"v": None}},
    ]


async def test_strict_refuses_non_finite_numbers(target: Target, source_of: Any) -> None:
    """With strict that sample is refused, by the path of the first one."""
    samples = numbered(5)
    samples[2] |= {"metrics": {"a": [1, float("nan")]}}
    receipt = await target.push(source_of(samples), strict=True)
    assert [(one.index, one.path) for one in receipt.refused] == [(2, "samples[2].metrics.a[1]")]
    assert receipt.nonfinite == {}
    assert await target.ids() == [0, 1, 3, 4]


async def test_progress_adds_up(target: Target, source_of: Any) -> None:
    """The counts of the callback are all samples, refused ones too, whatever the source."""
    seen: list[int] = []
    samples = numbered(100)
    samples[50]["answer"] = "x" * 5000
    receipt = await target.push(
        source_of(samples), max_payload_bytes=700, progress_callback=seen.append
    )
    assert sum(seen) == 100
    assert all(count > 0 for count in seen)
    assert len(seen) >= receipt.batches


async def test_progress_may_be_async(target: Target) -> None:
    """A coroutine function is awaited."""
    seen: list[int] = []

    async def progress(count: int) -> None:
        await asyncio.sleep(0)
        seen.append(count)

    await target.push(numbered(100), max_payload_bytes=700, progress_callback=progress)
    assert sum(seen) == 100


async def test_a_callback_that_raises_loses_no_sample(target: Target) -> None:
    """Everything is delivered first; then the user's error is raised, with the account."""
    calls: list[int] = []

    def progress(count: int) -> None:
        calls.append(count)
        raise ZeroDivisionError("the user's own")

    with pytest.raises(ZeroDivisionError) as caught:
        await target.push(numbered(100), max_payload_bytes=700, progress_callback=progress)
    assert len(calls) == 1
    assert "100 samples stored" in caught.value.__notes__[0]
    assert await target.ids() == list(range(100))


async def test_a_callback_whose_own_task_was_cancelled_loses_no_sample(target: Target) -> None:
    """That is no cancelling of the push: all is delivered, each sample is in one place."""

    async def progress(count: int) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        mine.cancel()
        await mine

    with pytest.raises(asyncio.CancelledError) as caught:
        await target.push(numbered(100), max_payload_bytes=700, progress_callback=progress)
    assert caught.value.__notes__[0].endswith(": 100 samples stored")
    assert await target.ids() == list(range(100))


@pytest.mark.parametrize("name", ["max_concurrent", "max_workers"])
async def test_at_most_so_many_at_a_time(official: OfficialStub, name: str) -> None:
    """Both names bound the requests under way, and the bound is used."""
    flying = most = 0

    async def slow(request: Request) -> Answer:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0.02)
        flying -= 1
        return official.push(request)

    official.route("POST", "/api/v1/evaluations/[^/]+/samples", slow)
    async with AsyncEvalsClient("key", base_url=official.url) as client:
        await client.push_samples(EVALUATION, numbered(60), max_payload_bytes=300, **{name: 3})
    assert most == 3
    assert sorted(official.ids) == list(range(60))


async def test_one_at_a_time_keeps_the_order_on_any_wire(
    official: OfficialStub, official_target: Target, source_of: Any
) -> None:
    """With max_concurrent=1 samples arrive in input order where nobody sorts them."""
    await official_target.push(source_of(numbered(200)), max_payload_bytes=300, max_concurrent=1)
    assert official.ids == list(range(200))


async def test_order_by_index_however_batches_arrive(
    target: Target, source_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight at a time and a shuffled network: the platform gives them back in input order."""
    from prime_async.evals.push import Push

    shuffled = random.Random(1)
    post = Push._post

    async def late(self: Push, batch: Any) -> Any:
        await asyncio.sleep(shuffled.random() * 0.02)
        return await post(self, batch)

    monkeypatch.setattr(Push, "_post", late)
    receipt = await target.push(source_of(numbered(300)), max_payload_bytes=400, max_concurrent=8)
    assert receipt.batches > 20
    assert await target.ids() == list(range(300))


async def test_FR39_the_same_push_twice_changes_nothing(target: Target, source_of: Any) -> None:
    """A named push may be repeated whole: what is there stays there once, and is not sent again."""
    samples = numbered(50)
    first = await target.push(source_of(samples), push_id="nightly-1")
    again = await target.push(source_of(samples), push_id="nightly-1")
    assert first.stored == again.stored == ((0, 50),)
    assert again.batches == 0
    assert again.samples_pushed == 50
    assert again.complete
    assert await target.stored() == samples
    grown = [*samples, *({"example_id": index} for index in range(50, 60))]
    more = await target.push(source_of(grown), push_id="nightly-1")
    assert (more.samples_pushed, more.batches) == (60, 1)
    assert await target.ids() == list(range(60))


async def test_two_pushes_append(target: Target) -> None:
    """Without a name each push is its own: the later one comes after the earlier one."""
    await target.push(numbered(10))
    await target.push(numbered(5))
    assert await target.ids() == [*range(10), *range(5)]


async def test_another_sample_at_a_stored_index_is_refused(target: Target) -> None:
    """A name used again for other samples never changes what is stored, and says so."""
    transport = await target.client.api_client.connect()
    path = f"/evaluations/{target.evaluation_id}/samples"
    headers = {"X-Prime-Push": "p", "X-Prime-Range": "0-1"}
    body = {"samples": [{"example_id": "first"}]}
    await transport.request("POST", path, json=body, headers=headers)
    body = {"samples": [{"example_id": "other"}]}
    answer = (await transport.request("POST", path, json=body, headers=headers)).json()
    assert [(one["index"], one["status"]) for one in answer["refused"]] == [(0, 409)]
    assert await target.ids() == ["first"]


async def test_resuming_with_the_token(target: Target, source_of: Any) -> None:
    """What the token calls stored is not sent; the receipt covers all of it."""
    samples = numbered(30)
    await target.push(samples[:12], push_id="p")
    token = str(ResumeToken(target.evaluation_id, "p", Ranges([(0, 12)])))
    receipt = await target.push(source_of(samples), resume=token)
    assert receipt.samples_pushed == 30
    assert receipt.push_id == "p"
    assert await target.ids() == list(range(30))


async def test_the_platform_knows_better_than_the_token(target: Target) -> None:
    """Where ranges are kept they rule: an old or wrong token neither doubles nor loses a sample."""
    samples = numbered(30)
    await target.push(samples[:20], push_id="p")
    for stored, unknown in (((0, 5), (5, 9)), ((0, 30), (0, 0))):
        token = str(ResumeToken(target.evaluation_id, "p", Ranges([stored]), Ranges([unknown])))
        receipt = await target.push(samples, resume=token)
        assert receipt.complete
    assert await target.ids() == list(range(30))


async def test_on_the_official_wire_the_token_rules(
    official: OfficialStub, official_target: Target
) -> None:
    """Nobody can be asked there: neither stored nor unknown samples are sent, the latter named."""
    token = str(ResumeToken(EVALUATION, "p", Ranges([(0, 3)]), Ranges([(5, 7)])))
    with pytest.raises(PartialPushError) as caught:
        await official_target.push(numbered(10), resume=token)
    assert official.ids == [3, 4, 7, 8, 9]
    assert caught.value.receipt.unknown == ((5, 7),)
    assert caught.value.receipt.samples_pushed == 8


async def test_a_receipt_of_an_outage_resumes(official: OfficialStub) -> None:
    """Half of it fails: the error carries the receipt, its token brings exactly the rest."""
    from prime_async.transport import RetryPolicy

    posts = 0

    def failing(request: Request) -> Answer:
        nonlocal posts
        posts += 1
        return Answer(500, json={"detail": "boom"}) if posts > 4 else official.push(request)

    official.route("POST", "/api/v1/evaluations/[^/]+/samples", failing)
    from prime_async.api import AsyncAPIClient

    async with (
        AsyncAPIClient("k", base_url=official.url, retry=RetryPolicy(tries=1)) as api,
        AsyncEvalsClient(api) as client,
    ):
        with pytest.raises(PartialPushError, match="the input was not read") as caught:
            await client.push_samples(
                EVALUATION, numbered(60), max_payload_bytes=300, max_concurrent=1
            )
    receipt = caught.value.receipt
    assert indexes(receipt.stored) == official.ids
    assert caught.value.status == 500
    assert caught.value.__cause__ is not None
    assert receipt.resume_token is not None
    assert ResumeToken.parse(receipt.resume_token).stored == Ranges(receipt.stored)


async def test_a_deadline_ends_a_push(official: OfficialStub, source_of: Any) -> None:
    """Silence: the push ends in time, with an account of every sample."""
    official.route("POST", "/api/v1/evaluations/[^/]+/samples", Answer(status=0, end="silent"))
    async with AsyncEvalsClient("k", base_url=official.url) as client, asyncio.timeout(20):
        with pytest.raises(PartialPushError, match=r"did not end within 0\.3 s") as caught:
            await client.push_samples(
                EVALUATION, source_of(numbered(40)), max_payload_bytes=300, timeout=0.3
            )
    receipt = caught.value.receipt
    assert isinstance(caught.value.__cause__, APITimeoutError)
    assert receipt.samples_pushed == 0
    assert not receipt.complete
    accounted = len(indexes(receipt.unknown)) + len(indexes(receipt.undelivered)) + receipt.spooled
    assert accounted == 40


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_deadline_while_the_source_is_slow(target: Target, kind: str) -> None:
    """All that came was stored, but the input did not end: that is no success."""
    import threading

    stuck = threading.Event()

    def plain() -> Iterator[Any]:
        yield from numbered(3)
        stuck.wait(20)

    async def later() -> AsyncIterator[Any]:
        for sample in numbered(3):
            yield sample
        await asyncio.Event().wait()

    with pytest.raises(PartialPushError, match="not read to its end") as caught:
        await target.push(plain() if kind == "plain" else later(), timeout=1.0)
    stuck.set()
    receipt = caught.value.receipt
    assert (receipt.samples_pushed, receipt.read_all, receipt.samples_total) == (3, False, None)
    assert not receipt.complete
    assert receipt.resume_token is not None
    assert await target.ids() == [0, 1, 2]


async def test_the_deadline_counts_what_comes_before_the_first_request(
    official: OfficialStub,
) -> None:
    """Asking the platform what it holds is part of the push."""
    official.route("GET", "/api/v1/evaluations/.*", Answer(status=0, end="silent"))
    async with AsyncEvalsClient("k", base_url=official.url) as client, asyncio.timeout(20):
        with pytest.raises(APITimeoutError):
            await client.push_samples(EVALUATION, numbered(3), push_id="p", timeout=0.2)
    assert official.ids == []


@pytest.mark.parametrize("kind", ["list", "generator", "file"])
async def test_cancelled_midway(official: OfficialStub, tmp_path: Path, kind: str) -> None:
    """Cancelling is cancelling; nothing more is sent; a file can be gone on with."""
    samples = numbered(60)
    source = {
        "list": samples,
        "generator": iter(samples),
        "file": write_jsonl(tmp_path / "rows.jsonl", samples),
    }[kind]
    gate = asyncio.Event()

    async def third_waits(request: Request) -> Answer:
        if len(official.seen("POST", ".*/samples")) > 2:
            gate.set()
            await asyncio.Event().wait()
        return official.push(request)

    official.route("POST", "/api/v1/evaluations/[^/]+/samples", third_waits)
    async with AsyncEvalsClient("k", base_url=official.url) as client:
        push = asyncio.create_task(
            client.push_samples(EVALUATION, source, max_payload_bytes=300, max_concurrent=1)
        )
        await gate.wait()
        push.cancel()
        with pytest.raises(asyncio.CancelledError):
            await push
        assert push.cancelled()
    count = len(official.requests)
    left = await asyncio.to_thread(interrupted_pushes)
    assert len(left) == (kind != "list")
    assert not any(push.running for push in left)
    assert len(official.requests) == count
    assert official.ids
    assert official.ids == list(range(len(official.ids)))
    if kind == "file":
        assert ResumeToken.parse(left[0].resume_token).stored.total == len(official.ids)


async def test_an_error_of_the_account_is_that_error(official: OfficialStub) -> None:
    """Wrong key, no credit, no such evaluation: the typed error, and no spool entry behind it."""
    from prime_async.errors import (
        EvaluationNotFoundError,
        ForbiddenError,
        PaymentRequiredError,
        UnauthorizedError,
    )

    kinds = {
        401: UnauthorizedError,
        402: PaymentRequiredError,
        403: ForbiddenError,
        404: EvaluationNotFoundError,
    }
    for status, kind in kinds.items():
        official.route("POST", ".*/samples", Answer(status, json={"detail": "no"}))
        async with AsyncEvalsClient("k", base_url=official.url) as client:
            with pytest.raises(kind) as caught:
                await client.push_samples(EVALUATION, numbered(100), max_payload_bytes=300)
        assert caught.value.status == status
    assert len(official.requests) <= 4 * 5


async def test_a_file_for_an_unknown_evaluation_leaves_nothing(
    target: Target, tmp_path: Path
) -> None:
    """Refused whole: the file is still there, so nothing is kept on disk for later."""
    from prime_async.errors import EvaluationNotFoundError

    path = write_jsonl(tmp_path / "rows.jsonl", numbered(10))
    with pytest.raises(EvaluationNotFoundError, match="unknown-1"):
        await target.client.push_samples("unknown-1", path)
    assert await asyncio.to_thread(interrupted_pushes) == []


async def test_metadata_that_cannot_be_written_creates_nothing(official: OfficialStub) -> None:
    """A bad value in the description fails before the evaluation exists."""
    async with AsyncEvalsClient("k", base_url=official.url) as client:
        with pytest.raises(ValueEncodingError) as caught:
            await client.create_evaluation("n", run_id="r", metadata={"model": object()})
    assert caught.value.path == "body.metadata.model"
    assert official.requests == []


def test_the_default_deadline_is_finite() -> None:
    """A push without a timeout ends all the same."""
    from prime_async.evals.pushing import PushOptions

    assert PushOptions.checked("e").timeout == 86_400
    assert PushOptions.checked("e", timeout=math.inf).timeout == math.inf
