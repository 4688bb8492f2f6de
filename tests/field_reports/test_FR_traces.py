"""Reports from the field that concern the traces client, from several groups."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

import prime_sync
from prime_async.traces import AsyncTracesClient, PrimeTracesError, TracesValueError
from tests.platform import KEY, running_platform
from tests.stub import Answer, Stub, stub_in_thread
from tests.traces.receiver import Receiver, refusal
from tests.traces.records import trace

CANARY = "sk-CANARY-123"


def test_FR01_the_sync_client_inside_a_running_loop() -> None:
    """In a notebook a loop is running already: the right result, and a word on the other face."""
    with stub_in_thread() as stub:
        Receiver(stub)

        async def cell() -> list[Any]:
            with prime_sync.TracesClient("key", base_url=stub.url) as client:
                return client.upload_records([{"id": "t1"}])

        with pytest.warns(RuntimeWarning, match="use AsyncTracesClient"):
            receipts = asyncio.run(cell())
        assert [receipt["status"] for receipt in receipts] == ["committed"]


async def test_FR34_odd_keys_cost_no_batch_of_traces(stub: Stub) -> None:
    """Keys become text; two that are the same text cost their record alone."""
    receiver = Receiver(stub)
    odd = {Path("a"): 1, 1: 2, None: 3, (1, 2): 4}
    async with AsyncTracesClient("key", base_url=stub.url) as client:
        with pytest.raises(TracesValueError, match=r"records\[1\]\.info\.1 .*two keys"):
            await client.upload_records(
                [{"id": "a", "info": odd}, {"id": "b", "info": {1: 0, "1": 0}}, {"id": "c"}]
            )
    lines = [json.loads(line) for line in receiver.uploads[0].lines.splitlines()]
    assert lines == [
        {"id": "a", "info": {"a": 1, "1": 2, "null": 3, "[1,2]": 4}},
        {"id": "c"},
    ]


async def test_FR35_cycles_and_depth_cost_their_record_alone(stub: Stub) -> None:
    """Quickly, by path."""
    receiver = Receiver(stub)
    cycle: dict[str, Any] = {"id": "a"}
    cycle["self"] = cycle
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    async with AsyncTracesClient("key", base_url=stub.url) as client:
        receipts = await client.upload_records(
            [cycle, {"id": "b", "deep": deep}, {"id": "c"}], on_error="skip"
        )
    assert receiver.uploads[0].lines == b'{"id":"c"}\n'
    assert "records[0].self" in str(receipts.refused[0].error)
    assert "records[1].deep" in str(receipts.refused[1].error)


async def test_FR57_the_key_is_in_no_word_of_the_traces_client(
    stub: Stub, caplog: pytest.LogCaptureFixture
) -> None:
    """With debug logging, in every error, in every repr."""
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    async with AsyncTracesClient(CANARY, base_url=stub.url) as client:
        for answer in (refusal(401), refusal(400, CANARY), Answer(body=CANARY.encode())):
            stub.default = answer
            for call in (client.list(), client.upload_lines([b"{}\n"]), client.delete("t")):
                try:
                    said.append(repr(await call))
                except PrimeTracesError as error:
                    said += [str(error), repr(error), repr(error.__dict__), repr(error.__cause__)]
        said.append(repr(client) + repr(client.client))
    assert len(stub.requests) >= 9
    assert not [text for text in (*said, caplog.text) if CANARY in text]


async def test_FR59_summaries_of_another_version(tmp_path: Path) -> None:
    """What the platform knows beyond the models is there by key; what it leaves out is None."""
    async with (
        running_platform(tmp_path) as platform,
        AsyncTracesClient(KEY, base_url=platform.url) as client,
    ):
        await client.upload_records([trace("t1")])
        found = await client.get("t1")
        assert found["generation"] == 1
        assert found.run_id is None
        assert found["run_id"] is None
