"""Counters of a client."""

from __future__ import annotations

import msgspec

__all__ = ["BackgroundJobStats"]


class BackgroundJobStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a client has done so far for its background jobs.

    Attributes:
        requests: requests and commands sent to look at jobs and to read their output.
        batches: groups of jobs that were looked at together by the shared poller.
        mean_keys_per_batch, max_keys_per_batch: how many jobs were in them.
        queue_high_water: jobs that waited for a reader at a time, at most.
        readers_high_water: jobs whose output was read at a time, at most.
        cache_hits, cache_misses: streams that were kept, and that had to be read.
        bytes_held: bytes of output that are kept now; bytes_held_high_water: at most.
    """

    requests: int
    batches: int
    mean_keys_per_batch: float
    max_keys_per_batch: int
    queue_high_water: int
    readers_high_water: int
    cache_hits: int
    cache_misses: int
    bytes_held: int
    bytes_held_high_water: int
