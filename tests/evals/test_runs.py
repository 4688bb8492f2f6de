"""Pushing a result run: checked before anything is created, harmless when it is repeated."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prime_async.errors import (
    EvaluationNotFoundError,
    InvalidEvaluationError,
    InvalidSampleError,
    OversizedSamplesError,
    PartialPushError,
    ServerError,
    UnauthorizedError,
    UsageError,
)
from prime_async.evals import MAX_PAYLOAD_BYTES, AsyncEvalsClient, PushedRun, ResumeToken
from prime_async.evals.run_files import push_id_of
from tests.evals.pushing import Target, write_jsonl
from tests.faces import Face, both_faces
from tests.official_stub import EVALUATION, OfficialStub
from tests.platform import KEY
from tests.stub import Answer, Request

DESCRIBED = {"env_id": "gsm8k", "model": "m", "avg_reward": 0.5, "num_examples": 3}


def make_run(folder: Path, rows: list[Any], **described: Any) -> Path:
    """Write a result folder of the first generation."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata.json").write_text(json.dumps({**DESCRIBED, **described}))
    write_jsonl(folder / "results.jsonl", rows)
    return folder


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    """Rows as verifiers writes them."""
    return [{"example_id": n, "reward": n / 10, **more} for n in range(count)]


async def evaluations(target: Target) -> int:
    return (await target.client.list_evaluations()).total


async def seen(target: Target) -> dict[str, Any]:
    """Everything the platform says about the evaluation, times included."""
    return dict(await target.client.get_evaluation(target.evaluation_id))


async def samples_of(client: AsyncEvalsClient, evaluation_id: str) -> list[Any]:
    return [sample async for sample in client.iter_samples(evaluation_id)]


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return what people are warned of; other tests may have made the platform talk more."""
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


class TestNewEvaluation:
    async def test_from_the_folder(self, target: Target, tmp_path: Path) -> None:
        """Metadata become the evaluation, avg_ values its metrics; it is closed."""
        known: list[Any] = []
        pushed = await target.client.push_run(
            make_run(tmp_path / "run", rows(3)), on_evaluation=lambda *args: known.append(args)
        )
        assert known == [(pushed.evaluation_id, 3)]
        assert (pushed.created, pushed.finalized, pushed.receipt.complete) == (True, True, True)
        assert pushed.run.model == "m"
        stored = await target.client.get_evaluation(pushed.evaluation_id)
        assert (stored.name, stored.model_name, stored.status) == ("gsm8k-m", "m", "COMPLETED")
        assert stored.metrics == {"reward": 0.5}
        assert stored.metadata == {"env_id": "gsm8k", "model": "m", "num_examples": 3}
        assert await samples_of(target.client, pushed.evaluation_id) == rows(3)

    async def test_what_is_said_counts(self, target: Target, tmp_path: Path) -> None:
        """In place of what the folder says; it may be left open."""
        pushed = await target.client.push_run(
            make_run(tmp_path / "run", rows(1)),
            env="other",
            model_name="m2",
            name="mine",
            metrics={"score": 1},
            is_public=True,
            finalize=False,
        )
        stored = await target.client.get_evaluation(pushed.evaluation_id)
        assert (stored.name, stored.model_name, stored.is_public) == ("mine", "m2", True)
        assert (pushed.finalized, stored.status, stored.metrics) == (False, "RUNNING", None)
        assert pushed.run.env == "other"

    @pytest.mark.parametrize("name", ["", "metadata.json", "results.jsonl"])
    async def test_a_file_in_the_folder_means_it(
        self, target: Target, tmp_path: Path, name: str
    ) -> None:
        """The folder, or either of its files."""
        pushed = await target.client.push_run(str(make_run(tmp_path / "run", rows(2)) / name))
        assert pushed.receipt.samples_pushed == 2

    async def test_a_file_of_its_own(self, target: Target, tmp_path: Path) -> None:
        """Not confused with a run it lies beside; named after itself."""
        folder = make_run(tmp_path / "run", rows(5))
        file = write_jsonl(folder / "mine.jsonl", rows(2))
        pushed = await target.client.push_run(file, env="e")
        stored = await target.client.get_evaluation(pushed.evaluation_id)
        assert (stored.name, stored.total_samples, stored.framework) == ("e-mine", 2, None)
        (folder / "metadata.json").unlink()
        alone = await target.client.push_run(folder / "results.jsonl", run_id="run-7")
        stored = await target.client.get_evaluation(alone.evaluation_id)
        assert (stored.run_id, stored.total_samples) == ("run-7", 5)

    async def test_nothing_is_created_for_a_broken_file(
        self, target: Target, tmp_path: Path
    ) -> None:
        """Broken lines, no description, no such path: said by name, and nothing is left behind."""
        before = await evaluations(target)
        broken = make_run(tmp_path / "broken", [*rows(1), "{half"])
        with pytest.raises(InvalidSampleError, match=r"results\.jsonl:2"):
            await target.client.push_run(broken)
        file = write_jsonl(tmp_path / "mine.jsonl", rows(1))
        with pytest.raises(InvalidEvaluationError, match="which environment") as caught:
            await target.client.push_run(file)
        assert caught.value.field == "env"
        for path in (tmp_path, tmp_path / "nowhere"):
            with pytest.raises((InvalidEvaluationError, InvalidSampleError)):
                await target.client.push_run(path, env="e")
        assert await evaluations(target) == before

    async def test_nothing_is_created_for_samples_that_are_too_large(
        self, target: Target, tmp_path: Path
    ) -> None:
        """Unless it is said what becomes of them; trimming must be enough."""
        large = {"example_id": 1, "log": "x" * MAX_PAYLOAD_BYTES}
        run = make_run(tmp_path / "run", [*rows(1), large])
        before = await evaluations(target)
        for trim in ((), ["reward"]):
            with pytest.raises(OversizedSamplesError, match="1 of 2 samples are larger") as caught:
                await target.client.push_run(run, trim=trim)
            assert [(each.line, each.index) for each in caught.value.oversized] == [(2, 1)]
            assert caught.value.oversized[0].size > MAX_PAYLOAD_BYTES
        assert await evaluations(target) == before

        skipped = await target.client.push_run(run, skip_oversized=True)
        assert (skipped.finalized, skipped.receipt.complete) == (True, False)
        assert [each.index for each in skipped.receipt.refused] == [1]
        trimmed = await target.client.push_run(run, trim=["log"])
        assert (trimmed.finalized, trimmed.receipt.complete) == (True, True)
        assert trimmed.receipt.trimmed == {1: ("log",)}


@both_faces
async def test_both_faces(face: Face, target: Target, tmp_path: Path) -> None:
    """The same from plain code: callbacks are called, the result is the same object."""
    run = make_run(tmp_path / "run", rows(3))
    known: list[Any] = []
    settled: list[int] = []
    async with face.AsyncEvalsClient(KEY, base_url=target.url) as client:
        pushed = await client.push_run(
            run,
            evaluation_id=target.evaluation_id,
            on_evaluation=lambda *args: known.append(args),
            progress_callback=settled.append,
        )
    assert isinstance(pushed, PushedRun)
    assert known == [(target.evaluation_id, 3)]
    assert sum(settled) == 3
    assert await target.stored() == rows(3)


class TestExistingEvaluation:
    async def test_it_is_brought_up_to_date(self, target: Target, tmp_path: Path) -> None:
        """Its description becomes the run's; an unknown one is refused before anything is sent."""
        run = make_run(tmp_path / "run", rows(3))
        pushed = await target.client.push_run(run, evaluation_id=target.evaluation_id, name="new")
        assert (pushed.evaluation_id, pushed.created) == (target.evaluation_id, False)
        stored = await seen(target)
        assert (stored["name"], stored["model_name"]) == ("new", "m")
        assert (stored["status"], stored["metrics"]) == ("COMPLETED", {"reward": 0.5})
        assert await target.stored() == rows(3)
        with pytest.raises(EvaluationNotFoundError, match="nosuch"):
            await target.client.push_run(run, evaluation_id="nosuch")

    async def test_FR39_a_second_push_changes_nothing(self, target: Target, tmp_path: Path) -> None:
        """Not the samples, not the metrics, not even a time."""
        run = make_run(tmp_path / "run", rows(10))
        await target.client.push_run(run, evaluation_id=target.evaluation_id)
        before = await seen(target)
        again = await target.client.push_run(run, evaluation_id=target.evaluation_id)
        assert (again.receipt.complete, again.receipt.samples_pushed) == (True, 10)
        assert (again.finalized, again.viewer_url) == (True, before.get("viewer_url"))
        assert await seen(target) == before
        assert await target.stored() == rows(10)

    async def test_FR39_a_run_that_was_resumed(self, target: Target, tmp_path: Path) -> None:
        """Stopped after 6 of 10, pushed, resumed, pushed again: as without the stop."""
        run = make_run(tmp_path / "run", rows(6), avg_reward=0.25)
        first = await target.client.push_run(run)
        make_run(tmp_path / "run", rows(10), avg_reward=0.45)
        second = await target.client.push_run(run, evaluation_id=first.evaluation_id)
        assert second.receipt.complete
        stored = await target.client.get_evaluation(first.evaluation_id)
        assert (stored.total_samples, stored.metrics) == (10, {"reward": 0.45})
        assert await samples_of(target.client, first.evaluation_id) == rows(10)

        whole = await target.client.push_run(run)
        other = await target.client.get_evaluation(whole.evaluation_id)
        for name in ("metrics", "metadata", "total_samples", "status", "model_name"):
            assert other[name] == stored[name]

    async def test_a_sample_that_changed_is_refused_by_name(
        self, target: Target, tmp_path: Path
    ) -> None:
        """What is stored stays; the push is not complete and the evaluation says nothing new."""
        run = make_run(tmp_path / "run", rows(4))
        await target.client.push_run(run, evaluation_id=target.evaluation_id)
        changed = rows(5)
        changed[2] = {"example_id": 2, "reward": 9.9}
        make_run(tmp_path / "run", changed, avg_reward=7.0)
        pushed = await target.client.push_run(run, evaluation_id=target.evaluation_id)
        assert [(each.index, each.status) for each in pushed.receipt.refused] == [(2, 409)]
        assert not pushed.finalized
        assert await target.stored() == rows(5)
        assert (await seen(target))["metrics"] == {"reward": 0.5}

    async def test_another_run_is_added(
        self, target: Target, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """And a warning says that there were samples of other files."""
        run = make_run(tmp_path / "run", rows(2))
        await target.client.push_run(run, evaluation_id=target.evaluation_id)
        assert warnings_in(caplog) == []
        other = make_run(tmp_path / "other", rows(2, agent="b"))
        await target.client.push_run(other, evaluation_id=target.evaluation_id)
        assert await target.stored() == [*rows(2), *rows(2, agent="b")]
        (record,) = warnings_in(caplog)
        assert record.levelno == logging.WARNING
        assert "holds 2 samples of other files" in record.getMessage()

    async def test_two_files_with_the_same_first_record(
        self, target: Target, tmp_path: Path
    ) -> None:
        """Taken for the same file, what differs is refused; a name of its own keeps it apart."""
        one = make_run(tmp_path / "one", rows(3))
        two = make_run(tmp_path / "two", [*rows(1), {"example_id": 7}])
        into: dict[str, Any] = {"evaluation_id": target.evaluation_id}
        await target.client.push_run(one, **into)
        mixed = await target.client.push_run(two, **into)
        assert [each.index for each in mixed.receipt.refused] == [1]
        apart = await target.client.push_run(two, push_id="two", **into)
        assert apart.receipt.complete
        assert await target.stored() == [*rows(3), *rows(1), {"example_id": 7}]

    async def test_a_platform_that_cannot_tell_says_so(
        self,
        official_target: Target,
        official: OfficialStub,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Without sample ranges a second push stores twice: a warning says it before."""
        held = {"evaluation_id": EVALUATION, "status": "COMPLETED", "total_samples": 3}
        official.route("GET", f"/api/v1/evaluations/{EVALUATION}", Answer(json=held))
        run = make_run(tmp_path / "run", rows(3))
        await official_target.client.push_run(run, evaluation_id=EVALUATION)
        (record,) = warnings_in(caplog)
        assert "cannot tell whether" in record.getMessage()


class TestFailures:
    """On the official wire, where the answers can be bent."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> Path:
        return make_run(tmp_path / "run", rows(3))

    async def test_the_error_names_what_is_left(
        self, official_target: Target, official: OfficialStub, run: Path
    ) -> None:
        """An evaluation was made and all its samples are refused: which, and how to go on."""
        official.route("POST", ".*/samples", Answer(401, json={"detail": "no"}))
        with pytest.raises(UnauthorizedError) as caught:
            await official_target.client.push_run(run)
        again = f"push_run({str(run)!r}, evaluation_id={EVALUATION!r})"
        assert f"evaluation {EVALUATION} is not complete" in str(caught.value)
        assert again in str(caught.value)

    async def test_all_is_stored_but_not_closed(
        self, official_target: Target, official: OfficialStub, run: Path
    ) -> None:
        """Then closing is all there is to do."""
        official.route("POST", ".*/finalize", Answer(500))
        with pytest.raises(ServerError, match="close it with finalize_evaluation"):
            await official_target.client.push_run(run)
        assert official.stored == rows(3)

    async def test_a_callback_that_fails(
        self, official_target: Target, official: OfficialStub, run: Path
    ) -> None:
        """Its own error comes out, with a note on what is left behind."""

        async def fail(*_: object) -> None:
            raise RuntimeError("mine")

        with pytest.raises(RuntimeError, match="mine") as caught:
            await official_target.client.push_run(run, on_evaluation=fail)
        assert EVALUATION in caught.value.__notes__[0]
        assert official.stored == []

    async def test_samples_the_platform_refuses_leave_it_open(
        self, official_target: Target, official: OfficialStub, run: Path
    ) -> None:
        """Leaving out what is too large is no leave to lose what is refused."""
        official.answer = lambda *_: Answer(
            207, json={"errors": [{"id": 1, "status": 422, "message": "no reward"}]}
        )
        pushed = await official_target.client.push_run(run, skip_oversized=True)
        assert (pushed.finalized, pushed.receipt.samples_skipped) == (False, 1)
        assert official.seen("POST", ".*/finalize") == []


def interrupted(official: OfficialStub, takes: int) -> Callable[[], None]:
    """Let the platform take so many requests of samples; what is returned lets it take all."""
    accept, taken = official.push, []

    def take(request: Request) -> Answer:
        taken.append(request)
        return accept(request) if len(taken) <= takes else Answer(402, json={"detail": "no credit"})

    official.route("POST", ".*/samples", take)
    return lambda: official.route("POST", ".*/samples", accept)


class TestResuming:
    @pytest.fixture
    def run(self, tmp_path: Path) -> Path:
        """Three requests of samples."""
        return make_run(tmp_path / "run", rows(6, text="x" * 600_000))

    @pytest.fixture
    async def error(
        self, official_target: Target, official: OfficialStub, run: Path
    ) -> PartialPushError:
        """What an interrupted push raised; the platform takes everything again."""
        mend = interrupted(official, takes=1)
        with pytest.raises(PartialPushError) as caught:
            await official_target.client.push_run(run, max_concurrent=1)
        mend()
        return caught.value

    @pytest.mark.parametrize("how", ["token", "known"])
    async def test_only_what_is_missing_is_sent(
        self,
        official_target: Target,
        official: OfficialStub,
        run: Path,
        error: PartialPushError,
        how: str,
    ) -> None:
        """By the token, or by what this machine knows; nothing is created, all is there, closed."""
        assert "resume=receipt.resume_token" in str(error)
        assert 0 < len(official.stored) < 6
        resume = error.receipt.resume_token if how == "token" else True
        pushed = await official_target.client.push_run(run, resume=resume)
        assert official.stored == rows(6, text="x" * 600_000)
        assert (pushed.evaluation_id, pushed.created, pushed.finalized) == (EVALUATION, False, True)
        assert len(official.seen("POST", "/api/v1/evaluations/")) == 1

    async def test_a_file_that_changed_is_not_resumed_blindly(
        self, official_target: Target, run: Path, error: PartialPushError
    ) -> None:
        """Its indexes may mean other samples now: said with what to do instead."""
        with (run / "results.jsonl").open("a") as file:
            file.write('{"example_id": 6}\n')
        with pytest.raises(UsageError, match="changed since its push") as caught:
            await official_target.client.push_run(run, resume=True)
        assert f"evaluation_id={EVALUATION!r}" in str(caught.value)

    async def test_a_token_of_another_file(
        self, official_target: Target, tmp_path: Path, error: PartialPushError
    ) -> None:
        """Refused: what it calls stored would be passed over."""
        other = make_run(tmp_path / "other", rows(6, text="y"))
        with pytest.raises(UsageError, match="the resume token is not of"):
            await official_target.client.push_run(other, resume=error.receipt.resume_token)

    async def test_nothing_is_known(self, official_target: Target, tmp_path: Path) -> None:
        """Of this file, or to this platform."""
        run = make_run(tmp_path / "other", rows(1))
        with pytest.raises(UsageError, match=r"no interrupted push of .*other") as caught:
            await official_target.client.push_run(run, resume=True)
        assert caught.value.field == "resume"

    async def test_a_journal_of_the_grown_file(
        self, target: Target, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A push that begins where an earlier one of the shorter file stopped leaves no trace."""
        run = make_run(tmp_path / "run", rows(6))
        into: dict[str, Any] = {"evaluation_id": target.evaluation_id}
        push = target.client.push_run

        def stop(count: int) -> None:
            raise RuntimeError("stopped")

        with pytest.raises(RuntimeError, match="stopped"):
            await push(run, progress_callback=stop, **into)
        make_run(tmp_path / "run", rows(9))
        assert (await push(run, **into)).receipt.complete
        assert await target.stored() == rows(9)
        left = list((home / ".prime" / "spool").rglob("*.seg"))
        assert left == []


def test_the_push_id_of_a_file() -> None:
    """The same for the same beginning in the same evaluation, and fit for the wire."""
    first = b'{"example_id":0}'
    assert push_id_of("e1", first) == push_id_of("e1", first)
    others = {push_id_of("e2", first), push_id_of("e1", first + b" "), push_id_of("e1", b"")}
    assert len(others | {push_id_of("e1", first)}) == 4
    assert len(push_id_of("e1", first)) <= 64


TOKEN = str(ResumeToken("ev1", "p1"))


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"is_public": True, "evaluation_id": "ev1"}, "is_public"),
        ({"run_id": "r", "evaluation_id": "ev1"}, "run_id"),
        ({"run_id": "r", "resume": TOKEN}, "run_id"),
        ({"evaluation_id": "ev2", "resume": TOKEN}, "resume"),
        ({"resume": "pr1.x"}, "resume"),
        ({"resume": 5}, "resume"),
        ({"resume": TOKEN, "push_id": "p1"}, "push_id"),
        ({"push_id": "../x"}, "push_id"),
        ({"evaluation_id": "../x"}, "evaluation_id"),
        ({"trim": "text"}, "trim"),
        ({"max_concurrent": 0}, "max_concurrent"),
        ({"timeout": 0}, "timeout"),
        ({"progress_callback": 1}, "progress_callback"),
        ({"on_evaluation": 1}, "on_evaluation"),
    ],
    ids=str,
)
async def test_a_wrong_argument(
    official_target: Target,
    official: OfficialStub,
    tmp_path: Path,
    options: dict[str, Any],
    field: str,
) -> None:
    """Named, before anything is read or sent."""
    with pytest.raises(UsageError) as caught:
        await official_target.client.push_run(tmp_path / "nowhere", **options)
    assert caught.value.field == field
    assert official.requests == []
