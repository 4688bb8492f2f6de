"""The spool: records on disk until they are delivered. One format for pushes and runs;
docs/spool.md describes it."""

from typing import TYPE_CHECKING

from prime_async._lazy import lazy_exports

if TYPE_CHECKING:
    from prime_async.spool.entries import DataRecord, EntrySummary, SpoolEntry
    from prime_async.spool.frames import FrameType
    from prime_async.spool.locks import EntryLock
    from prime_async.spool.owner import EntryWriter
    from prime_async.spool.processes import Holder
    from prime_async.spool.ranges import Ranges
    from prime_async.spool.reader import Damage, Frame, SegmentReader
    from prime_async.spool.records import (
        Ack,
        Checkpoint,
        Cut,
        End,
        Meta,
        Refusal,
        Release,
        SourceInfo,
    )
    from prime_async.spool.replay import SpoolBatch, batches
    from prime_async.spool.spool import Spool
    from prime_async.spool.state import SpoolState
    from prime_async.spool.writer import SegmentWriter

__all__ = [
    "Ack",
    "Checkpoint",
    "Cut",
    "Damage",
    "DataRecord",
    "End",
    "EntryLock",
    "EntrySummary",
    "EntryWriter",
    "Frame",
    "FrameType",
    "Holder",
    "Meta",
    "Ranges",
    "Refusal",
    "Release",
    "SegmentReader",
    "SegmentWriter",
    "SourceInfo",
    "Spool",
    "SpoolBatch",
    "SpoolEntry",
    "SpoolState",
    "batches",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Ack": "prime_async.spool.records",
        "Checkpoint": "prime_async.spool.records",
        "Cut": "prime_async.spool.records",
        "Damage": "prime_async.spool.reader",
        "DataRecord": "prime_async.spool.entries",
        "End": "prime_async.spool.records",
        "EntryLock": "prime_async.spool.locks",
        "EntrySummary": "prime_async.spool.entries",
        "EntryWriter": "prime_async.spool.owner",
        "Frame": "prime_async.spool.reader",
        "FrameType": "prime_async.spool.frames",
        "Holder": "prime_async.spool.processes",
        "Meta": "prime_async.spool.records",
        "Ranges": "prime_async.spool.ranges",
        "Refusal": "prime_async.spool.records",
        "Release": "prime_async.spool.records",
        "SegmentReader": "prime_async.spool.reader",
        "SegmentWriter": "prime_async.spool.writer",
        "SourceInfo": "prime_async.spool.records",
        "Spool": "prime_async.spool.spool",
        "SpoolBatch": "prime_async.spool.replay",
        "SpoolEntry": "prime_async.spool.entries",
        "SpoolState": "prime_async.spool.state",
        "batches": "prime_async.spool.replay",
    },
)
