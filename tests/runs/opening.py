"""Opens runs for tests, on one platform and one spool."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from prime_async.api import AsyncAPIClient
from prime_async.runs import AsyncRun, RunStatus, SyncedRecords, init, sync_runs
from prime_async.transport import RetryPolicy

__all__ = ["KEY", "ONCE", "OpenRun", "episode", "trace"]

KEY = "pit_test_0123456789abcdef0123456789abcdef"
ONCE = RetryPolicy(tries=1)
"""A failed request is not repeated: each failure is one of the sink."""


def trace(name: str, **fields: Any) -> dict[str, Any]:
    """A trace that the platform takes."""
    return {"id": name, "timing": {"start": time.time()}, **fields}


def episode(name: str, *traces: dict[str, Any]) -> dict[str, Any]:
    """An episode that the platform takes."""
    return {"id": name, "env": {"id": "e"}, "ok": True, "errors": [], "traces": list(traces)}


class OpenRun:
    """Opens runs: ``run = await open_run("train", durable=True)``."""

    def __init__(self, url: str, spool: Path, key: str = KEY) -> None:
        self.url = url
        self.spool = spool
        self.key = key
        self._runs: list[AsyncRun] = []

    def options(self, kind: str = "eval", **options: Any) -> dict[str, Any]:
        """The arguments of `init`."""
        return {
            "api_key": self.key,
            "base_url": self.url,
            "kind": kind,
            "model": "m",
            "environments": ["math"],
            "spool_dir": self.spool,
            "retry": ONCE,
            **options,
        }

    async def __call__(self, kind: str = "eval", **options: Any) -> AsyncRun:
        run = await init(**self.options(kind, **options))
        self._runs.append(run)
        return run

    async def sync(self, path: Path | None = None) -> list[SyncedRecords]:
        """Deliver what is on disk, as another process would."""
        async with AsyncAPIClient(self.key, base_url=self.url, retry=ONCE) as api:
            return await sync_runs(api, path, spool_dir=self.spool)

    def left(self) -> list[str]:
        """What is on disk still: kinds of entries."""
        return sorted(path.parent.name for path in self.spool.glob("*/*") if path.is_dir())

    async def aclose(self) -> None:
        """End what a test left open."""
        for run in self._runs:
            if not run.finished:
                await run._core.finish_quietly(RunStatus.FAILED, "end of the test", 0.0)
