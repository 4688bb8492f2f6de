"""Outputs that were read lately, within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

from prime_async.sandboxes.jobs.handles import JobKey
from prime_async.sandboxes.jobs.windows import StreamText

__all__ = ["OutputCache", "StreamKey"]

StreamKey = tuple[JobKey, str]
"""A job, and ``"stdout"`` or ``"stderr"``."""

_OVERHEAD = 128


class OutputCache:
    """Keeps the streams that were used last.

    Args:
        limit: bytes at most, 128 for each entry included; 0 keeps nothing. A stream that is larger
            alone is not kept.

    Attributes:
        held, most_held: bytes now, and the most there ever were.
        hits, misses: streams that were there, and that were not.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._streams: OrderedDict[StreamKey, StreamText] = OrderedDict()
        self._by_sandbox: defaultdict[str, set[StreamKey]] = defaultdict(set)
        self.held = 0
        self.most_held = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: StreamKey) -> StreamText | None:
        """Return a stream, which counts as used."""
        found = self._streams.get(key)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._streams.move_to_end(key)
        return found

    def __contains__(self, key: StreamKey) -> bool:
        return key in self._streams

    def put(self, key: StreamKey, stream: StreamText) -> None:
        """Keep a stream, in place of those that were not used for longest."""
        cost = stream.size + _OVERHEAD
        if stream.error is not None or cost > self._limit:
            return
        self._drop(key)
        while self.held + cost > self._limit:
            self._drop(next(iter(self._streams)))
        self._streams[key] = stream
        self._by_sandbox[key[0][0]].add(key)
        self.held += cost
        self.most_held = max(self.most_held, self.held)

    def forget(self, sandbox_id: str) -> None:
        """Drop what was read from a sandbox that is gone."""
        for key in list(self._by_sandbox.get(sandbox_id, ())):
            self._drop(key)

    def clear(self) -> None:
        """Drop everything."""
        self._streams.clear()
        self._by_sandbox.clear()
        self.held = 0

    def _drop(self, key: StreamKey) -> None:
        stream = self._streams.pop(key, None)
        if stream is None:
            return
        self.held -= stream.size + _OVERHEAD
        keys = self._by_sandbox[key[0][0]]
        keys.discard(key)
        if not keys:
            del self._by_sandbox[key[0][0]]
