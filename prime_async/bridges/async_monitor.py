"""`AsyncRunMonitor`: a run with the methods that prime-rl calls since its monitors are awaited."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from operator import methodcaller
from typing import Any

from prime_async.bridges.native import as_record
from prime_async.bridges.opening import first_rank
from prime_async.bridges.prime_rl import run_options, work_stamp
from prime_async.errors import PrimeTracesError
from prime_async.runs.errors import RunFinishedError
from prime_async.runs.opening import init
from prime_async.runs.options import RunStatus
from prime_async.runs.run import AsyncRun

__all__ = ["AsyncRunMonitor"]

_LOG = logging.getLogger("prime_async.bridges")


class AsyncRunMonitor:
    """Reports a training to a run, as the awaited monitors of prime-rl do. ::

        monitor = AsyncRunMonitor(config)
        await monitor.init(config=orchestrator_config)
        await monitor.log({"loss": 0.3}, step=7)
        await monitor.log(episodes, step=7, kind="train", subset="effective")
        await monitor.finalize()

    No method raises: whatever fails is told by the run and by a warning. Episodes wait for room
    while the queue is full, within the run's ``put_timeout``; nothing else waits but `init` and
    `finalize`. Only the first rank reports (``RANK``, else ``DP_RANK``). A run that is not
    finalized is closed as crashed when its process ends.

    Args:
        config: mapping or object, of which ``name`` (or ``run_name``), ``team_id``, ``base_url``
            and ``api_key_var`` are read.
        run: log to this run instead of opening one.
        subset: which episodes are kept: those that are trained on (``effective``), or ``all``. Each
            episode comes once for either.
        options: further arguments of ``init``.
    """

    def __init__(
        self,
        config: Any = None,
        *,
        run: AsyncRun | None = None,
        subset: str = "effective",
        **options: Any,
    ) -> None:
        self.config = config
        self.run = run if first_rank() else None
        self._given = run is not None
        self._subset = subset
        self._options = options

    async def init(self, config: Any = None, **others: Any) -> None:
        """Open the run, unless one was given; see :class:`RunMonitor` for what counts.

        Args:
            config: of the trainer or the orchestrator; described to the platform.
            others: what prime-rl hands to its other monitors.
        """
        if self._given or not first_rank():
            return
        try:
            self.run = await init(**{**run_options(self.config, config), **self._options})
        except PrimeTracesError as error:
            if self._options.get("on_error") == "raise":
                raise
            _LOG.warning("the training is not reported: %s", error)

    async def log(
        self, data: Any, step: int | None, kind: str = "train", subset: str = "effective"
    ) -> None:
        """Log a row of metrics, or one or more episodes."""
        if isinstance(data, Mapping) and "traces" not in data:
            await self.log_metrics(data, step)
        else:
            episodes = data if isinstance(data, list) else [data]
            await self.log_episodes(episodes, step or 0, kind, subset)

    async def log_metrics(self, metrics: Mapping[str, Any], step: int | None) -> None:
        """Log a row of metrics; without a step it has its time alone."""
        await self._tell(lambda run: run.alog_metrics(metrics, step=step))

    async def log_episodes(
        self, episodes: Iterable[Any], step: int, kind: str = "train", subset: str = "effective"
    ) -> None:
        """Log episodes of a step, of the training or of an evaluation within it."""
        if subset != self._subset:
            return
        for episode in episodes:
            record = await as_record(episode)
            if isinstance(record, Mapping):
                record = {**record, "run": work_stamp(record, kind, step)}
            await self._tell(methodcaller("alog_traces", [record]))

    async def log_annotations(self, updates: Any) -> None:
        """Do nothing: traces of a run are not changed after they were logged."""

    async def log_live(self, events: Any) -> None:
        """Do nothing: a run holds traces that have ended."""

    async def log_eval_plan(self, *plan: Any, **named: Any) -> None:
        """Do nothing: a run holds results."""

    async def log_eval_epoch(self, *epoch: Any, **named: Any) -> None:
        """Do nothing: the episodes have come one by one."""

    async def finalize(self) -> None:
        """End the run, if the monitor opened it, as completed; wait for what is on its way."""
        if not self._given:
            await self._tell(lambda run: run.finish(status=RunStatus.COMPLETED))

    async def _tell(self, log: Callable[[AsyncRun], Awaitable[object]]) -> None:
        if self.run is None:
            return
        try:
            await log(self.run)
        except RunFinishedError as error:
            _LOG.warning("not logged: %s", error)
        except Exception:  # whatever it was must not end the training
            _LOG.warning("not logged", exc_info=True)
