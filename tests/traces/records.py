"""Traces and episodes as producers write them, small."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

__all__ = ["episode", "fresh_run", "line", "trace"]

_NUMBERS = itertools.count()


def fresh_run() -> str:
    """Return the id of a run nobody has used."""
    return f"run-{next(_NUMBERS)}-{time.time_ns()}"


def trace(trace_id: str, *, run: str | None = None, **fields: Any) -> dict[str, Any]:
    """Make a trace of two messages, one call and a reward; `fields` come on top."""
    start = time.time() - 1000 + next(_NUMBERS) / 1000
    made: dict[str, Any] = {
        "id": trace_id,
        "task": {"data": {"name": "add", "idx": 0}},
        "agent": {
            "name": "solver",
            "config": {"model": "m-1", "client": {"base_url": "https://api.pinference.ai/api/v1"}},
        },
        "nodes": [
            {
                "parent": None,
                "message": {"role": "user", "content": f"needle of {trace_id} — naïve 日本"},
                "sampled": False,
                "timestamp": start,
            },
            {
                "parent": 0,
                "message": {"role": "assistant", "content": "done"},
                "sampled": True,
                "timestamp": start + 1,
            },
        ],
        "calls": [
            {
                "node": 1,
                "model": "m-1",
                "finish_reason": "stop",
                "usage": {"prompt_tokens": 3, "completion_tokens": 4},
                "time": {"start": start, "end": start + 1},
            }
        ],
        "rewards": {"correct": {"score": 0.5, "weight": 1.0}},
        "metrics": {"turns": 1.0},
        "is_completed": True,
        "ok": True,
        "errors": [],
        "stop_condition": "done",
        "timing": {"start": start, "scoring": {"start": start + 1, "end": start + 2}},
    }
    if run is not None:
        made["run"] = {"id": run, "type": "eval"}
    return made | fields


def episode(episode_id: str, *traces: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Make an episode of these traces."""
    made = {"id": episode_id, "env": {"id": "gsm8k"}, "task": {}, "ok": True, "errors": []}
    return {**made, "traces": list(traces)} | fields


def line(record: dict[str, Any]) -> bytes:
    """Write a record as the official client does."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
