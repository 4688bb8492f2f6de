"""Rule 2: retries. Repeated where a repeat does no harm, in a measured way; never blindly."""

from __future__ import annotations

import contextlib
import email.utils
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from prime_async import AsyncRun, AsyncSandboxProcess
from prime_async.errors import APIConnectionError, PrimeError
from prime_async.transport import RetryBudget, RetryPolicy
from tests.official_stub import EVALUATION, FEATURES, OfficialStub
from tests.rules.calls import ALL_CALLS, clients
from tests.rules.commands import COMMAND_NAMES, COMMANDS, NO_WIRE, line_of, name_of
from tests.rules.handles import HANDLE_CALLS, functions_of, opened, plain
from tests.rules.surfaces import CommandSurface, PythonSurface, Surface, leave_on_disk
from tests.rules.table import scenario
from tests.runs.platform_double import PlatformDouble
from tests.stub import Answer, Request

FOUND = Answer(json={"evaluation_id": EVALUATION, "name": "e"})
LOST = Answer(status=0, end="reset")
"""Whatever it was, it is carried out, and the answer is lost."""

MAYBE = "may have been carried out"


@scenario(2)
async def test_what_passes_is_asked_again(surface: Surface, official: OfficialStub) -> None:
    """408, 429, 502, 503, 504, a locked 409 and a lost connection: the second try counts."""
    locked = Answer(409, json={"detail": "locked, try again"}, headers={"Retry-After": "0"})
    passing = [*(Answer(status) for status in (408, 429, 502, 503, 504)), locked, LOST]
    for answer in passing:
        before = len(official.requests)
        official.script(answer, FOUND)
        outcome = await surface.get(EVALUATION)
        assert outcome.ok, (answer.status, outcome.said)
        assert len(official.requests) - before == 2


@scenario(2)
async def test_what_stays_is_not_asked_again(surface: Surface, official: OfficialStub) -> None:
    """Other statuses are final at once, and the most that is asked in an outage is four times."""
    for status in (400, 401, 402, 403, 404, 405, 409, 413, 422, 500, 501):
        before = len(official.requests)
        official.route("GET", ".*", Answer(status))
        assert (await surface.get(EVALUATION)).facts["status"] == status
        assert len(official.requests) - before == 1
    before = len(official.requests)
    official.route("GET", ".*", Answer(503))
    assert (await surface.get(EVALUATION)).facts["status"] == 503
    assert len(official.requests) - before == 4


@pytest.mark.parametrize("form", ["seconds", "date"])
@scenario(2)
async def test_a_pause_that_is_asked_for_is_kept(
    surface: Surface, official: OfficialStub, form: str
) -> None:
    """``Retry-After`` in both forms: the next request does not come before its time."""
    # A date has whole seconds: this one is between one and two seconds away.
    date = email.utils.formatdate(int(time.time()) + 2, usegmt=True)
    text, least = ("0.3", 0.3) if form == "seconds" else (date, 0.95)
    official.script(Answer(429, headers={"Retry-After": text}), FOUND)
    assert (await surface.get(EVALUATION)).ok
    first, second = official.requests
    assert second.time - first.time >= least


@scenario(2)
async def test_a_pause_that_is_too_long_is_said(surface: Surface, official: OfficialStub) -> None:
    """More than 60 seconds are not waited for: the error says how long the platform wants."""
    official.route("GET", ".*", Answer(503, headers={"Retry-After": "3600"}))
    outcome = await surface.get(EVALUATION)
    assert outcome.kind == "ServerError"
    assert outcome.facts["retry_after"] == 3600
    assert "3600 s" in str(outcome.hint)
    assert len(official.requests) == 1


@scenario(2)
async def test_the_budget_of_the_process_is_shared(
    surface: Surface, official: OfficialStub, retry_budget: RetryBudget
) -> None:
    """When the process has spent its repeats, an outage is not answered by a storm."""
    while retry_budget.take():
        pass
    official.route("GET", ".*", Answer(503))
    outcome = await surface.get(EVALUATION)
    assert outcome.facts["status"] == 503
    assert "retry budget" in str(outcome.hint)
    assert len(official.requests) == 1


@scenario(2)
async def test_a_create_is_repeated_with_its_key_where_keys_count(
    surface: Surface, indexed: OfficialStub
) -> None:
    """The platform says that it knows keys: the same key again, so that one evaluation is made."""
    answers = iter([LOST])
    made = Answer(json={"evaluation_id": EVALUATION}, headers=FEATURES)
    indexed.route("POST", ".*/evaluations/", lambda _: next(answers, made))
    assert (await surface.create("n")).ok
    first, second = indexed.seen("POST", ".*/evaluations/")
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert first.body == second.body


@scenario(2)
async def test_a_create_is_not_repeated_blindly(surface: Surface, official: OfficialStub) -> None:
    """Nothing says that the platform knows keys: one request, and the error says what may be."""
    official.route("POST", ".*/evaluations/", LOST)
    outcome = await surface.create("n")
    assert outcome.kind == "APIConnectionError"
    assert MAYBE in outcome.said
    assert len(official.seen("POST", ".*/evaluations/")) == 1


@scenario(2)
async def test_a_create_that_was_refused_is_repeated(
    surface: Surface, official: OfficialStub
) -> None:
    """A 429 says that nothing was done."""
    answers = iter([Answer(429)])
    made = Answer(json={"evaluation_id": EVALUATION})
    official.route("POST", ".*/evaluations/", lambda _: next(answers, made))
    assert (await surface.create("n")).ok
    assert len(official.seen("POST", ".*/evaluations/")) == 2


@scenario(2)
async def test_samples_are_not_pushed_twice_blindly(
    surface: Surface, official: OfficialStub
) -> None:
    """Posts append there: a batch whose answer is lost counts as unknown, and is sent once."""

    def store_and_be_lost(request: Request) -> Answer:
        official.push(request)
        return LOST

    official.route("POST", ".*/samples", store_and_be_lost)
    outcome = await surface.push(EVALUATION, [{"example_id": 0}, {"example_id": 1}])
    assert outcome.kind == "PartialPushError"
    assert outcome.receipt is not None
    assert outcome.receipt["unknown"] == [[0, 2]]
    assert official.ids == [0, 1]


@scenario(2)
async def test_samples_with_an_index_are_pushed_again(
    surface: Surface, indexed: OfficialStub
) -> None:
    """The platform keeps each sample by its index: sent again, stored once."""

    def store_and_be_lost_once(request: Request) -> Answer:
        answer = indexed.push(request)
        return LOST if len(indexed.seen("POST", ".*/samples")) == 1 else answer

    indexed.route("POST", ".*/samples", store_and_be_lost_once)
    outcome = await surface.push(EVALUATION, [{"example_id": 0}, {"example_id": 1}])
    assert outcome.ok, outcome.said
    assert indexed.ids == [0, 1]
    assert len(indexed.seen("POST", ".*/samples")) == 2


@scenario(2, not_command="no command posts what it is given to where it is told")
async def test_a_plain_post_is_never_repeated(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """Nobody knows what it does: one request, whatever happens to its answer."""
    official.route("POST", ".*/anything", LOST)
    async with surface.face.AsyncAPIClient() as client:
        with pytest.raises(APIConnectionError, match=MAYBE) as caught:
            await client.post("/anything", {"a": 1})
    assert caught.value.ambiguous
    assert len(official.requests) == 1


@scenario(2)
async def test_a_second_delete_that_finds_nothing_has_done_it(
    surface: Surface, official: OfficialStub
) -> None:
    """DELETE carried out and its answer lost: the 404 of the repeat means that it is done."""
    answers: Any = iter([LOST, Answer(404, json={"detail": "Not Found"})])
    official.route("DELETE", ".*", lambda _: next(answers))
    assert (await surface.delete(EVALUATION)).ok
    assert len(official.seen("DELETE", ".*")) == 2


@scenario(2)
async def test_a_create_that_takes_too_long_may_be_carried_out(
    surface: Surface, official: OfficialStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline ends the wait, not what the platform does: the error says so."""
    for place in ("transport", "evals.client"):
        monkeypatch.setattr(f"prime_async.{place}.DEFAULT_TIMEOUT", 0.3)
    official.route("POST", ".*/evaluations/", Answer(status=0, end="silent"))
    outcome = await surface.create("n")
    assert outcome.kind == "APITimeoutError"
    assert MAYBE in outcome.said
    assert outcome.error is None or outcome.error.ambiguous  # type: ignore[attr-defined]


REPLAYED = re.compile(r"(:batchGet|/auth|/resolve|/lookup)$")
"""POSTs that only read: they count as GET."""

MORE_TRIES = {
    "AsyncSandboxClient.create": "its POST has a key, by which it is found and undone",
    "AsyncSandboxClient.sandbox": "as create",
    "AsyncTracesClient.upload_batch": "named by its digest; `max_attempts` is 5",
    "AsyncTracesClient.upload_file": "as upload_batch",
    "AsyncTracesClient.upload_lines": "as upload_batch",
    "AsyncTracesClient.upload_records": "as upload_batch",
    "AsyncTracesAPIClient.upload_batch": "as upload_batch",
    "AsyncTracesClient.delete": "a delete of traces is never repeated blindly",
    "AsyncTracesClient.delete_episode": "as delete",
    "AsyncTracesClient.delete_run": "as delete",
    "AsyncTracesAPIClient.delete": "as delete",
    "AsyncSandboxClient.download_tree": "four to pack it, four to clean up",
    "AsyncSandboxClient.upload_tree": "as download_tree",
    "AsyncSandboxClient.follow_background_job": "the look beside its reading ends with the call",
    "job follow": "as AsyncSandboxClient.follow_background_job",
    "sandbox run": "as AsyncSandboxClient.sandbox",
    "sandbox create": "as AsyncSandboxClient.create",
    "sandbox checkpoint restore": "as AsyncSandboxClient.create",
    "sandbox upload": "as AsyncSandboxClient.upload_tree",
    "sandbox download": "as AsyncSandboxClient.download_tree",
    "traces upload": "as AsyncTracesClient.upload_file",
    "traces delete": "as AsyncTracesClient.delete",
}
"""Where four tries of what can be repeated, and one of what cannot, are not the number."""

WAITS = {
    "AsyncSandboxClient.as_completed": "looks at its jobs until its time is over",
    "AsyncSandboxClient.wait_background_jobs": "as as_completed",
    "job wait": "as as_completed",
}
"""Calls that go through an outage, within their own time."""

NUMBERS = {"GET": 4, "HEAD": 4, "PUT": 4, "DELETE": 4, "POST": 1, "PATCH": 1}
IDEMPOTENT_PATCH = ("AsyncEvalsClient.cancel_hosted_evaluation", "eval stop")
"""A cancelled evaluation is cancelled, however often."""


def assert_tries(name: str, requests: list[Request]) -> None:
    """Each of its requests was sent as often as the rule has it."""
    times = Counter((request.method, request.path) for request in requests)
    assert times, f"{name} asks nothing"
    for (method, path), count in times.items():
        number = 4 if REPLAYED.search(path) or name in IDEMPOTENT_PATCH else NUMBERS[method]
        if path.endswith("/whoami") and name != "whoami":
            assert count == 3, "asked what the platform can, within the tries"
        elif name in MORE_TRIES:
            assert 0 < count <= 8, (name, method, path, count)
        else:
            assert count == number, (name, method, path, count)


@scenario(2, shows=[call for call in ALL_CALLS if str(call) not in WAITS], not_command="see below")
async def test_every_call_is_tried_so_often(
    surface: PythonSurface, official: OfficialStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does is carried out, and the answer is lost, always: four times, or once."""
    await leave_on_disk(official)
    official.route("*", ".*", LOST)
    async with clients(surface.face) as on:
        for call in ALL_CALLS:
            if str(call) in WAITS:
                continue
            with_a_budget_of_its_own(monkeypatch)
            official.requests.clear()
            with contextlib.suppress(PrimeError):
                await call.on(on)
            assert_tries(str(call), official.requests)


@scenario(
    2,
    shows=[name for name in COMMAND_NAMES if name not in WAITS],
    not_async="see above",
    not_sync="see above",
)
async def test_every_command_is_tried_so_often(
    surface: CommandSurface,
    official: OfficialStub,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The same; it ends with 1 and says what it was about."""
    await leave_on_disk(official)
    official.route("*", ".*", LOST)
    for node in COMMANDS:
        if name_of(node) in WAITS or name_of(node) in NO_WIRE:
            continue
        with_a_budget_of_its_own(monkeypatch)
        official.requests.clear()
        ran = await surface.read(*line_of(node, tmp_path), "-o", "json")
        assert ran.code == 1, (name_of(node), ran)
        assert "connection broke" in ran.everything, (name_of(node), ran)
        assert_tries(name_of(node), official.requests)


def with_a_budget_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one call spends on repeats is not missing in the next."""
    monkeypatch.setattr("prime_async.transport.client.process_budget", RetryBudget())


SENDING = [
    call
    for call in HANDLE_CALLS
    if call.kind is AsyncSandboxProcess and call.name not in ("aclose", "detach", "wait")
]


@scenario(2, shows=SENDING, not_command="it holds no processes")
async def test_messages_to_processes_are_tried_so_often(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """Each carries an id, so that a repeat is recognised: the same message, four times."""
    for call in SENDING:
        async with opened(call.kind, surface.face, official) as process:
            official.requests.clear()
            official.route("POST", "/gw/.*", LOST)
            with pytest.raises(APIConnectionError):
                await call.on(process)
            sent = official.seen("POST", "/gw/.*")
            assert len(sent) == 4, call
            assert len({request.body for request in sent}) == 1, call


ENDINGS_OF_RUNS = ("AsyncRun.flush", "AsyncRun.finish", "AsyncRun.fail")


@scenario(2, shows=ENDINGS_OF_RUNS, not_command="a command opens no run")
async def test_what_a_run_sends_is_stored_once(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """A batch whose answer is lost is sent again under the same digest, and kept after four."""
    for call in (call for call in HANDLE_CALLS if str(call) in ENDINGS_OF_RUNS):
        async with opened(call.kind, surface.face, official, retry=RetryPolicy()) as run:
            official.requests.clear()
            official.route("POST", ".*/traces", LOST)
            await plain(run.log_trace({"id": "t"}))
            told = await call.on(run)
            assert told is False or told.counts.spooled == 1, call
            keys = [r.headers["Idempotency-Key"] for r in official.seen("POST", ".*/traces")]
            assert len(keys) in (4, 5), call
            assert len(set(keys)) == 1, call


@scenario(2, shows=("init", "sync_runs", "watch_runs"), not_command="see traces sync")
async def test_opening_and_delivering_runs_is_tried_so_often(
    surface: PythonSurface, official: OfficialStub
) -> None:
    """A run is created once; what was kept is delivered under its digest, once."""
    runs = functions_of(surface.face)
    async with opened(AsyncRun, surface.face, official) as run:
        official.route("POST", ".*/traces", Answer(503))
        await plain(run.log_trace({"id": "t"}))
        assert (await run.finish()).counts.spooled == 1
    async with surface.face.AsyncAPIClient() as api:
        official.requests.clear()
        official.route("POST", ".*/traces", LOST)
        [kept] = await runs.sync_runs(api)
        assert kept.problem is not None
        keys = [r.headers["Idempotency-Key"] for r in official.seen("POST", ".*/traces")]
        assert (len(keys) in (4, 5), len(set(keys))) == (True, 1)
        PlatformDouble(official)
        delivered = await anext(aiter(runs.watch_runs(api)))
        assert (delivered.delivered, delivered.problem) == (1, None)
    official.requests.clear()
    official.route("POST", ".*/evaluations/", LOST)
    with pytest.raises(APIConnectionError) as caught:
        await runs.init(model="m", environments=["math"])
    assert caught.value.ambiguous
    created = official.seen("POST", ".*/evaluations/")
    keys = {request.headers["Idempotency-Key"] for request in created}
    assert (len(created), len(keys)) == (4, 1)
