"""Checkpoints: made once, waited for together, deleted; sandboxes made from them."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from prime_async import (
    APIError,
    APITimeoutError,
    AsyncSandboxClient,
    CheckpointFailedError,
    ConflictError,
    CreateSandboxRequest,
    NotFoundError,
    SandboxNotFoundError,
    UsageError,
)
from tests.extras_double import ExtrasDouble
from tests.faces import Face, both_faces

REQUEST = CreateSandboxRequest(name="x", docker_image="python:3.11")


@both_faces
async def test_the_life_of_a_checkpoint(face: Face, extras: ExtrasDouble) -> None:
    """Make, wait, find, make a sandbox from it, delete."""
    async with face.AsyncSandboxClient("key", base_url=extras.url) as client:
        box = await client.create(REQUEST)
        begun = await client.checkpoint(box.id)
        assert (begun.state, begun.sandbox_id) == ("PENDING", box.id)
        durable = await client.wait_for_checkpoint(begun.id)
        assert (durable.id, durable.state) == (begun.id, "DURABLE")
        assert [each.id for each in await client.list_checkpoints(box.id)] == [begun.id]
        assert await client.list_checkpoints(box.id, "ckpt_0") == []
        assert (await client.get_checkpoint(begun.id)).docker_image == "python:3.11"
        again = CreateSandboxRequest(name="y", checkpoint_id=begun.id)
        await client.create(again)
        sent = extras.requests("POST", "/sandbox")[-1].json
        assert sent["checkpoint_id"] == begun.id
        assert not {"docker_image", "disk_size_gb"} & set(sent)
        await client.delete_checkpoint(begun.id)
        with pytest.raises(NotFoundError, match=f"there is no checkpoint {begun.id}"):
            await client.get_checkpoint(begun.id)


@both_faces
async def test_many_at_a_time(face: Face, extras: ExtrasDouble) -> None:
    """Known and unknown ones in one answer; all of a sandbox deleted, but for what is pending."""
    async with face.AsyncSandboxClient("key", base_url=extras.url) as client:
        box = await client.create(REQUEST)
        first = await client.checkpoint(box.id)
        await client.wait_for_checkpoint(first.id)
        extras.durable_after = 1000
        second = await client.checkpoint(box.id)
        found = await client.get_checkpoints([first.id, "ckpt_0"])
        assert [each.id for each in found.checkpoints] == [first.id]
        assert [(each.checkpoint_id, each.code) for each in found.errors] == [
            ("ckpt_0", "NOT_FOUND")
        ]
        outcome = await client.delete_sandbox_checkpoints(box.id)
        assert outcome.deleted == [first.id]
        assert [(each.checkpoint_id, each.code) for each in outcome.errors] == [
            (second.id, "CONFLICT")
        ]
        with pytest.raises(ConflictError):
            await client.delete_checkpoint(second.id)


async def test_all_who_wait_are_asked_for_together(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """50 waiters: a request for each look, not for each waiter."""
    box = await wide.create(REQUEST)
    extras.durable_after = 2
    begun = await asyncio.gather(*(wide.checkpoint(box.id) for _ in range(50)))
    extras.seen.clear()
    durable = await asyncio.gather(*(wide.wait_for_checkpoint(each.id) for each in begun))
    assert {each.id for each in durable} == {each.id for each in begun}
    batches = extras.requests("POST", "checkpoints:batchGet")
    assert sorted({len(each.json["checkpoint_ids"]) for each in batches}) == [50]
    assert len(extras.seen) == len(batches) == 2


async def test_one_by_one_where_the_platform_knows_no_batch(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """And the batch is not asked for again at every look; but later, for it may come back."""
    extras.batch_checkpoints = False
    box = await wide.create(REQUEST)
    begun = await wide.checkpoint(box.id)
    assert (await wide.wait_for_checkpoint(begun.id)).state == "DURABLE"
    found = await wide.get_checkpoints([begun.id, "ckpt_0"])
    assert (len(found.checkpoints), found.errors[0].checkpoint_id) == (1, "ckpt_0")
    assert len(extras.requests("POST", "checkpoints:batchGet")) == 1
    wide._lookup._refusals._until = 0.0
    extras.batch_checkpoints = True
    await wide.get_checkpoints([begun.id])
    assert len(extras.requests("POST", "checkpoints:batchGet")) == 2


async def test_waiting_ends_with_the_reason(extras: ExtrasDouble, wide: AsyncSandboxClient) -> None:
    """Failed, unknown, out of time: each typed, and of the families that official code catches."""
    box = await wide.create(REQUEST)
    extras.end_states[box.id] = "FAILED"
    begun = await wide.checkpoint(box.id)
    with pytest.raises(CheckpointFailedError, match="FAILED; disk full") as caught:
        await wide.wait_for_checkpoint(begun.id)
    assert isinstance(caught.value, RuntimeError)
    assert (caught.value.checkpoint_id, caught.value.state) == (begun.id, "FAILED")
    with pytest.raises(NotFoundError, match="there is no checkpoint ckpt_0"):
        await wide.wait_for_checkpoint("ckpt_0")
    extras.durable_after = 1000
    slow = await wide.checkpoint(box.id)
    with pytest.raises(APITimeoutError, match=slow.id) as late:
        await wide.wait_for_checkpoint(slow.id, timeout_seconds=0.3)
    assert isinstance(late.value, TimeoutError)
    with pytest.raises(APITimeoutError):
        await wide.wait_for_checkpoint(slow.id, timeout=0.1)


async def test_an_unknown_outcome_is_looked_up_and_never_repeated(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """The answer is lost after the work: one checkpoint, and it is the one that is returned."""
    box = await wide.create(REQUEST)
    await wide.checkpoint(box.id)
    extras.fault("POST", "/checkpoints", does="reset")
    made = await wide.checkpoint(box.id)
    assert len(extras.requests("POST", f"{box.id}/checkpoints")) == 2
    assert [made.id] == list(extras.checkpoints)[1:]
    extras.fault("POST", "/checkpoints", does="cut")
    with pytest.raises(APIError) as caught:
        await wide.checkpoint(box.id)
    assert caught.value.ambiguous
    assert len(extras.checkpoints) == 2


async def test_with_keys_the_same_request_goes_again(
    extras: ExtrasDouble, wide: AsyncSandboxClient
) -> None:
    """A platform that recognises a repeat needs no look before or after."""
    extras.features = {"idempotency"}
    box = await wide.create(REQUEST)
    extras.fault("POST", "/checkpoints", status=503)
    await wide.checkpoint(box.id)
    tries = extras.requests("POST", f"{box.id}/checkpoints")
    assert len(tries) == 2
    assert len({each.headers["Idempotency-Key"] for each in tries}) == 1
    assert extras.requests("GET", "/checkpoints") == []


@pytest.mark.parametrize(
    ("call", "arguments", "field"),
    [
        ("checkpoint", [""], "sandbox_id"),
        ("checkpoint", ["a/b"], "sandbox_id"),
        ("list_checkpoints", ["box", ".."], "checkpoint_id"),
        ("get_checkpoint", ["c" * 65], "checkpoint_id"),
        ("delete_checkpoint", [""], "checkpoint_id"),
        ("get_checkpoints", [[]], "checkpoint_ids"),
        ("get_checkpoints", ["abc"], "checkpoint_ids"),
        ("get_checkpoints", [["a", "a"]], "checkpoint_ids"),
        ("get_checkpoints", [["c" * 65]], "checkpoint_ids"),
        ("get_checkpoints", [[f"c{n}" for n in range(101)]], "checkpoint_ids"),
        ("wait_for_checkpoint", ["c", 0], "timeout"),
        ("wait_for_checkpoint", ["c", math.nan], "timeout"),
        ("wait_for_checkpoint", [7], "checkpoint_id"),
    ],
)
async def test_bad_arguments_send_nothing(
    extras: ExtrasDouble, wide: AsyncSandboxClient, call: str, arguments: list[Any], field: str
) -> None:
    """Refused by name, before anything is sent."""
    with pytest.raises(UsageError) as caught:
        await getattr(wide, call)(*arguments)
    assert caught.value.field == field
    assert extras.seen == []


async def test_a_sandbox_that_is_not_there(wide: AsyncSandboxClient) -> None:
    """Says so, and which."""
    with pytest.raises(SandboxNotFoundError, match="there is no sandbox nobody"):
        await wide.checkpoint("nobody")
