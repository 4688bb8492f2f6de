"""Rule 4: loss. Every sample is in one place of the account, and what is not stored is said."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from prime_async.spool import Ranges
from tests.cli.harness import Ran
from tests.evals.pushing import numbered, write_jsonl
from tests.official_stub import EVALUATION, FEATURES, OfficialStub
from tests.rules.surfaces import CommandSurface, Outcome, PythonSurface, Surface, leave_on_disk
from tests.rules.table import scenario
from tests.stub import Answer, Request

CLOSED = Answer(403, json={"detail": "the account is closed"}, headers=FEATURES)


def accounted(receipt: dict[str, Any]) -> int:
    """How many samples a receipt speaks of."""
    ranges = [Ranges.from_list(receipt[name]).total for name in ("unknown", "undelivered")]
    counts = [int(receipt[name]) for name in ("samples_pushed", "samples_skipped", "spooled")]
    return sum(counts) + sum(ranges)


def failed(outcome: Outcome) -> dict[str, Any]:
    """The account of a push that is not complete; a command says so with its exit code."""
    assert outcome.receipt is not None
    assert outcome.exit_code == 1 or outcome.error is not None or not outcome.value.complete
    return outcome.receipt


@scenario(4, shows=("AsyncEvalsClient.push_samples", "eval push"))
async def test_the_account_adds_up(surface: Surface, indexed: OfficialStub) -> None:
    """One sample refused, one not taken at first: each is in one place, the refused one by name."""

    def refuse_3_and_let_5_wait(request: Request, samples: list[Any]) -> Answer:
        first = len(indexed.seen("POST", ".*/samples")) == 1
        bad = [{"id": 3, "status": 422, "message": "bad reward"}, {"id": 5, "status": 503}]
        indexed.stored += [
            sample for place, sample in enumerate(samples) if not first or place not in (3, 5)
        ]
        return Answer(json={"errors": bad if first else []}, headers=FEATURES)

    indexed.answer = refuse_3_and_let_5_wait
    outcome = await surface.push(EVALUATION, numbered(10))
    receipt = failed(outcome)
    assert accounted(receipt) == 10
    assert receipt["samples_pushed"] == 9
    assert [(one["index"], one["status"]) for one in receipt["refused"]] == [(3, 422)]
    assert "bad reward" in str(receipt["refused"])
    assert indexed.ids == [0, 1, 2, 4, 6, 7, 8, 9, 5]
    if surface.name == "command":
        assert "sample 3: bad reward" in outcome.said


@scenario(4)
async def test_an_outage_midway_can_be_gone_on_with(
    surface: Surface, indexed: OfficialStub
) -> None:
    """Part of it is stored: said which, an error, and a token that brings the rest, once."""
    samples = numbered(6, size=700_000)
    indexed.route("POST", ".*/samples", lambda r: CLOSED if indexed.stored else indexed.push(r))
    outcome = await surface.push(EVALUATION, samples)
    assert outcome.kind == "PartialPushError"
    receipt = failed(outcome)
    assert accounted(receipt) == 6
    assert 0 < receipt["samples_pushed"] == len(indexed.stored) < 6
    assert "the account is closed" in outcome.said
    assert "resume" in str(outcome.hint)

    indexed.route("POST", ".*/samples", indexed.push)
    rest = await surface.resume(EVALUATION, samples, receipt["resume_token"])
    assert rest.ok, rest.said
    assert rest.receipt is not None
    assert rest.receipt["samples_pushed"] == 6
    assert indexed.ids == list(range(6))


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
@scenario(4, not_command="it pushes files, which can be read again")
async def test_what_cannot_be_read_again_is_kept_for_any_face(
    surface: PythonSurface, indexed: OfficialStub, inside: Callable[..., Ran], kind: str
) -> None:
    """What a generator gave is on disk, by path; the command delivers it, once."""

    async def later() -> AsyncIterator[Any]:
        for sample in numbered(50):
            yield sample

    indexed.route("POST", ".*/samples", CLOSED)
    source = iter(numbered(50)) if kind == "plain" else later()
    outcome = await surface.push(EVALUATION, source)
    receipt = failed(outcome)
    assert (accounted(receipt), receipt["spooled"]) == (50, 50)
    assert Path(receipt["spool_path"]).exists()
    assert receipt["spool_path"] in outcome.said
    assert "prime-async eval sync" in str(outcome.hint)

    indexed.route("POST", ".*/samples", indexed.push)
    for delivered in (1, 0):
        ran = await CommandSurface(inside, surface.folder).sync()
        assert ran.ok, ran.said
        assert len(ran.value["results"]) == delivered
    assert indexed.ids == list(range(50))


@scenario(4, shows=("AsyncEvalsClient.sync_pushes", "eval sync"))
async def test_what_is_kept_stays_until_it_is_delivered(
    surface: Surface, indexed: OfficialStub
) -> None:
    """Delivery fails: said so, nothing is thrown away; later it arrives, once."""
    await leave_on_disk(indexed, 20)
    indexed.route("POST", ".*/samples", Answer(503))
    outcome = await surface.sync()
    if surface.name == "command":
        assert outcome.exit_code == 1
    else:
        [result] = outcome.value
        assert result.problem is not None
        assert result.push.path.exists()
    indexed.route("POST", ".*/samples", indexed.push)
    assert (await surface.sync()).ok
    assert (await surface.sync()).ok
    assert indexed.ids == list(range(20))


@scenario(4)
async def test_a_broken_file_is_refused_whole(
    surface: Surface, official: OfficialStub, tmp_path: Path
) -> None:
    """A line that is no sample: named by file, line and column, and nothing of it is sent."""
    rows = ['{"example_id": 0}', '{"example_id": 1', '{"example_id": 2}']
    path = write_jsonl(tmp_path / "broken.jsonl", rows)
    outcome = await surface.push_file(EVALUATION, path)
    assert outcome.kind == "InvalidSampleError"
    assert f"{path}:2:" in outcome.said
    assert official.seen("POST", ".*") == []
