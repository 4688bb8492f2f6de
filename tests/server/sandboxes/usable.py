"""Whether this machine lets sandboxes have namespaces of their own; asked once per process."""

from __future__ import annotations

import asyncio
import tempfile
from functools import cache
from pathlib import Path

import pytest

from prime_async.server.runtimes.bubblewrap import BubblewrapRuntime

__all__ = ["needs_bubblewrap"]


@cache
def why_not() -> str | None:
    """Why bubblewrap cannot run here, or None."""
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(BubblewrapRuntime(Path(folder) / "probe").probe())
    return None if report.usable else report.reason


needs_bubblewrap = pytest.mark.skipif(
    why_not() is not None, reason=f"no isolated sandboxes here: {why_not()}"
)
