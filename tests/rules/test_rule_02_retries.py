"""Rule 2: retries. Repeated where a repeat does no harm, in a measured way; never blindly."""

from __future__ import annotations

import email.utils
import time
from typing import Any

import pytest

from prime_async.errors import APIConnectionError
from prime_async.transport import RetryBudget
from tests.official_stub import EVALUATION, FEATURES, OfficialStub
from tests.rules.surfaces import PythonSurface, Surface
from tests.rules.table import scenario
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
