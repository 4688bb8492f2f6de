"""Bridges: what other libraries say of a run, logged to it.

Nothing of another package is imported before its bridge is used. All bridges take an `AsyncRun` or
a `Run`.
"""

from typing import TYPE_CHECKING

from prime_async._lazy import lazy_exports

if TYPE_CHECKING:
    from prime_async.bridges.async_monitor import AsyncRunMonitor as AsyncRunMonitor
    from prime_async.bridges.logs import RunLogHandler as RunLogHandler
    from prime_async.bridges.monitor import RunMonitor as RunMonitor
    from prime_async.bridges.rollouts import RolloutLogger as RolloutLogger
    from prime_async.bridges.rollouts import StreamedResults as StreamedResults
    from prime_async.bridges.rollouts import stream_results as stream_results
    from prime_async.bridges.spans import RunSpanExporter as RunSpanExporter
    from prime_async.bridges.target import AnyRun as AnyRun
    from prime_async.bridges.trainer import RunCallback as RunCallback

__all__ = [
    "AnyRun",
    "AsyncRunMonitor",
    "RolloutLogger",
    "RunCallback",
    "RunLogHandler",
    "RunMonitor",
    "RunSpanExporter",
    "StreamedResults",
    "stream_results",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AnyRun": "prime_async.bridges.target",
        "AsyncRunMonitor": "prime_async.bridges.async_monitor",
        "RolloutLogger": "prime_async.bridges.rollouts",
        "RunCallback": "prime_async.bridges.trainer",
        "RunLogHandler": "prime_async.bridges.logs",
        "RunMonitor": "prime_async.bridges.monitor",
        "RunSpanExporter": "prime_async.bridges.spans",
        "StreamedResults": "prime_async.bridges.rollouts",
        "stream_results": "prime_async.bridges.rollouts",
    },
)
