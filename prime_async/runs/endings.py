"""Ends of runs that the platform could not be told: kept on disk, and told by the sync."""

from __future__ import annotations

import msgspec

from prime_async import ids, values
from prime_async.runs.backends import Ending
from prime_async.runs.spooling import SpoolPlace
from prime_async.spool import SpoolEntry

__all__ = ["ENDINGS", "keep_ending", "read_ending"]

ENDINGS = "run.endings"
"""Folder of the spool for ends of runs."""


def keep_ending(place: SpoolPlace, ending: Ending) -> None:
    """Keep an end. Blocks: for a thread.

    Raises:
        SpoolError: the disk cannot be written.
    """
    if place.spool is None:
        return
    with place.spool.create(ENDINGS, ids.new_id("end"), place.meta()) as writer:
        writer.data(0, values.encode(ending, root="ending"))
        writer.end(1)


def read_ending(entry: SpoolEntry) -> Ending | None:
    """Read what was kept; None when it is damaged. Blocks: for a thread.

    Raises:
        SpoolError: it cannot be read.
    """
    for record in entry.records():
        return msgspec.json.decode(record.payload, type=Ending)
    return None
