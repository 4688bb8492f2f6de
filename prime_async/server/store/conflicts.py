"""Finds samples that come again under an index of their push, but are not the stored ones.

A repeat of what is stored is left alone; another sample under the same index is refused, since
neither storing it nor passing over it in silence would be what its sender expects.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, bindparam, select

from prime_async.server.samples import Run
from prime_async.server.store.schema import sample_chunks

__all__ = ["conflicting"]

_CHUNKS = (
    select(
        sample_chunks.c.start, sample_chunks.c.count, sample_chunks.c.offsets, sample_chunks.c.data
    )
    .where(
        sample_chunks.c.evaluation == bindparam("evaluation"),
        sample_chunks.c.push == bindparam("push"),
        sample_chunks.c.start >= bindparam("begin"),
        sample_chunks.c.start < bindparam("last"),
    )
    .order_by(sample_chunks.c.start)
)


def conflicting(
    connection: Connection, evaluation: int, push: int, runs: Sequence[Run], begin: int
) -> list[int]:
    """Return the indexes whose stored sample is another one than the one sent now.

    Args:
        begin: start of the first stored chunk that can reach into the runs.
    """
    found: list[int] = []
    names = {"evaluation": evaluation, "push": push, "begin": begin, "last": runs[-1].stop}
    for start, count, offsets, data in connection.execute(_CHUNKS, names):
        places = memoryview(offsets).cast("I")
        for run in runs:
            for index in range(max(start, run.start), min(start + count, run.stop)):
                at = index - start
                stored = memoryview(data)[places[at] : places[at + 1] - 1]
                if not _same(stored, memoryview(run.samples[index - run.start])):
                    found.append(index)
    return found


def _same(stored: memoryview, sent: memoryview) -> bool:
    """Compare as text first: a repeat is nearly always the same bytes."""
    if stored == sent:
        return True
    return bool(msgspec.json.decode(stored) == msgspec.json.decode(sent))
