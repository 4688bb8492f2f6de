"""One push: read, pack, send several batches at a time, settle every sample, and say truthfully
what happened.

The source is read by one task, batches are sent by tasks of one group; all of them live and end
inside ``Push.run``.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from prime_async.cancelling import is_cancelled
from prime_async.errors import (
    APIError,
    APITimeoutError,
    BadRequestError,
    EvaluationNotFoundError,
    ForbiddenError,
    NotFoundError,
    PartialPushError,
    PayloadTooLargeError,
    PaymentRequiredError,
    UnauthorizedError,
    ValidationError,
)
from prime_async.evals.answers import SampleAnswer, refused_positions
from prime_async.evals.batches import Batch, Packer
from prime_async.evals.encoding import Chunk
from prime_async.evals.feeds import SourceFailure
from prime_async.evals.keeping import Keeper
from prime_async.evals.ledger import Ledger
from prime_async.evals.receipts import PushReceipt, RefusedSample, ResumeToken
from prime_async.spool import SourceInfo
from prime_async.transport import Transport, path_segment

__all__ = [
    "BATCH_TIMEOUT",
    "BYTES_IN_FLIGHT",
    "SAMPLE_RANGES",
    "Progress",
    "Push",
    "Source",
    "not_found",
]

SAMPLE_RANGES = "sample-ranges"
"""Feature of platforms that store each sample of a push once, by its index, however often it is
sent.
"""

BYTES_IN_FLIGHT = 8 * 2**20
"""Bytes of batches on their way at a time, one batch beyond."""

BATCH_TIMEOUT = 300.0
"""Seconds a batch may take, retries included."""

_OUTAGE = 3
"""Batches failing in a row after which the platform counts as down and the push ends."""

_HOPELESS = (UnauthorizedError, PaymentRequiredError, ForbiddenError, NotFoundError)
"""Errors that every further batch would meet too."""

Progress = Callable[[int], Awaitable[None] | None]


class Source(Protocol):
    """Where samples come from."""

    @property
    def rereadable(self) -> bool:
        """Whether the same samples can be read again later."""

    @property
    def total(self) -> int | None:
        """How many samples there are, once that is known."""

    @property
    def source(self) -> SourceInfo | None:
        """The file behind it, if there is one."""

    def start(self, group: TaskGroup) -> None:
        """Begin to read, in the push's task group."""

    async def next_chunks(self) -> list[Chunk] | None:
        """Return encoded samples in input order; nothing after a quiet; None at the end."""

    async def aclose(self) -> None:
        """Stop reading."""

    async def leftovers(self) -> list[Chunk]:
        """Return, after closing, what was taken from a source that cannot be read again and not
        handed over.
        """


class Push:
    """Delivers one source to one evaluation.

    Args:
        transport: where to.
        resumed: which push, and what of it needs no sending.
        source: the samples.
        ledger: the account that is kept.
        keeper: told about what cannot be delivered.
        ceiling: bytes a request may have at most.
        max_concurrent: batches on their way at a time.
        progress: called with the number of samples settled since the last call.
    """

    def __init__(
        self,
        transport: Transport,
        resumed: ResumeToken,
        source: Source,
        ledger: Ledger,
        keeper: Keeper,
        *,
        ceiling: int,
        max_concurrent: int,
        progress: Progress | None = None,
    ) -> None:
        self._transport = transport
        self._evaluation_id = resumed.evaluation_id
        self._push_id = resumed.push_id
        self._path = f"/evaluations/{path_segment(resumed.evaluation_id, 'evaluation_id')}/samples"
        self._source = source
        self._ledger = ledger
        self._keeper = keeper
        self._packer = Packer(ceiling)
        self._sky = _Sky(max_concurrent)
        self._progress = progress
        self._failures_in_a_row = 0
        self._last_error: APIError | None = None
        self._lost: APIError | None = None
        """Why nothing more is sent, once that is so."""
        self._user_error: BaseException | None = None
        self._ended = False
        self._unpacked: deque[Chunk] = deque()

    async def run(self, seconds: float, *, until: float | None = None) -> PushReceipt:
        """Push everything, for at most the given seconds.

        Args:
            seconds: the limit.
            until: moment at which it ends, on the clock of the loop, when it began before now.

        Raises:
            PartialPushError: samples are undelivered, unknown or spooled; carries the receipt.
            UnauthorizedError, PaymentRequiredError, ForbiddenError, EvaluationNotFoundError:
                nothing was stored, because the platform refuses the account or does not know the
                evaluation.
            BaseException: whatever the user's own iterable or callback raised, after everything
                before it was delivered.
        """
        try:
            end = anyio.current_time() + seconds if until is None else until
            with anyio.move_on_at(end) as scope:
                await self._push()
            if scope.cancelled_caught:
                self._lost = APITimeoutError(
                    f"the push did not end within {seconds:g} s", seconds=seconds
                )
        finally:
            with anyio.CancelScope(shield=True):
                await self._put_away()
        return self._conclude()

    async def _push(self) -> None:
        async with anyio.create_task_group() as group:
            self._source.start(group)
            try:
                await self._read(group)
            except Exception as error:  # the user's: raised when what came before is delivered
                self._user_error = error.error if isinstance(error, SourceFailure) else error
                await self._dispatch(group, self._packer.flush())
            finally:
                await self._source.aclose()

    async def _read(self, group: TaskGroup) -> None:
        """Read the source to its end; once the platform is lost, only if samples would be lost with
        it.
        """
        while self._lost is None or not self._source.rereadable:
            chunks = await self._source.next_chunks()
            await self._report(self._ledger.note_local_refusals())
            if chunks is None:
                self._ended = True
                break
            if not chunks:
                await self._dispatch(group, self._packer.flush())
            self._unpacked.extend(chunks)
            while self._unpacked:
                await self._dispatch(group, self._packer.add(self._unpacked.popleft()))
            await anyio.lowlevel.checkpoint()
        await self._dispatch(group, self._packer.flush())

    async def _dispatch(self, group: TaskGroup, batch: Batch | None) -> None:
        if batch is None:
            return
        self._ledger.sent(batch)
        try:
            await self._sky.enter(batch.size)
        except BaseException:  # only when cancelled; see _deliver
            with anyio.CancelScope(shield=True):
                await self._keeper.undelivered(batch, unknown=False)
            raise
        group.start_soon(self._deliver, batch, name="prime-async push batch")

    async def _deliver(self, batch: Batch) -> None:
        """Send a batch, in smaller parts if the platform wants them, until each sample is settled
        or failed.
        """
        waiting = [batch]
        flying: Batch | None = None
        tries = 1
        try:
            while waiting:
                part = waiting[-1]
                if self._lost is None:
                    flying = part
                    rest, again = await self._attempt(
                        part, last=tries >= self._transport.retry.tries
                    )
                    flying = None
                    tries += bool(again)
                    waiting[-1:] = [*rest, *again]
                    if again:
                        await anyio.sleep(self._transport.retry.delay(tries, None))
                else:
                    await self._keeper.undelivered(part, unknown=False)
                    waiting.pop()
        finally:
            self._sky.leave(batch.size)
            with anyio.CancelScope(shield=True):
                # Only when cancelled: samples must not go with a source that is gone.
                for part in waiting:
                    await self._give_up(part, unknown=part is flying)

    async def _attempt(self, batch: Batch, *, last: bool) -> tuple[list[Batch], list[Batch]]:
        """Send a batch once; return the parts to send now, and those to send after a pause."""
        self._keeper.sending(batch)
        try:
            answer = await self._post(batch)
        except PayloadTooLargeError as error:
            if batch.count > 1:
                left, right = batch.halves()
                return [right, left], []
            await self._refuse(batch, error)
        except (ValidationError, BadRequestError) as error:
            return await self._refuse_named(batch, error), []
        except APIError as error:
            await self._fail(batch, error)
        else:
            return [], await self._accept(batch, answer, last=last)
        return [], []

    async def _post(self, batch: Batch) -> SampleAnswer:
        response = await self._transport.request(
            "POST",
            self._path,
            body=batch,
            headers={
                "X-Prime-Push": self._push_id,
                "X-Prime-Range": ",".join(f"{start}-{stop}" for start, stop in batch.indexes),
            },
            timeout=BATCH_TIMEOUT,
            deduplicated_by=SAMPLE_RANGES,
        )
        self._failures_in_a_row = 0
        self._ledger.bytes_sent += batch.size
        self._ledger.batches += 1
        return SampleAnswer.read(response)

    async def _accept(self, batch: Batch, answer: SampleAnswer, *, last: bool) -> list[Batch]:
        """Book what the platform says; return what it wants to see again."""
        arrived = batch.indexes
        for sample in answer.refused_in(batch, passing_too=last):
            arrived.remove(sample.index)
            self._ledger.refuse(sample)
        again = set() if last else {index for index in answer.again_in(batch) if index in arrived}
        for index in again:
            arrived.remove(index)
        self._ledger.arrived(arrived)
        await self._report(batch.count - len(again))
        return [batch.only(again)] if again else []

    async def _refuse_named(self, batch: Batch, error: APIError) -> list[Batch]:
        """Refuse the samples a 422 points at and return the others; without names, refuse all of
        them.
        """
        positions = refused_positions(error)
        named = {
            batch.samples[at][0]: why for at, why in positions.items() if at < len(batch.samples)
        }
        if not named:
            await self._refuse(batch, error)
            return []
        for index, why in named.items():
            self._ledger.refuse(RefusedSample(index, why, f"samples[{index}]", error.status))
        await self._report(len(named))
        rest = batch.without(set(named))
        return [rest] if rest.count else []

    async def _refuse(self, batch: Batch, error: APIError) -> None:
        for index, data in batch.samples:
            why = RefusedSample(index, error.message, f"samples[{index}]", error.status, len(data))
            self._ledger.refuse(why)
        await self._report(batch.count)

    async def _fail(self, batch: Batch, error: APIError) -> None:
        self._last_error = error
        self._failures_in_a_row += 1
        if isinstance(error, _HOPELESS) or self._failures_in_a_row >= _OUTAGE:
            self._lost = self._lost or error
        await self._give_up(batch, unknown=error.ambiguous)

    async def _give_up(self, batch: Batch, *, unknown: bool) -> None:
        """Leave a batch; that it may have arrived matters only where a repeat could double it."""
        unknown = unknown and SAMPLE_RANGES not in self._transport.features
        if unknown:
            self._ledger.in_doubt(batch)
        await self._keeper.undelivered(batch, unknown=unknown)

    async def _report(self, count: int) -> None:
        if not count or self._progress is None:
            return
        try:
            result = self._progress(count)
            if inspect.isawaitable(result):
                await result
        except (Exception, anyio.get_cancelled_exc_class()) as error:
            if not isinstance(error, Exception) and is_cancelled():
                raise
            # A broken callback must not lose samples: raised at the end.
            self._user_error = self._user_error or error
            self._progress = None

    async def _put_away(self) -> None:
        """Keep what was read when the push ended before it could be sent."""
        for chunk in (*self._unpacked, *await self._source.leftovers()):
            await self._keep(self._packer.add(chunk))
        await self._keep(self._packer.flush())
        await self._keeper.close(
            self._source.total,
            complete=self._ended and self._ledger.settled_all(),
            turned_away=isinstance(self._lost, _HOPELESS) and not self._ledger.stored,
        )

    async def _keep(self, batch: Batch | None) -> None:
        if batch is not None:
            self._ledger.sent(batch)
            await self._keeper.undelivered(batch, unknown=False)

    def _conclude(self) -> PushReceipt:
        receipt = self._ledger.receipt(self._source.total, ended=self._ended)
        if self._user_error is not None:
            self._user_error.add_note(f"push {self._push_id}: {receipt}")
            raise self._user_error
        if receipt.unknown or receipt.undelivered or receipt.spooled or not receipt.read_all:
            raise self._error(receipt)
        return receipt

    def _error(self, receipt: PushReceipt) -> APIError:
        cause = self._lost or self._last_error
        if isinstance(cause, _HOPELESS) and not receipt.stored and not receipt.spooled:
            return (
                not_found(self._evaluation_id, cause) if isinstance(cause, NotFoundError) else cause
            )
        error = PartialPushError(
            f"evaluation {self._evaluation_id}: {receipt}"
            + (f"; {cause.message}" if cause else ""),
            receipt=receipt,
            status=cause.status if cause else None,
            hint="run 'prime-async eval sync'"
            if receipt.spooled
            else "resume with receipt.resume_token",
        )
        error.__cause__ = cause
        return error


class _Sky:
    """Bounds the batches on their way, by number and by bytes."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._bytes = 0
        self._flying = 0
        self._landed = anyio.Event()

    async def enter(self, size: int) -> None:
        while self._flying >= self._places or (
            self._flying and self._bytes + size > BYTES_IN_FLIGHT
        ):
            self._landed = anyio.Event()
            await self._landed.wait()
        self._flying += 1
        self._bytes += size

    def leave(self, size: int) -> None:
        self._flying -= 1
        self._bytes -= size
        self._landed.set()


def not_found(evaluation_id: str, cause: APIError) -> EvaluationNotFoundError:
    """Say which evaluation a 404 is about."""
    error = EvaluationNotFoundError(
        f"evaluation {evaluation_id!r} does not exist, or belongs to another account or team",
        status=cause.status,
        code=cause.code,
        detail=cause.detail,
        request_id=cause.request_id,
        method=cause.method,
        url=cause.url,
    )
    error.__cause__ = cause
    return error
