"""Field reports, group B: a platform that asks to wait."""

from __future__ import annotations

import email.utils
import logging
import time

import anyio
import pytest

from prime_async.evals import AsyncEvalsClient
from tests.official_stub import EVALUATION, OfficialStub
from tests.stub import Answer

_PAUSE = 0.3


def _in_a_while() -> str:
    """An HTTP date; it has whole seconds, so it lies between one and two seconds away."""
    return email.utils.formatdate(int(time.time()) + 2, usegmt=True)


class _Warned(logging.Handler):
    """Counts warnings and tells when the first one is there."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.event = anyio.Event()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        self.event.set()


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_FR10_pauses_are_kept(form: str) -> None:
    """Three 429: each pause is kept, by all traffic; one warning; everything is delivered."""
    refused_at: list[tuple[float, float]] = []

    def refuse(request: object) -> Answer:
        pause = _PAUSE if form == "seconds" else 1.0
        text = str(_PAUSE) if form == "seconds" else _in_a_while()
        refused_at.append((time.monotonic(), pause))
        return Answer(429, headers={"Retry-After": text})

    warned = _Warned()
    logging.getLogger("prime_async").addHandler(warned)
    async with (
        OfficialStub() as platform,
        AsyncEvalsClient("key", base_url=platform.url) as client,
    ):
        accept = platform.push
        answers = iter([refuse] * (3 if form == "seconds" else 1))
        platform.route("POST", ".*/samples", lambda request: next(answers, accept)(request))
        async with anyio.create_task_group() as group:
            group.start_soon(client.push_samples, EVALUATION, [{"example_id": 1}])
            await warned.event.wait()
            await client.get_evaluation(EVALUATION)
    logging.getLogger("prime_async").removeHandler(warned)
    assert platform.ids == [1]
    pushed = [r.time for r in platform.seen("POST", ".*/samples")]
    for (refused, pause), again in zip(refused_at, pushed[1:], strict=True):
        assert again >= refused + pause - 0.02, "sent again before the pause was over"
    [other] = platform.seen("GET", ".*")
    assert other.time >= refused_at[0][0] + refused_at[0][1] - 0.02, "other traffic did not wait"
    assert warned.count == 1
