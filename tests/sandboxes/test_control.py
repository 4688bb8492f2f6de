"""Making, finding, watching and ending sandboxes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from prime_async import (
    APIError,
    AsyncSandboxClient,
    CreateSandboxRequest,
    SandboxBulkWaitError,
    SandboxImagePullError,
    SandboxNotFoundError,
    SandboxNotRunningError,
    UsageError,
)
from tests.sandbox_double import SandboxDouble


def _request(**changes: Any) -> CreateSandboxRequest:
    return CreateSandboxRequest(**{"name": "box", "docker_image": "python:3.11", **changes})


async def test_a_sandbox_is_made_as_asked(
    client: AsyncSandboxClient, double: SandboxDouble
) -> None:
    """The wire carries what was asked for, vm and a key; the request is not changed."""
    request = _request(cpu_cores=4, memory_gb=16, timeout_minutes=1440, labels=["a"])
    box = await client.create(request)
    assert (box.cpu_cores, box.memory_gb, box.timeout_minutes, box.vm) == (4, 16, 1440, True)
    [sent] = double.requests("POST", "/sandbox")
    assert sent.json["vm"] is True
    assert sent.json["idempotency_key"]
    assert "lease_seconds" not in sent.json
    assert request.idempotency_key is None


async def test_wrong_requests_are_refused_before_any_io(
    client: AsyncSandboxClient, double: SandboxDouble
) -> None:
    """A request that is none, or was broken after it was made, reaches nobody."""
    broken = _request()
    broken.cpu_cores = 0
    for wrong in (broken, {"name": "x"}, None):
        with pytest.raises(UsageError):
            await client.create(wrong)  # type: ignore[arg-type]  # the point of the test
    assert double.seen == []


async def test_get_delete_and_what_is_not_there(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """A sandbox is found until it is deleted; deleting one's own twice is no error."""
    assert (await client.get(box)).status == "RUNNING"
    assert await client.delete(box) == {"message": "deleted"}
    with pytest.raises(SandboxNotFoundError) as caught:
        await client.delete(box)
    assert caught.value.sandbox_id == box
    for call in (client.get, client.delete, client.get_logs):
        with pytest.raises(SandboxNotFoundError):
            await call("nowhere")
    for wrong in ("", "..", "a/b"):
        with pytest.raises(UsageError):
            await client.get(wrong)


async def test_a_delete_that_lost_its_answer_counts_as_done(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """The repeat finds nothing, and that is what was wanted."""
    double.fault("DELETE", box, does="reset")
    assert await client.delete(box) == {}
    assert len(double.requests("DELETE", box)) == 2


async def test_lists_are_paged_and_filtered(
    client: AsyncSandboxClient, double: SandboxDouble
) -> None:
    """Pages are asked for one by one; labels are repeated in the query."""
    for index in range(5):
        await client.create(_request(labels=["even"] if index % 2 == 0 else []))
    page = await client.list(page=2, per_page=2)
    assert [box.id for box in page.sandboxes] == ["sbx2", "sbx3"]
    assert (page.total, page.page, page.per_page, page.has_next) == (5, 2, 2, True)
    found = [box.id async for box in client.iter_sandboxes(labels=["even"], page_size=2)]
    assert found == ["sbx0", "sbx2", "sbx4"]
    await client.list(exclude_terminated=True, status="RUNNING", user_id="u", team_id="t")
    query = double.requests("GET", "/sandbox")[-1].query
    assert (query["is_active"], query["status"], query["user_id"]) == ("true", "RUNNING", "u")
    with pytest.raises(UsageError):
        await client.list(per_page=0)


async def test_many_are_deleted_at_once(client: AsyncSandboxClient, double: SandboxDouble) -> None:
    """By ids or labels; what failed is told by id; saying neither is refused."""
    boxes = [(await client.create(_request(labels=["x"]))).id for _ in range(3)]
    outcome = await client.bulk_delete([*boxes[:2], "nowhere"])
    assert outcome.succeeded == boxes[:2]
    assert outcome.failed == [{"nowhere": "not found"}]
    assert (await client.bulk_delete(labels=["x"])).succeeded == boxes
    [first, _] = double.requests("DELETE", "/sandbox")
    assert first.json == {"sandbox_ids": [*boxes[:2], "nowhere"], "all_users": False}
    with pytest.raises(UsageError):
        await client.bulk_delete()


async def test_logs_and_reasons(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """Logs are text; a reason that cannot be told is empty, not an error."""
    assert await client.get_logs(box) == f"logs of {box}"
    double.end(box, errorType="OOM_KILLED", errorMessage="too much")
    context = await client.get_error_context(box)
    assert (context.status, context.error_type) == ("TERMINATED", "OOM_KILLED")
    double.fault("GET", "error-context", status=500)
    assert (await client.get_error_context(box)).status is None


async def test_statuses_come_in_one_request(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """Up to a hundred; unknown ones are errors of their own."""
    answer = await client.get_sandbox_statuses([box, "nowhere"])
    assert [seen.status for seen in answer.statuses] == ["RUNNING"]
    assert [(error.sandbox_id, error.code) for error in answer.errors] == [("nowhere", "NOT_FOUND")]
    assert len(double.requests("POST", ":batchGet")) == 1
    for wrong in ([], [box, box], [f"s{i}" for i in range(101)], "abc"):
        with pytest.raises(UsageError):
            await client.get_sandbox_statuses(wrong)


async def test_statuses_are_asked_one_by_one_where_the_platform_cannot(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """The answer has the same shape; batching is tried again later, not switched off for life."""
    double.batch = False
    answer = await client.get_sandbox_statuses([box, "nowhere"])
    assert [seen.sandbox_id for seen in answer.statuses] == [box]
    assert [error.code for error in answer.errors] == ["NOT_FOUND"]
    await client.get_sandbox_statuses([box])
    assert len(double.requests("POST", ":batchGet")) == 1
    client._statuses._refusals._until = 0.0
    double.batch = True
    await client.get_sandbox_statuses([box])
    assert len(double.requests("POST", ":batchGet")) == 2


async def test_waiting_ends_when_a_command_answers(
    client: AsyncSandboxClient, double: SandboxDouble
) -> None:
    """Two waiters share their requests; the sandbox answers before they return."""
    double.pending_looks = 2
    boxes = [(await client.create(_request())).id for _ in range(2)]
    await asyncio.gather(*(client.wait_for_creation(box, stability_checks=1) for box in boxes))
    assert len(double.requests("POST", ":batchGet")) == 2
    assert len(double.requests("POST", "/Start")) == 2


async def test_120_waiters_look_together(client: AsyncSandboxClient, double: SandboxDouble) -> None:
    """A round of looks is two requests, however their waits began; alone they were 480."""
    double.pending_looks = 4
    boxes = [(await client.create(_request())).id for _ in range(120)]

    async def wait(index: int, box: str) -> None:
        await asyncio.sleep(index / 1000)
        await client.wait_for_creation(box)

    await asyncio.gather(*(wait(index, box) for index, box in enumerate(boxes)))
    # Four looks each. The slower the machine, the more rounds are shared by part of them only.
    assert 8 <= len(double.requests("POST", ":batchGet")) < 100


async def test_waiting_for_many(client: AsyncSandboxClient, double: SandboxDouble) -> None:
    """All are waited for side by side; those that failed are named."""
    boxes = [(await client.create(_request())).id for _ in range(110)]
    assert await client.bulk_wait_for_creation(boxes) == dict.fromkeys(boxes, "RUNNING")
    assert len(double.requests("POST", ":batchGet")) == 2
    double.end(boxes[3], "ERROR", errorType="IMAGE_PULL_FAILED")
    with pytest.raises(SandboxBulkWaitError) as caught:
        await client.bulk_wait_for_creation([*boxes[:5], "nowhere"])
    assert isinstance(caught.value.failures[boxes[3]], SandboxImagePullError)
    assert isinstance(caught.value.failures["nowhere"], SandboxNotFoundError)
    assert len(caught.value.statuses) == 4
    assert isinstance(caught.value, RuntimeError)


async def test_waiting_ends_with_the_sandbox(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """A sandbox that ended is an error of its reason's class."""
    double.end(box, "ERROR", errorType="IMAGE_PULL_FAILED", errorMessage="no such image")
    with pytest.raises(SandboxImagePullError, match="no such image") as caught:
        await client.wait_for_creation(box)
    assert (caught.value.sandbox_id, caught.value.status) == (box, "ERROR")


async def test_waiting_passes_over_what_new_sandboxes_answer(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """Unavailable and not found are passed over right after the start; nonsense is not."""
    double.fault("POST", "/Start", status=404, json={"code": "not_found", "message": "not yet"})
    double.fault("POST", "/Start", status=409, json={"code": "aborted", "message": "not yet"})
    await client.wait_for_creation(box)
    double.fault("POST", "/Start", status=403, json={"code": "permission_denied", "message": "no"})
    with pytest.raises(APIError, match="no"):
        await client.wait_for_creation(box)


async def test_waiting_has_an_end(
    client: AsyncSandboxClient, double: SandboxDouble, box: str
) -> None:
    """A sandbox that runs and never answers is told as such."""
    double.fault("POST", "/Start", status=503, times=100, headers={"Retry-After": "0"})
    with pytest.raises(SandboxNotRunningError) as caught:
        await client.wait_for_creation(box, max_attempts=1)
    assert caught.value.error_type == "GATEWAY_REACHABILITY_TIMEOUT"
    assert caught.value.status == "RUNNING"
    assert caught.value.__cause__ is not None


async def test_a_block_ends_its_sandbox(client: AsyncSandboxClient, double: SandboxDouble) -> None:
    """At its end, by an exception, by cancellation; the exception stays what it was."""
    async with client.sandbox(_request()) as box:
        assert box.status == "RUNNING"
        assert double.live == [box.id]
    with pytest.raises(ZeroDivisionError):
        async with client.sandbox(_request()):
            _ = 1 / 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5), client.sandbox(_request()):
            await asyncio.sleep(60)
    assert double.live == []
    assert double.requests("POST", "/sandbox")[0].json["lease_seconds"] == 90


async def test_a_create_that_is_cancelled_leaves_nothing(
    client: AsyncSandboxClient, double: SandboxDouble
) -> None:
    """What the platform made while nobody listened any more is found by its key and deleted."""
    double.fault("POST", "/sandbox", does="silence")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await client.create(_request())
    assert len(double.sandboxes) == 1
    assert double.live == []


async def test_leases_are_renewed_where_the_platform_knows_them(
    client: AsyncSandboxClient, double: SandboxDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a block is open, and not after it."""
    monkeypatch.setattr("prime_async.sandboxes.live._RENEW_EVERY", 0.05)
    double.features = {"sandbox-leases"}
    async with client.sandbox(_request()) as box:
        async with asyncio.timeout(5):
            while len(double.requests("POST", f"{box.id}/lease")) < 3:
                await asyncio.sleep(0.01)
    assert double.requests("POST", "/lease")[0].json == {"seconds": 90}


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5])
def test_a_wrong_limit_is_refused(wrong: Any) -> None:
    """The hard cap is a whole number, at least 1."""
    with pytest.raises(UsageError, match="max_live"):
        AsyncSandboxClient(api_key="k", max_live=wrong)
