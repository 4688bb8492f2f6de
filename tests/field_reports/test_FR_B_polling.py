"""Field reports, group B: how often a waiting call asks."""

from __future__ import annotations

import time
from typing import Any

import pytest

from prime_async.evals import AsyncEvalsClient, waiting
from prime_async.evals.models import Evaluation
from tests.official_stub import EVALUATION, OfficialStub
from tests.stub import Answer, Request


async def test_FR09_the_end_is_seen_soon() -> None:
    """An evaluation that ends after a quarter of a second is seen to have ended by 0.7 s."""
    async with OfficialStub() as platform:
        ends = time.monotonic() + 0.25

        def answer(request: Request) -> Answer:
            status = "COMPLETED" if request.time >= ends else "RUNNING"
            return Answer(json={"evaluation_id": EVALUATION, "status": status})

        platform.route("GET", ".*", answer)
        async with AsyncEvalsClient("key", base_url=platform.url) as client:
            found = await client.wait_for_evaluation(EVALUATION, timeout=20)
        assert found.status == "COMPLETED"
        # By the arrival of the look that saw it, not by the clock of a busy test machine.
        assert platform.requests[-1].time - ends < 0.45


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ends: float) -> None:
        self.now = 0.0
        self.ends = ends
        self.looks: list[float] = []
        monkeypatch.setattr(waiting.anyio, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds

    async def look(self) -> Evaluation:
        self.looks.append(self.now)
        return Evaluation(status="COMPLETED" if self.now >= self.ends else "RUNNING")

    async def wait(self, **options: Any) -> list[float]:
        """Wait for the end; return the pauses between the looks."""
        chosen = {"poll_interval": None, "timeout": None, **options}
        await waiting.wait_until_terminal(self.look, EVALUATION, **chosen)
        return [later - before for before, later in zip(self.looks, self.looks[1:], strict=False)]


async def test_FR09_a_minute_takes_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 seconds of running: 30 looks at most, the pauses growing."""
    clock = Clock(monkeypatch, ends=60)
    pauses = await clock.wait()
    assert len(clock.looks) <= 30
    assert pauses == sorted(pauses)


async def test_FR09_a_wish_is_never_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    """``poll_interval=45``: no gap under 45 seconds."""
    clock = Clock(monkeypatch, ends=200)
    assert await clock.wait(poll_interval=45) == [45] * 5
