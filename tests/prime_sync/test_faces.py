"""Scenarios written once and run through both faces, against the embedded platform."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from prime_async import EvaluationNotFoundError, PartialPushError, UnauthorizedError, UsageError
from tests.faces import Face, both_faces
from tests.platform import RunningPlatform, running_platform
from tests.stub import Answer, Stub

SAMPLES = [
    {"example_id": index, "reward": index / 7, "answer": "é" * index} for index in range(250)
]


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[RunningPlatform]:
    """An embedded platform in the loop of the test."""
    async with running_platform(tmp_path) as running:
        yield running


def client_of(face: Face, platform: RunningPlatform) -> Any:
    """A client of the evaluations API."""
    return face.AsyncEvalsClient(api_key=platform.key, base_url=platform.url)


@both_faces
async def test_the_life_of_an_evaluation(face: Face, platform: RunningPlatform) -> None:
    """Create, push, finalize, read back: deeply equal, on both faces."""
    async with client_of(face, platform) as client:
        made = await client.create_evaluation("life", dataset="d", metadata={"a": [1]})
        evaluation_id = made["evaluation_id"]
        receipt = await client.push_samples(evaluation_id, SAMPLES)
        assert receipt["samples_pushed"] == len(SAMPLES)
        done = await client.finalize_evaluation(evaluation_id, metrics={"mean": 0.5})
        assert done.status == "COMPLETED"
        assert (await client.get_evaluation(evaluation_id)).metrics == {"mean": 0.5}
        assert [sample async for sample in client.iter_samples(evaluation_id)] == SAMPLES
        page = await client.get_samples(evaluation_id, 2, 100)
        assert page.samples == SAMPLES[100:200]
        listed = await client.list_evaluations()
        assert [one.evaluation_id for one in listed.evaluations] == [evaluation_id]
        await client.delete_evaluation(evaluation_id)
        with pytest.raises(EvaluationNotFoundError):
            await client.get_evaluation(evaluation_id)


@both_faces
async def test_sources_of_samples(face: Face, platform: RunningPlatform, tmp_path: Path) -> None:
    """A list, a generator, an async generator and a file give the same."""

    async def later() -> AsyncIterator[dict[str, Any]]:
        for sample in SAMPLES[:20]:
            yield sample

    file = tmp_path / "samples.jsonl"
    file.write_text("".join(f'{{"example_id": {index}}}\n' for index in range(20)))
    async with client_of(face, platform) as client:
        for source in (SAMPLES[:20], iter(SAMPLES[:20]), later(), file, str(file)):
            made = await client.create_evaluation("sources", dataset="d")
            await client.push_samples(made["evaluation_id"], source)
            found = [s["example_id"] async for s in client.iter_samples(made["evaluation_id"])]
            assert found == list(range(20))


@both_faces
async def test_progress_is_reported_outside_the_loop_of_the_sync_clients(
    face: Face, platform: RunningPlatform
) -> None:
    """Every sample is counted; on the sync face the callback runs in the calling thread."""
    seen: list[int] = []
    threads: set[str] = set()

    def progress(count: int) -> None:
        seen.append(count)
        threads.add(threading.current_thread().name)

    async with client_of(face, platform) as client:
        made = await client.create_evaluation("progress", dataset="d")
        await client.push_samples(made["evaluation_id"], SAMPLES, progress_callback=progress)
    assert sum(seen) == len(SAMPLES)
    assert "prime_sync" not in threads


@both_faces
async def test_a_broken_callback_loses_no_sample(face: Face, platform: RunningPlatform) -> None:
    """Its error is raised at the end, when everything is delivered."""

    def broken(count: int) -> None:
        raise ZeroDivisionError(count)

    async with client_of(face, platform) as client:
        made = await client.create_evaluation("broken", dataset="d")
        with pytest.raises(ZeroDivisionError):
            await client.push_samples(made["evaluation_id"], SAMPLES, progress_callback=broken)
        page = await client.get_samples(made["evaluation_id"])
        assert page.total == len(SAMPLES)


@both_faces
async def test_errors_are_the_same_objects_of_the_same_classes(
    face: Face, platform: RunningPlatform
) -> None:
    """Attributes included; nothing is wrapped in a group."""
    async with client_of(face, platform) as client:
        with pytest.raises(EvaluationNotFoundError) as missing:
            await client.get_evaluation("nothing")
        assert (missing.value.status, missing.value.request_id is None) == (404, False)
        with pytest.raises(UsageError) as wrong:
            await client.get_samples("x", page=0)
        assert wrong.value.field == "page"
    async with face.AsyncEvalsClient("wrong", base_url=platform.url) as client:
        with pytest.raises(UnauthorizedError):
            await client.list_evaluations()


@both_faces
async def test_a_partial_push_carries_its_receipt(face: Face, stub: Stub) -> None:
    """What did not arrive is named, with the token that resumes it."""
    stub.default = Answer(500)
    async with face.AsyncEvalsClient("key", base_url=stub.url) as client:
        with pytest.raises(PartialPushError) as caught:
            await client.push_samples("e", SAMPLES, timeout=5)
    assert caught.value.receipt["samples_pushed"] == 0
    assert caught.value.receipt.resume_token


@both_faces
async def test_a_shared_connection_stays_open(face: Face, platform: RunningPlatform) -> None:
    """Closing one client does not close the connection it borrowed."""
    async with face.AsyncAPIClient(platform.key, base_url=platform.url) as api:
        async with face.AsyncEvalsClient(api) as client:
            await client.list_evaluations()
            assert client.api_client.base_url == platform.url
        assert (await api.get("/evaluations/"))["total"] == 0
