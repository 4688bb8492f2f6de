"""Traces and episodes as other libraries hand them over: mappings, or objects that tell theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio.to_thread

from prime_async.runs.projection import is_trace

__all__ = ["as_record", "is_native"]


def is_native(record: Any) -> bool:
    """Say whether a record is a trace or an episode, or an object that describes itself as one."""
    if isinstance(record, Mapping):
        return is_trace(record)
    return is_trace(record) or callable(getattr(record, "to_record", None))


async def as_record(record: Any) -> Any:
    """Return what ``to_record()`` says of an object, made in a thread: of a large one with tokens
    that takes long. Others are returned as they are, and so is one that cannot tell.
    """
    if isinstance(record, Mapping) or not callable(getattr(record, "to_record", None)):
        return record
    try:
        return await anyio.to_thread.run_sync(record.to_record)
    except Exception:  # the run says so of this record when it is logged
        return record
