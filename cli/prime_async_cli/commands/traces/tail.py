"""``traces tail``: the traces of a run, as they come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, cast

import asyncclick

from prime_async_cli import streams
from prime_async_cli.command import command
from prime_async_cli.commands.traces.rows import duration
from prime_async_cli.options import Identifier, Number, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.tables import cell
from prime_async_cli.text import harmless
from prime_async_cli.value_types import Seconds

if TYPE_CHECKING:
    from datetime import datetime

    from prime_async.traces import AsyncTracesClient, TraceSummary

__all__ = ["tail"]

_SHORTEST = 1.0
_LONGEST = 15.0
_SLOWER = 1.5
_PAGE = 100


@command("tail", examples="prime-async traces tail TRACED --tail 100")
@argument("run_id", type=Identifier(), metavar="RUN", help="The id of the run.")
@asyncclick.option(
    "-n",
    "--tail",
    "last",
    type=Number(0, 10_000),
    default=10,
    show_default=True,
    help="How many of the newest traces to begin with.",
)
@asyncclick.option(
    "--poll-interval",
    type=Seconds(0.1, 3600),
    metavar="SECONDS",
    help="Pause between two looks, 0.1 to 3600. Default: 1 to 15, as traces come.",
)
@output_option
@pass_session
async def tail(session: Session, run_id: str, last: int, poll_interval: float | None) -> None:
    """Show the traces of a run as they come, until Ctrl-C.

    With --output json: JSON Lines, one trace each, as the platform sends it.
    """
    async with session.traces() as client:
        follower = _Follower(client, run_id)
        async for trace in follower.traces(last, poll_interval):
            _show(session, trace)
            if streams.reader_has_gone():
                return


def _show(session: Session, trace: TraceSummary) -> None:
    if session.output.json:
        session.output.json_line(trace)
        return
    parts = [
        f"{trace.created_at:%Y-%m-%dT%H:%M:%SZ}",
        trace.trace_id,
        f"reward {cell(trace.score.reward)}",
        trace.score.outcome,
        f"{trace.total_tokens:,} tokens",
        duration(trace.duration_ms),
        trace.task_id,
        "error" if trace.execution.has_error else None,
    ]
    session.output.text(harmless("  ".join(part for part in parts if part)))


class _Follower:
    """Finds the traces of a run that were not there before.

    Lists go by when a rollout began, and the last to arrive may have begun first. So a look reads
    on until it has met as many new traces as the run has more than before, and a whole page of
    known ones behind them. New is what was stored after all that was met before.
    """

    def __init__(self, client: AsyncTracesClient, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._count = 0
        self._mark: datetime | None = None
        self._shown: set[str] = set()

    async def traces(self, last: int, pause: float | None) -> AsyncIterator[TraceSummary]:
        """Yield the newest traces, then every new one, oldest first each time; without end."""
        import anyio

        for trace in await self._newest(last):
            yield trace
        wait = pause or _SHORTEST
        while True:
            await anyio.sleep(wait)
            found = await self._look()
            for trace in found:
                yield trace
            wait = pause or (_SHORTEST if found else min(wait * _SLOWER, _LONGEST))

    async def _newest(self, last: int) -> list[TraceSummary]:
        run = await self._client.get_run(self._run_id)
        self._count, self._mark = run.trace_count, run.last_trace_ingested_at
        found: list[TraceSummary] = []
        async with self._listed(min(_PAGE, last or 1)) as listed:
            while len(found) < last and (trace := await anext(listed, None)) is not None:
                found.append(trace)
        # What arrived between the two requests must not come again.
        self._shown = {trace.trace_id for trace in found if self._is_new(trace)}
        return found[::-1]

    async def _look(self) -> list[TraceSummary]:
        run = await self._client.get_run(self._run_id)
        more, self._count = run.trace_count - self._count, run.trace_count
        if self._mark is not None and run.last_trace_ingested_at < self._mark:
            return []
        if more <= 0 and run.last_trace_ingested_at == self._mark:
            return []
        found = await self._collect(max(more, 1))
        if found:
            self._remember(found)
        return found

    async def _collect(self, expected: int) -> list[TraceSummary]:
        found: list[TraceSummary] = []
        known_since = 0
        async with self._listed(_PAGE) as listed:
            async for trace in listed:
                if self._is_new(trace):
                    found.append(trace)
                    known_since = 0
                else:
                    known_since += 1
                if len(found) >= expected and known_since >= _PAGE:
                    break
        return sorted(found, key=lambda trace: (trace.ingested_at, trace.created_at))

    def _listed(self, page: int) -> AbstractAsyncContextManager[AsyncGenerator[TraceSummary]]:
        listed = self._client.iter(run_id=self._run_id, limit=page)
        return aclosing(cast("AsyncGenerator[TraceSummary]", listed))

    def _is_new(self, trace: TraceSummary) -> bool:
        later = self._mark is None or trace.ingested_at > self._mark
        return later and trace.trace_id not in self._shown

    def _remember(self, found: list[TraceSummary]) -> None:
        self._mark = found[-1].ingested_at
        self._shown.clear()
