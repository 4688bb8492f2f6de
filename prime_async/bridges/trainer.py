"""`RunCallback`: the callback of the Hugging Face Trainer that logs to a run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from prime_async.bridges.foreign import imported, joined
from prime_async.bridges.opening import open_run
from prime_async.bridges.target import AnyRun
from prime_async.errors import PrimeTracesError
from prime_async.runs.errors import RunFinishedError
from prime_async.runs.options import RunStatus, TrainingSpec
from prime_async.runs.outcomes import reason_of

if TYPE_CHECKING:
    from transformers import TrainerCallback
else:
    TrainerCallback = object  # joined to the real one when the first is made

__all__ = ["RunCallback"]

_LOG = logging.getLogger("prime_async.bridges")


class RunCallback(TrainerCallback):  # type: ignore[misc]  # its types may not be there
    """Reports a training of the Hugging Face Trainer to a run. ::

        with RunCallback(model="my-model") as callback:
            Trainer(..., callbacks=[callback]).train()

    Every ``on_log`` is a row of metrics at its global step. Without ``run=`` a training run is
    opened when the training begins, with the arguments and the configuration of the model as its
    configuration, and ends with it: completed on ``on_train_end``, failed when an exception leaves
    the block; a process that ends within a training leaves its run as crashed. A run that is given
    is the caller's to finish. Only the main process reports. No event raises, and none waits but
    the first, for the run to be opened.

    Args:
        run: log to this run, asynchronous or not.
        options: arguments of ``init`` for the run that is opened; ``model`` defaults to the name of
            the model that is trained.

    Raises:
        ConfigurationError: transformers is not installed.
    """

    def __new__(cls, run: AnyRun | None = None, **options: Any) -> Self:
        """Make one that is a ``TrainerCallback`` too."""
        base = imported("transformers", "transformers").TrainerCallback
        made: Self = super().__new__(joined(cls, base))
        return made

    def __init__(self, run: AnyRun | None = None, **options: Any) -> None:
        self.run = run
        self._options = options
        self._given = run is not None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Open the run, unless one was given."""
        if self._given or not state.is_world_process_zero:
            return
        try:
            self.run = open_run(**self._described(args, state, kwargs.get("model")))
        except PrimeTracesError as error:
            if self._options.get("on_error") == "raise":
                raise
            _LOG.warning("the training is not reported: %s", error)

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Log a row of metrics."""
        if self.run is None or not state.is_world_process_zero or not logs:
            return
        try:
            self.run.log_metrics(logs, step=state.global_step)
        except RunFinishedError as error:
            _LOG.warning("not logged: %s", error)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to end the run that was opened here, with the last row as its summary."""
        if self.run is not None and state.is_world_process_zero:
            self._end(RunStatus.COMPLETED, None, _summary(state))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the run that was opened here: as failed or cancelled, when the block was left so."""
        if isinstance(error, KeyboardInterrupt):
            self._end(RunStatus.CANCELLED, "interrupted", {})
        elif error is not None:
            self._end(RunStatus.FAILED, reason_of(error), {})

    def _end(self, status: RunStatus, error: str | None, summary: Mapping[str, Any]) -> None:
        if self.run is not None and not self._given:
            self.run.begin_finish(summary, status=status, error=error)

    def _described(self, args: Any, state: Any, model: Any) -> dict[str, Any]:
        arguments = args.to_dict() if hasattr(args, "to_dict") else {}
        config: Any = getattr(model, "config", None)
        if hasattr(config, "to_dict"):
            arguments = {**arguments, "model": config.to_dict()}
        name = getattr(config, "_name_or_path", "") or type(model).__name__
        return {
            "kind": "train",
            "framework": "transformers",
            "model": name,
            "name": getattr(args, "run_name", None),
            "config": arguments,
            "training": TrainingSpec(max_steps=max(0, state.max_steps)),
            **self._options,
        }


def _summary(state: Any) -> dict[str, Any]:
    """Return the last value of everything that was logged."""
    summary: dict[str, Any] = {}
    for row in state.log_history:
        summary.update(row)
    return summary
