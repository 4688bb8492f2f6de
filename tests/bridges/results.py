"""Results as verifiers hands them out, and the files it writes."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

__all__ = ["LEGACY", "rollout", "trace", "v1_run"]

DATA = Path(__file__).parents[1] / "data"
LEGACY = DATA / "verifiers_run" / "gsm8k--gpt-4o-mini" / "example"
V1 = DATA / "verifiers_v1" / "wordle--qwen3-8b" / "3f2a9c1d"


def rollout(number: int, **fields: Any) -> dict[str, Any]:
    """A rollout as `env.evaluate` returns it."""
    return {
        "example_id": number,
        "prompt": [{"role": "user", "content": f"{number} + 1?"}],
        "completion": [{"role": "assistant", "content": str(number + 1)}],
        "reward": 1.0,
        "metrics": {"exact": 1.0},
        **fields,
    }


def trace(name: str) -> dict[str, Any]:
    """A trace of verifiers v1."""
    start = time.time()
    message = {"role": "assistant", "content": name}
    return {
        "id": name,
        "nodes": [{"parent": None, "message": message, "sampled": True, "timestamp": start}],
        "rewards": {"right": {"score": 1.0, "weight": 1.0}},
        "ok": True,
        "timing": {"start": start},
    }


def v1_run(folder: Path) -> Path:
    """The real v1 run, moved to today: a platform refuses what began more than a year ago."""
    shutil.copytree(V1, folder)
    file = folder / "traces.jsonl"
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for record in records:
        for one in record.get("traces", [record]):
            one["timing"]["start"] = time.time()
    file.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return folder
