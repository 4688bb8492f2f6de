"""Stands for `transformers`, which is too heavy to be installed for a test: the base class of
callbacks with its events, and a trainer that calls them in the order and with the arguments of the
real one.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["GPT2Config", "GPT2LMHeadModel", "Trainer", "TrainerCallback", "TrainingArguments"]

EVENTS = (
    "on_init_end",
    "on_train_begin",
    "on_train_end",
    "on_epoch_begin",
    "on_epoch_end",
    "on_step_begin",
    "on_pre_optimizer_step",
    "on_optimizer_step",
    "on_substep_end",
    "on_step_end",
    "on_evaluate",
    "on_predict",
    "on_save",
    "on_log",
    "on_prediction_step",
)


def _nothing(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
    """What an event does unless a callback says otherwise."""


TrainerCallback = type("TrainerCallback", (), dict.fromkeys(EVENTS, _nothing))


@dataclass
class TrainingArguments:
    """The arguments of a training."""

    output_dir: str = "trainer_output"
    run_name: str | None = "tiny-run"
    learning_rate: float = 0.1
    max_steps: int = -1
    logging_steps: int = 1
    report_to: str = "none"
    use_cpu: bool = False
    process_index: int = 0
    hub_token: str = "hf_secret"

    def to_dict(self) -> dict[str, Any]:
        """As the real one: tokens are covered."""
        return {**vars(self), "hub_token": "<HUB_TOKEN>"}


@dataclass
class TrainerState:
    """How far a training is."""

    is_world_process_zero: bool
    max_steps: int
    global_step: int = 0
    log_history: list[dict[str, Any]] = field(default_factory=list)


class GPT2Config:
    """The configuration of a model."""

    _name_or_path = ""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def to_dict(self) -> dict[str, Any]:
        """As a mapping."""
        return self._fields


class GPT2LMHeadModel:
    """A model."""

    def __init__(self, config: GPT2Config) -> None:
        self.config = config


class Trainer:
    """Trains nothing, and calls every callback on the way.

    An item of the data is the loss of its step, an exception that step raises, or a row as a model
    is trained on.
    """

    def __init__(
        self,
        model: Any = None,
        args: TrainingArguments | None = None,
        *,
        train_dataset: Sequence[Any],
        callbacks: Sequence[Any] = (),
    ) -> None:
        for callback in callbacks:
            assert isinstance(callback, TrainerCallback)
        self._model = model
        self._callbacks = callbacks
        self._data = train_dataset
        self._args = args or TrainingArguments()
        self._state = TrainerState(self._args.process_index == 0, max_steps=len(train_dataset))
        self._call("on_init_end")

    def train(self) -> None:
        """Take a step per item, and log its loss."""
        self._call("on_train_begin")
        for step, item in enumerate(self._data, 1):
            self._call("on_step_begin")
            if isinstance(item, BaseException):
                raise item
            loss = item if isinstance(item, float) else 1 / step
            self._state.global_step = step
            self._call("on_step_end")
            self.log({"loss": loss, "epoch": step / len(self._data)})
        self.log({"train_runtime": 2.0})
        self._call("on_train_end")

    def log(self, logs: dict[str, Any]) -> None:
        """Log a row."""
        self._state.log_history.append({**logs, "step": self._state.global_step})
        self._call("on_log", logs=logs)

    def _call(self, event: str, **kwargs: Any) -> None:
        for callback in self._callbacks:
            getattr(callback, event)(
                self._args,
                self._state,
                types.SimpleNamespace(should_training_stop=False),
                model=self._model,
                processing_class=None,
                optimizer=None,
                lr_scheduler=None,
                train_dataloader=None,
                eval_dataloader=None,
                **kwargs,
            )


def module() -> types.ModuleType:
    """The module as it is imported."""
    made = types.ModuleType("transformers")
    vars(made).update({name: globals()[name] for name in __all__})
    return made
