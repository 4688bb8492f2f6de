"""What type checkers see of both faces; ``both_faces.txt`` holds the answers.

Checked by ``test_revealed_types.py``; never run. After a wanted change, write the answers again:
``python -m tests.types.test_revealed_types``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, reveal_type

import prime_async
import prime_async.bridges
import prime_async.runs
import prime_sync
import prime_sync.bridges
import prime_sync.runs

SAMPLES: list[dict[str, Any]] = []


async def async_face() -> None:
    """The async client."""
    reveal_type(prime_async.AsyncAPIClient(api_key="k"))
    async with prime_async.AsyncEvalsClient("key", base_url="u") as client:
        reveal_type(client)
        reveal_type(client.api_client)
        reveal_type(client.api_client.settings)
        reveal_type(await client.api_client.get("/x", {"a": 1}))
        made = await client.create_evaluation("n", dataset="d")
        reveal_type(made)
        reveal_type(made.evaluation_id)
        reveal_type(made["anything"])
        reveal_type(await client.push_samples("e", SAMPLES, progress_callback=lambda n: None))
        reveal_type(await client.push_samples("e", Path("file.jsonl")))
        reveal_type(await client.finalize_evaluation("e", metrics={"m": 1}))
        reveal_type(await client.list_evaluations())
        reveal_type(await client.get_samples("e"))
        reveal_type(client.iter_samples("e"))
        reveal_type(client.iter_evaluations())
        reveal_type(await client.wait_for_evaluation("e"))
        reveal_type(await client.create_hosted_evaluation(["e"], "m", {}))
        reveal_type(await client.cancel_hosted_evaluation("e"))
        reveal_type(await client.get_hosted_logs("e"))
        reveal_type(client.iter_hosted_logs("e", tail=5))
        reveal_type(await client.push_run(Path("run"), on_evaluation=lambda e, n: None))
    async with prime_async.AsyncTracesClient("key", base_url="u") as traces:
        reveal_type(traces.client)
        reveal_type(await traces.upload_records([{"id": "t"}], on_batch=lambda b, r: None))
        receipts = await traces.upload_file(Path("t.jsonl"))
        reveal_type(receipts[0].upload_id)
        reveal_type(await traces.list(run_id="r", upload_id=["u"]))
        page = await traces.list()
        reveal_type(page.items)
        reveal_type(traces.iter(run_id="r", reward_min=0.5))
        reveal_type(traces.iter_search("text", run_id="r"))
        trace = await traces.get("t")
        reveal_type(trace.score.reward)
        reveal_type(await traces.export("t.parquet", format="parquet", run_id="r"))
        reveal_type(await traces.aggregate("model_id"))
    run = await prime_async.runs.init(kind="train", model="m", gzip_level=6)
    reveal_type(run)
    async with run as entered:
        reveal_type(entered)
    reveal_type(run.id)
    reveal_type(run.url)
    reveal_type(run.kind)
    reveal_type(run.status)
    reveal_type(run.stats().counts.left_out)
    reveal_type(run.failed_records)
    reveal_type(run.log_trace({"id": "t"}))
    reveal_type(run.log_metrics({"loss": 1.0}, step=1))
    reveal_type(await run.flush())
    receipt = await run.finish({"best": 1}, status="completed")
    reveal_type(receipt)
    reveal_type(receipt.refused)
    reveal_type(await run.fail(ValueError("x")))
    reveal_type(run.receipt)
    reveal_type(await prime_async.runs.sync_runs(prime_async.AsyncAPIClient()))
    streamed = await prime_async.bridges.stream_results(run, "results")
    reveal_type(streamed.records)
    reveal_type(prime_async.bridges.RunMonitor().log({"loss": 1.0}, step=1))
    reveal_type(prime_async.bridges.RolloutLogger(run))
    reveal_type(prime_async.bridges.RunCallback(run))
    reveal_type(prime_async.bridges.RunLogHandler(run))
    reveal_type(prime_async.bridges.RunSpanExporter(run))


async def async_jobs(client: prime_async.AsyncSandboxClient) -> None:
    """Background jobs."""
    job = await client.start_background_job("b", "c")
    reveal_type(job)
    reveal_type(await client.get_background_job("b", job))
    reveal_type(await client.get_background_job_status("b", job))
    reveal_type(await client.get_background_jobs([job]))
    reveal_type(await client.get_background_job_statuses((job,)))
    reveal_type(await client.run_background_job("b", "c", detach=True))
    reveal_type(await client.wait_background_jobs([job]))
    reveal_type(client.as_completed([job]))
    reveal_type(client.follow_background_job(job))
    reveal_type(await client.cancel_background_job(job))
    reveal_type(await client.list_background_jobs("b"))
    reveal_type(client.stats())


async def async_sandboxes(client: prime_async.AsyncSandboxClient) -> None:
    """What is around sandboxes, and images."""
    reveal_type(client.volumes)
    reveal_type(client.volumes.iter())
    reveal_type(await client.volumes.publish("b", "v"))
    reveal_type(await client.list_checkpoints("b"))
    reveal_type(await client.wait_for_checkpoint("c"))
    reveal_type(await client.set_network("b", allow=["*"]))
    reveal_type(await client.expose("b", 80))
    reveal_type(await prime_async.AsyncImageClient(client.api_client).build_image(".", "n"))


def sync_face() -> None:
    """The same, without await."""
    reveal_type(prime_sync.APIClient(api_key="k"))
    with prime_sync.EvalsClient("key", base_url="u") as client:
        reveal_type(client)
        reveal_type(client.api_client)
        reveal_type(client.api_client.settings)
        reveal_type(client.api_client.get("/x", {"a": 1}))
        made = client.create_evaluation("n", dataset="d")
        reveal_type(made)
        reveal_type(made.evaluation_id)
        reveal_type(made["anything"])
        reveal_type(client.push_samples("e", SAMPLES, progress_callback=lambda n: None))
        reveal_type(client.push_samples("e", Path("file.jsonl")))
        reveal_type(client.finalize_evaluation("e", metrics={"m": 1}))
        reveal_type(client.list_evaluations())
        reveal_type(client.get_samples("e"))
        reveal_type(client.iter_samples("e"))
        reveal_type(client.iter_evaluations())
        reveal_type(client.wait_for_evaluation("e"))
        reveal_type(client.create_hosted_evaluation(["e"], "m", {}))
        reveal_type(client.cancel_hosted_evaluation("e"))
        reveal_type(client.get_hosted_logs("e"))
        reveal_type(client.iter_hosted_logs("e", tail=5))
        reveal_type(client.push_run(Path("run"), on_evaluation=lambda e, n: None))
    with prime_sync.TracesClient("key", base_url="u") as traces:
        reveal_type(traces.client)
        reveal_type(traces.upload_records([{"id": "t"}], on_batch=lambda b, r: None))
        receipts = traces.upload_file(Path("t.jsonl"))
        reveal_type(receipts[0].upload_id)
        reveal_type(traces.list(run_id="r", upload_id=["u"]))
        page = traces.list()
        reveal_type(page.items)
        reveal_type(traces.iter(run_id="r", reward_min=0.5))
        reveal_type(traces.iter_search("text", run_id="r"))
        trace = traces.get("t")
        reveal_type(trace.score.reward)
        reveal_type(traces.export("t.parquet", format="parquet", run_id="r"))
        reveal_type(traces.aggregate("model_id"))
    run = prime_sync.runs.init(kind="train", model="m", gzip_level=6)
    reveal_type(run)
    with run as entered:
        reveal_type(entered)
    reveal_type(run.id)
    reveal_type(run.url)
    reveal_type(run.kind)
    reveal_type(run.status)
    reveal_type(run.stats().counts.left_out)
    reveal_type(run.failed_records)
    reveal_type(run.log_trace({"id": "t"}))
    reveal_type(run.log_metrics({"loss": 1.0}, step=1))
    reveal_type(run.flush())
    receipt = run.finish({"best": 1}, status="completed")
    reveal_type(receipt)
    reveal_type(receipt.refused)
    reveal_type(run.fail(ValueError("x")))
    reveal_type(run.receipt)
    reveal_type(prime_sync.runs.sync_runs(prime_sync.APIClient()))
    streamed = prime_sync.bridges.stream_results(run, "results")
    reveal_type(streamed.records)
    reveal_type(prime_sync.bridges.RunMonitor().log({"loss": 1.0}, step=1))
    reveal_type(prime_sync.bridges.RolloutLogger(run))
    reveal_type(prime_sync.bridges.RunCallback(run))
    reveal_type(prime_sync.bridges.RunLogHandler(run))
    reveal_type(prime_sync.bridges.RunSpanExporter(run))


def sync_jobs(client: prime_sync.SandboxClient) -> None:
    """The same, without await."""
    job = client.start_background_job("b", "c")
    reveal_type(job)
    reveal_type(client.get_background_job("b", job))
    reveal_type(client.get_background_job_status("b", job))
    reveal_type(client.get_background_jobs([job]))
    reveal_type(client.get_background_job_statuses((job,)))
    reveal_type(client.run_background_job("b", "c", detach=True))
    reveal_type(client.wait_background_jobs([job]))
    reveal_type(client.as_completed([job]))
    reveal_type(client.follow_background_job(job))
    reveal_type(client.cancel_background_job(job))
    reveal_type(client.list_background_jobs("b"))
    reveal_type(client.stats())


def sync_sandboxes(client: prime_sync.SandboxClient) -> None:
    """The same, without await."""
    reveal_type(client.volumes)
    reveal_type(client.volumes.iter())
    reveal_type(client.volumes.publish("b", "v"))
    reveal_type(client.list_checkpoints("b"))
    reveal_type(client.wait_for_checkpoint("c"))
    reveal_type(client.set_network("b", allow=["*"]))
    reveal_type(client.expose("b", 80))
    reveal_type(prime_sync.ImageClient(client.api_client).build_image(".", "n"))


def mistakes(api: prime_async.AsyncAPIClient) -> None:
    """What type checkers must not let pass."""
    prime_sync.EvalsClient(api)  # type: ignore[arg-type]  # async in sync
    prime_sync.EvalsClient().get_samples("e", page="1")  # type: ignore[arg-type]  # text
    prime_sync.EvalsClient().get_sample("e")  # type: ignore[attr-defined]  # no such method
    prime_sync.EvalsClient().push_samples("e", [], workers=3)  # type: ignore[call-arg]  # no knob
    prime_sync.runs.init(queue_policy="block")  # type: ignore[arg-type]  # would stall loops
    prime_sync.runs.init().alog_traces([])  # type: ignore[attr-defined]  # for loops only
