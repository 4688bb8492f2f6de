"""Traces as rows of the older sample tables: for accounts without the traces service, and for those
who opt out of it.
"""

from __future__ import annotations

import msgspec

from prime_async import values
from prime_async.evals.traces_read import entry
from prime_async.runs.blocks import Item
from prime_async.runs.projection import build_samples
from prime_async.runs.queue import Lane
from prime_async.runs.sinks import Batch, Outcome, Refused, Sink

__all__ = ["LegacyTraceSink"]

ROWS_PER_RECORD = 1024
"""Indexes that the rows of one record may have: an episode holds at most a thousand traces."""


class LegacyTraceSink:
    """Turns traces and episodes into rows, and sends these as samples.

    Args:
        lane: TRACE or EPISODE.
        samples: sends the rows.
    """

    def __init__(self, lane: Lane, samples: Sink) -> None:
        self.lane = lane
        self.name = samples.name
        self.max_bytes = samples.max_bytes
        self.max_items = samples.max_items
        self.in_order = samples.in_order
        self._samples = samples

    def prepare(self, batch: Batch) -> None:
        """Make the rows."""
        rows = Batch([row for item in batch.items for row in _rows(item)])
        self._samples.prepare(rows)
        batch.body = rows

    async def send(self, batch: Batch) -> Outcome:
        """Send the rows; a record of which a row is refused counts as refused."""
        rows: Batch = batch.body
        if not rows.items:
            return Outcome(delivered=batch.items)
        outcome = await self._samples.send(rows)
        refused = {one.item.index // ROWS_PER_RECORD: one for one in outcome.refused}
        failed = {row.index // ROWS_PER_RECORD for row in outcome.failed}
        return Outcome(
            delivered=[i for i in batch.items if i.index not in refused and i.index not in failed],
            refused=[
                Refused(item, refused[item.index].reason, refused[item.index].status)
                for item in batch.items
                if item.index in refused and item.index not in failed
            ],
            failed=[item for item in batch.items if item.index in failed],
            error=outcome.error,
        )


def _rows(item: Item) -> list[Item]:
    record = msgspec.json.decode(item.data)
    step = entry(entry(entry(record, "run"), "work"), "step")
    first = item.index * ROWS_PER_RECORD
    rows = []
    for place, row in enumerate(build_samples([record])):
        if isinstance(step, int):
            row["step"] = step
        rows.append(Item(first + place, values.encode_record(row, root="sample")))
    return rows[:ROWS_PER_RECORD]
