"""Opening a run from plain code that has no event loop: constructors and callbacks."""

from __future__ import annotations

import os
from typing import Any

from prime_async.runs.opening import init
from prime_async.runs.run import AsyncRun
from prime_async.runs.uploader import uploader

__all__ = ["first_rank", "open_run"]


def open_run(**options: Any) -> AsyncRun:
    """Open a run with the arguments of ``init``, on the uploader; wait until it is open.

    Raises:
        PrimeTracesError: as ``init``.
    """
    return uploader().submit(lambda: init(**options), "open a run").result()


def first_rank() -> bool:
    """Say whether this is the process of a distributed training that reports for all."""
    rank = os.environ.get("RANK") or os.environ.get("DP_RANK") or "0"
    return rank.strip() == "0"
