"""The spool: records on disk until they are delivered. One format for pushes and runs;
docs/spool.md describes it."""

from prime_async.spool.batches import SpoolBatch, batches
from prime_async.spool.entries import DataRecord, EntrySummary, SpoolEntry
from prime_async.spool.frames import FrameType
from prime_async.spool.locks import EntryLock
from prime_async.spool.owner import EntryWriter
from prime_async.spool.processes import Holder
from prime_async.spool.ranges import Ranges
from prime_async.spool.reader import Damage, Frame, SegmentReader
from prime_async.spool.records import Ack, Cut, End, Meta, Refusal, Release, SourceInfo
from prime_async.spool.spool import Spool
from prime_async.spool.state import SpoolState
from prime_async.spool.writer import SegmentWriter

__all__ = [
    "Ack",
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
