"""Episodes as objects, in the shape that trainers hand to the official package."""

from __future__ import annotations

import time
import uuid
from types import SimpleNamespace
from typing import Any


def trace_record(**more: Any) -> dict[str, Any]:
    """A trace as JSON, with one question, one answer, one call and a reward."""
    start = time.time() - 10
    return {
        "id": uuid.uuid4().hex,
        "task": {"type": "t", "data": {"name": "gsm8k-1", "idx": 1}},
        "agent": {"name": "solver", "config": {"model": "openai/gpt-4o"}},
        "nodes": [
            {"message": {"role": "user", "content": "1 + 1?"}, "sampled": False},
            {"parent": 0, "message": {"role": "assistant", "content": "2"}, "sampled": True},
        ],
        "calls": [{"node": 1, "usage": {"prompt_tokens": 5, "completion_tokens": 1}}],
        "rewards": {"correct": {"score": 0.75, "weight": 1.0}},
        "ok": True,
        "timing": {"start": start, "scoring": {"start": start + 1, "end": start + 2}},
        **more,
    }


def episode_record(**more: Any) -> dict[str, Any]:
    """An episode as JSON, with one trace."""
    return {
        "id": uuid.uuid4().hex,
        "env": {"id": "local/gsm8k"},
        "ok": True,
        "traces": [trace_record()],
        **more,
    }


def native_episode(step: int) -> Any:
    """An episode as an object with a record, at a step of training."""
    record = episode_record(run={"type": "train", "work": {"type": "train", "step": step}})
    (trace,) = record["traces"]
    message = _Model(role="assistant", content="2")
    branch = SimpleNamespace(messages=[message], num_input_tokens=5, num_output_tokens=1)
    return _Recorded(
        record,
        id=record["id"],
        ok=True,
        env=SimpleNamespace(id="local/gsm8k"),
        run=SimpleNamespace(type="train", work=SimpleNamespace(type="train", step=step)),
        traces=[
            SimpleNamespace(
                id=trace["id"],
                task=SimpleNamespace(data=_Model(idx=1, name="gsm8k-1")),
                agent=SimpleNamespace(name="solver", trainable=True),
                branches=[branch],
                tools=[],
                reward=0.75,
                rewards={"correct": SimpleNamespace(score=0.75)},
                metrics={},
                info={"advantage": 0.5},
                timing=_Model(start=trace["timing"]["start"]),
                is_completed=True,
                is_truncated=False,
                last_error=None,
                stop_condition=None,
                usage=None,
            )
        ],
    )


class _Model(SimpleNamespace):
    def model_dump(self, **_: Any) -> dict[str, Any]:
        return dict(vars(self))


class _Recorded(SimpleNamespace):
    def __init__(self, record: dict[str, Any], **fields: Any) -> None:
        super().__init__(**fields)
        self._record = record

    def to_record(self) -> dict[str, Any]:
        return self._record
