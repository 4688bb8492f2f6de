"""The batch status of background jobs, across sandboxes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta, Struct
from sqlalchemy import RowMapping

from prime_async.sandboxes.job_models import BatchBackgroundJobStatusResponse
from prime_async.sandboxes.models import ENDED_STATUSES
from prime_async.server.answers import answer
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import invalid
from prime_async.server.runtimes.jobs import JOB_ID, JobState
from prime_async.server.sandboxes.fleet import Live
from prime_async.server.store import sandboxes as store

__all__ = ["ENDPOINTS"]

_BATCH = 100


class JobKey(Struct, kw_only=True, frozen=True):
    """One job: its sandbox, and its name there."""

    sandbox_id: Annotated[str, Meta(min_length=1, max_length=64)]
    job_id: Annotated[str, Meta(pattern=JOB_ID)]


class BatchJobStatus(Struct, kw_only=True):
    """Body of a look-up; no job twice."""

    jobs: Annotated[list[JobKey], Meta(min_length=1, max_length=_BATCH)]


class _Refusal(Struct, frozen=True):
    """Why nothing can be told of the jobs of a sandbox."""

    code: str
    message: str


Told = dict[str, Any]
"""The wire form of a status, or of an error, which has a ``code``."""


async def statuses(call: Call) -> Reply:
    """Read the statuses of many jobs; what is wrong with one is its own error."""
    _ = call.key_text  # malformed ones are refused everywhere alike
    jobs: list[JobKey] = call.body.jobs
    if len(set(jobs)) != len(jobs):
        raise invalid(["body", "jobs"], "a job is given twice")
    wanted: dict[str, list[str]] = {}
    for job in jobs:
        wanted.setdefault(job.sandbox_id, []).append(job.job_id)
    found = _judge(call, list(wanted))
    live = [one.running for one in found.values() if isinstance(one, Live)]
    states = await call.platform.sandboxes.jobs.states([(one, wanted[one.id]) for one in live])
    read = {one.id: group for one, group in zip(live, states, strict=True)}
    told = {
        (sandbox_id, one["job_id"]): one
        for sandbox_id, ids in wanted.items()
        for one in _tell(sandbox_id, found[sandbox_id], ids, read.get(sandbox_id, ()))
    }
    ordered = [told[job.sandbox_id, job.job_id] for job in jobs]
    return answer(
        {
            "statuses": [one for one in ordered if "code" not in one],
            "errors": [one for one in ordered if "code" in one],
        }
    )


def _judge(call: Call, ids: list[str]) -> dict[str, Live | _Refusal]:
    caller = call.caller
    rows = call.platform.database.point(lambda reader: store.find_many(reader, ids, caller))
    return {one: _judge_one(call, one, rows.get(one)) for one in ids}


def _judge_one(call: Call, sandbox_id: str, row: RowMapping | None) -> Live | _Refusal:
    if row is None:
        # Somebody else's as well: whether it exists is not told.
        return _Refusal("NOT_FOUND", f"no sandbox {sandbox_id}")
    if not row["vm"]:
        return _Refusal(
            "NOT_VM", f"sandbox {sandbox_id} is a container: ask for its jobs one by one"
        )
    live = call.platform.sandboxes.fleet.use(sandbox_id)
    if live is not None:
        return live
    if row["status"] in ENDED_STATUSES:
        why = row["error_message"] or row["termination_reason"]
        return _Refusal("NOT_RUNNING", f"sandbox {sandbox_id} has ended ({why})")
    return _Refusal("NOT_RUNNING", f"sandbox {sandbox_id} does not run yet ({row['status']})")


def _tell(
    sandbox_id: str, found: Live | _Refusal, job_ids: list[str], states: Iterable[JobState]
) -> Iterable[Told]:
    if isinstance(found, Live):
        end = found.running.end
        if end is None:
            return [_told(sandbox_id, state) for state in states]
        found = _Refusal("NOT_RUNNING", f"sandbox {sandbox_id} has ended ({end.message})")
    return [_failed(sandbox_id, job_id, found) for job_id in job_ids]


def _told(sandbox_id: str, state: JobState) -> Told:
    if state.problem is not None:
        message = f"sandbox {sandbox_id}: {state.problem}"
        return _failed(sandbox_id, state.job_id, _Refusal("RUNTIME_ERROR", message))
    return {
        "sandbox_id": sandbox_id,
        "job_id": state.job_id,
        "completed": not state.running,
        "exit_code": state.exit_code,
    }


def _failed(sandbox_id: str, job_id: str, why: _Refusal) -> Told:
    return {
        "sandbox_id": sandbox_id,
        "job_id": job_id,
        "code": why.code,
        "message": why.message,
    }


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/sandbox/background-jobs/status:batchGet",
        statuses,
        "Read the statuses of many background jobs",
        {200: BatchBackgroundJobStatusResponse},
        body=BatchJobStatus,
    ),
)
