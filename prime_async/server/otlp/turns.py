"""Makes traces anew one after another, once for all requests that wait for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

import anyio

__all__ = ["Turns"]


class Turns:
    """The traces that have new spans, by owner.

    Those of one owner one after another, because a trace made of fewer spans must not come behind
    one made of more; together, because many exporters send at the same time and one rebuild serves
    them all.
    """

    def __init__(self) -> None:
        self._turns: dict[str, anyio.Lock] = {}
        self._due: dict[str, set[str]] = {}

    async def take(
        self,
        owner: str,
        trace_ids: Collection[str],
        make: Callable[[Sequence[str]], Awaitable[None]],
    ) -> None:
        """Return when these traces were made with the spans that are kept now.

        Args:
            make: makes some traces of the owner, those of others who wait among them.
        """
        self._due.setdefault(owner, set()).update(trace_ids)
        async with self._turns.setdefault(owner, anyio.Lock()):
            due = self._due.get(owner, set())
            if due.isdisjoint(trace_ids):
                return
            del self._due[owner]
            try:
                await make(sorted(due))
            except BaseException:
                # Who waits for them tries again.
                self._due.setdefault(owner, set()).update(due)
                raise
