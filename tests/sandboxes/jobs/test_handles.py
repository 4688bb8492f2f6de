"""Handles: what is one, and what is refused before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from prime_sandboxes import BackgroundJob as OfficialJob

from prime_async import AsyncSandboxClient, BackgroundJob, BackgroundJobInfo, UsageError
from tests.faces import Face, both_faces
from tests.job_double import JobDouble

JOB = BackgroundJob.of("sbx0", "0123abcd")


def test_a_handle_survives_as_json() -> None:
    """Ours, the official client's, and a listed job, which is a handle too."""
    assert BackgroundJob.from_json(JOB.to_json()) == JOB
    official = OfficialJob(**json.loads(JOB.to_json()))
    assert BackgroundJob.from_json(official.model_dump_json()) == JOB
    listed = BackgroundJobInfo(**JOB.to_wire(), state="completed", exit_code=3)
    assert BackgroundJob.from_json(listed.to_json()).exit_file == JOB.exit_file


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"job_id": 3}', "\ud800", b"\xff"])
def test_other_text_is_no_handle(text: str | bytes) -> None:
    """One error, whatever it is."""
    with pytest.raises(ValueError, match=r"handle of a background job|surrogates"):
        BackgroundJob.from_json(text)


@dataclass
class _Handle:
    job_id: str = JOB.job_id
    sandbox_id: str = JOB.sandbox_id
    stdout_log_file: str = JOB.stdout_log_file
    stderr_log_file: str = JOB.stderr_log_file
    exit_file: str = JOB.exit_file


@both_faces
@pytest.mark.parametrize(
    "make", [lambda: JOB.to_wire(), _Handle, lambda: OfficialJob(**JOB.to_wire())]
)
async def test_handles_of_other_makes_are_taken(
    face: Face, told: JobDouble, make: Callable[[], Any]
) -> None:
    """A dict, an object with the five attributes, the official client's model."""
    made = told.job("sbx0", code=4)
    told.jobs["sbx0", JOB.job_id] = told.jobs["sbx0", made.job_id]
    async with face.AsyncSandboxClient("key", base_url=told.url) as client:
        assert (await client.get_background_job_status("sbx0", make())).exit_code == 4


BAD: list[tuple[Any, str]] = [
    ([], "jobs is empty"),
    ("text", "jobs is a str"),
    ([JOB] * 2, r"jobs\[1\] is jobs\[0\] again"),
    ([BackgroundJob.of("sbx0", f"{n:08x}") for n in range(101)], "101 handles; 100 are allowed"),
    ([JOB, None], r"jobs\[1\] is a NoneType"),
    ([replace(_Handle(), exit_file="/etc/passwd")], r"jobs\[0\] '0123abcd' has the exit_file"),
    ([replace(_Handle(), job_id="../../x")], r"jobs\[0\] '../../x' is not the handle"),
    ([replace(_Handle(), sandbox_id="a/b")], r"jobs\[0\].sandbox_id"),
]


@pytest.mark.parametrize(("jobs", "words"), BAD)
async def test_bad_lists_are_refused_before_anything_is_sent(
    told: JobDouble, jobs_client: AsyncSandboxClient, jobs: Any, words: str
) -> None:
    """By name, as a ``ValueError``."""
    calls = [jobs_client.get_background_jobs, jobs_client.get_background_job_statuses]
    for call in calls:
        with pytest.raises(ValueError, match=words) as caught:
            await call(jobs)
        assert isinstance(caught.value, UsageError)
        assert caught.value.field
    assert told.seen == []


async def test_single_calls_refuse_a_handle_from_elsewhere(
    told: JobDouble, jobs_client: AsyncSandboxClient
) -> None:
    """Of another sandbox, or changed."""
    for call in (jobs_client.get_background_job, jobs_client.get_background_job_status):
        with pytest.raises(UsageError, match="of sandbox sbx0, not of sbx1"):
            await call("sbx1", JOB)
    changed: Any = replace(_Handle(), stdout_log_file="/etc/shadow")
    with pytest.raises(UsageError, match="stdout_log_file"):
        await jobs_client.cancel_background_job(changed)
    chunks = jobs_client.follow_background_job(changed)
    with pytest.raises(UsageError, match="stdout_log_file"):
        await anext(chunks)
    assert told.seen == []


@both_faces
@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("background_job_output_concurrency", 0),
        ("background_job_output_concurrency", True),
        ("background_job_output_queue_size", -1),
        ("background_job_output_queue_size", 2.5),
        ("background_job_output_cache_bytes", -1),
    ],
)
def test_limits_are_checked_at_construction(face: Face, limit: str, value: Any) -> None:
    """The message names the parameter."""
    with pytest.raises(ValueError, match=f"{limit} is {value}"):
        face.AsyncSandboxClient("key", **{limit: value})
    face.AsyncSandboxClient("key", background_job_output_cache_bytes=0)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"command": ""}, "command"),
        ({"command": "a\0b"}, "command"),
        ({"command": "x", "env": {"A-B": "c"}}, "env"),
        ({"command": "x", "env": {"A": 3}}, "env"),
        ({"command": "x", "env": {"A": "x" * 131_072}}, "env"),
        ({"command": "x", "env": {f"A{n}": "x" * 100_000 for n in range(17)}}, "env"),
        ({"command": "x", "env": {"PRIME_JOB_COMMAND": "c"}}, "env"),
        ({"command": "x", "job_id": "nope"}, "job_id"),
        ({"command": "x", "timeout": 0}, "timeout"),
    ],
)
async def test_what_cannot_be_started_is_refused(
    told: JobDouble, jobs_client: AsyncSandboxClient, arguments: dict[str, Any], field: str
) -> None:
    """Before anything is sent; no value of a variable is told."""
    with pytest.raises(UsageError) as caught:
        await jobs_client.start_background_job("sbx0", **arguments)
    assert caught.value.field == field
    assert "xxxx" not in str(caught.value)
    assert told.seen == []
