"""What runs reported, read back by both faces."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_async import NotFoundError
from prime_async.errors import PrimeTracesError, UsageError
from prime_async.runs import AsyncRunsClient, init
from prime_sync.runs import RunsClient
from tests.platform import ThreadedPlatform

KEY = "sk-reading-0123456789"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a platform."""
    with ThreadedPlatform(tmp_path_factory.mktemp("platform"), api_key=KEY) as platform:
        yield platform.url


async def _train(url: str, spool: Path) -> str:
    run = await init(
        kind="train",
        model="m",
        environments=["math"],
        api_key=KEY,
        base_url=url,
        spool_dir=spool,
        traces_opt_out=True,
    )
    async with run:
        for step in range(1, 6):
            run.log_metrics({"loss": 1.0 / step}, step=step)
            run.log_distributions({"reward": [0.0, 1.0], "length": [3.0]}, step=step)
    return run.id


async def test_metrics_and_distributions(url: str, tmp_path: Path) -> None:
    """All rows over several pages, later steps alone, one name, one step."""
    run_id = await _train(url, tmp_path)
    async with AsyncRunsClient(api_key=KEY, base_url=url) as client:
        page = await client.list_metrics(run_id, kind="train", limit=2)
        assert [row["step"] for row in page.rows] == [1, 2]
        assert page.next_cursor is not None
        rows = [row async for row in client.iter_metrics(run_id, kind="train", after_step=3)]
        assert [(row["step"], row["loss"]) for row in rows] == [(4, 0.25), (5, 0.2)]
        found = client.iter_distributions(run_id, kind="train", name="reward")
        assert [(each.step, each.numbers) async for each in found] == [
            (step, [0.0, 1.0]) for step in range(1, 6)
        ]
        at_step = await client.list_distributions(run_id, kind="train", step=2)
        assert [each.name for each in at_step.distributions] == ["length", "reward"]


async def test_records(url: str, tmp_path: Path) -> None:
    """One by its id, and lists by state."""
    run_id = await _train(url, tmp_path)
    async with AsyncRunsClient(api_key=KEY, base_url=url) as client:
        run = await client.get_training_run(run_id)
        assert (run.status, run.latest_step) == ("COMPLETED", 5)
        listed = await client.list_training_runs(status="COMPLETED", limit=1)
        assert [each.id for each in listed.runs] == [run_id]
        assert (await client.list_training_runs(status="FAILED")).runs == []


async def test_what_is_not_there(url: str) -> None:
    """One family of errors, and the tree's at the same time; a wrong kind is refused at once."""
    async with AsyncRunsClient(api_key=KEY, base_url=url) as client:
        with pytest.raises(NotFoundError) as caught:
            await client.get_training_run("nobody")
        assert isinstance(caught.value, PrimeTracesError)
        with pytest.raises(NotFoundError):
            await client.list_metrics("nobody")
        with pytest.raises(UsageError, match="kind is 'trian'"):
            await client.list_metrics("r", kind="trian")
        with pytest.raises(UsageError, match="run_id"):
            await client.list_metrics("a/b")


async def test_the_sync_face(url: str, tmp_path: Path) -> None:
    """The same answers without await."""
    run_id = await _train(url, tmp_path)

    def read() -> tuple[int, int]:
        with RunsClient(api_key=KEY, base_url=url) as client:
            rows = list(client.iter_metrics(run_id, kind="train"))
            return len(rows), len(list(client.iter_distributions(run_id, kind="train")))

    assert await asyncio.to_thread(read) == (5, 10)
