"""A small async package with one of everything the generator can express."""

from typing import TYPE_CHECKING

from prime_async._lazy import lazy_exports

if TYPE_CHECKING:
    from demo_async.clocks import AsyncClock as AsyncClock, AsyncWallClock as AsyncWallClock, now as now
    from demo_async.shelf import AsyncShelf as AsyncShelf
    from demo_async.times import Reading as Reading, parse as parse

__all__ = ["AsyncClock", "AsyncShelf", "AsyncWallClock", "Reading", "now", "parse"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AsyncClock": "demo_async.clocks",
        "AsyncShelf": "demo_async.shelf",
        "AsyncWallClock": "demo_async.clocks",
        "Reading": "demo_async.times",
        "now": "demo_async.clocks",
        "parse": "demo_async.times",
    },
)
