"""`RunCallback`: trainings of the Hugging Face Trainer, from their first event to their last."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

from prime_async.bridges import RunCallback
from prime_async.errors import PrimeTracesError
from tests.bridges import transformers_double
from tests.bridges.reading import Place
from tests.bridges.transformers_double import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

MODEL = GPT2LMHeadModel(GPT2Config(n_layer=1))


@pytest.fixture(autouse=True)
def _transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the callback imports when it is made."""
    monkeypatch.setitem(sys.modules, "transformers", transformers_double.module())


def told(place: Place, callback: RunCallback) -> Any:
    """What the platform says of the run, once it is delivered."""
    run: Any = callback.run
    run._core.begin_finish("completed", None, {}, 30.0).result(30)
    assert run.receipt.complete, run.errors
    return place.get(f"/rft/external-runs/{run.id}")["run"]


def test_a_training_is_a_run(place: Place) -> None:
    """Configuration at its begin, a row per log, completed with the last values at its end."""
    callback = RunCallback(environments=["math"], **place.account)
    assert isinstance(callback, TrainerCallback)
    assert isinstance(callback, RunCallback)
    with callback:
        Trainer(MODEL, train_dataset=[2.0, 1.0], callbacks=[callback]).train()
    run = told(place, callback)
    assert (run["status"], run["name"], run["baseModel"]) == (
        "COMPLETED",
        "tiny-run",
        "GPT2LMHeadModel",
    )
    assert run["maxSteps"] == 2
    assert run["runConfig"]["learning_rate"] == 0.1
    assert run["runConfig"]["model"] == {"n_layer": 1}
    assert "hf_secret" not in str(run)
    assert run["summary"] == {"loss": 1.0, "epoch": 1.0, "train_runtime": 2.0, "step": 2}
    assert callback.run is not None
    assert place.rows(callback.run) == [  # type: ignore[arg-type]
        {"loss": 2.0, "epoch": 0.5, "step": 1},
        {"loss": 1.0, "epoch": 1.0, "train_runtime": 2.0, "step": 2},
    ]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ValueError("nan loss"), "ValueError: nan loss"), (KeyboardInterrupt(), "cancelled: inter")],
    ids=["failed", "interrupted"],
)
def test_a_training_that_does_not_end(place: Place, error: BaseException, reason: str) -> None:
    """An exception that leaves the block is the reason the run failed for."""
    callback = RunCallback(**place.account)
    with pytest.raises(type(error)), callback:
        Trainer(MODEL, train_dataset=[2.0, error], callbacks=[callback]).train()
    run = told(place, callback)
    assert run["status"] == "FAILED"
    assert run["errorMessage"].startswith(reason)


def test_a_second_training_is_another_run(place: Place) -> None:
    """One callback may see several trainings."""
    callback = RunCallback(**place.account)
    Trainer(MODEL, train_dataset=[2.0], callbacks=[callback]).train()
    first = told(place, callback)
    Trainer(MODEL, train_dataset=[2.0], callbacks=[callback]).train()
    second = told(place, callback)
    assert first["status"] == second["status"] == "COMPLETED"
    assert first["id"] != second["id"]


def test_a_run_that_is_given(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """It is the caller's to finish; what is logged behind its end is told."""
    with place.open("train") as run:
        callback = RunCallback(run)
        trainer = Trainer(MODEL, train_dataset=[2.0], callbacks=[callback])
        trainer.train()
        assert not run.finished
    assert place.rows(run) == [{"loss": 2.0, "epoch": 1.0, "train_runtime": 2.0, "step": 1}]
    with caplog.at_level(logging.WARNING, "prime_async.bridges"):
        trainer.log({"eval_loss": 3.0})
    assert "takes nothing more" in caplog.text


def test_other_processes_say_nothing(place: Place) -> None:
    """Only the main process of a distributed training reports."""
    callback = RunCallback(**place.account)
    args = TrainingArguments(process_index=1)
    Trainer(MODEL, args, train_dataset=[2.0], callbacks=[callback]).train()
    assert callback.run is None


def test_a_run_that_cannot_be_opened(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """The training goes on unreported, unless that is an error."""
    account = {**place.account, "api_key": "pit_wrong_0123456789abcdef"}
    with caplog.at_level(logging.WARNING, "prime_async.bridges"):
        Trainer(MODEL, train_dataset=[2.0], callbacks=[RunCallback(**account)]).train()
    assert "the training is not reported" in caplog.text
    strict = RunCallback(on_error="raise", **account)
    trainer = Trainer(MODEL, train_dataset=[2.0], callbacks=[strict])
    with pytest.raises(PrimeTracesError):
        trainer.train()
