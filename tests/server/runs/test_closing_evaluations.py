"""Evaluations that do not complete: failed or cancelled by their client."""

from __future__ import annotations

import pytest

from tests.server.clocks import FakeClock
from tests.server.wire import Wire


@pytest.mark.parametrize("status", ["FAILED", "CANCELLED"])
async def test_an_evaluation_is_closed_with_its_reason(
    wire: Wire, clock: FakeClock, status: str
) -> None:
    """The status and the message are shown; samples and metadata may still follow."""
    evaluation = await wire.evaluation()
    clock.advance(5)
    body = {"status": status, "error_message": "cancelled: interrupted"}
    closed = await wire.put(f"/evaluations/{evaluation}", body)
    assert closed.status == 200
    assert (closed.json["status"], closed.json["error_message"]) == tuple(body.values())
    assert closed.json["finalized_at"] == "2027-01-15T08:00:05.000Z"
    assert (await wire.push(evaluation, [{"reward": 1.0}])).status == 200
    late = await wire.put(f"/evaluations/{evaluation}", {"metrics": {"avg": 0.50}})
    assert late.status == 200
    read = (await wire.get(f"/evaluations/{evaluation}")).json
    assert (read["status"], read["total_samples"], read["metrics"]) == (status, 1, {"avg": 0.5})


async def test_what_is_closed_stays_closed(wire: Wire) -> None:
    """A second close and a finalize of a failed one are 409; nothing of the request is stored."""
    failed, done = await wire.evaluation(), await wire.evaluation()
    await wire.put(f"/evaluations/{failed}", {"status": "FAILED", "error_message": "first"})
    await wire.post(f"/evaluations/{done}/finalize", {"metrics": {"avg": 1}})
    body = {"status": "FAILED", "error_message": "second", "metrics": {"avg": 2}}
    for evaluation in (failed, done):
        again = await wire.put(f"/evaluations/{evaluation}", body)
        assert (again.status, again.code) == (409, "run_closed")
    late = await wire.post(f"/evaluations/{failed}/finalize", {"metrics": {"avg": 3}})
    assert (late.status, late.code) == (409, "run_closed")
    read = (await wire.get(f"/evaluations/{failed}")).json
    assert (read["status"], read["error_message"], read["metrics"]) == ("FAILED", "first", None)
    read = (await wire.get(f"/evaluations/{done}")).json
    assert (read["status"], read["error_message"], read["metrics"]) == (
        "COMPLETED",
        None,
        {"avg": 1},
    )


async def test_only_two_ends_can_be_set(wire: Wire) -> None:
    """Completing is finalizing; a reason has at most 4096 characters."""
    evaluation = await wire.evaluation()
    for body in (
        {"status": "COMPLETED"},
        {"status": "failed"},
        {"status": None},
        {"status": "FAILED", "error_message": "x" * 4097},
    ):
        assert (await wire.put(f"/evaluations/{evaluation}", body)).status == 422, body
    longest = {"status": "FAILED", "error_message": "é" * 4096}
    closed = await wire.put(f"/evaluations/{evaluation}", longest)
    assert closed.json["error_message"] == longest["error_message"]
