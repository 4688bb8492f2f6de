"""`Finisher`: the end of a run, once, however many ask for it."""

from __future__ import annotations

import concurrent.futures
import logging
from typing import TYPE_CHECKING

import anyio

from prime_async.errors import PrimeError, SpoolError
from prime_async.runs.backends import Ending, report_end
from prime_async.runs.endings import keep_ending
from prime_async.runs.options import RunStatus
from prime_async.runs.receipts import FinishReceipt, with_next_step
from prime_async.runs.uploader import in_thread, uploader
from prime_async.traces.errors import adopted

if TYPE_CHECKING:
    from prime_async.runs.core import RunCore

__all__ = ["REPORT_SECONDS", "Finisher"]

REPORT_SECONDS = 30.0
"""What telling the platform may take beside the delivery, at an explicit finish."""

_LOG = logging.getLogger("prime_async.runs")


class Finisher:
    """Delivers what is left, keeps what cannot be, tells the platform, closes everything.

    Args:
        core: the run.
        status, error: how it ends, and why.
        seconds: for the delivery of what is queued.
        report_seconds: for telling the platform.

    Attributes:
        future: the receipt, for all who wait.
    """

    def __init__(
        self,
        core: RunCore,
        status: RunStatus,
        error: str | None,
        seconds: float,
        report_seconds: float = REPORT_SECONDS,
    ) -> None:
        self.future: concurrent.futures.Future[FinishReceipt] = concurrent.futures.Future()
        self._core = core
        self._status = status
        self._error = error
        self._seconds = seconds
        self._report_seconds = report_seconds

    @classmethod
    def of_the_parent(cls, core: RunCore) -> Finisher:
        """Return the one of a child that was forked when the run had ended."""
        made = cls(core, core.status, None, 0)
        made.future.set_result(made.receipt(reported=False))
        return made

    def start(self) -> None:
        """Begin on the uploader."""
        core = self._core
        if not core.opened.enabled or not core.leaving.registered:
            core.status = self._status
            core.receipt = self.receipt(reported=False)
            self.future.set_result(core.receipt)
            return
        work = uploader().submit(self._finish, "finish")
        work.add_done_callback(self._broke)

    def hurry(self, seconds: float, report_seconds: float) -> None:
        """The process ends: there is no more time than this."""
        self._seconds = min(self._seconds, seconds)
        self._report_seconds = min(self._report_seconds, report_seconds)
        uploader().call(self._core.serving.hurry, self._seconds)

    def receipt(self, *, reported: bool) -> FinishReceipt:
        """Return what became of everything, as of now."""
        core = self._core
        return FinishReceipt(
            run_id=core.opened.handle.id,
            status=self._status,
            error=self._error,
            counts=core.counters.total(),
            by_sink=core.counters.by_sink(),
            refused=tuple(core.quarantine.records),
            refused_path=core.quarantine.path,
            spool_paths=core.spool_paths(),
            reported=reported,
            errors=tuple(core.errors),
        )

    def _broke(self, work: concurrent.futures.Future[None]) -> None:
        """A fault of ours must not leave anybody waiting for ever."""
        if self.future.done():
            return
        if work.cancelled():
            self._core.note_error("the process ended while the run was being finished")
        elif (error := work.exception()) is not None:
            _LOG.error("run %s: finishing broke", self._core.opened.handle.id, exc_info=error)
            self._core.note_error(f"finishing broke: {error!r}")
        self.future.set_result(self.receipt(reported=False))

    async def _finish(self) -> None:
        core = self._core
        await core.serving.drain(self._seconds)
        await in_thread(core.serving.keep_rest)
        if self._error is None and self._status is not RunStatus.COMPLETED and core.errors:
            self._error = core.errors[0]
        reported = await self._report()
        core.leaving.cancel()
        if core.serving.connection is not None:
            await core.serving.connection.aclose()
        core.status = self._status
        core.receipt = self.receipt(reported=reported)
        self._warn(core.receipt)
        self.future.set_result(core.receipt)

    async def _report(self) -> bool:
        """Tell the platform, or keep for the sync what it is to be told."""
        core = self._core
        attached = core.opened.attached and self._status is not RunStatus.COMPLETED
        if not core.owner or attached or core.serving.connection is None:
            return False
        ending = Ending(
            kind=core.opened.spec.kind.value,
            run_id=core.opened.handle.id,
            status=self._status.value,
            error=self._error,
            summary=core.summary,
        )
        with anyio.move_on_after(self._report_seconds):
            try:
                await report_end(core.serving.connection.api, ending)
                return True
            except PrimeError as error:
                core.note_failure("run", adopted(error))
                _LOG.warning("run_end id=%s: could not be reported: %s", ending.run_id, error)
        try:
            await in_thread(keep_ending, core.place, ending)
        except SpoolError as error:
            core.note_error(f"run: its end could not be kept: {error}")
        return False

    def _warn(self, receipt: FinishReceipt) -> None:
        if not receipt.complete:
            _LOG.warning("run %s: %s", receipt.run_id, with_next_step(receipt))
