"""`RunMonitor`: a run with the methods that the trainers of prime-rl call."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prime_async import values
from prime_async.bridges.opening import first_rank, open_run
from prime_async.bridges.prime_rl import run_options, work_stamp
from prime_async.bridges.target import AnyRun
from prime_async.errors import PrimeTracesError
from prime_async.evals.traces_read import entry
from prime_async.runs.errors import RunFinishedError
from prime_async.runs.options import RunStatus
from prime_async.runs.projection import is_trace

__all__ = ["RunMonitor"]

_LOG = logging.getLogger("prime_async.bridges")


class RunMonitor:
    """Reports a training to a run, as the monitors of prime-rl do. ::

        monitor = RunMonitor(run_config=config, output_dir=output_dir)
        monitor.log({"loss": 0.3}, step=7)
        monitor.log_samples(rollouts, step=7)
        monitor.save_final_summary()
        monitor.close()

    No method waits or raises: whatever fails is told by the run and by a warning. Only the first
    rank reports (``RANK``, else ``DP_RANK``); in all others every method does nothing.

    Without ``run=`` one is opened: that of the environment variable ``RUN_ID``, to which nothing is
    sent for that, else a new one, for which the constructor waits. ``PRIME_API_BASE`` says where,
    together with ``PRIME_API_KEY``. When it cannot be opened, the monitor reports nothing and says
    so, unless ``on_error="raise"``.

    Args:
        config: mapping or object; ``run_name``, ``team_id``, ``base_url`` and ``api_key_var`` are
            read, and of ``log_extras``: ``samples``, ``distributions`` (false leaves them out) and
            ``interval``, the steps between those whose samples and distributions are logged.
        output_dir: folder the final summary is written to as well.
        tokenizer: taken for the sake of its callers; rollouts hold text.
        run_config: the trainer's, mapping or object; described to the platform.
        keep_full_history: keep every row in ``history``, instead of the last.
        run: log to this run, asynchronous or not, instead of opening one.
        options: further arguments of ``init``.
    """

    def __init__(
        self,
        config: Any = None,
        output_dir: str | os.PathLike[str] | None = None,
        tokenizer: Any = None,
        run_config: Any = None,
        keep_full_history: bool = False,
        *,
        run: AnyRun | None = None,
        **options: Any,
    ) -> None:
        self.history: list[Mapping[str, Any]] = []
        self.output_dir = None if output_dir is None else Path(output_dir)
        self.tokenizer = tokenizer
        self._keep_full_history = keep_full_history
        self._extras = entry(config, "log_extras")
        self._withheld: tuple[Sequence[Any], int] | None = None
        self._summarised = False
        self._opened = run is None
        self.run: AnyRun | None = None
        if first_rank():
            self.run = run if run is not None else _open(config, run_config, options)

    @property
    def enabled(self) -> bool:
        """True when this monitor reports."""
        return self.run is not None

    def log(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Log a row of metrics."""
        self.history = [*self.history, metrics] if self._keep_full_history else [metrics]
        self._tell(lambda run: run.log_metrics(metrics, step=step))

    def log_samples(self, rollouts: Iterable[Any], step: int) -> None:
        """Log the rollouts of a step: traces and episodes as such, rows as samples."""
        some = list(rollouts)
        if self._wanted("samples", step):
            self._withheld = None
            self._tell(lambda run: _log_rollouts(run, some, {"step": step}))
        elif self._wanted("samples", 0):
            self._withheld = (some, step)

    def log_eval_samples(self, rollouts: Iterable[Any], env_name: str, step: int) -> None:
        """Log the rollouts of an evaluation at a step of the training."""
        some = list(rollouts)
        marks = {"step": step, "tag": "eval", "env_name": env_name}
        self._tell(lambda run: _log_rollouts(run, some, marks))

    def log_final_samples(self) -> None:
        """Log the rollouts of the last step, if ``interval`` left them out."""
        if self._withheld is not None:
            (some, step), self._withheld = self._withheld, None
            self._tell(lambda run: _log_rollouts(run, some, {"step": step}))

    def log_distributions(self, distributions: Mapping[str, Iterable[float]], step: int) -> None:
        """Log the values behind metrics."""
        if self._wanted("distributions", step):
            self._tell(lambda run: run.log_distributions(distributions, step=step))

    def save_final_summary(self, filename: str = "final_summary.json") -> None:
        """Make the last row the summary of the run, and a file in ``output_dir``."""
        summary = self.history[-1] if self.history else {}
        self._summarised = True
        self._tell(lambda run: run.update_summary(summary))
        if self.enabled and self.output_dir is not None:
            try:
                self.output_dir.mkdir(parents=True, exist_ok=True)
                text = json.dumps(json.loads(values.encode(summary, root="summary")), indent=2)
                (self.output_dir / filename).write_text(text + "\n", "utf-8")
            except (OSError, PrimeTracesError, ValueError) as error:
                _LOG.warning("the final summary is not written: %s", error)

    def close(self) -> None:
        """Begin to end the run, if the monitor opened it: completed after ``save_final_summary``,
        else failed. What is on its way is delivered in the background and at exit.
        """
        if not self._opened:
            return
        if self._summarised:
            self._tell(lambda run: run.begin_finish())
        else:
            reason = "closed before its final summary"
            self._tell(lambda run: run.begin_finish(status=RunStatus.FAILED, error=reason))

    def _wanted(self, what: str, step: int) -> bool:
        if self._extras is None:
            return True
        interval = entry(self._extras, "interval") or 1
        return entry(self._extras, what) is not False and step % interval == 0

    def _tell(self, log: Callable[[AnyRun], object]) -> None:
        if self.run is None:
            return
        try:
            log(self.run)
        except RunFinishedError as error:
            _LOG.warning("not logged: %s", error)
        except Exception:  # a rollout of an unknown shape must not end the training
            _LOG.warning("not logged", exc_info=True)


def _log_rollouts(run: AnyRun, rollouts: Iterable[Any], marks: Mapping[str, Any]) -> None:
    for rollout in rollouts:
        told = getattr(rollout, "to_record", None)
        record = told() if callable(told) and not isinstance(rollout, Mapping) else rollout
        if isinstance(record, Mapping) and is_trace(record):
            run.log_trace(
                {**record, "run": work_stamp(record, marks.get("tag", "train"), marks["step"])}
            )
        elif isinstance(record, Mapping):
            run.log_samples([{**record, **marks}])
        else:
            run.log_samples([record])


def _open(config: Any, run_config: Any, options: Mapping[str, Any]) -> AnyRun | None:
    try:
        return open_run(**{**run_options(config, run_config), **options})
    except PrimeTracesError as error:
        if options.get("on_error") == "raise":
            raise
        _LOG.warning("the training is not reported: %s", error)
        return None
