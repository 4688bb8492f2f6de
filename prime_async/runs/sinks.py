"""What delivers the batches of a lane, and what it says about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from prime_async.errors import (
    APIError,
    BadRequestError,
    ConflictError,
    PayloadTooLargeError,
    PrimeError,
    ProtocolError,
    ServerError,
    TransportError,
    UsageError,
    ValidationError,
)
from prime_async.runs.blocks import Item
from prime_async.runs.queue import Lane

__all__ = [
    "BATCH_SECONDS",
    "Batch",
    "Outcome",
    "Refused",
    "Sink",
    "is_rejection",
    "is_transient",
]

BATCH_SECONDS = 300.0
"""Seconds a batch may take, retries included."""


@dataclass(slots=True, eq=False)
class Batch:
    """Records that travel together.

    Attributes:
        items: the records, in order.
        digest: the key that makes sending them twice the same as sending them once.
        from_disk: they were read from the spool, and hold no room of the queue.
        body: what `Sink.prepare` made of them.
        noted: called in a thread with the batch when its key is known while it is being sent.
        left: those whose fate is open, by index.
    """

    items: list[Item]
    digest: str | None = None
    from_disk: bool = False
    body: Any = field(default=None, repr=False)
    noted: Callable[[Batch], object] | None = field(default=None, repr=False)
    left: dict[int, Item] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.left = {item.index: item for item in self.items}

    def settle(self, items: Sequence[Item]) -> None:
        """Note that the fate of these is known."""
        for item in items:
            self.left.pop(item.index, None)

    def note(self, digest: str) -> None:
        """Set the key and bring it to the disk, if the records are there. Blocks: for a thread."""
        self.digest = digest
        if self.noted is not None:
            self.noted(self)

    @property
    def size(self) -> int:
        """Bytes of JSON."""
        return sum(item.size for item in self.items)

    def halves(self) -> tuple[Batch, Batch]:
        """Cut it in two."""
        middle = len(self.items) // 2
        return (
            Batch(self.items[:middle], from_disk=self.from_disk),
            Batch(self.items[middle:], from_disk=self.from_disk),
        )


class Refused(NamedTuple):
    """A record the platform does not take."""

    item: Item
    reason: str
    status: int | None = None
    error: PrimeError | None = None


@dataclass(slots=True)
class Outcome:
    """What became of a batch that was sent.

    Attributes:
        delivered: records the platform has.
        refused: records it does not take.
        left_out: records it has no place for; see `Counts.left_out`.
        failed: records that are still to be sent, because of ``error``.
        receipt: the platform's id of the batch, where it has one.
        replayed: it had the batch before.
    """

    delivered: Sequence[Item] = ()
    refused: Sequence[Refused] = ()
    left_out: Sequence[Item] = ()
    failed: Sequence[Item] = ()
    error: PrimeError | None = None
    receipt: str | None = None
    replayed: bool = False


class Sink(Protocol):
    """Delivers the batches of a lane.

    Attributes:
        name: as in ``failed_records``.
        max_bytes, max_items: what a batch may hold.
        in_order: one batch at a time, and nothing overtakes what is kept on disk.
    """

    name: str
    lane: Lane
    max_bytes: int
    max_items: int
    in_order: bool

    def prepare(self, batch: Batch) -> None:
        """Set digest and body of a batch. Runs in a thread."""

    async def send(self, batch: Batch) -> Outcome:
        """Send a prepared batch.

        Raises:
            PrimeError: none of it arrived, or nobody knows.
        """


_REJECTIONS = (BadRequestError, ConflictError, PayloadTooLargeError, ValidationError, UsageError)


def is_rejection(error: PrimeError) -> bool:
    """Say whether the platform refused what is in a batch: parts of it may be all right."""
    return isinstance(error, _REJECTIONS)


def is_transient(error: PrimeError) -> bool:
    """Say whether the same batch may arrive later."""
    passing = TransportError | ServerError | ProtocolError
    return isinstance(error, passing) or (isinstance(error, APIError) and error.retryable)
