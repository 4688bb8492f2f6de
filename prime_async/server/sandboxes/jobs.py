"""The statuses of many background jobs at once: one thread, grouped by sandbox, no command run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import anyio
from anyio import to_thread

from prime_async.server.runtimes.jobs import JobState, any_job_runs, read_jobs
from prime_async.server.runtimes.protocol import RunningSandbox

__all__ = ["Jobs"]

_THREADS = 4


@dataclass(slots=True)
class Jobs:
    """Looks at background jobs; a few requests at the same time, the rest waits."""

    _threads: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_THREADS))

    async def states(
        self, groups: Sequence[tuple[RunningSandbox, Sequence[str]]]
    ) -> list[list[JobState]]:
        """How the jobs of some sandboxes are, in the order given."""
        if not groups:
            return []
        for running, _ in groups:
            running.touch()
        return await to_thread.run_sync(_read_all, groups, limiter=self._threads)

    async def any_runs(self, sandboxes: Iterable[RunningSandbox]) -> set[str]:
        """The ids of those sandboxes in which a job runs."""
        wanted = list(sandboxes)
        if not wanted:
            return set()
        return await to_thread.run_sync(_with_jobs, wanted, limiter=self._threads)


def _read_all(groups: Sequence[tuple[RunningSandbox, Sequence[str]]]) -> list[list[JobState]]:
    return [read_jobs(running.files.root, job_ids) for running, job_ids in groups]


def _with_jobs(sandboxes: Sequence[RunningSandbox]) -> set[str]:
    return {one.id for one in sandboxes if any_job_runs(one.files.root)}
