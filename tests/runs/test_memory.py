"""Memory of a run that cannot deliver: the queue's limit, however much is logged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.meters import PeakRss
from tests.runs.opening import OpenRun

MB = 10**6
_RECORD_BYTES = 65_000
_NOBODY = "http://127.0.0.1:9"
"""Nobody listens there."""


async def _log(run: Any, number: int) -> None:
    texts = ["x" * _RECORD_BYTES, "y" * _RECORD_BYTES]
    for index in range(number):
        run.log_trace({"id": f"t{index}", "text": texts[index % 2]})
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("total", "queue_bytes"),
    [
        pytest.param(60 * MB, 8 * MB, id="60 MB"),
        pytest.param(2000 * MB, None, id="2 GB", marks=pytest.mark.scale),
    ],
)
async def test_logging_to_a_platform_that_is_down(
    tmp_path: Path, total: int, queue_bytes: int | None
) -> None:
    """With policy ``spool``: no more than the queue's limit and 32 MB, and no record is missing."""
    number = total // _RECORD_BYTES
    run = await OpenRun(_NOBODY, tmp_path / "spool")(
        id="ev-1", queue_policy="spool", queue_bytes=queue_bytes, spool_bytes=2 * total
    )
    with PeakRss() as memory:
        await _log(run, number)
        receipt = await run.finish(timeout=5)
    stats = run.stats()
    assert memory.growth <= stats.queue_limit_bytes + 32 * MB
    assert stats.queue_peak_bytes <= stats.queue_limit_bytes
    assert receipt.counts.spooled == receipt.counts.logged == number
